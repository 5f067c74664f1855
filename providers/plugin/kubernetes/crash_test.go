package kubernetes

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/kubernetes/kubetest"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/plugin/kubernetes/traffic"
	"github.com/manent/action/providers/plugin/plugintest"
	"github.com/manent/action/state"
)

// extra is a workload beside the one with a scaler; the former release has it
// under another name.
const extra = `
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: %s}
spec: {replicas: 3, serviceName: shop, selector: {matchLabels: {app: w}}, template: {metadata: {labels: {app: w}}, spec: {containers: []}}}
`

// slotPaths are all objects of a slot, of any release.
func slotPaths(slot state.Slot) []string {
	var out []string
	for _, path := range []string{
		"/api/v1/namespaces/shop/configmaps/shop-config-", "/api/v1/namespaces/shop/services/shop-", deployments + "shop-",
		"/apis/apps/v1/namespaces/shop/statefulsets/worker-", "/apis/apps/v1/namespaces/shop/statefulsets/former-",
		"/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/shop-",
	} {
		out = append(out, path+string(slot))
	}
	return out
}

// holds are a slot's objects without what counts the writes.
func (w *world) holds(slot state.Slot) map[string]any {
	out := map[string]any{}
	for _, path := range slotPaths(slot) {
		o := w.Object(path)
		if o == nil {
			continue
		}
		meta := o["metadata"].(map[string]any)
		for _, key := range []string{"generation", "resourceVersion", "managedFields", "uid"} {
			delete(meta, key)
		}
		out[path] = o
	}
	return out
}

// killer ends the process that a step runs in when the answer of one of its
// requests is on the way. Killed before the next one is the same to the world.
type killer struct {
	next http.Handler
	at   int // counted from 1; 0 for never

	inside sync.RWMutex // read while a request is served
	mu     sync.Mutex
	die    context.CancelFunc // of the process that runs
	n      int
	killed string
}

func (k *killer) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	k.inside.RLock()
	defer k.inside.RUnlock()
	if die := k.hit(r); die != nil {
		k.next.ServeHTTP(httptest.NewRecorder(), r)
		die()
		panic(http.ErrAbortHandler)
	}
	k.next.ServeHTTP(rw, r)
}

func (k *killer) hit(r *http.Request) (die context.CancelFunc) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.n++; k.n != k.at {
		return nil
	}
	k.killed = r.Method + " " + r.URL.Path
	return k.die
}

// run is a step in a process of its own, and in a second one if the first is
// killed.
func (k *killer) run(t *testing.T, step func(context.Context) error) {
	t.Helper()
	killed, err := k.process(t.Context(), step)
	if killed {
		if err == nil || providers.KindOf(err).Definite() {
			t.Errorf("killed at %s it ended with %v", k.killed, err)
		}
		err = step(t.Context())
	}
	if err != nil {
		t.Fatalf("killed at %q: %v", k.killed, err)
	}
}

func (k *killer) process(ctx context.Context, step func(context.Context) error) (killed bool, err error) {
	ctx, die := context.WithCancel(ctx)
	defer die()
	k.mu.Lock()
	k.die = die
	k.mu.Unlock()
	err = step(ctx)
	k.inside.Lock() // what it has sent is done
	defer k.inside.Unlock()
	return ctx.Err() != nil, err
}

// crashWorld has slot a serving, and in slot b what is left of a former
// release.
func crashWorld(t *testing.T) *world {
	t.Helper()
	w := slotWorld(t)
	w.add(t, scaler+fmt.Sprintf(extra, "former"))
	deploySlot(t, w, state.SlotA, "1.0", false)
	former := deploySlot(t, w, state.SlotB, "0.9", false)
	if err := w.bundle(t).Scaler.Retire(t.Context(), former); err != nil {
		t.Fatal(err)
	}
	w.add(t, scaler+fmt.Sprintf(extra, "worker"))
	return w
}

