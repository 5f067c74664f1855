package dialect

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/kubernetes"
	"github.com/manent/action/providers/api/kubernetes/route"
	"github.com/manent/action/state"
)

// Problem is something beside the routes because of which a slot's traffic is
// not what they say.
type Problem struct {
	Text, Hint string
	Later      bool // of a slot without traffic: it may come with a deployment
	Comes      bool // so it may where nothing serves yet in either slot
}

// Services are those that routes lead to, by name; nil for one that is not
// there.
type Services map[string]*unstructured.Unstructured

// services reads Services at once.
func (o Options) services(ctx context.Context, names ...string) (Services, error) {
	found := make([]*unstructured.Unstructured, len(names))
	looks := make([]func() error, len(names))
	for i, name := range names {
		looks[i] = func() (err error) {
			if found[i], err = o.service(ctx, name); err != nil && providers.KindOf(err) == providers.NotFound {
				found[i], err = nil, nil
			}
			return err
		}
	}
	err := api.Together(looks...)
	out := Services{}
	for i, name := range names {
		out[name] = found[i]
	}
	return out, err
}

// Untouched is what of the problems there may be before a first release, when
// nothing serves in either slot yet: it is asked for only when it matters.
func Untouched(problems []Problem, ask func() (Serving, error)) []Problem {
	if !slices.ContainsFunc(problems, func(p Problem) bool { return p.Comes && !p.Later }) {
		return problems
	}
	found, err := ask()
	if err != nil || !found.Nothing() {
		return problems
	}
	for i := range problems {
		problems[i].Later = problems[i].Later || problems[i].Comes
	}
	return problems
}

// Services reads those of both slots.
func (g Gateway) Services(ctx context.Context) (Services, error) {
	return g.services(ctx, g.of(state.SlotA), g.of(state.SlotB))
}

// of is the name of a slot's Service.
func (g Gateway) of(slot state.Slot) string { return g.Service + "-" + string(slot) }

// Beside is what is wrong with the Services that routes lead to. A slot without
// traffic is deployed to before it gets any: what the deployment makes, by
// name, counts for it, as it does where nothing is yet.
func (g Gateway) Beside(routes []Route, found, made Services) []Problem {
	var out []Problem
	chosen := map[state.Slot]map[string]string{}
	for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
		name := g.of(slot)
		service, idle := found[name], !slices.ContainsFunc(routes, func(r Route) bool { return r.Split.Shares("")[slot] > 0 })
		if (service == nil || idle) && made[name] != nil {
			service = made[name]
		}
		if service == nil {
			p := g.absent(name, "its part of the traffic is answered with an error")
			p.Later, p.Comes = idle, true
			out = append(out, p)
			continue
		}
		for _, r := range routes {
			if p := lacksPort(service, r, slot); p != nil {
				p.Later = idle
				out = append(out, *p)
			}
		}
		chosen[slot], _, _ = unstructured.NestedStringMap(service.Object, "spec", "selector")
	}
	a, b := chosen[state.SlotA], chosen[state.SlotB]
	if len(a) == 0 || len(b) == 0 || !route.Within(a, b) && !route.Within(b, a) {
		return out
	}
	return append(out, Problem{
		Text: fmt.Sprintf("Service %s chooses pods by %s and %s by %s: what the one gets reaches pods of the other slot too", g.of(state.SlotA), terms(a), g.of(state.SlotB), terms(b)),
		Hint: "add to each selector a label that only the pods of its slot have, such as manent.io/track: a and manent.io/track: b",
	})
}

// Services reads the one of both slots.
func (i Istio) Services(ctx context.Context) (Services, error) { return i.services(ctx, i.Service) }

// Beside is what is wrong with the Service that routes lead to, but for what
// Capacity finds: the DestinationRule, and that there is no Service and no
// deployment that could make it.
func (i Istio) Beside(routes []Route, found, made Services) []Problem {
	service := found[i.Service]
	if service == nil {
		service = made[i.Service]
	}
	if service == nil && i.Deploys {
		return []Problem{i.absent(i.Service, "and the manifests do not make it")}
	}
	if service == nil {
		p := i.absent(i.Service, "no traffic can be sent to it")
		p.Comes = true
		return []Problem{p}
	}
	var out []Problem
	for _, r := range routes {
		for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
			if p := lacksPort(service, r, slot); p != nil && !slices.Contains(out, *p) {
				out = append(out, *p)
			}
		}
	}
	return out
}

// absent is a Service that is not there.
func (o Options) absent(name, so string) Problem {
	ns, _ := o.namespace() // known by now
	p := Problem{
		Text: fmt.Sprintf("Service %s/%s does not exist: %s", ns, name, so),
		Hint: "create it, or correct the settings service and namespace; manent makes a Service that is in manifests",
	}
	if strings.HasSuffix(o.Service, "-a") || strings.HasSuffix(o.Service, "-b") {
		p.Hint = fmt.Sprintf("give the setting service without the slot's suffix, %s instead of %s; otherwise create this one", o.Service[:len(o.Service)-2], o.Service)
	}
	return p
}

// lacksPort is about a port that a route names and the Service has not.
func lacksPort(service *unstructured.Unstructured, r Route, slot state.Slot) *Problem {
	ports := r.Split.Ports(slot)
	if serves(service, ports) {
		return nil
	}
	return &Problem{
		Comes: true,
		Text:  fmt.Sprintf("Service %s has ports %v, and %s sends to %v", service.GetName(), portsOf(service), r.Ref, ports),
		Hint:  "name a port of the Service in the route (not the pods' own, its targetPort), or add it to the Service",
	}
}

func portsOf(service *unstructured.Unstructured) []any {
	var out []any
	have, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	for _, p := range have {
		one, _ := p.(map[string]any)
		out = append(out, one["port"])
	}
	return out
}

// terms is a label selector, "app=shop,tier=web".
func terms(labels map[string]string) string {
	out := make([]string, 0, len(labels))
	for key, value := range labels {
		out = append(out, key+"="+value)
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}
