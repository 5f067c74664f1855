package deploy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/kubernetes"
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
	found := make([]*unstructured.Unstructured, len(has.workloads))
	gone := make([]error, len(has.workloads))
	looks := make([]func() error, len(has.workloads))
	for i, w := range has.workloads {
		looks[i] = func() error {
			found[i], gone[i] = d.Client.Get(ctx, at(w.Kind, has.namespace, w.Name))
			if has.adopted && providers.KindOf(gone[i]) == providers.NotFound {
				return nil
			}
			return gone[i]
		}
	}
	if err := api.Together(looks...); err != nil {
		return false, "", err
	}
	for i, w := range has.workloads {
		if gone[i] != nil {
			say(call, "nobody can say whether slot %s is ready: %s is not there, and it was not manent that deployed it", call.Slot, w)
			continue
		}
		if reason, err := d.lacks(ctx, call, has, w, found[i], share); err != nil || reason != "" {
			return false, reason, err
		}
	}
	return true, "", nil
}

// lacks returns why a workload is not ready, "" when it is.
func (d *Deployer) lacks(ctx context.Context, call plugin.Call, has held, w manifest.Workload, found *unstructured.Unstructured, share float64) (string, error) {
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

// asked bounds how long the reason is looked for, within one call of the
// engine: it is only for people.
const asked = 5 * time.Second

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
	short, cancel := context.WithTimeout(ctx, asked)
	defer cancel()
	err := d.Client.List(short, schema.GroupVersionResource{Version: "v1", Resource: "pods"}, namespace, strings.Join(terms, ","), func(pod *unstructured.Unstructured) bool {
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