// rollout goes a candidate's way in slot b, each step in a process of its own,
// and again when it was killed.
func (w *world) rollout(t *testing.T, k *killer) plugin.Call {
	t.Helper()
	call := plugintest.Call(state.SlotB, "2.0")
	call.Gradual = true
	scale := func(share float64) func(context.Context, plugin.Bundle) error {
		return func(ctx context.Context, b plugin.Bundle) error { return b.Scaler.Scale(ctx, call, share) }
	}
	ready := func(share float64) func(context.Context, plugin.Bundle) error {
		return func(ctx context.Context, b plugin.Bundle) error {
			ok, reason, err := b.Ready.Ready(ctx, call, share)
			if err == nil && !ok {
				t.Errorf("not ready for %v %%: %s", share, reason)
			}
			return err
		}
	}
	for _, step := range []func(context.Context, plugin.Bundle) error{
		func(ctx context.Context, b plugin.Bundle) error {
			got, err := b.Deployer.Deploy(ctx, call)
			if err == nil {
				call.Release = got
			}
			return err
		},
		ready(0), scale(25), ready(25), scale(100), ready(100),
		func(ctx context.Context, b plugin.Bundle) error { return b.Scaler.Retire(ctx, call) },
		scale(100), // as a return to it would
	} {
		k.run(t, func(ctx context.Context) error { return step(ctx, w.bundle(t)) })
	}
	return call
}

// TestKilledAnywhere: wherever a deployment is killed, a second process ends
// in the same place, and the slot that serves is as it was.
func TestKilledAnywhere(t *testing.T) {
	begin := crashWorld(t)
	var now atomic.Pointer[killer] // one server for all worlds: a connection costs as much as twenty requests
	begin.faulty.Next = handler(func(rw http.ResponseWriter, r *http.Request) { now.Load().ServeHTTP(rw, r) })
	try := func(k *killer) (release state.Release, end map[string]any) {
		w := slotWorld(t)
		w.env.Dir = begin.env.Dir
		w.settings["kubeconfig"], k.next = begin.settings["kubeconfig"], w.Fake
		now.Store(k)
		for _, path := range append(slotPaths(state.SlotA), slotPaths(state.SlotB)...) {
			if o := begin.Object(path); o != nil {
				w.Create(o)
			}
		}
		serving := w.holds(state.SlotA)
		release = w.rollout(t, k).Release
		if diff := cmp.Diff(serving, w.holds(state.SlotA)); diff != "" || len(serving) != 5 {
			t.Errorf("killed at %s (%d): %d objects of the slot that serves\n%s", k.killed, k.at, len(serving), diff)
		}
		return release, w.holds(state.SlotB)
	}
	calm := &killer{}
	release, end := try(calm)
	if replicas := field(t, end[deployments+"shop-b"].(map[string]any), "spec", "replicas"); len(end) != 6 || replicas != 10.0 {
		t.Fatalf("undisturbed it ends with %d objects and %v replicas", len(end), replicas)
	}
	for at := 1; at <= calm.n; at += stride {
		k := &killer{at: at}
		got, slot := try(k)
		if k.killed == "" {
			t.Fatalf("nothing was killed at request %d of %d", at, calm.n)
		}
		if diff := cmp.Diff(release, got) + cmp.Diff(end, slot); diff != "" {
			t.Errorf("killed at %s (%d): release and slot b\n%s", k.killed, at, diff)
		}
	}
	t.Logf("%d requests, %d cases enumerated", calm.n, (calm.n+stride-1)/stride)
}

// rounds lets requests through in groups of these sizes only: what is sent one
// after the other never gets on.
func (w *world) rounds(t *testing.T, sizes ...int) (done func()) {
	t.Helper()
	next := w.faulty.Next
	var mu sync.Mutex
	came, gates := 0, make([]chan struct{}, len(sizes))
	for i := range gates {
		gates[i] = make(chan struct{})
	}
	w.faulty.Next = handler(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		came++
		round, upTo := 0, 0
		for round < len(sizes) && came > upTo+sizes[round] {
			upTo += sizes[round]
			round++
		}
		if round == len(sizes) {
			mu.Unlock()
			t.Errorf("one request more, %s %s", r.Method, r.URL.Path)
			panic(http.ErrAbortHandler)
		}
		if came == upTo+sizes[round] {
			close(gates[round])
		}
		mu.Unlock()
		select {
		case <-gates[round]:
			next.ServeHTTP(rw, r)
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	})
	return func() {
		w.faulty.Next = next
		if gate := gates[len(gates)-1]; came > 0 {
			select {
			case <-gate:
			default:
				t.Errorf("%d requests, want %v", came, sizes)
			}
		}
	}
}

