//go:build peers

package kubernetes

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/kubernetes"
	"github.com/manent/action/providers/api/kubernetes/kubetest"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/plugin/kubernetes/deploy"
	"github.com/manent/action/providers/plugin/plugintest"
	"github.com/manent/action/state"
)

// slotPeer is a namespace with a route, and the rights that doctor prints for
// manifests. There is no controller of Deployments: the test plays it.
type slotPeer struct{ *peer }

func newSlotPeer(t *testing.T, manifests string) *slotPeer {
	t.Helper()
	p := &slotPeer{newPeer(t, map[string]any{"http_route": "web", "settle": "0s", "manifests": manifests}, []map[string]any{
		kubetest.HTTPRoute("web", map[string]any{"backendRefs": kubetest.Refs()}),
	})}
	p.Allow(p.rules(t)...)
	return p
}

func (p *slotPeer) bundle(t *testing.T) plugin.Bundle {
	t.Helper()
	bundle, err := Spec().Build(providers.Env{Log: t.Logf, Dir: "."}, p.settings)
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

// rules are all that manent asks for.
func (p *slotPeer) rules(t *testing.T) []string {
	t.Helper()
	rules, namespace, err := p.bundle(t).Deployer.(*deploy.Deployer).Grants()
	if err != nil || namespace != p.Name {
		t.Fatalf("rules of namespace %s, %v", namespace, err)
	}
	return api.Lines(append(settingsOf(t, p.settings).Role()[p.Name], rules...))
}

func (p *slotPeer) get(t *testing.T, resource, name string) map[string]any {
	t.Helper()
	kind := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: resource}
	if resource == "horizontalpodautoscalers" {
		kind.Group, kind.Version = "autoscaling", "v2"
	}
	o, err := p.Admin.Resource(kind).Namespace(p.Name).Get(context.Background(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return o.Object
}

// play is the Deployment controller: so many replicas are available, all that
// are wanted if that is less than 0.
func (p *slotPeer) play(t *testing.T, name string, available int) {
	t.Helper()
	for {
		o := p.get(t, "deployments", name)
		if o == nil {
			return
		}
		n := available
		if n < 0 {
			n = int(field(t, o, "spec", "replicas").(int64))
		}
		kubetest.SetReplicas(o, n)
		_, err := p.Admin.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace(p.Name).
			UpdateStatus(context.Background(), &unstructured.Unstructured{Object: o}, metav1.UpdateOptions{FieldManager: "kube-controller-manager"})
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
}

func (p *slotPeer) world(t *testing.T) plugintest.World {
	t.Helper()
	started, over := make(chan struct{}, 8), make(chan struct{})
	t.Cleanup(func() { close(over) })
	next := p.faulty.Next
	return plugintest.World{
		Name: name, Traits: plugin.Traits{Router: true, Scales: true}, Open: p.bundle, Secret: kubetest.CI, Lines: true,
		Holds: func(t *testing.T, slot state.Slot) string {
			version, _ := field(t, p.get(t, "deployments", "shop-"+string(slot)), "metadata", "annotations", "manent.io/version").(string)
			return version
		},
		Capacity: func(t *testing.T, slot state.Slot) float64 {
			return float64(field(t, p.get(t, "deployments", "shop-"+string(slot)), "spec", "replicas").(int64)) / 8 * 100
		},
		Set: func(t *testing.T, op plugintest.Op, mood plugintest.Mood) {
			writes := op == plugintest.Deploy
			switch mood {
			case plugintest.Refuses:
				var rules []string
				for _, rule := range p.rules(t) {
					if strings.Contains(rule, `["deployments"]`) {
						rule = strings.Replace(rule, map[bool]string{true: "get, create, patch", false: "get, "}[writes], map[bool]string{true: "get", false: ""}[writes], 1)
					}
					rules = append(rules, rule)
				}
				p.Allow(rules...)
			case plugintest.Hangs:
				p.faulty.Next = handler(func(rw http.ResponseWriter, r *http.Request) {
					if strings.Contains(r.URL.Path, "/deployments/") && kubetest.IsWrite(r) == writes {
						started <- struct{}{}
						<-over
						panic(http.ErrAbortHandler)
					}
					next.ServeHTTP(rw, r)
				})
			case plugintest.NotYet:
				p.play(t, "shop-b", 0)
			case plugintest.Fine:
				p.play(t, "shop-b", -1)
			}
		},
		Started: func(t *testing.T, _ plugintest.Op) {
			select {
			case <-started:
			case <-t.Context().Done():
			}
		},
	}
}

func TestPeersDeployerConformance(t *testing.T) {
	t.Parallel()
	plugintest.Run(t, func(t *testing.T) plugintest.World { return newSlotPeer(t, "testdata/manifests").world(t) })
}

// TestPeersDeployer goes a slot's whole way with the printed rights alone:
// one replica, shares, a scaler's own number, a conflict, the next release
// with less in it, retired.
func TestPeersDeployer(t *testing.T) {
	t.Parallel()
	p := newSlotPeer(t, "testdata/manifests,testdata/scaled")
	call := plugintest.Call(state.SlotB, "2.0")
	call.Gradual, call.Output = true, func(line string) { t.Log(line) }
	deployed := func(version string) {
		t.Helper()
		call.Release.Version = version
		release, err := p.bundle(t).Deployer.Deploy(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		call.Release = release
	}
	number := func(resource, name, field string) int64 {
		t.Helper()
		n, _, _ := unstructured.NestedInt64(p.get(t, resource, name), "spec", field)
		return n
	}
	holds := func(replicas, least, worker int64) {
		t.Helper()
		if a, b, c := number("deployments", "shop-b", "replicas"), number("horizontalpodautoscalers", "shop-b", "minReplicas"), number("statefulsets", "worker-b", "replicas"); a != replicas || b != least || c != worker {
			t.Errorf("%d replicas, at least %d, %d workers, want %d, %d, %d", a, b, c, replicas, least, worker)
		}
	}
	deployed("2.0")
	deployed("2.0")
	holds(1, 1, 1)
	scale := func(share float64) {
		t.Helper()
		if err := p.bundle(t).Scaler.Scale(t.Context(), call, share); err != nil {
			t.Fatal(err)
		}
	}
	scale(50)
	holds(5, 5, 1)
	if ok, reason, err := p.bundle(t).Ready.Ready(t.Context(), call, 50); ok || err != nil || !strings.Contains(reason, "its controller has seen generation 0 of") {
		t.Errorf("before its controller has looked: %v %q %v", ok, reason, err)
	}
	like := kubetest.Object("apps/v1", "Deployment", "shop-b", nil)
	p.Edit(like, "kube-controller-manager", func(o map[string]any) { o["spec"].(map[string]any)["replicas"] = 20 })
	scale(100)
	holds(20, 10, 2)
	deployed("3.0") // a scaler's number is no conflict, and stays
	holds(20, 1, 1)

	p.Edit(like, "kubectl-edit", func(o map[string]any) {
		spec := o["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		spec["containers"].([]any)[0].(map[string]any)["image"] = "example.net/hotfix"
	})
	_, err := p.bundle(t).Deployer.Deploy(t.Context(), plugintest.Call(state.SlotB, "4.0"))
	want(t, err, providers.Invalid, `conflict with "kubectl-edit"`, "image", "force_conflicts")
	p.settings["force_conflicts"] = true
	deployed("4.0")

	p.settings["manifests"] = "testdata/manifests" // the rights are still the larger ones
	_, err = p.bundle(t).Deployer.Deploy(t.Context(), plugintest.Call(state.SlotB, "5.0"))
	want(t, err, providers.Invalid, "HorizontalPodAutoscaler/shop-b of the slot's former release", "delete it")
	holds(20, 1, 1)
	p.Edit(kubetest.Object("autoscaling/v2", "HorizontalPodAutoscaler", "shop-b", nil), "kubectl-edit", func(o map[string]any) {
		o["metadata"].(map[string]any)["labels"] = map[string]any{}
	})
	deployed("5.0")
	holds(1, 1, 0)
	if err := p.bundle(t).Scaler.Retire(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	holds(0, 1, 0)
}

// TestPeersCheck: the printed rights are all that is asked about, and the real
// server says which of them is missing; so is a Service that nobody makes.
func TestPeersCheck(t *testing.T) {
	t.Parallel()
	p := newSlotPeer(t, "testdata/manifests,testdata/scaled")
	if err := p.bundle(t).Check(t.Context()); err != nil {
		t.Error(err)
	}
	for _, f := range p.bundle(t).Findings(t.Context()) {
		if f.Err != nil || f.Name == "cluster" && (!f.Warn || !strings.Contains(f.Text, ", the current one of kubeconfig ") || !strings.Contains(f.Text, ", version v1.")) {
			t.Errorf("%+v", f)
		}
	}
	delete(p.settings, "manifests") // then steps make the Services, of a first release
	if err := p.bundle(t).Check(t.Context()); err != nil {
		t.Error(err)
	}
	p.Create(kubetest.Service("shop-b", nil)) // with something that serves it is none
	p.Create(kubetest.EndpointSlice("shop-b", "10.77.0.2"))
	want(t, p.bundle(t).Check(t.Context()), providers.Invalid, "Service "+p.Name+"/shop-a does not exist", "create it")
	p.settings["manifests"] = "testdata/manifests,testdata/scaled"
	var reads []string
	for _, rule := range p.rules(t) {
		reads = append(reads, strings.NewReplacer("get, patch", "get", "get, create, patch", "get", "create, patch", "get", "[patch]", "[get]").Replace(rule))
	}
	p.Allow(reads...)
	err := p.bundle(t).Check(t.Context())
	want(t, err, providers.Denied, "may not patch httproutes in namespace "+p.Name, "patch deployments in", "patch deployments/scale in", "patch horizontalpodautoscalers in",
		`{apiGroups: ["gateway.networking.k8s.io"], resources: ["httproutes"], verbs: [patch], resourceNames: [web]}`)
	if text := err.Error(); strings.Contains(text, "get ") || strings.Contains(text, "list ") || strings.Contains(text, "create") {
		t.Errorf("it names what is allowed: %s", text)
	}
	p.settings["namespace"] = "default"
	want(t, p.bundle(t).Check(t.Context()), providers.Denied, "may not", "get and patch httproutes in namespace default")
}

// slotState is what the real server has of a slot's workloads and their
// scaler; with versions, so that a write that changes nothing shows.
func (p *slotPeer) slotState(t *testing.T, slot state.Slot, versions bool) map[string]any {
	t.Helper()
	out := map[string]any{}
	for resource, name := range map[string]string{"deployments": "shop-", "statefulsets": "worker-", "horizontalpodautoscalers": "shop-"} {
		o := p.get(t, resource, name+string(slot))
		if o == nil {
			continue
		}
		meta := o["metadata"].(map[string]any)
		one := map[string]any{"spec": o["spec"], "labels": meta["labels"], "annotations": meta["annotations"]}
		if versions {
			one["resourceVersion"] = meta["resourceVersion"]
		}
		out[resource] = one
	}
	return out
}

// TestPeersKilledAnywhere kills a deployment and its growth at each request on
// the real server, whose server-side apply and scale are entered again.
func TestPeersKilledAnywhere(t *testing.T) {
	t.Parallel()
	p := newSlotPeer(t, "testdata/manifests,testdata/scaled")
	if _, err := p.bundle(t).Deployer.Deploy(t.Context(), plugintest.Call(state.SlotA, "1.0")); err != nil {
		t.Fatal(err)
	}
	serving, next := p.slotState(t, state.SlotA, true), p.faulty.Next
	var now atomic.Pointer[killer]
	now.Store(&killer{next: next})
	p.faulty.Next = handler(func(rw http.ResponseWriter, r *http.Request) { now.Load().ServeHTTP(rw, r) })
	try := func(k *killer) (state.Release, map[string]any) {
		for resource, name := range map[string]string{"deployments": "shop-b", "statefulsets": "worker-b", "horizontalpodautoscalers": "shop-b"} {
			p.drop(t, resource, name)
		}
		k.next = next
		now.Store(k)
		call := plugintest.Call(state.SlotB, "2.0")
		call.Gradual = true
		for _, step := range []func(context.Context, plugin.Bundle) error{
			func(ctx context.Context, b plugin.Bundle) (err error) {
				got, err := b.Deployer.Deploy(ctx, call)
				if err == nil {
					call.Release = got
				}
				return err
			},
			func(ctx context.Context, b plugin.Bundle) error { return b.Scaler.Scale(ctx, call, 100) },
		} {
			k.run(t, func(ctx context.Context) error { return step(ctx, p.bundle(t)) })
		}
		return call.Release, p.slotState(t, state.SlotB, false)
	}
	calm := &killer{}
	release, end := try(calm)
	for at := 1; at <= calm.n; at++ {
		k := &killer{at: at}
		got, slot := try(k)
		if diff := cmp.Diff(release, got) + cmp.Diff(end, slot) + cmp.Diff(serving, p.slotState(t, state.SlotA, true)); diff != "" || k.killed == "" || len(slot) != 3 {
			t.Errorf("killed at %q (%d):\n%s", k.killed, at, diff)
		}
	}
	t.Logf("%d cases enumerated", calm.n)
}

// drop deletes an object of a slot.
func (p *slotPeer) drop(t *testing.T, resource, name string) {
	t.Helper()
	kind := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: resource}
	if resource == "horizontalpodautoscalers" {
		kind.Group, kind.Version = "autoscaling", "v2"
	}
	if err := p.Admin.Resource(kind).Namespace(p.Name).Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}
