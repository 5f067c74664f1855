package kubernetes

import (
	"os"
	"strings"
	"testing"

	api "github.com/manent/action/providers/api/kubernetes"
	"github.com/manent/action/providers/plugin/kubernetes/deploy"
)

// TestDocs holds the Roles of the page to what manent asks for. That they
// suffice is tested on a real API server.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Settings{
		{Service: "shop", Namespace: "shop", HTTPRoutes: []string{"web"}},
		{Service: "shop", Namespace: "shop", VirtualService: []string{"shop"}},
	} {
		rules := "rules:\n  - " + strings.Join(api.Lines(s.Role()["shop"]), "\n  - ") + "\n```"
		if !strings.Contains(string(page), rules) {
			t.Errorf("docs/kubernetes.md lacks the rules\n%s", rules)
		}
	}
	rules, _, err := slotWorld(t).bundle(t).Deployer.(*deploy.Deployer).Grants()
	if text := "```yaml\n- " + strings.Join(api.Lines(rules), "\n- ") + "\n```"; err != nil || !strings.Contains(string(page), text) {
		t.Errorf("docs/kubernetes.md lacks the rules (%v)\n%s", err, text)
	}
	for _, field := range Spec().Fields {
		if field.Help == "" {
			t.Errorf("setting %s has no help", field.Name)
		}
	}
}
