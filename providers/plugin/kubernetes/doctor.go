package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/kubernetes"
	"github.com/manent/action/providers/api/kubernetes/dialect"
	"github.com/manent/action/providers/api/kubernetes/manifest"
	"github.com/manent/action/providers/plugin"
)

// findings is what doctor says of this plugin. What its reading of the router
// will say by itself, an answer that does not come or a route that is not
// there, is not said here too.
func (p parts) findings(ctx context.Context) []plugin.Finding {
	where, err := p.client.Cluster()
	if err != nil {
		return nil
	}
	cluster, answers := p.cluster(ctx, where)
	out := append([]plugin.Finding{cluster}, append(p.suffixed(), p.manifests()...)...)
	if !answers {
		return out
	}
	out = append(append(out, p.rights(ctx)), p.services(ctx)...)
	return append(append(out, p.holders(ctx)...), p.others(ctx)...)
}

// others says which routes beside ours reach the slots, as far as it may be
// asked: no rollout needs it.
func (p parts) others(ctx context.Context) []plugin.Finding {
	found, err := p.router.In.Others(ctx, p.router.Parts)
	f := plugin.Finding{Name: "routes", Text: "nobody can say whether other routes reach the slots: these credentials may not list them, which no rollout needs"}
	switch {
	case err != nil && providers.KindOf(err) == providers.Denied:
		return []plugin.Finding{f}
	case err != nil || len(found) == 0:
		return nil // the router says it
	}
	f.Warn, f.Text = true, "other routes reach the slots, and manent does not move them: "+strings.Join(found, "; ")
	f.Hint = "list them in http_route or virtual_service too, or take them out: they give a slot traffic whatever the share is, also after it was emptied"
	return []plugin.Finding{f}
}

// cluster says which one it is, and whether it answers.
func (p parts) cluster(ctx context.Context, where api.Cluster) (out plugin.Finding, answers bool) {
	out = plugin.Finding{Name: "cluster", Text: where.String()}
	if where.Current {
		out.Warn = true
		out.Hint = fmt.Sprintf("add context: %q to the settings: the current one is whatever somebody used last", where.Context)
	}
	release, err := p.client.Release(ctx)
	switch {
	case err == nil:
		out.Text += ", version " + release
	case providers.KindOf(err).Definite() && providers.HintOf(err) == "":
		out.Text += ", which does not tell its version" // to these credentials
	default:
		out.Warn, out.Text = true, out.Text+", which does not answer as it should"
		return out, false
	}
	return out, true
}

// manifests says what they make of a slot.
func (p parts) manifests() []plugin.Finding {
	if len(p.Manifests) == 0 {
		return nil
	}
	out := plugin.Finding{Name: "manifests", Text: "the slots consist of"}
	objects, _, err := p.deployer.Objects("1")
	if err != nil {
		f := &providers.Fault{Kind: providers.Invalid, Err: errors.Unwrap(err)}
		if errors.Is(err, fs.ErrNotExist) {
			f.Hint = "correct the setting manifests, whose paths begin in the workspace; if a step fetches them, look again after it"
		}
		out.Err = f
	}
	for i, o := range objects {
		if !slices.ContainsFunc(objects[:i], func(before manifest.Object) bool { return before.String() == o.String() }) {
			out.Text += " " + o.String()
		}
	}
	return []plugin.Finding{out}
}

// made are the Services that a deployment makes. Manifests that are not there
// yet, or are wrong, may have each.
func (p parts) made() dialect.Services {
	out := dialect.Services{}
	if len(p.Manifests) == 0 {
		return out
	}
	objects, _, err := p.deployer.Objects("1")
	if err != nil {
		return nil
	}
	for _, o := range objects {
		if o.Kind.Name == "Service" {
			out[o.Name] = &unstructured.Unstructured{Object: o.Doc}
		}
	}
	return out
}

// beside looks at the Services that the routes lead to; nobody knows what
// manifests make that a step fetches later.
func (p parts) beside(ctx context.Context) ([]dialect.Problem, error) {
	made := p.made()
	if made == nil {
		return nil, nil
	}
	return p.router.Beside(ctx, made)
}

// complete refuses a rollout whose traffic would go nowhere, or to both slots.
func (p parts) complete(ctx context.Context) error {
	problems, err := p.beside(ctx)
	var out []error
	for _, one := range problems {
		if one.Later {
			p.log("kubernetes: %s; nothing is served there, so that a deployment may still bring it", one.Text)
			continue
		}
		out = append(out, &providers.Fault{Provider: name, Op: "look at the Services", Kind: providers.Invalid, Err: errors.New(one.Text), Hint: one.Hint})
	}
	return api.Join(append(out, err)...)
}

// services says what is wrong with them.
func (p parts) services(ctx context.Context) []plugin.Finding {
	problems, err := p.beside(ctx)
	if err != nil {
		return nil // the router says it
	}
	var out []plugin.Finding
	for _, one := range problems {
		f := plugin.Finding{Name: "services", Text: one.Text, Hint: one.Hint, Warn: true}
		if !one.Later {
			f.Err = &providers.Fault{Kind: providers.Invalid, Err: errors.New(one.Text), Hint: one.Hint}
		}
		out = append(out, f)
	}
	return out
}

// suffixed warns of a Service that has a slot's suffix already.
func (s Settings) suffixed() []plugin.Finding {
	plain := strings.TrimSuffix(strings.TrimSuffix(s.Service, "-a"), "-b")
	if len(s.HTTPRoutes) == 0 || plain == s.Service {
		return nil
	}
	return []plugin.Finding{{
		Name: "service", Warn: true, Hint: "if that is not meant, give service: " + plain,
		Text: fmt.Sprintf("service %s is one of a slot by its name, and so the slots' Services are %s-a and %s-b", s.Service, s.Service, s.Service),
	}}
}

// holders says who else holds the rules of the routes.
func (p parts) holders(ctx context.Context) []plugin.Finding {
	var out []plugin.Finding
	notes := p.Traits().Notes
	for _, id := range p.router.Parts {
		holders, err := p.router.Holders(ctx, id)
		if err != nil {
			continue // the router says it
		}
		f := plugin.Finding{Name: "GitOps", Text: fmt.Sprintf("no tool that applies from Git or from a plan holds the rules of %s", id)}
		for _, by := range holders {
			if tool, known := notes.Writer(by); known {
				f.Warn, f.Hint = true, tool.Remedy+"; see docs/gitops.md"
				f.Text = fmt.Sprintf("%s holds the rules of %s too, and puts its own weights back unless it is told to leave them out", by, id)
				break
			}
		}
		out = append(out, f)
	}
	return out
}
