package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/kubernetes"
	"github.com/manent/action/providers/api/kubernetes/dialect"
	"github.com/manent/action/providers/plugin"
)

// Role is what manent needs to be allowed to move traffic, as rules of a Role
// for each namespace ("" for the context's own).
func (s Settings) Role() map[string][]api.Grant {
	beside := s.RouteNamespace
	if beside == "" {
		beside = s.Namespace
	}
	out := map[string][]api.Grant{}
	if len(s.HTTPRoutes) > 0 {
		out[beside] = append(out[beside], api.Grant{Group: dialect.GatewayGroup, Resource: "httproutes", Verbs: []string{"get", "patch"}, Names: s.HTTPRoutes})
		out[s.Namespace] = append(out[s.Namespace],
			api.Grant{Resource: "services", Verbs: []string{"get"}, Names: []string{s.Service + "-a", s.Service + "-b"}},
			api.Grant{Group: "discovery.k8s.io", Resource: "endpointslices", Verbs: []string{"list"}})
		return out
	}
	out[beside] = append(out[beside],
		api.Grant{Group: dialect.IstioGroup, Resource: "virtualservices", Verbs: []string{"get", "patch"}, Names: s.VirtualService},
		api.Grant{Group: dialect.IstioGroup, Resource: "destinationrules", Verbs: []string{"get"}, Names: []string{s.destinationRule()}})
	out[s.Namespace] = append(out[s.Namespace],
		api.Grant{Resource: "services", Verbs: []string{"get"}, Names: []string{s.Service}},
		api.Grant{Resource: "pods", Verbs: []string{"list"}})
	return out
}

// all is what manent needs with these settings, by namespace.
func (p parts) all() (map[string][]api.Grant, error) {
	roles := p.Role()
	if len(roles[""]) > 0 {
		own, err := p.client.Namespace()
		if err != nil {
			return nil, err
		}
		roles[own] = append(roles[own], roles[""]...)
		delete(roles, "")
	}
	if len(p.Manifests) == 0 {
		return roles, nil
	}
	grants, namespace, err := p.deployer.Grants()
	if err == nil {
		roles[namespace] = append(roles[namespace], grants...)
	}
	return roles, err
}

// check is made before a rollout begins: credentials that can only read, and
// a Service that is not there, would be found out by the first write or by
// users. What the manifests need is not asked while they are not there: a step
// may fetch them.
func (p parts) check(ctx context.Context) error {
	where, err := p.client.Cluster()
	if err != nil {
		return err
	}
	p.log("kubernetes: the cluster is %s", where)
	roles, err := p.all()
	if errors.Is(err, fs.ErrNotExist) {
		p.Manifests = nil
		roles, err = p.all()
	}
	if err != nil {
		return err
	}
	var incomplete error
	if err = api.Together(
		func() error { return p.allowed(ctx, roles) },
		func() error { incomplete = p.complete(ctx); return nil },
	); err != nil && !providers.KindOf(err).Definite() {
		return err // of the connection, and so of all that was asked
	}
	return api.Join(err, incomplete)
}

// allowed refuses credentials that may not do what will be needed.
func (p parts) allowed(ctx context.Context, roles map[string][]api.Grant) error {
	text, rules, err := p.client.Missing(ctx, roles, true)
	switch kind := providers.KindOf(err); {
	case err != nil && (kind == providers.Denied || kind == providers.NotFound):
		p.log("kubernetes: nobody can say what these credentials may do: %v", api.Bare(err)) // a cluster without RBAC's own roles
		return nil
	case err != nil:
		return err
	case text != "":
		return &providers.Fault{Provider: name, Op: "look at what these credentials may do", Kind: providers.Denied,
			Err: fmt.Errorf("they may not %s", text), Hint: "allow it in RBAC: " + rules}
	}
	return nil
}

// rights says what manent has to be allowed with these settings, and what of
// it is missing.
func (p parts) rights(ctx context.Context) plugin.Finding {
	out := plugin.Finding{Name: "rights"}
	roles, err := p.all()
	if err != nil { // of the manifests, which have a finding of their own
		p.Manifests = nil
		roles, err = p.all()
	}
	if err != nil {
		out.Err = err
		return out
	}
	text, rules, err := p.client.Missing(ctx, roles, false)
	switch {
	case err != nil:
		out.Warn, out.Text = true, fmt.Sprintf("nobody can say what these credentials may do: %v", api.Bare(err))
	case text != "":
		out.Warn, out.Text, out.Hint = true, "these credentials may not "+text, "allow it in RBAC: "+rules
	default:
		out.Text = "these credentials may do all of it"
	}
	for _, namespace := range slices.Sorted(maps.Keys(roles)) {
		out.Text += fmt.Sprintf("\nleast rules of a Role in %s:\n  - %s", namespace, strings.Join(api.Lines(roles[namespace]), "\n  - "))
	}
	return out
}