// replaced gives slot b all traffic.
func (w *world) replaced() {
	for _, id := range []string{"web", "api"} {
		w.Edit(routes+id, "manent", func(o map[string]any) { setWeights(o, "rules", "backendRefs", 0, 100) })
	}
}

// TestFewRounds: an API server that takes 8 s for an answer leaves room for
// two after each other in a call of the engine, whatever the slot has.
func TestFewRounds(t *testing.T) {
	w := slotWorld(t)
	w.settings["timeout"] = "2s"
	w.add(t, scaler+fmt.Sprintf(extra, "worker")+fmt.Sprintf(extra, "other"))
	call := deploySlot(t, w, state.SlotA, "1.0", false)
	b := w.bundle(t)
	try := func(name string, do func() error, sizes ...int) {
		t.Helper()
		done := w.rounds(t, sizes...)
		if err := do(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		done()
	}
	ready := func() error {
		_, _, err := b.Ready.Ready(t.Context(), call, 100)
		return err
	}
	try("ready", ready, 3)
	look(t, b.Router.(*traffic.Router)) // the engine does, and all traffic is at slot b by now
	w.replaced()
	try("retire", func() error { return b.Scaler.Retire(t.Context(), call) }, 2, 3, 3) // nobody waits for it
	w.Edit("/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/shop-a", "x", func(o map[string]any) { o["spec"].(map[string]any)["minReplicas"] = 1.0 })
	try("scale", func() error { return b.Scaler.Scale(t.Context(), call, 100) }, 4, 4)
	w.Status(deployments+"shop-a", func(o map[string]any) { o["status"].(map[string]any)["availableReplicas"] = 3.0 })
	try("not ready", ready, 3, 1)
}

// TestRefusedInFewRounds: with conditions that say no, on each route and of
// several kinds, the slots' Services are asked for at once.
func TestRefusedInFewRounds(t *testing.T) {
	w := gatewayWorld(t)
	w.settings["timeout"] = "2s"
	w.Hold()
	now := time.Now().Add(2 * time.Minute)
	r := w.at(t, func() time.Time { return now })
	wish, receipt := move(t, r, 25)
	for _, id := range []string{"web", "api"} {
		w.Status(routes+id, func(o map[string]any) {
			kubetest.SetStatus(o, "Accepted", "True", "Accepted", 2)
			kubetest.SetStatus(o, "ResolvedRefs", "False", "BackendNotFound", 2)
		})
	}
	now = now.Add(2 * time.Minute)
	done := w.rounds(t, 2, 4)
	if ok, err := r.Settled(t.Context(), wish, receipt); !ok || err != nil {
		t.Errorf("in force %v, %v: it is about a backend of somebody else", ok, err)
	}
	done()
	done = w.rounds(t, 4, 6) // the routes beside the Services, then these for each route beside the endpoints
	look(t, r)
	done()
}

// TestScaleDoesWhatItCan: capacity that can be brought back is, whatever the
// other workloads are like.
func TestScaleDoesWhatItCan(t *testing.T) {
	w := slotWorld(t)
	w.add(t, scaler+fmt.Sprintf(extra, "worker"))
	call := deploySlot(t, w, state.SlotA, "1.0", false)
	w.replaced()
	if err := w.bundle(t).Scaler.Retire(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	w.Delete("/apis/apps/v1/namespaces/shop/statefulsets/worker-a")
	w.Edit("/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/shop-a", "kubectl-edit", func(o map[string]any) { o["spec"].(map[string]any)["maxReplicas"] = 6.0 })
	err := w.bundle(t).Scaler.Scale(t.Context(), call, 100)
	want(t, err, providers.NotFound, "statefulsets shop/worker-a")
	if got := w.replicas(t, "shop-a"); got != 6.0 {
		t.Errorf("%v replicas, want the 6 that its scaler allows", got)
	}
	if said := strings.Join(*w.logged, "\n"); !strings.Contains(said, "HorizontalPodAutoscaler/shop-a allows Deployment/shop-a 6 of 10 replicas") {
		t.Errorf("said\n%s", said)
	}
}
