package kubernetes

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/kubernetes/kubetest"
	"github.com/manent/action/providers/plugin"
)

const services = "/api/v1/namespaces/shop/services/"

// spec edits an object's spec.
func (w *world) spec(path string, change func(spec map[string]any)) {
	w.Edit(path, "kubectl", func(o map[string]any) { change(o["spec"].(map[string]any)) })
}

// chooses sets a Service's selector.
func (w *world) chooses(service string, pairs ...string) {
	w.spec(services+service, func(spec map[string]any) {
		labels := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			labels[pairs[i]] = pairs[i+1]
		}
		spec["selector"] = labels
	})
}

func (w *world) port(service string) {
	w.spec(services+service, func(spec map[string]any) { spec["ports"] = []any{map[string]any{"port": 8080.0}} })
}

// istioSlots has manifests too.
func istioSlots(t *testing.T) *world {
	w := istioWorld(t)
	slots := slotWorld(t)
	w.env.Dir, w.settings["manifests"] = slots.env.Dir, "manifests"
	return w
}

// TestBeside: what routes lead to is looked at before a rollout begins, and by
// doctor.
func TestBeside(t *testing.T) {
	for name, tt := range map[string]struct {
		world  func(*testing.T) *world
		change func(*testing.T, *world)
		err    string // of config, and of doctor
		later  string // a warning of both
		hint   string
	}{
		"all is there": {gatewayWorld, func(*testing.T, *world) {}, "", "", ""},
		"no Service": {gatewayWorld, func(_ *testing.T, w *world) { w.Delete(services + "shop-a") },
			"Service shop/shop-a does not exist", "", "create it"},
		"none for the slot without traffic": {gatewayWorld, func(_ *testing.T, w *world) { w.Delete(services + "shop-b") },
			"", "Service shop/shop-b does not exist", "create it"},
		"the deployment makes both": {slotWorld, func(_ *testing.T, w *world) { w.Delete(services + "shop-a"); w.Delete(services + "shop-b") }, "", "", ""},
		"the deployment makes none": {slotWorld, func(t *testing.T, w *world) {
			w.add(t, fmt.Sprintf(extra, "worker"))
			w.settings["manifests"] = "manifests/more.yml"
			w.Delete(services + "shop-a")
		}, "Service shop/shop-a does not exist", "", ""},
		"no port": {gatewayWorld, func(_ *testing.T, w *world) { w.port("shop-a") },
			"Service shop-a has ports [8080], and httproutes shop/web sends to [80]", "", "targetPort"},
		"no port, no traffic":         {gatewayWorld, func(_ *testing.T, w *world) { w.port("shop-b") }, "", "Service shop-b has ports [8080]", "targetPort"},
		"a port that is deployed":     {slotWorld, func(_ *testing.T, w *world) { w.port("shop-b") }, "", "", ""},
		"a port that is not deployed": {slotWorld, func(_ *testing.T, w *world) { w.port("shop-a") }, "Service shop-a has ports [8080]", "", ""},
		"pods of both slots":          {gatewayWorld, func(_ *testing.T, w *world) { w.chooses("shop-a", "app", "shop"); w.chooses("shop-b", "app", "shop") }, "Service shop-a chooses pods by app=shop and shop-b by app=shop", "", "manent.io/track: a"},
		"pods of the other slot too": {gatewayWorld, func(_ *testing.T, w *world) {
			w.chooses("shop-a", "app", "shop", "slot", "a")
			w.chooses("shop-b", "app", "shop")
		}, "reaches pods of the other slot too", "", ""},
		"pods of the slot to be made": {slotWorld, func(_ *testing.T, w *world) { w.chooses("shop-a", "app", "shop") }, "and shop-b by app=shop,manent.io/track=b", "", ""},
		"pods of one slot each":       {gatewayWorld, func(_ *testing.T, w *world) { w.chooses("shop-a", "slot", "a"); w.chooses("shop-b", "slot", "b") }, "", "", ""},
		"Istio":                       {istioWorld, func(*testing.T, *world) {}, "", "", ""},
		"Istio, no port":              {istioWorld, func(_ *testing.T, w *world) { w.toPort(8080) }, "Service shop has ports [80], and virtualservices shop/mesh sends to [8080]", "", "targetPort"},
		"Istio, deployed":             {istioSlots, func(_ *testing.T, w *world) { w.Delete(services + "shop") }, "", "", ""},
		"Istio, nobody makes a Service": {istioSlots, func(t *testing.T, w *world) {
			w.add(t, fmt.Sprintf(extra, "worker"))
			w.settings["manifests"] = "manifests/more.yml"
			w.Delete(services + "shop")
		}, "Service shop/shop does not exist: and the manifests do not make it", "", "create it"},
	} {
		t.Run(name, func(t *testing.T) {
			w := tt.world(t)
			tt.change(t, w)
			b := w.bundle(t)
			err := b.Check(t.Context())
			logged := strings.Join(*w.logged, "\n")
			if !strings.Contains(logged, "kubernetes: the cluster is https://127.0.0.1:") {
				t.Errorf("logged %s, want the cluster", logged)
			}
			if tt.err != "" {
				want(t, err, providers.Invalid, tt.err, tt.hint)
			} else if err != nil {
				t.Error(err)
			}
			if !strings.Contains(logged, tt.later) || tt.later == "" && strings.Contains(logged, "kubernetes: Service ") {
				t.Errorf("logged %s, want %q", logged, tt.later)
			}
			found := slices.DeleteFunc(b.Findings(t.Context()), func(f plugin.Finding) bool { return f.Name != "services" })
			switch {
			case tt.err+tt.later == "":
				if len(found) > 0 {
					t.Errorf("found %+v", found)
				}
			case len(found) == 0 || (found[0].Err != nil) != (tt.err != "") || !strings.Contains(found[0].Text, tt.err+tt.later) || !strings.Contains(found[0].Hint, tt.hint):
				t.Errorf("found %+v", found)
			}
		})
	}
}

