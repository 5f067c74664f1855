package kubernetes

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/plugin"
)

// shows holds what is found: the name, whether it warns, and words of text,
// hint and error.
func shows(t *testing.T, f plugin.Finding, name string, warn bool, words ...string) {
	t.Helper()
	if f.Name != name || f.Warn != warn {
		t.Errorf("%+v, want %s, warn %v", f, name, warn)
	}
	text := fmt.Sprintf("%s\nhint: %s%s\nerror: %v", f.Text, f.Hint, providers.HintOf(f.Err), f.Err)
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%s lacks %s:\n%s", name, word, text)
		}
	}
}

func TestFindings(t *testing.T) {
	w := slotWorld(t)
	w.Edit(routes+"api", "argocd-controller", func(o map[string]any) { setWeights(o, "rules", "backendRefs", 90, 10) })
	find := func() []plugin.Finding {
		t.Helper()
		got := w.bundle(t).Findings(t.Context())
		if len(got) != 5 {
			t.Fatalf("%+v", got)
		}
		return got
	}
	const fine = "error: <nil>"
	got := find()
	shows(t, got[0], "cluster", true, `(context "test", the current one of kubeconfig /`, ", version v1.34.0-fake\n", `hint: add context: "test"`, fine)
	shows(t, got[1], "manifests", false, "the slots consist of ConfigMap/shop-config-a Service/shop-a Deployment/shop-a ConfigMap/shop-config-b Service/shop-b Deployment/shop-b\n", fine)
	shows(t, got[2], "rights", false, fine,
		"\n  - "+`{apiGroups: ["gateway.networking.k8s.io"], resources: ["httproutes"], verbs: [get, patch], resourceNames: [web, api]}`,
		"\n  - "+`{apiGroups: [""], resources: ["configmaps"], verbs: [create, patch], resourceNames: [shop-config-a, shop-config-b]}`,
		"\n  - "+`{apiGroups: ["apps"], resources: ["deployments"], verbs: [get, create, patch], resourceNames: [shop-a, shop-b]}`,
		"\n  - "+`{apiGroups: ["apps"], resources: ["deployments/scale"], verbs: [patch], resourceNames: [shop-a, shop-b]}`)
	shows(t, got[3], "GitOps", false, "holds the rules of web", fine)
	shows(t, got[4], "GitOps", true, "argocd-controller holds the rules of api", "RespectIgnoreDifferences", fine)
	w.Deny(func(verb, resource string) bool {
		return verb == "patch" && resource == "httproutes" || resource == "pods"
	})
	w.settings["context"] = "test"
	got = find()
	shows(t, got[0], "cluster", false, `(context "test" of kubeconfig /`, fine)
	shows(t, got[2], "rights", true, "these credentials may not patch httproutes in namespace shop\n", `verbs: [patch], resourceNames: [web, api]} in a Role of namespace shop`)
	w.add(t, "kind: [")
	got = find()
	shows(t, got[1], "manifests", false, "error: manifests/more.yml: yaml: ")
	shows(t, got[2], "rights", true, fine)
	w.settings["manifests"] = "nope"
	got = find()
	shows(t, got[1], "manifests", false, "error: there is no file or folder nope in "+w.env.Dir, "setting manifests")
	shows(t, got[2], "rights", true, fine)
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
