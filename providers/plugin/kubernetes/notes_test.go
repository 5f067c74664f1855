package kubernetes

import (
	"strings"
	"testing"
)

// TestOtherTools: a field manager leads to what its tool is to be told.
func TestOtherTools(t *testing.T) {
	for manager, words := range map[string]string{
		"argocd-controller": "RespectIgnoreDifferences", "kustomize-controller": "Kustomization", "Terraform": "computed_fields",
		"helm": "chart", "pulumi-kubernetes": "ignore changes", "manent": "", "kubectl-client-side-apply": "",
	} {
		for _, e := range routers() {
			tool, known := e.Traits.Notes.Writer(manager)
			if known != (words != "") || !strings.Contains(tool.Remedy, words) {
				t.Errorf("%s, %s: %+v", e.Name, manager, tool)
			}
		}
	}
}
