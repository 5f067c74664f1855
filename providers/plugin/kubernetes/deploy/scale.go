package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/kubernetes"
	"github.com/manent/action/providers/api/kubernetes/manifest"
	"github.com/manent/action/providers/api/kubernetes/patch"
	"github.com/manent/action/providers/api/kubernetes/workload"
	"github.com/manent/action/providers/plugin"
)

// need is how many of n replicas a share (percent) takes: never none.
func need(n int, share float64) int {
	const slack = 1e-9 // 7 % of 100 is 7, whatever a float makes of it
	return max(1, min(n, int(math.Ceil(float64(n)*share/100-slack))))
}

// held is what a slot has.
type held struct {
	workloads []manifest.Workload
	namespace string
	adopted   bool // manent did not put it there: what it has is what it needs
}

// held finds a slot's workloads by its release. A slot that served before
// manent came has none recorded; its names are those of the manifests.
func (d *Deployer) held(call plugin.Call) (held, error) {
	text, known := call.Release.Ref[refWorkloads]
	if !known {
		set, namespace, err := d.render(call)
		return held{workloads: set.Workloads, namespace: namespace, adopted: true}, err
	}
	out := held{namespace: call.Release.Ref[refNamespace]}
	err := json.Unmarshal([]byte(text), &out.workloads)
	for _, w := range out.workloads { // the state can be written by others
		if k, ok := manifest.KindOf(w.Kind); !ok || k.Group != "apps" || !manifest.Named(w.Name) || w.Replicas < 1 {
			err = fmt.Errorf("%s with %d replicas", w, w.Replicas)
		}
	}
	if err == nil && len(out.workloads) == 0 {
		err = errors.New("none")
	}
	if here, unknown := d.namespace(); err == nil && (unknown != nil || here != out.namespace) {
		err = fmt.Errorf("of namespace %q, the settings have %q", out.namespace, here)
	}
	if err != nil {
		return held{}, invalid("find slot "+string(call.Slot), fmt.Errorf("workloads %.200q of the state: %w", text, err), "deploy again")
	}
	return out, nil
}

// sizeAll gives a deployed release its first capacity: all of it, or one
// replica each where the rest follows the share.
func (d *Deployer) sizeAll(ctx context.Context, call plugin.Call, set manifest.Set, namespace string) error {
	return each(call, set.Workloads, func(call plugin.Call, w manifest.Workload) error {
		n := w.Replicas
		if call.Gradual {
			n = 1
		}
		return d.size(ctx, call, w, namespace, n, false)
	})
}

// Scale implements plugin.SlotScaler. It only adds.
func (d *Deployer) Scale(ctx context.Context, call plugin.Call, share float64) error {
	has, err := d.held(call)
	if err != nil {
		return err
	}
	return each(call, has.workloads, func(call plugin.Call, w manifest.Workload) error {
		n := need(w.Replicas, share)
		if has.adopted {
			n = 1
		}
		err := d.size(ctx, call, w, has.namespace, n, true)
		if has.adopted && providers.KindOf(err) == providers.NotFound {
			say(call, "%s is not there: whoever made what is in slot %s has another name for it", w, call.Slot)
			return nil
		}
		return err
	})
}

// size sets a workload's replicas; of a scaled one, the least that its scaler
// may go down to, and the replicas only when they are fewer: above that the
// number is the scaler's, and so is the most. With onlyAdd nothing is taken
// away. Two requests follow each other, no more: a return waits for them.
func (d *Deployer) size(ctx context.Context, call plugin.Call, w manifest.Workload, namespace string, n int, onlyAdd bool) error {
	var found, scaler *unstructured.Unstructured
	read := func(kind, name string, into **unstructured.Unstructured) func() error {
		return func() (err error) {
			*into, err = d.Client.Get(ctx, at(kind, namespace, name))
			return err
		}
	}
	looks := []func() error{read(w.Kind, w.Name, &found)}
	if w.Scaler != "" {
		looks = append(looks, func() error {
			err := read(scalerKind, w.Scaler, &scaler)()
			if onlyAdd && providers.KindOf(err) == providers.NotFound {
				return nil // nothing scales it any more
			}
			return err
		})
	}
	if err := api.Together(looks...); err != nil {
		return err
	}
	if scaler != nil {
		if most := workload.Number(scaler, n, "spec", "maxReplicas"); most < n {
			say(call, "%s/%s allows %s %d of %d replicas", scalerKind, w.Scaler, w, most, n)
			n = most
		}
	}
	return api.Together(
		func() error { return d.floor(ctx, call, scaler, namespace, n, onlyAdd) },
		func() error { return d.set(ctx, call, w, found, namespace, n, onlyAdd) },
	)
}

func (d *Deployer) set(ctx context.Context, call plugin.Call, w manifest.Workload, found *unstructured.Unstructured, namespace string, n int, onlyAdd bool) error {
	now := workload.Replicas(found)
	if now == n || now > n && (onlyAdd || w.Scaler != "") {
		return nil
	}
	if err := d.Client.Scale(ctx, at(w.Kind, namespace, w.Name), n); err != nil {
		return err
	}
	say(call, "scaled %s from %d to %d", w, now, n)
	return nil
}

const scalerKind = "HorizontalPodAutoscaler"

// floor sets the least that a scaler may go down to.
func (d *Deployer) floor(ctx context.Context, call plugin.Call, scaler *unstructured.Unstructured, namespace string, n int, onlyAdd bool) error {
	if scaler == nil {
		return nil
	}
	now := workload.Number(scaler, 1, "spec", "minReplicas")
	if now == n || now > n && onlyAdd {
		return nil
	}
	if _, err := d.Client.Patch(ctx, at(scalerKind, namespace, scaler.GetName()), []patch.Op{patch.Add(n, "spec", "minReplicas")}); err != nil {
		return err
	}
	say(call, "set minReplicas of %s/%s from %d to %d", scalerKind, scaler.GetName(), now, n)
	return nil
}

// Retire implements plugin.SlotScaler. Kubernetes leaves a workload alone that
// has 0 replicas, also one with a scaler. What is gone already is retired.
func (d *Deployer) Retire(ctx context.Context, call plugin.Call) error {
	has, err := d.held(call)
	if err != nil {
		return err
	}
	return each(call, has.workloads, func(call plugin.Call, w manifest.Workload) error {
		ref := at(w.Kind, has.namespace, w.Name)
		found, err := d.Client.Get(ctx, ref)
		if providers.KindOf(err) == providers.NotFound {
			say(call, "%s is not there any more", w)
			return nil
		}
		if err == nil && workload.Replicas(found) > 0 {
			err = d.Client.Scale(ctx, ref, 0)
		}
		if err == nil {
			say(call, "%s has 0 replicas", w)
		}
		return err
	})
}
