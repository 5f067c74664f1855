package kubernetes

import (
	"net/http"
	"strings"
	"testing"

	"github.com/manent/action/providers"
)

func TestFindings(t *testing.T) {
	w := slotWorld(t)
	w.Edit(routes+"api", "argocd-controller", func(o map[string]any) { setWeights(o, "rules", "backendRefs", 90, 10) })
	got := w.bundle(t).Findings(t.Context())
	if len(got) != 3 || got[0].Name != "rights" || got[1].Warn || !got[2].Warn {
		t.Fatalf("%+v", got)
	}
	for _, rule := range []string{
		`{apiGroups: ["gateway.networking.k8s.io"], resources: ["httproutes"], verbs: [get, patch], resourceNames: [web, api]}`,
		`{apiGroups: [""], resources: ["configmaps"], verbs: [create, patch], resourceNames: [shop-config-a, shop-config-b]}`,
		`{apiGroups: ["apps"], resources: ["deployments"], verbs: [get, create, patch], resourceNames: [shop-a, shop-b]}`,
		`{apiGroups: ["apps"], resources: ["deployments/scale"], verbs: [patch], resourceNames: [shop-a, shop-b]}`,
	} {
		if !strings.Contains(got[0].Text, "\n  - "+rule) {
			t.Errorf("lacks %s:\n%s", rule, got[0].Text)
		}
	}
	if !strings.Contains(got[2].Text, "argocd-controller holds the rules of api") || !strings.Contains(got[2].Hint, "RespectIgnoreDifferences") {
		t.Errorf("%+v", got[2])
	}
	w.Deny(func(verb, resource string) bool {
		return verb == "patch" && resource == "httproutes" || resource == "pods"
	})
	got = w.bundle(t).Findings(t.Context())
	if !got[0].Warn || !strings.HasPrefix(got[0].Text, "these credentials may not patch httproutes in namespace shop\n") || !strings.Contains(got[0].Hint, `verbs: [patch], resourceNames: [web, api]} in a Role of namespace shop`) {
		t.Errorf("%+v", got[0])
	}
	w.add(t, "kind: [")
	if got := w.bundle(t).Findings(t.Context()); providers.KindOf(got[0].Err) != providers.Invalid || got[0].Err == nil {
		t.Errorf("%+v", got[0])
	}
}

// TestCheck: what the first write would find out is found before it.
func TestCheck(t *testing.T) {
	type deny = func(verb, resource string) bool
	only := func(v, r string) deny { return func(verb, resource string) bool { return verb == v && resource == r } }
	for name, tt := range map[string]struct {
		deny  deny
		kind  providers.Kind
		words []string // none for no error
	}{
		"all is allowed":     {func(string, string) bool { return false }, 0, nil},
		"read only":          {func(verb, _ string) bool { return verb == "patch" || verb == "create" }, 0, nil}, // may not even ask
		"no weights":         {only("patch", "httproutes"), providers.Denied, []string{"they may not patch httproutes in namespace shop", "allow it in RBAC: {apiGroups: [\"gateway.networking.k8s.io\"]"}},
		"no scale":           {only("patch", "deployments/scale"), providers.Denied, []string{"may not patch deployments/scale", "resourceNames: [shop-a, shop-b]"}},
		"nothing of a kind":  {func(_, resource string) bool { return resource == "deployments" }, providers.Denied, []string{"may not get and patch deployments in namespace shop, list deployments in"}},
		"nothing new":        {only("create", "deployments"), 0, nil},
		"no reasons of pods": {only("list", "pods"), 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := slotWorld(t)
			w.Deny(tt.deny)
			err := w.bundle(t).Check(t.Context())
			if len(tt.words) > 0 {
				want(t, err, tt.kind, tt.words...)
			} else if err != nil {
				t.Error(err)
			}
			if w.Patches() > 0 || w.Object(deployments+"shop-a") != nil {
				t.Error("something was changed")
			}
		})
	}
	w := slotWorld(t)
	w.settings["manifests"] = "not-fetched-yet"
	w.Deny(only("patch", "httproutes"))
	want(t, w.bundle(t).Check(t.Context()), providers.Denied, "may not patch httproutes")
	w = slotWorld(t)
	w.add(t, "kind: nonsense")
	want(t, w.bundle(t).Check(t.Context()), providers.Invalid, "no apiVersion")
	w.settings["context"] = "prod"
	want(t, w.bundle(t).Check(t.Context()), providers.Invalid, `no context "prod"`)
	w = istioWorld(t)
	w.Deny(only("patch", "virtualservices"))
	want(t, w.bundle(t).Check(t.Context()), providers.Denied, "may not patch virtualservices")
	w.faulty.Next = handler(func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "no", http.StatusForbidden) })
	want(t, w.bundle(t).Check(t.Context()), providers.Unavailable, "not the API server")
}
