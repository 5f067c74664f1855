package dialect

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/kubernetes"
	"github.com/manent/action/providers/api/kubernetes/route"
	"github.com/manent/action/state"
)

// Istio is Istio's VirtualService.
type Istio struct{ Options }

// Ref names a VirtualService.
func (i Istio) Ref(ctx context.Context, id string) (api.Ref, error) {
	return i.object(ctx, "virtualservices", id)
}

func (i Istio) object(ctx context.Context, resource, id string) (api.Ref, error) {
	return i.find(ctx, IstioGroup, resource, id, "v1", "v1beta1", "v1alpha3")
}

// Parse reads a VirtualService.
func (i Istio) Parse(ref api.Ref, doc map[string]any) (Route, error) {
	return i.parse(ref, doc, route.Istio)
}

// Capacity finds the ready pods of each subset, after it has seen that the
// DestinationRule has both: a weight for a subset that is not there makes 503.
// A Service that is missing while no pod is there comes with the first release.
func (i Istio) Capacity(ctx context.Context) (Serving, error) {
	var service *unstructured.Unstructured
	var missing error
	var asked sync.WaitGroup
	asked.Go(func() { service, missing = i.service(ctx, i.Service) })
	subsets, err := i.subsets(ctx)
	asked.Wait()
	if err != nil {
		return Serving{}, err
	}
	if missing != nil && providers.KindOf(missing) == providers.NotFound {
		return i.unserved(ctx, subsets, missing)
	}
	if missing != nil {
		return Serving{}, missing
	}
	selector, _, _ := unstructured.NestedStringMap(service.Object, "spec", "selector")
	if len(selector) == 0 {
		return Serving{}, nil // its endpoints are made by somebody else, and nobody can know of them
	}
	for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
		if err := disjoint(service.GetName(), selector, slot, subsets[slot]); err != nil {
			return Serving{}, err
		}
	}
	return i.choose(ctx, subsets, selector)
}

// unserved is for a Service that is missing: without it nothing serves, and
// with pods that wait for it that is a mistake.
func (i Istio) unserved(ctx context.Context, subsets map[state.Slot]map[string]string, missing error) (Serving, error) {
	found := Serving{Units: map[state.Slot]int{state.SlotA: 0, state.SlotB: 0}}
	if i.Deploys {
		return found, nil
	}
	pods, err := i.choose(ctx, subsets, nil)
	if err != nil || !pods.Nothing() {
		return Serving{}, api.Join(err, missing)
	}
	return found, nil
}

// choose finds the ready pods of each subset that a Service chooses too.
func (i Istio) choose(ctx context.Context, subsets map[state.Slot]map[string]string, selector map[string]string) (Serving, error) {
	ns, err := i.namespace()
	if err != nil {
		return Serving{}, err
	}
	return each(false, func(slot state.Slot) (c chosen, err error) {
		c.by, c.labels = "subset "+string(slot), maps.Clone(subsets[slot])
		maps.Copy(c.labels, selector)
		c.ready, err = i.pods(ctx, ns, c.labels)
		return c, err
	})
}

// disjoint refuses a Service that chooses no pod of a subset.
func disjoint(service string, selector map[string]string, slot state.Slot, labels map[string]string) error {
	for key, value := range labels {
		if have, given := selector[key]; given && have != value {
			return &providers.Fault{Kind: providers.Invalid,
				Err:  fmt.Errorf("the Service %s chooses pods by %s=%s, and none of subset %s, which has %s=%s", service, key, have, slot, key, value),
				Hint: "take " + key + " out of the Service's selector: with Istio it chooses the pods of both slots"}
		}
	}
	return nil
}

func (i Istio) subsets(ctx context.Context) (map[state.Slot]map[string]string, error) {
	id := i.DestinationRule
	if id == "" {
		id = i.Service
	}
	ref, err := i.object(ctx, "destinationrules", id)
	if err != nil {
		return nil, err
	}
	names, err := i.names()
	if err != nil {
		return nil, err
	}
	rule, err := i.Client.Get(ctx, ref)
	if providers.KindOf(err) == providers.NotFound && err != nil {
		return nil, &providers.Fault{Kind: providers.NotFound, Err: api.Bare(err),
			Hint: "apply a DestinationRule with subsets a and b for host " + names.Service + " first, or name it with the setting destination_rule"}
	} else if err != nil {
		return nil, err
	}
	found, err := route.Subsets(rule.Object, names)
	if err != nil {
		return nil, about(ref, err)
	}
	return map[state.Slot]map[string]string{state.SlotA: found[state.SlotA], state.SlotB: found[state.SlotB]}, nil
}

func (i Istio) pods(ctx context.Context, namespace string, labels map[string]string) (map[string]bool, error) {
	found := map[string]bool{}
	err := i.Client.List(ctx, schema.GroupVersionResource{Version: "v1", Resource: "pods"}, namespace, terms(labels), func(pod *unstructured.Unstructured) bool {
		if ready(pod) {
			found[pod.GetName()] = true
		}
		return len(found) < 1000
	})
	return found, err
}

// ready reports whether a pod serves: it is Ready and not about to end.
func ready(pod *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(pod.Object, "status", "conditions")
	return pod.GetDeletionTimestamp() == nil && slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == "Ready" && condition["status"] == "True"
	})
}

// InForce waits for the settle time: istiod tells nobody when the last proxy
// has a change.
func (i Istio) InForce(_ context.Context, _ Route, last Write) (bool, error) {
	return i.reached(last.At), nil
}
