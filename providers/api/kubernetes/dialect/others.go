package dialect

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	api "github.com/manent/action/providers/api/kubernetes"
	"github.com/manent/action/providers/api/kubernetes/route"
)

// Others are the routes of the same namespace, without those of ours, that
// reach the slots' pods, each with how it does.
func (g Gateway) Others(ctx context.Context, ours []string) ([]string, error) {
	ref, err := g.Ref(ctx, "")
	if err != nil {
		return nil, err
	}
	return g.others(ctx, ref, "HTTPRoute", ours, route.GatewayReaches)
}

// Others as those of Gateway.
func (i Istio) Others(ctx context.Context, ours []string) ([]string, error) {
	ref, err := i.Ref(ctx, "")
	if err != nil {
		return nil, err
	}
	return i.others(ctx, ref, "VirtualService", ours, route.IstioReaches)
}

func (o Options) others(ctx context.Context, ref api.Ref, kind string, ours []string, reaches func(map[string]any, route.Names) []string) ([]string, error) {
	names, err := o.names()
	if err != nil {
		return nil, err
	}
	var out []string
	err = o.Client.List(ctx, ref.GroupVersionResource, ref.Namespace, "", func(doc *unstructured.Unstructured) bool {
		if how := reaches(doc.Object, names); len(how) > 0 && !slices.Contains(ours, doc.GetName()) {
			out = append(out, fmt.Sprintf("%s %s/%s: %s", kind, ref.Namespace, doc.GetName(), strings.Join(how, ", ")))
		}
		return true
	})
	return out, err
}
