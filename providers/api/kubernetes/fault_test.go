package kubernetes

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A patch of what is not there yet asks for the right to create it.
func TestHintNamesTheVerbThatIsMissing(t *testing.T) {
	said := `configmaps "shop-config-a" is forbidden: User "ci" cannot create resource "configmaps" in API group "" in the namespace "shop"`
	got := hint(call{verb: "patch", ref: Ref{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespace: "shop"}}, 403, said)
	if !strings.Contains(got, "allow it in RBAC") || !strings.Contains(got, "verbs: [create]") {
		t.Errorf("hint %q, want the right to create", got)
	}
}
