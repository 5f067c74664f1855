package kubernetes

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/kubernetes"
	"github.com/manent/action/providers/api/kubernetes/route"
	"github.com/manent/action/state"
)

const istioGroup = "networking.istio.io"

// istio is the dialect of Istio.
type istio struct{ *cluster }

func (i istio) ref(ctx context.Context, id string) (api.Ref, error) {
	return i.resource(ctx, "virtualservices", id)
}

func (i istio) resource(ctx context.Context, resource, id string) (api.Ref, error) {
	version, err := i.client.Version(ctx, istioGroup, "v1", "v1beta1", "v1alpha3")
	return api.Ref{GroupVersionResource: schema.GroupVersionResource{Group: istioGroup, Version: version, Resource: resource}, Name: id}, err
}

func (istio) read(doc map[string]any, names route.Names) (route.Split, error) {
	return route.Istio(doc, names)
}

// capacity counts the ready pods of each subset, after it has seen that the
// DestinationRule has both: a weight for a subset that is not there makes 503.
func (i istio) capacity(ctx context.Context) (map[state.Slot]int, error) {
	subsets, err := i.subsets(ctx)
	if err != nil {
		return nil, err
	}
	service, err := i.service(ctx, i.settings.Service)
	if err != nil {
		return nil, err
	}
	selector, _, _ := unstructured.NestedStringMap(service.Object, "spec", "selector")
	if len(selector) == 0 {
		return nil, nil // its endpoints are made by somebody else, and nobody can know of them
	}
	units := map[state.Slot]int{}
	for slot, labels := range subsets {
		both := maps.Clone(selector)
		maps.Copy(both, labels)
		if units[slot], err = i.pods(ctx, service.GetNamespace(), both); err != nil {
			return nil, err
		}
	}
	return units, nil
}

func (i istio) subsets(ctx context.Context) (map[state.Slot]map[string]string, error) {
	ref, err := i.resource(ctx, "destinationrules", i.settings.destinationRule())
	if err != nil {
		return nil, err
	}
	names, err := i.names()
	if err != nil {
		return nil, err
	}
	if ref.Namespace = i.settings.RouteNamespace; ref.Namespace == "" {
		ref.Namespace = names.Namespace
	}
	rule, err := i.client.Get(ctx, ref)
	if providers.KindOf(err) == providers.NotFound && err != nil {
		return nil, &providers.Fault{Kind: providers.NotFound, Err: err,
			Hint: "apply a DestinationRule with subsets a and b for host " + names.Service + " first, or name it with the setting destination_rule"}
	} else if err != nil {
		return nil, err
	}
	found, err := route.Subsets(rule.Object, names)
	if err != nil {
		return nil, named(ref.String(), err)
	}
	return map[state.Slot]map[string]string{state.SlotA: found[state.SlotA], state.SlotB: found[state.SlotB]}, nil
}

func (i istio) pods(ctx context.Context, namespace string, labels map[string]string) (int, error) {
	terms := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		terms = append(terms, key+"="+labels[key])
	}
	n := 0
	err := i.client.List(ctx, schema.GroupVersionResource{Version: "v1", Resource: "pods"}, namespace, strings.Join(terms, ","), func(pod *unstructured.Unstructured) bool {
		if ready(pod) {
			n++
		}
		return n < 1000
	})
	return n, err
}

// ready reports whether a pod serves: it is Ready and not about to end.
func ready(pod *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(pod.Object, "status", "conditions")
	return pod.GetDeletionTimestamp() == nil && slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == "Ready" && condition["status"] == "True"
	})
}

// inForce waits for the settle time: istiod tells nobody when the last proxy
// has a change.
func (i istio) inForce(_ context.Context, _ route.Split, _ map[string]any, since time.Time, _ bool) (bool, error) {
	return i.reached(since), nil
}
