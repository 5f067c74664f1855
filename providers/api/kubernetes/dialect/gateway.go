package dialect

import (
	"context"
	"fmt"
	"strings"
	"time"

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

// Capacity counts the ready endpoints of each slot's Service. A Service that
// is not there has none; what an ExternalName stands for nobody knows.
func (g Gateway) Capacity(ctx context.Context) (map[state.Slot]int, error) {
	units := map[state.Slot]int{}
	for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
		service, err := g.service(ctx, g.Service+"-"+string(slot))
		switch {
		case providers.KindOf(err) == providers.NotFound:
			units[slot] = 0
			continue
		case err != nil:
			return nil, err
		}
		if kind, _, _ := unstructured.NestedString(service.Object, "spec", "type"); kind == "ExternalName" {
			continue
		}
		if units[slot], err = g.endpoints(ctx, service); err != nil {
			return nil, err
		}
	}
	return units, nil
}

// endpoints counts what is ready, at least up to the first page that has any:
// whether there are some is what matters.
func (g Gateway) endpoints(ctx context.Context, service *unstructured.Unstructured) (int, error) {
	slices := schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
	n := 0
	err := g.Client.List(ctx, slices, service.GetNamespace(), "kubernetes.io/service-name="+service.GetName(), func(slice *unstructured.Unstructured) bool {
		endpoints, _, _ := unstructured.NestedSlice(slice.Object, "endpoints")
		for _, e := range endpoints {
			e, _ := e.(map[string]any)
			if ready, given, _ := unstructured.NestedBool(e, "conditions", "ready"); ready || !given {
				n++
			}
		}
		return n < 1000
	})
	return n, err
}

// InForce asks the route's parents. A condition that says no is an error, once
// its controller has had time to look at the present spec; silence beyond that
// time is taken for yes, since some implementations never report a change of
// weights. A controller reports before its proxies follow (with Traefik 3.7 by
// 0.1 to 0.3 s and its throttle time), so the settle time counts from then. Known says
// that since is when manent itself wrote.
func (g Gateway) InForce(ctx context.Context, r Route, since time.Time, known bool) (bool, error) {
	v := route.Parents(r.Doc, g.Gateways)
	young := g.Now().Before(since.Add(g.SettleTimeout))
	for _, no := range v.Refused {
		if young && (known || !no.Current) {
			return false, nil
		}
		if idle, err := g.idle(ctx, r.Split, no); err != nil || !idle {
			return false, err
		}
		g.Log("kubernetes: %s; it is the slot without traffic, so this may wait", no)
	}
	if reported := route.ReportedAt(r.Doc); young && reported.After(since) {
		since = reported
	}
	if !g.reached(since) {
		return false, nil
	}
	if len(v.Silent) == 0 {
		return true, nil
	}
	if young {
		return false, nil
	}
	if known {
		g.Log("kubernetes: %s did not report generation %d within %v and is believed; name the parents that do with the setting gateways",
			strings.Join(v.Silent, ", "), r.Split.Generation(), g.SettleTimeout)
	}
	return true, nil
}

// idle reports whether a refusal is about a Service that gets no traffic and
// is not there yet: a slot's Service may come with its first deployment.
func (g Gateway) idle(ctx context.Context, s route.Split, no route.Refusal) (bool, error) {
	refused := &providers.Fault{Kind: providers.Invalid, Err: fmt.Errorf("%s", no), Hint: "see the route's status"}
	if no.Condition != "ResolvedRefs" || no.Reason != "BackendNotFound" {
		return false, refused
	}
	missing := 0
	for slot, share := range s.Shares() {
		name := g.Service + "-" + string(slot)
		_, err := g.service(ctx, name)
		switch {
		case err == nil:
			continue
		case providers.KindOf(err) != providers.NotFound:
			return false, err
		case share > 0:
			refused.Hint = "create the Service " + name + ": its part of the traffic is answered 500"
			return false, refused
		}
		missing++
	}
	if missing == 0 {
		return false, refused
	}
	return true, nil
}
