package dialect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/kubernetes"
	"github.com/manent/action/providers/api/kubernetes/route"
	"github.com/manent/action/state"
)

// Gateway is the Gateway API.
type Gateway struct{ Options }

// Ref names an HTTPRoute.
func (g Gateway) Ref(ctx context.Context, id string) (api.Ref, error) {
	return g.find(ctx, GatewayGroup, "httproutes", id, "v1", "v1beta1")
}

// Parse reads an HTTPRoute.
func (g Gateway) Parse(ref api.Ref, doc map[string]any) (Route, error) {
	return g.parse(ref, doc, route.Gateway)
}

// Capacity finds the ready endpoints of each slot's Service. A Service that
// is not there has none; what an ExternalName stands for nobody knows.
func (g Gateway) Capacity(ctx context.Context) (Serving, error) {
	return each(g.Deploys, func(slot state.Slot) (chosen, error) {
		c := chosen{by: "Service " + g.of(slot)}
		service, err := g.service(ctx, g.of(slot))
		switch {
		case providers.KindOf(err) == providers.NotFound:
			return c, nil
		case err != nil:
			return c, err
		}
		c.labels, _, _ = unstructured.NestedStringMap(service.Object, "spec", "selector")
		if kind, _, _ := unstructured.NestedString(service.Object, "spec", "type"); kind == "ExternalName" {
			c.hidden = true
			return c, nil
		}
		c.ready, err = g.endpoints(ctx, service)
		return c, err
	})
}

// endpoints finds what is ready, at least up to the first page that has any:
// whether there are some is what matters.
func (g Gateway) endpoints(ctx context.Context, service *unstructured.Unstructured) (map[string]bool, error) {
	kind := schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
	found := map[string]bool{}
	err := g.Client.List(ctx, kind, service.GetNamespace(), "kubernetes.io/service-name="+service.GetName(), func(slice *unstructured.Unstructured) bool {
		endpoints, _, _ := unstructured.NestedSlice(slice.Object, "endpoints")
		for i, e := range endpoints {
			e, _ := e.(map[string]any)
			if ready, given, _ := unstructured.NestedBool(e, "conditions", "ready"); ready || !given {
				found[endpoint(slice, e, i)] = true
			}
		}
		return len(found) < 1000
	})
	return found, err
}

// endpoint names one, so that it is known again behind another Service: by its
// pod, else by address and ports, since pods of one host can share its address.
func endpoint(slice *unstructured.Unstructured, e map[string]any, i int) string {
	if pod, _, _ := unstructured.NestedMap(e, "targetRef"); pod["name"] != nil {
		return fmt.Sprint(pod["kind"], pod["namespace"], pod["name"])
	}
	addresses, _, _ := unstructured.NestedSlice(e, "addresses")
	if len(addresses) == 0 {
		return fmt.Sprint(slice.GetName(), i)
	}
	var ports []string
	given, _, _ := unstructured.NestedSlice(slice.Object, "ports")
	for _, p := range given {
		one, _ := p.(map[string]any)
		ports = append(ports, fmt.Sprint(one["port"]))
	}
	slices.Sort(ports)
	return fmt.Sprint(addresses[0], ports)
}

// InForce asks the route's parents. A condition that says no of what is ours
// is an error, once its controller has had time to look at the present spec;
// silence beyond that time is taken for yes, since some implementations never
// report a change of weights. A controller reports before its proxies follow
// (with Traefik 3.7 by 0.1 to 0.3 s and its throttle time), so the settle time
// counts from then.
func (g Gateway) InForce(ctx context.Context, r Route, last Write) (bool, error) {
	v := route.Parents(r.Doc, g.Gateways)
	young := g.Now().Before(last.At.Add(g.SettleTimeout))
	var notes []string
	services := sync.OnceValues(func() (Services, error) { return g.Services(ctx) })
	for _, no := range v.Refused {
		if young && last.early(no) {
			return false, nil
		}
		note, err := g.refused(services, r, no, last.Back, last.First)
		if err != nil && young && last.Ours && providers.KindOf(err) == providers.Invalid {
			return false, nil // it may look again
		}
		if err != nil {
			return false, err
		}
		notes = append(notes, note)
	}
	since := last.At
	if reported := route.ReportedAt(r.Doc).Add(-r.Ahead); young && reported.After(since) {
		since = reported
	}
	if !g.reached(since) || young && len(v.Silent)+len(v.Former) > 0 {
		return false, nil
	}
	for _, no := range v.Former {
		notes = append(notes, fmt.Sprintf("%s; it is of an earlier generation, and another controller has accepted this one: take a former controller's entry out of the route's status", no))
	}
	if len(v.Silent) > 0 && last.Ours {
		notes = append(notes, fmt.Sprintf("%s did not report generation %d within %v and is believed; name the parents that do with the setting gateways",
			strings.Join(v.Silent, ", "), r.Split.Generation(), g.SettleTimeout))
	}
	if last.Shared != "" {
		notes = append(notes, last.Shared)
	}
	for _, note := range notes {
		if !last.Mute {
			g.Log("kubernetes: %s: %s", r.Ref, note)
		}
	}
	return true, nil
}

