package kubernetes

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/kubernetes/kubetest"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/plugin/plugintest"
	"github.com/manent/action/state"
)

const deployments = "/apis/apps/v1/namespaces/shop/deployments/"

// slotWorld has a route, and manifests in its workspace.
func slotWorld(t *testing.T) *world {
	t.Helper()
	w := gatewayWorld(t)
	w.settings["manifests"] = "manifests"
	w.env.Dir = t.TempDir()
	if err := os.CopyFS(w.env.Dir, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) bundle(t *testing.T) plugin.Bundle {
	t.Helper()
	bundle, err := assemble(w.env, settingsOf(t, w.settings), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

// add writes one more file of manifests.
func (w *world) add(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.env.Dir, "manifests", "more.yml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func field(t *testing.T, o map[string]any, path ...string) any {
	t.Helper()
	var at any = o
	for _, key := range path {
		m, _ := at.(map[string]any)
		at = m[key]
	}
	return at
}

func (w *world) replicas(t *testing.T, name string) any {
	t.Helper()
	return field(t, w.Object(deployments+name), "spec", "replicas")
}

// pluginWorld is the suite's view. A controller that is played brings up what
// is asked for at once.
func (w *world) pluginWorld(t *testing.T) plugintest.World {
	t.Helper()
	started, over := make(chan struct{}, 8), make(chan struct{})
	t.Cleanup(func() { close(over) }) // before the server ends
	next := w.faulty.Next
	hangs := func(match func(*http.Request) bool) {
		w.faulty.Next = handler(func(rw http.ResponseWriter, r *http.Request) {
			if match(r) {
				started <- struct{}{}
				<-over
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(rw, r)
		})
	}
	return plugintest.World{
		Name: name, Traits: plugin.Traits{Router: true, Scales: true}, Open: w.bundle, Secret: kubetest.Token, Lines: true,
		Holds: func(t *testing.T, slot state.Slot) string {
			version, _ := field(t, w.Object(deployments+"shop-"+string(slot)), "metadata", "annotations", "manent.io/version").(string)
			return version
		},
		Capacity: func(t *testing.T, slot state.Slot) float64 {
			return w.replicas(t, "shop-"+string(slot)).(float64) / 8 * 100
		},
		Set: func(_ *testing.T, op plugintest.Op, mood plugintest.Mood) {
			verb := map[plugintest.Op]string{plugintest.Deploy: "patch"}[op]
			if verb == "" {
				verb = "get"
			}
			switch mood {
			case plugintest.Refuses:
				w.Deny(func(v, resource string) bool { return v == verb && resource == "deployments" })
			case plugintest.Hangs:
				hangs(func(r *http.Request) bool {
					return strings.Contains(r.URL.Path, "/deployments/") && kubetest.IsWrite(r) == (verb == "patch")
				})
			case plugintest.NotYet:
				w.Status(deployments+"shop-b", func(o map[string]any) { kubetest.SetReplicas(o, 0) })
			case plugintest.Fine:
				w.Status(deployments+"shop-b", func(o map[string]any) { kubetest.SetReplicas(o, 8) })
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

func TestDeployerConformance(t *testing.T) {
	plugintest.Run(t, func(t *testing.T) plugintest.World { return slotWorld(t).pluginWorld(t) })
}

func deploySlot(t *testing.T, w *world, slot state.Slot, version string, gradual bool) plugin.Call {
	t.Helper()
	call := plugintest.Call(slot, version)
	call.Gradual = gradual
	call.Output = func(line string) { *w.logged = append(*w.logged, line) }
	release, err := w.bundle(t).Deployer.Deploy(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	call.Release = release
	return call
}

func TestDeployedSlot(t *testing.T) {
	w := slotWorld(t)
	call := deploySlot(t, w, state.SlotB, "2.0", false)
	o := w.Object(deployments + "shop-b")
	for _, tt := range []struct {
		want any
		path []string
	}{
		{"b", []string{"metadata", "labels", "manent.io/track"}},
		{"b", []string{"spec", "selector", "matchLabels", "manent.io/track"}},
		{"b", []string{"spec", "template", "metadata", "labels", "manent.io/track"}},
		{8.0, []string{"spec", "replicas"}},
	} {
		if got := field(t, o, tt.path...); got != tt.want {
			t.Errorf("%v is %v, want %v", tt.path, got, tt.want)
		}
	}
	if got := field(t, w.Object("/api/v1/namespaces/shop/services/shop-b"), "spec", "selector", "manent.io/track"); got != "b" {
		t.Errorf("the Service chooses slot %v", got)
	}
	want := state.Ref{
		"manent-rollout": "r1", "namespace": "shop", "applied": "ConfigMap/shop-config-b Service/shop-b Deployment/shop-b",
		"workloads": `[{"kind":"Deployment","name":"shop-b","replicas":8}]`, "digest": call.Release.Ref["digest"],
	}
	if diff := cmp.Diff(want, call.Release.Ref); diff != "" || len(want["digest"]) != 64 {
		t.Errorf("reference:\n%s", diff)
	}
	first, changed := o, deploySlot(t, w, state.SlotB, "2.0", false)
	if diff := cmp.Diff(first, w.Object(deployments+"shop-b")); diff != "" && !strings.Contains(diff, "resourceVersion") {
		t.Errorf("deployed again:\n%s", diff)
	}
	if changed.Release.Ref["digest"] != call.Release.Ref["digest"] {
		t.Error("the same objects have another digest")
	}
	if w.Object(deployments+"shop-a") != nil {
		t.Error("slot a got something")
	}
}

func TestGradual(t *testing.T) {
	w := slotWorld(t)
	call := deploySlot(t, w, state.SlotB, "2.0", true)
	if got := w.replicas(t, "shop-b"); got != 1.0 {
		t.Errorf("the candidate begins with %v replicas", got)
	}
	for _, tt := range []struct{ share, want float64 }{{0, 1}, {1, 1}, {12.5, 1}, {12.6, 2}, {50, 4}, {99, 8}, {100, 8}, {5, 8}} {
		b := w.bundle(t)
		if err := b.Scaler.Scale(t.Context(), call, tt.share); err != nil {
			t.Fatal(err)
		}
		if got := w.replicas(t, "shop-b"); got != tt.want {
			t.Errorf("%v %%: %v replicas, want %v", tt.share, got, tt.want)
		}
		if ok, reason, err := b.Ready.Ready(t.Context(), call, tt.share); !ok || err != nil {
			t.Errorf("%v %%: %v %q %v", tt.share, ok, reason, err)
		}
	}
	w.Status(deployments+"shop-b", func(o map[string]any) { kubetest.SetReplicas(o, 3) })
	for share, want := range map[float64]bool{25: true, 37.5: true, 50: false, 100: false} {
		if ok, reason, err := w.bundle(t).Ready.Ready(t.Context(), call, share); ok != want || err != nil || ok == (reason != "") {
			t.Errorf("3 of 8 for %v %%: %v %q %v", share, ok, reason, err)
		}
	}
	// A new release into the slot begins with one replica again.
	deploySlot(t, w, state.SlotB, "3.0", true)
	if got := w.replicas(t, "shop-b"); got != 1.0 {
		t.Errorf("the next candidate begins with %v replicas", got)
	}
}

const scaler = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}
  minReplicas: 10
  maxReplicas: 40
`

// TestScaler: the least is set, and what a scaler has given is never taken.
func TestScaler(t *testing.T) {
	const hpa = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/shop-b"
	w := slotWorld(t)
	w.add(t, scaler)
	least := func() any { return field(t, w.Object(hpa), "spec", "minReplicas") }
	call := deploySlot(t, w, state.SlotB, "2.0", true)
	if least() != 1.0 || w.replicas(t, "shop-b") != 1.0 {
		t.Errorf("the candidate begins with %v of least %v", w.replicas(t, "shop-b"), least())
	}
	if target := field(t, w.Object(hpa), "spec", "scaleTargetRef", "name"); target != "shop-b" {
		t.Errorf("it scales %v", target)
	}
	scaleTo := func(share, wantLeast, wantReplicas float64) {
		t.Helper()
		if err := w.bundle(t).Scaler.Scale(t.Context(), call, share); err != nil {
			t.Fatal(err)
		}
		if least() != wantLeast || w.replicas(t, "shop-b") != wantReplicas {
			t.Errorf("%v %%: %v of least %v, want %v of %v", share, w.replicas(t, "shop-b"), least(), wantReplicas, wantLeast)
		}
	}
	scaleTo(25, 3, 3)
	w.Edit(deployments+"shop-b", "kube-controller-manager", func(o map[string]any) { o["spec"].(map[string]any)["replicas"] = 23.0 })
	scaleTo(50, 5, 23)
	scaleTo(100, 10, 23)
	if err := w.bundle(t).Scaler.Retire(t.Context(), call); err != nil || w.replicas(t, "shop-b") != 0.0 {
		t.Errorf("retired: %v replicas, %v", w.replicas(t, "shop-b"), err)
	}
	scaleTo(100, 10, 10) // a return brings back at least what the whole traffic needs
	deploySlot(t, w, state.SlotB, "3.0", false)
	if least() != 10.0 || w.replicas(t, "shop-b") != 10.0 {
		t.Errorf("deployed whole: %v of least %v", w.replicas(t, "shop-b"), least())
	}
}

func TestConflictNamesTheManager(t *testing.T) {
	w := slotWorld(t)
	deploySlot(t, w, state.SlotB, "1.0", false)
	w.Claim(deployments+"shop-b", "argocd-controller", "spec.template.spec.containers")
	_, err := w.bundle(t).Deployer.Deploy(t.Context(), plugintest.Call(state.SlotB, "2.0"))
	want(t, err, providers.Invalid, `conflict with "argocd-controller"`, ".spec.template.spec.containers", "force_conflicts")
	w.settings["force_conflicts"] = true
	deploySlot(t, w, state.SlotB, "2.0", false)
}

// TestFormerRelease: what the slot's former release had and this one has not
// would go on serving.
func TestFormerRelease(t *testing.T) {
	w := slotWorld(t)
	w.add(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: worker}\nspec: {replicas: 2, selector: {matchLabels: {app: w}}, template: {metadata: {labels: {app: w}}, spec: {containers: []}}}\n")
	deploySlot(t, w, state.SlotA, "1.0", false)
	deploySlot(t, w, state.SlotB, "1.0", false)
	w.add(t, "")
	deploySlot(t, w, state.SlotB, "2.0", false)
	if a, b := w.replicas(t, "worker-a"), w.replicas(t, "worker-b"); a != 2.0 || b != 0.0 {
		t.Errorf("workers %v and %v, want 2 and 0", a, b)
	}
	if !slices.ContainsFunc(*w.logged, func(l string) bool { return strings.Contains(l, "scaled Deployment/worker-b to 0") }) {
		t.Errorf("said %q", *w.logged)
	}
}

// TestFormerScaler: one that this release does not have would scale it.
func TestFormerScaler(t *testing.T) {
	w := slotWorld(t)
	w.add(t, scaler)
	deploySlot(t, w, state.SlotB, "1.0", false)
	w.add(t, "")
	_, err := w.bundle(t).Deployer.Deploy(t.Context(), plugintest.Call(state.SlotB, "2.0"))
	want(t, err, providers.Invalid, "HorizontalPodAutoscaler/shop-b of the slot's former release", "delete it")
	if got := field(t, w.Object(deployments+"shop-b"), "metadata", "annotations", "manent.io/version"); got != "1.0" {
		t.Errorf("version %v was applied beside it", got)
	}
}

// TestNotReady: the reason is told as far as it is known.
func TestNotReady(t *testing.T) {
	pod := func(status string) map[string]any {
		o := kubetest.Pod("shop-b-1", map[string]any{"app": "shop", "manent.io/track": "b"})
		var s map[string]any
		if err := json.Unmarshal([]byte(status), &s); err != nil {
			t.Fatal(err)
		}
		o["status"] = s
		return o
	}
	set := func(o map[string]any, key string, n any) { o["status"].(map[string]any)[key] = n }
	for name, tt := range map[string]struct {
		change func(o map[string]any)
		pod    string
		kind   providers.Kind
		words  string
	}{
		"image": {nil, `{"containerStatuses":[{"name":"shop","state":{"waiting":{"reason":"ImagePullBackOff","message":"Back-off pulling\n image"}}}]}`, 0,
			"Deployment/shop-b: 3 of 8 replicas are available: container shop: ImagePullBackOff: Back-off pulling image"},
		"crash": {nil, `{"containerStatuses":[{"name":"shop","state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"reason":"Error","exitCode":3}}}]}`, 0,
			"container shop: CrashLoopBackOff (last: Error, exit code 3)"},
		"no room":   {nil, `{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/3 nodes are available"}]}`, 0, "Unschedulable: 0/3 nodes are available"},
		"probe":     {nil, `{"phase":"Running","conditions":[{"type":"Ready","status":"False","reason":"ContainersNotReady","message":"containers with unready status: [shop]"}]}`, 0, "its readiness probe has not passed: containers with unready status: [shop]"},
		"no reason": {nil, `{"phase":"Pending"}`, 0, "3 of 8 replicas are available"},
		"quota": {func(o map[string]any) {
			set(o, "conditions", []any{map[string]any{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: cpu"}})
		}, "{}", 0, "3 of 8 replicas are available: exceeded quota: cpu"},
		"not seen":    {func(o map[string]any) { set(o, "observedGeneration", 0.0) }, "{}", 0, "its controller has seen generation 0 of 2"},
		"old pods":    {func(o map[string]any) { set(o, "replicas", 10.0) }, "{}", 0, "2 of its 10 replicas are of a former version"},
		"not updated": {func(o map[string]any) { set(o, "updatedReplicas", 2.0) }, "{}", 0, "2 of 8 replicas are of this version"},
		"scaled down": {func(o map[string]any) { o["spec"].(map[string]any)["replicas"] = 4.0 }, "{}", 0, "it is scaled to 4, the share takes 8"},
		"scaled by another": {func(o map[string]any) {
			o["spec"].(map[string]any)["replicas"] = 4.0
			o["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{"manager": "kube-controller-manager", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:replicas": map[string]any{}}}}}
		}, "{}", 0, "it is scaled to 4 by kube-controller-manager, the share takes 8"},
		"given up": {func(o map[string]any) {
			set(o, "conditions", []any{map[string]any{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}})
		}, "{}", providers.Invalid, "kubernetes: see slot b ready: Deployment/shop-b: 3 of 8 replicas are available, and its progressDeadlineSeconds are over"},
	} {
		t.Run(name, func(t *testing.T) {
			w := slotWorld(t)
			call := deploySlot(t, w, state.SlotB, "2.0", false)
			w.Create(pod(tt.pod))
			w.Status(deployments+"shop-b", func(o map[string]any) {
				o["metadata"].(map[string]any)["generation"] = 2.0
				kubetest.SetReplicas(o, 3)
				if tt.change != nil {
					tt.change(o)
				}
			})
			ok, reason, err := w.bundle(t).Ready.Ready(t.Context(), call, 100)
			if err != nil {
				reason = err.Error()
			}
			if ok || providers.KindOf(err) != tt.kind || !strings.Contains(reason, tt.words) {
				t.Errorf("%v %q %v, want %q", ok, reason, err, tt.words)
			}
		})
	}
	w := slotWorld(t)
	call := deploySlot(t, w, state.SlotB, "2.0", false)
	w.Status(deployments+"shop-b", func(o map[string]any) { kubetest.SetReplicas(o, 3) })
	w.Deny(func(verb, resource string) bool { return resource == "pods" })
	ok, reason, err := w.bundle(t).Ready.Ready(t.Context(), call, 100)
	if ok || err != nil || !strings.Contains(reason, "3 of 8 replicas are available: its pods cannot be listed, list pods") {
		t.Errorf("pods that may not be listed: %v %q %v", ok, reason, err)
	}
}

// TestAdopted: a slot that served before manent came is what it is; neither
// a return nor a share needs more of it.
func TestAdopted(t *testing.T) {
	adopted := plugin.Call{Slot: state.SlotA}
	w := slotWorld(t)
	b := w.bundle(t)
	if ok, reason, err := b.Ready.Ready(t.Context(), adopted, 100); !ok || err != nil {
		t.Errorf("by another name: %v %q %v", ok, reason, err)
	}
	if err := b.Scaler.Scale(t.Context(), adopted, 100); err != nil {
		t.Error(err)
	}
	deploySlot(t, w, state.SlotA, "1.0", true) // one replica, of 8 in the manifests
	if err := b.Scaler.Scale(t.Context(), adopted, 100); err != nil || w.replicas(t, "shop-a") != 1.0 {
		t.Errorf("%v replicas, %v", w.replicas(t, "shop-a"), err)
	}
	if ok, reason, err := b.Ready.Ready(t.Context(), adopted, 100); !ok || err != nil {
		t.Errorf("with one replica: %v %q %v", ok, reason, err)
	}
	w.Status(deployments+"shop-a", func(o map[string]any) { kubetest.SetReplicas(o, 0) })
	if ok, _, err := b.Ready.Ready(t.Context(), adopted, 100); ok || err != nil {
		t.Errorf("with none available: %v %v", ok, err)
	}
	w.replaced()
	if err := b.Scaler.Retire(t.Context(), adopted); err != nil || w.replicas(t, "shop-a") != 0.0 {
		t.Errorf("retired: %v replicas, %v", w.replicas(t, "shop-a"), err)
	}
	w.add(t, "kind: nonsense")
	if ok, reason, err := w.bundle(t).Ready.Ready(t.Context(), adopted, 100); !ok || err != nil {
		t.Errorf("manifests that are wrong hold a return up: %v %q %v", ok, reason, err)
	}
	if err := w.bundle(t).Scaler.Retire(t.Context(), adopted); err == nil {
		t.Error("retired what nobody knows")
	}
}

// TestHostileState: who can write the state cannot name other objects.
func TestHostileState(t *testing.T) {
	for _, ref := range []state.Ref{
		{"workloads": "[", "namespace": "shop"},
		{"workloads": "[]", "namespace": "shop"},
		{"workloads": `[{"kind":"Secret","name":"x","replicas":1}]`, "namespace": "shop"},
		{"workloads": `[{"kind":"Deployment","name":"../x","replicas":1}]`, "namespace": "shop"},
		{"workloads": `[{"kind":"Deployment","name":"x","replicas":0}]`, "namespace": "shop"},
		{"workloads": `[{"kind":"Deployment","name":"x","replicas":1}]`, "namespace": "kube-system"},
	} {
		w := slotWorld(t)
		err := w.bundle(t).Scaler.Retire(t.Context(), plugin.Call{Slot: state.SlotB, Release: state.Release{Ref: ref}})
		want(t, err, providers.Invalid, "find slot b")
	}
}

// TestIstioShares: the Service is made once, and no release changes it.
func TestIstioShares(t *testing.T) {
	w := istioWorld(t)
	w.settings["manifests"], w.env.Dir = "testdata/manifests", "."
	call := deploySlot(t, w, state.SlotB, "2.0", false)
	if w.Object("/api/v1/namespaces/shop/services/shop-b") != nil || !strings.Contains(call.Release.Ref["applied"], "Service/shop ") {
		t.Errorf("applied %s", call.Release.Ref["applied"])
	}
	if ports := field(t, w.Object("/api/v1/namespaces/shop/services/shop"), "spec", "ports").([]any); len(ports[0].(map[string]any)) != 1 {
		t.Errorf("ports %v were changed", ports)
	}
	w.Delete("/api/v1/namespaces/shop/services/shop")
	deploySlot(t, w, state.SlotA, "3.0", false)
	if got := field(t, w.Object("/api/v1/namespaces/shop/services/shop"), "spec", "selector"); !cmp.Equal(got, map[string]any{"app": "shop"}) {
		t.Errorf("the Service chooses %v", got)
	}
}
