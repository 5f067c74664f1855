package kubernetes

import (
	"os"
	"strings"
	"testing"
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
		rules := "rules:\n  - " + strings.Join(s.Role()["shop"], "\n  - ") + "\n```"
		if !strings.Contains(string(page), rules) {
			t.Errorf("docs/kubernetes.md lacks the rules\n%s", rules)
		}
	}
	for _, field := range Spec().Fields {
		if field.Help == "" {
			t.Errorf("setting %s has no help", field.Name)
		}
	}
}