// early: a condition may be of before the write, and soon be another.
func (w Write) early(no route.Refusal) bool {
	return !no.Current || w.Ours && (!w.Back || no.Detached())
}

// refused says whether a condition that says no is about what is ours: then it
// is an error, else a note. One of which that cannot be known keeps no return
// from its end: what it did not take serves nobody, and so not the candidate.
func (g Gateway) refused(services func() (Services, error), r Route, no route.Refusal, back, first bool) (note string, err error) {
	refused := &providers.Fault{Kind: providers.Invalid, Err: fmt.Errorf("%s", no), Hint: "see the route's status"}
	if no.Dropped() && back {
		return fmt.Sprintf("%s; all traffic is taken from the candidate in any case", no), nil
	}
	if back && no.Detached() {
		return fmt.Sprintf("%s; it does not take the route at all, and so serves nobody by it", no), nil
	}
	if no.Condition != "ResolvedRefs" {
		return "", refused
	}
	found, err := services()
	if err != nil {
		return "", err
	}
	idle, hint := g.lacking(found, r, no, first)
	switch {
	case hint != "":
		refused.Hint = hint
		return "", refused
	case idle && first:
		return fmt.Sprintf("%s; nothing serves yet, so that a deployment may still bring it", no), nil
	case idle:
		return fmt.Sprintf("%s; it is the slot without traffic, so this may wait", no), nil
	case no.Reason == "BackendNotFound" || no.Reason == "InvalidKind" || no.Reason == "RefNotPermitted" && g.sameNamespace(r.Ref):
		return fmt.Sprintf("%s; it is about a backend of somebody else", no), nil
	case back:
		return fmt.Sprintf("%s; whether it is about a backend of ours cannot be seen", no), nil
	}
	return "", refused
}

// lacking looks at the slots' Services, since a condition names one reason and
// there may be several: a hint when one that gets traffic is not there, has not
// the port, or is what the message is about; idle when that is so of one that
// gets none, as nobody does before a first release.
func (g Gateway) lacking(found Services, r Route, no route.Refusal, first bool) (idle bool, hint string) {
	shares := r.Split.Shares("")
	for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
		name := g.of(slot)
		service := found[name]
		var lacks string
		switch {
		case service == nil:
			lacks = "create the Service " + name + ": its part of the traffic is answered 500"
		case !serves(service, r.Split.Ports(slot)):
			lacks = fmt.Sprintf("the Service %s has not each of the ports %v", name, r.Split.Ports(slot))
		case no.Names(name):
			lacks = "see the Service " + name + " and the route's status"
		default:
			continue
		}
		if shares[slot] > 0 && !first {
			return false, lacks
		}
		idle = true
	}
	return idle, ""
}

// serves reports whether a Service has these ports; what a port of 0 stands
// for nobody says.
func serves(service *unstructured.Unstructured, ports []int64) bool {
	have, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	for _, port := range ports {
		if port != 0 && len(have) > 0 && !slices.ContainsFunc(have, func(p any) bool {
			one, _ := p.(map[string]any)
			return one["port"] == port
		}) {
			return false
		}
	}
	return true
}

// sameNamespace: the slots' Services need no ReferenceGrant.
func (g Gateway) sameNamespace(route api.Ref) bool {
	ns, err := g.namespace()
	return err == nil && ns == route.Namespace
}
