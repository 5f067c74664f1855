package deploy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/kubernetes/manifest"
	"github.com/manent/action/providers/api/kubernetes/workload"
	"github.com/manent/action/providers/plugin"
)

// Ready implements plugin.Ready: as many replicas of the new version are
// available as the share takes, and none of a former version is left.
func (d *Deployer) Ready(ctx context.Context, call plugin.Call, share float64) (bool, string, error) {
	has, err := d.held(call)
	if has.adopted && err != nil && ctx.Err() == nil { // the way back must not hang on today's manifests
		say(call, "nobody can say whether slot %s is ready: %v", call.Slot, err)
		return true, "", nil
	}
	if err != nil {
		return false, "", err
	}
	for _, w := range has.workloads {
		reason, err := d.ready(ctx, call, has, w, share)
		if has.adopted && providers.KindOf(err) == providers.NotFound {
			say(call, "nobody can say whether slot %s is ready: %s is not there, and it was not manent that deployed it", call.Slot, w)
			continue
		}
		if err != nil || reason != "" {
			return false, reason, err
		}
	}
	return true, "", nil
}

// ready returns why a workload is not, "" when it is.
func (d *Deployer) ready(ctx context.Context, call plugin.Call, has held, w manifest.Workload, share float64) (string, error) {
	found, err := d.Client.Get(ctx, at(w.Kind, has.namespace, w.Name))
	if err != nil {
		return "", err
	}
	n := w.Replicas
	switch {
	case has.adopted:
		n = max(1, workload.Replicas(found))
	case call.Gradual:
		n = need(n, share)
	}
	missing, failed := workload.Lacks(found, n)
	if missing == "" {
		return "", nil
	}
	why := fmt.Sprintf("%s: %s", w, missing)
	if said := d.complaint(ctx, found, has.namespace); said != "" {
		why += ": " + said
	}
	if failed {
		return "", invalid("see slot "+string(call.Slot)+" ready", errors.New(why), "kubectl describe says more; deploy a version that comes up")
	}
	return why, nil
}

// complaint is what a workload's pods say, each thing once. It is only asked
// for a reason, so that no answer is none.
func (d *Deployer) complaint(ctx context.Context, o *unstructured.Unstructured, namespace string) string {
	labels, _, _ := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
	if labels[manifest.LabelTrack] == "" {
		return ""
	}
	var terms []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		terms = append(terms, key+"="+labels[key])
	}
	var said []string
	err := d.Client.List(ctx, schema.GroupVersionResource{Version: "v1", Resource: "pods"}, namespace, strings.Join(terms, ","), func(pod *unstructured.Unstructured) bool {
		if one := workload.Grievance(pod); one != "" && !slices.Contains(said, one) {
			said = append(said, one)
		}
		return len(said) < 3
	})
	if err != nil && len(said) == 0 && ctx.Err() == nil {
		return "its pods cannot be listed, " + strings.TrimPrefix(err.Error(), name+": ")
	}
	return strings.Join(said, "; ")
}
