// Package workload says what a Deployment or StatefulSet lacks, and what its
// pods complain of, from their documents. It must not talk to a cluster, nor
// know what the replicas are for.
package workload

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Replicas are how many a workload is scaled to.
func Replicas(o *unstructured.Unstructured) int { return Number(o, 1, "spec", "replicas") }

// Number is one of an object, or what it means that it is not there.
func Number(o *unstructured.Unstructured, otherwise int, path ...string) int {
	n, found, err := unstructured.NestedInt64(o.Object, path...)
	if !found || err != nil {
		return otherwise
	}
	return int(n)
}

// Lacks says what a workload lacks to have n replicas of its present version,
// "" for nothing, and whether Kubernetes has given up on it.
// https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#deployment-status
func Lacks(o *unstructured.Unstructured, n int) (missing string, failed bool) {
	if seen := Number(o, 0, "status", "observedGeneration"); int64(seen) < o.GetGeneration() {
		return fmt.Sprintf("its controller has seen generation %d of %d", seen, o.GetGeneration()), false
	}
	wanted, all := Replicas(o), Number(o, 0, "status", "replicas")
	updated, available := Number(o, 0, "status", "updatedReplicas"), Number(o, 0, "status", "availableReplicas")
	switch {
	case wanted < n:
		missing = fmt.Sprintf("it is scaled to %d%s, the share takes %d", wanted, scaledBy(o), n)
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

// scaledBy names whoever set the replicas, as far as the API server says: an
// autoscaler that nobody knows of is a field manager, too.
func scaledBy(o *unstructured.Unstructured) string {
	for _, m := range maplist(o.Object, "metadata", "managedFields") {
		if _, holds, _ := unstructured.NestedFieldNoCopy(m, "fieldsV1", "f:spec", "f:replicas"); holds {
			return " by " + short("%s", text(m, "manager"))
		}
	}
	return ""
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

// Grievance is why a pod does not serve, "" when it does or does not say.
func Grievance(pod *unstructured.Unstructured) string {
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
