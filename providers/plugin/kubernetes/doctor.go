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
	"github.com/manent/action/providers/router"
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
func beside(ctx context.Context, r *traffic.Router, notes router.Notes) []plugin.Finding {
	var out []plugin.Finding
	for _, id := range r.Parts {
		f := plugin.Finding{Name: "GitOps"}
		holders, err := r.Holders(ctx, id)
		if f.Err = err; err == nil {
			f.Text = fmt.Sprintf("no tool that applies from Git or from a plan holds the rules of %s", id)
			for _, by := range holders {
				if tool, known := notes.Writer(by); known {
					f.Warn, f.Hint = true, tool.Remedy+"; see docs/gitops.md"
					f.Text = fmt.Sprintf("%s holds the rules of %s too, and puts its own weights back unless it is told to leave them out", by, id)
					break
				}
			}
		}
		out = append(out, f)
	}
	return out
}
