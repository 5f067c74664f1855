package kubernetes

import (
	"context"
	"fmt"

	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/plugin/kubernetes/traffic"
	"github.com/manent/action/providers/router"
)

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