// toPort makes the VirtualService mesh name a port.
func (w *world) toPort(port float64) {
	w.spec(virtual+"mesh", func(spec map[string]any) {
		for _, one := range spec["http"].([]any)[0].(map[string]any)["route"].([]any) {
			one.(map[string]any)["destination"].(map[string]any)["port"] = map[string]any{"number": port}
		}
	})
}

// TestSuffixed: a Service named like a slot's is likely a mistake.
func TestSuffixed(t *testing.T) {
	w := gatewayWorld(t)
	w.settings["service"] = "shop-a"
	got := w.bundle(t).Findings(t.Context())
	if len(got) < 2 {
		t.Fatalf("%+v", got)
	}
	shows(t, got[1], "service", true, "shop-a-a and shop-a-b", "give service: shop\n")
}

// TestNoAnswer: a cluster that does not answer, or is not found, is said by the
// reading of the router alone, and once.
func TestNoAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*testing.T, *world)
		found  string
		kind   providers.Kind
		words  []string
	}{
		"no server": {func(t *testing.T, w *world) {
			w.settings["kubeconfig"] = kubetest.Kubeconfig(t, "https://127.0.0.1:1", "x", nil)
		}, `https://127.0.0.1:1 (context "test", the current one of kubeconfig `, providers.Unavailable,
			[]string{`kubernetes: read web: list the cluster's APIs: no connection to https://127.0.0.1:1 (context "test", the current one of `, "connection refused", "no context is set"}},
		"no login": {func(_ *testing.T, w *world) {
			w.settings["kubeconfig"] = kubetest.Kubeconfig(t, w.url, "another", w.authority)
		}, "does not answer as it should", providers.Denied, []string{"status 401: ", ", says https://127.0.0.1:", "renew the token"}},
		"no kubeconfig": {func(_ *testing.T, w *world) { w.settings["kubeconfig"] = "/absent" }, "", providers.Invalid,
			[]string{"kubernetes: read web: ", "there is no file of kubeconfig /absent", "correct the setting kubeconfig"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := gatewayWorld(t)
			tt.change(t, w)
			b := w.bundle(t)
			found := b.Findings(t.Context())
			switch {
			case tt.found == "" && len(found) > 0, tt.found != "" && (len(found) != 1 || found[0].Err != nil || !found[0].Warn || !strings.Contains(found[0].Text, tt.found)):
				t.Errorf("found %+v", found)
			}
			seen, err := b.Router.Read(t.Context(), noRollout)
			if err != nil || len(*w.logged) > 0 {
				t.Errorf("%v, logged %q", err, *w.logged)
			}
			want(t, seen.Err(), tt.kind, tt.words...)
			refused := b.Check(t.Context())
			want(t, refused, tt.kind)
			for _, err := range []error{seen.Err(), refused} {
				if text := err.Error(); strings.Count(text, "kubernetes: ") != 1 || strings.Count(text, tt.words[len(tt.words)-2]) != 1 {
					t.Error(text)
				}
			}
		})
	}
}
