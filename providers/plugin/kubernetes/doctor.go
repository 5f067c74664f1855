package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/plugin/kubernetes/deploy"
	"github.com/manent/action/providers/plugin/kubernetes/traffic"
)

// rights says what manent has to be allowed with these settings.
func (s Settings) rights(d *deploy.Deployer) plugin.Finding {
	out := plugin.Finding{Name: "rights"}
	roles := s.Role()
	if len(s.Manifests) > 0 {
		rules, namespace, err := d.Rules()
		if err != nil {
			out.Err = err
			return out
		}
		if s.Namespace == "" && len(roles[""]) > 0 {
			roles[namespace] = append(roles[namespace], roles[""]...)
			delete(roles, "")
		}
		roles[namespace] = append(roles[namespace], rules...)
	}
	for _, namespace := range slices.Sorted(maps.Keys(roles)) {
		where := namespace
		if where == "" {
			where = "the context's own namespace"
		}
		out.Text += fmt.Sprintf("\nleast rules of a Role in %s:\n  - %s", where, strings.Join(roles[namespace], "\n  - "))
	}
	out.Text = strings.TrimPrefix(out.Text, "\n")
	return out
}

// beside says who else holds the rules of the routes.
func beside(ctx context.Context, r *traffic.Router) []plugin.Finding {
	var out []plugin.Finding
	for _, id := range r.Parts {
		f := plugin.Finding{Name: "GitOps"}
		holders, err := r.Holders(ctx, id)
		if f.Err = err; err == nil {
			f.Text = fmt.Sprintf("no tool that applies from Git or from a plan holds the rules of %s", id)
			if i := slices.IndexFunc(holders, func(h string) bool { return remedy(h) != "" }); i >= 0 {
				f.Warn, f.Hint = true, remedy(holders[i])
				f.Text = fmt.Sprintf("%s holds the rules of %s too, and puts its own weights back unless it is told to leave them out", holders[i], id)
			}
		}
		out = append(out, f)
	}
	return out
}

// remedy is how a tool, known by its field manager, leaves weights alone; ""
// for others.
func remedy(manager string) string {
	const more = "; see docs/kubernetes.md"
	switch name := strings.ToLower(manager); {
	case strings.Contains(name, "argocd"):
		return "in its Application, ignoreDifferences with jqPathExpressions .spec.rules[].backendRefs[].weight (Istio: .spec.http[].route[].weight), and the sync option RespectIgnoreDifferences=true; never managedFieldsManagers" + more
	case strings.Contains(name, "kustomize-controller"), strings.Contains(name, "flux"):
		return "leave /spec/rules (Istio: /spec/http) out of its Kustomization, or give the route the annotation kustomize.toolkit.fluxcd.io/reconcile: disabled" + more
	case strings.Contains(name, "helm"):
		return "take the route out of the chart: an upgrade writes the weights that the chart has" + more
	case strings.Contains(name, "terraform"), strings.Contains(name, "pulumi"):
		return `tell it to ignore changes of spec.rules (Istio: spec.http); of Terraform's kubernetes_manifest that is computed_fields = ["spec.rules"]` + more
	}
	return ""
}
