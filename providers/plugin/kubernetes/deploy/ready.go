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
		n = max(1, replicas(found))
	case call.Gradual:
		n = need(n, share)
	}
	missing, failed := lacks(found, n)
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

// lacks says what a workload lacks to have n replicas of its present version,
// "" for nothing, and whether Kubernetes has given up on it.
// https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#deployment-status
func lacks(o *unstructured.Unstructured, n int) (missing string, failed bool) {
	if seen := number(o, 0, "status", "observedGeneration"); int64(seen) < o.GetGeneration() {
		return fmt.Sprintf("its controller has seen generation %d of %d", seen, o.GetGeneration()), false
	}
	wanted, all := replicas(o), number(o, 0, "status", "replicas")
	updated, available := number(o, 0, "status", "updatedReplicas"), number(o, 0, "status", "availableReplicas")
	switch {
	case wanted < n:
		missing = fmt.Sprintf("it is scaled to %d, the share takes %d", wanted, n)
	case updated < n:
		missing = fmt.Sprintf("%d of %d replicas are of this version", updated, n)
	case all > updated:
		missing = fmt.Sprintf("%d of its %d replicas are of a former version", all-updated, all)
	case available < n:
		missing = fmt.Sprintf("%d of %d replicas are available", available, n)
	default:
		return "", false
	}
	for _, c := range conditions(o) {
		switch {
		case c.kind == "ReplicaFailure" && c.status == "True":
			missing += ": " + c.message // a quota, a policy
		case c.kind == "Progressing" && c.status == "False" && c.reason == "ProgressDeadlineExceeded" && wanted >= n:
			missing, failed = missing+", and its progressDeadlineSeconds are over", true
		}
	}
	return missing, failed
}

type condition struct{ kind, status, reason, message string }

func conditions(o *unstructured.Unstructured) []condition {
	var out []condition
	for _, c := range maplist(o.Object, "status", "conditions") {
		out = append(out, condition{text(c, "type"), text(c, "status"), text(c, "reason"), text(c, "message")})
	}
	return out
}

func maplist(o map[string]any, path ...string) []map[string]any {
	list, _, _ := unstructured.NestedSlice(o, path...) // what has another form is none
	var out []map[string]any
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

func text(m map[string]any, path ...string) string {
	s, _, _ := unstructured.NestedString(m, path...) // as above
	return s
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
		if one := grievance(pod); one != "" && !slices.Contains(said, one) {
			said = append(said, one)
		}
		return len(said) < 3
	})
	if err != nil && len(said) == 0 && ctx.Err() == nil {
		return "its pods cannot be listed, " + strings.TrimPrefix(err.Error(), name+": ")
	}
	return strings.Join(said, "; ")
}

// grievance is why a pod does not serve, "" when it does or does not say.
func grievance(pod *unstructured.Unstructured) string {
	if pod.GetDeletionTimestamp() != nil {
		return ""
	}
	for _, list := range []string{"initContainerStatuses", "containerStatuses"} {
		for _, c := range maplist(pod.Object, "status", list) {
			switch reason := text(c, "state", "waiting", "reason"); reason {
			case "", "ContainerCreating", "PodInitializing":
			default:
				return short("container %s: %s: %s", text(c, "name"), reason, text(c, "state", "waiting", "message")) + ended(c)
			}
		}
	}
	for _, c := range conditions(pod) {
		if c.kind == "PodScheduled" && c.status == "False" {
			return short("%s: %s", c.reason, c.message)
		}
	}
	for _, c := range conditions(pod) {
		if c.kind == "Ready" && c.status == "False" && c.reason == "ContainersNotReady" && text(pod.Object, "status", "phase") == "Running" {
			return short("its readiness probe has not passed: %s", c.message)
		}
	}
	return ""
}

// ended is how a container that is begun again and again ended last.
func ended(c map[string]any) string {
	last, found, _ := unstructured.NestedMap(c, "lastState", "terminated")
	if !found {
		return ""
	}
	return fmt.Sprintf(" (last: %s, exit code %v)", text(last, "reason"), last["exitCode"])
}

// short is one line of bounded length: it is what others wrote.
func short(format string, args ...any) string {
	line := strings.TrimSuffix(strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "), ":")
	if runes := []rune(line); len(runes) > 300 {
		line = string(runes[:300]) + "…"
	}
	return line
}
