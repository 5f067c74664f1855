package manifest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func options() Options {
	return Options{Slot: "b", Service: "shop", Namespace: "prod", Values: map[string]string{
		"slot": "b", "track": "b", "version": "2.0", "service": "shop", "project": "p", "application": "a", "environment": "e",
	}}
}

func render(t *testing.T, text string, change ...func(*Options)) (Set, error) {
	t.Helper()
	docs, err := Parse("x.yml", []byte(text))
	if err != nil {
		return Set{}, err
	}
	o := options()
	for _, c := range change {
		c(&o)
	}
	return Render(docs, o)
}

// workload is a Deployment or StatefulSet with lines below its pod's spec and
// its own.
func workload(kind, name, pod, spec string) string {
	return `
apiVersion: apps/v1
kind: ` + kind + `
metadata: {name: "` + name + `"}
spec:
  selector: {matchLabels: {app: x}}
  template: {metadata: {labels: {app: x}}, spec: {` + pod + `}}
` + spec
}

const (
	plainPod = "containers: []"
	shop     = "\n---\n"
)

func object(t *testing.T, s Set, name string) map[string]any {
	t.Helper()
	for _, o := range s.Objects {
		if o.String() == name {
			return o.Doc
		}
	}
	t.Fatalf("no %s among %v", name, s.Objects)
	return nil
}

// text is a part of an object as JSON.
func text(t *testing.T, o map[string]any, path ...string) string {
	t.Helper()
	var at any = o
	for _, key := range path {
		m, _ := at.(map[string]any)
		at = m[key]
	}
	data, err := json.Marshal(at)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestReferences: what is of the manifests gets its new name wherever a pod
// can name it, and what is not keeps it.
func TestReferences(t *testing.T) {
	const config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\n---\n"
	for _, tt := range []struct{ name, pod, want string }{
		{"volume", `volumes: [{name: v, configMap: {name: c}}, {name: w, secret: {secretName: s}}]`, `{"volumes":[{"configMap":{"name":"c-b"},"name":"v"},{"name":"w","secret":{"secretName":"s-b"}}]}`},
		{"of others", `volumes: [{name: v, configMap: {name: other}}, {name: w, secret: {secretName: other}}]`, `{"volumes":[{"configMap":{"name":"other"},"name":"v"},{"name":"w","secret":{"secretName":"other"}}]}`},
		{"kinds are told apart", `volumes: [{name: v, configMap: {name: s}}, {name: w, secret: {secretName: c}}]`, `{"volumes":[{"configMap":{"name":"s"},"name":"v"},{"name":"w","secret":{"secretName":"c"}}]}`},
		{"projected", `volumes: [{projected: {sources: [{configMap: {name: c}}, {secret: {name: s}}]}}]`, `{"volumes":[{"projected":{"sources":[{"configMap":{"name":"c-b"}},{"secret":{"name":"s-b"}}]}}]}`},
		{"environment", `containers: [{envFrom: [{configMapRef: {name: c}}, {secretRef: {name: s}}], env: [{valueFrom: {configMapKeyRef: {name: c, key: k}}}, {valueFrom: {secretKeyRef: {name: s, key: k}}}]}]`,
			`{"containers":[{"env":[{"valueFrom":{"configMapKeyRef":{"key":"k","name":"c-b"}}},{"valueFrom":{"secretKeyRef":{"key":"k","name":"s-b"}}}],"envFrom":[{"configMapRef":{"name":"c-b"}},{"secretRef":{"name":"s-b"}}]}]}`},
		{"init and pull", `initContainers: [{envFrom: [{secretRef: {name: s}}]}], imagePullSecrets: [{name: s}, {name: registry}]`, `{"imagePullSecrets":[{"name":"s-b"},{"name":"registry"}],"initContainers":[{"envFrom":[{"secretRef":{"name":"s-b"}}]}]}`},
		{"a text that looks like one", `containers: [{name: c, args: [c, s]}]`, `{"containers":[{"args":["c","s"],"name":"c"}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set, err := render(t, config+workload("Deployment", "web", tt.pod, ""))
			if err != nil {
				t.Fatal(err)
			}
			if got := text(t, object(t, set, "Deployment/web-b"), "spec", "template", "spec"); got != tt.want {
				t.Errorf("pod %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	set, err := render(t, workload("StatefulSet", "db-{slot}", plainPod, "  serviceName: db\n  replicas: 3\n")+shop+
		"apiVersion: v1\nkind: Service\nmetadata: {name: db, namespace: prod, uid: x, resourceVersion: '7'}\nspec: {selector: {app: x}}\nstatus: {}\n"+shop+
		"apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: db}\nspec: {minAvailable: 1, selector: {matchLabels: {app: x}}}\n"+shop+
		"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: db}\nspec: {minReplicas: 2, maxReplicas: 5, scaleTargetRef: {kind: StatefulSet, name: db-b}}\n")
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, o := range set.Objects {
		order = append(order, o.String())
	}
	if diff := cmp.Diff([]string{"Service/db-b", "PodDisruptionBudget/db-b", "StatefulSet/db-b", "HorizontalPodAutoscaler/db-b"}, order); diff != "" {
		t.Errorf("applied in the order\n%s", diff)
	}
	if diff := cmp.Diff([]Workload{{Kind: "StatefulSet", Name: "db-b", Replicas: 3, Scaler: "db-b"}}, set.Workloads); diff != "" {
		t.Errorf("workloads\n%s", diff)
	}
	for _, tt := range []struct {
		name, want string
		path       []string
	}{
		{"StatefulSet/db-b", `"db-b"`, []string{"spec", "serviceName"}},
		{"StatefulSet/db-b", `null`, []string{"spec", "replicas"}},
		{"StatefulSet/db-b", `{"app":"x","manent.io/track":"b"}`, []string{"spec", "selector", "matchLabels"}},
		{"StatefulSet/db-b", `{"app":"x","manent.io/track":"b"}`, []string{"spec", "template", "metadata", "labels"}},
		{"Service/db-b", `{"app":"x","manent.io/track":"b"}`, []string{"spec", "selector"}},
		{"Service/db-b", `{"annotations":{"manent.io/version":"2.0"},"labels":{"manent.io/service":"shop","manent.io/track":"b"},"name":"db-b","namespace":"prod"}`, []string{"metadata"}},
		{"Service/db-b", `null`, []string{"status"}},
		{"PodDisruptionBudget/db-b", `{"app":"x","manent.io/track":"b"}`, []string{"spec", "selector", "matchLabels"}},
		{"HorizontalPodAutoscaler/db-b", `{"maxReplicas":5,"scaleTargetRef":{"kind":"StatefulSet","name":"db-b"}}`, []string{"spec"}},
	} {
		if got := text(t, object(t, set, tt.name), tt.path...); got != tt.want {
			t.Errorf("%s %v: %s, want %s", tt.name, tt.path, got, tt.want)
		}
	}
}

func TestSharedService(t *testing.T) {
	set, err := render(t, "apiVersion: v1\nkind: Service\nmetadata: {name: shop}\nspec: {selector: {app: x}}"+shop+workload("Deployment", "shop", plainPod, ""), func(o *Options) { o.Shared = true })
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, object(t, set, "Service/shop")); got != `{"apiVersion":"v1","kind":"Service","metadata":{"labels":{"manent.io/service":"shop"},"name":"shop","namespace":"prod"},"spec":{"selector":{"app":"x"}}}` {
		t.Error(got)
	}
	if !set.Objects[0].Shared || set.Objects[1].Shared {
		t.Errorf("shared: %v", set.Objects)
	}
}

func TestPlaceholders(t *testing.T) {
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {x: \"TEXT\"}\n---\n" + workload("Deployment", "web", plainPod, "")
	for given, want := range map[string]string{
		"{version}-{slot}{track}":                         "2.0-bb",
		"{project}/{application}/{environment}/{service}": "p/a/e/shop",
		"{unknown} {} {Version} { version }":              "{unknown} {} {Version} { version }",
		"{{version}} {{ .Values }} {{{version}}}":         "{{version}} {{ .Values }} {{{version}}}",
	} {
		set, err := render(t, strings.Replace(text, "TEXT", given, 1))
		if err != nil {
			t.Fatal(err)
		}
		if got := object(t, set, "ConfigMap/c-b")["data"].(map[string]any)["x"]; got != want {
			t.Errorf("%s is %q, want %q", given, got, want)
		}
	}
	// A value is only ever a text.
	hostile := "x\"}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: y}\n{slot}"
	set, err := render(t, strings.Replace(text, "TEXT", "{version}", 1), func(o *Options) { o.Values["version"] = hostile })
	if err != nil || len(set.Objects) != 2 || object(t, set, "ConfigMap/c-b")["data"].(map[string]any)["x"] != hostile {
		t.Errorf("%v, %v", set.Objects, err)
	}
}

// TestConfigRestarts: pods are new ones when what they read has changed, and
// nothing that is kept tells a Secret's data.
func TestConfigRestarts(t *testing.T) {
	of := func(config, secret string) (note, digest string) {
		t.Helper()
		set, err := render(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {x: "+config+"}"+shop+"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {x: "+secret+"}"+shop+workload("Deployment", "web", plainPod, ""))
		if err != nil {
			t.Fatal(err)
		}
		return text(t, object(t, set, "Deployment/web-b"), "spec", "template", "metadata", "annotations", NoteConfig), set.Digest
	}
	first, digest := of("a", "s1")
	if again, same := of("a", "s1"); again != first || same != digest {
		t.Error("the same manifests give other objects")
	}
	if other, _ := of("b", "s1"); other == first {
		t.Error("a changed ConfigMap restarts nothing")
	}
	if other, _ := of("a", "s2"); other == first {
		t.Error("a changed Secret restarts nothing")
	}
}

func TestRefused(t *testing.T) {
	web := shop + workload("Deployment", "web", plainPod, "")
	scaler := func(spec string) string {
		return shop + "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h" + spec[:1] + "}\nspec: {scaleTargetRef: {kind: Deployment, name: web}, " + spec + "}\n"
	}
	for name, tt := range map[string]struct{ text, err string }{
		"a route":              {"apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: web}" + web, "HTTPRoute belongs to the traffic of both slots"},
		"of the whole cluster": {web + shop + "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: x}", `x.yml, document 2: kind "ClusterRole", expected one of ConfigMap,`},
		"another version":      {"apiVersion: apps/v1beta1\nkind: Deployment\nmetadata: {name: x}", `Deployment of apiVersion "apps/v1beta1", expected apps/v1`},
		"another group":        {"apiVersion: evil.example/v1\nkind: Secret\nmetadata: {name: x}" + web, `Secret of apiVersion "evil.example/v1"`},
		"no object":            {"- a\n- b", "expected an object of Kubernetes"},
		"no kind":              {"metadata: {name: x}", "no apiVersion or no kind"},
		"no metadata":          {"apiVersion: v1\nkind: ConfigMap", "has no metadata"},
		"no name":              {"apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: x}", `has the name ""`},
		"a path as a name":     {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ../../secrets/x}", `has the name "../../secrets/x"`},
		"another namespace":    {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: kube-system}", "of namespace kube-system, expected prod"},
		"twice":                {workload("Deployment", "web", plainPod, "") + web, "Deployment/web is in x.yml too"},
		"no workload":          {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}", "no Deployment and no StatefulSet"},
		"no replicas":          {workload("Deployment", "web", plainPod, "  replicas: 0\n"), "replicas 0, expected at least 1"},
		"half a replica":       {workload("Deployment", "web", plainPod, "  replicas: 1.5\n"), "replicas 1.5"},
		"no selector":          {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec: {template: {spec: {}}}", "spec.selector.matchLabels chooses no pods of its own"},
		"the slot as selector": {"apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {selector: {manent.io/track: b}}" + web, "spec.selector chooses no pods of its own"},
		"the other slot":       {"apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {selector: {app: x, manent.io/track: a}}" + web, "label manent.io/track is a"},
		"no pod":               {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec: {selector: {matchLabels: {a: b}}}", "no spec.template.spec"},
		"no spec":              {"apiVersion: v1\nkind: Service\nmetadata: {name: x}" + web, "there is no spec"},
		"paused":               {workload("Deployment", "web", plainPod, "  paused: true\n"), "paused: true"},
		"old pods stay":        {workload("StatefulSet", "web", plainPod, "  updateStrategy: {type: OnDelete}\n"), "updateStrategy"},
		"some old pods stay":   {workload("StatefulSet", "web", plainPod, "  updateStrategy: {rollingUpdate: {partition: 2}}\n"), "updateStrategy"},
		"scales another":       {web + strings.Replace(scaler("maxReplicas: 3"), "name: web", "name: db", 1), "scaleTargetRef Deployment/db"},
		"scales too little":    {web + scaler("minReplicas: 5, maxReplicas: 3"), "maxReplicas 3, expected at least 5"},
		"scales to nothing":    {web + scaler("minReplicas: 0, maxReplicas: 3"), "minReplicas 0"},
		"two scalers":          {web + scaler("maxReplicas: 3") + strings.Replace(scaler("maxReplicas: 4"), "{name: hm}", "{name: hn}", 1), "has two HorizontalPodAutoscalers, hm-b and hn-b"},
		"labels are a list":    {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, labels: [a]}" + web, "labels is [a], expected a map"},
		"a date":               {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {d: 2026-11-30}", "data.d is a time.Time, expected text (in quotes)"},
		"a number as key":      {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {1: a}", "expected text (in quotes)"},
		"no number":            {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {d: .nan}", "no finite number"},
		"a key twice":          {"apiVersion: v1\nkind: ConfigMap\nkind: Secret\n", "already defined"},
		"no YAML":              {"a: [", "x.yml: yaml: "},
		"a bomb":               {bomb(), "excessive aliasing"},
		"deep":                 {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: " + strings.Repeat("{a: ", 200) + "1" + strings.Repeat("}", 200), "nested too deep"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := render(t, tt.text); err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%v, want %q", err, tt.err)
			}
		})
	}
}

// bomb is a small text that stands for a billion words.
func bomb() string {
	out := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		n, last := string(rune('1'+i)), string(rune('0'+i))
		out += "a" + n + ": &a" + n + " [" + strings.TrimSuffix(strings.Repeat("*a"+last+",", 9), ",") + "]\n"
	}
	return out
}

func TestRead(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const one = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n---\n"
	write(filepath.Join(outside, "secret.yml"), one)
	write(filepath.Join(dir, "all", "b.yaml"), one+one)
	write(filepath.Join(dir, "all", "a.json"), `{"apiVersion":"v1"}`)
	write(filepath.Join(dir, "all", "README.md"), "no manifest")
	write(filepath.Join(dir, "all", "below", "c.yml"), one)
	write(filepath.Join(dir, "empty.yml"), "---\n# nothing\n")
	write(filepath.Join(dir, "none", "README.md"), "")
	write(filepath.Join(dir, "many.yml"), strings.Repeat(one, 101))
	write(filepath.Join(dir, "large.yml"), "# "+strings.Repeat("x", maxBytes))
	if err := os.Symlink(filepath.Join(outside, "secret.yml"), filepath.Join(dir, "link.yml")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ paths, want, err string }{
		{"all", "all/a.json; all/b.yaml; all/b.yaml, document 3", ""},
		{"./all/b.yaml", "all/b.yaml; all/b.yaml, document 3", ""},
		{"missing.yml", "", "there is no file or folder missing.yml in "},
		{"../" + filepath.Base(outside) + "/secret.yml", "", "escapes"},
		{outside + "/secret.yml", "", "escapes"},
		{"link.yml", "", "escapes"},
		{"empty.yml", "", "no object in empty.yml"},
		{"none", "", "folder none has no *.yml"},
		{"many.yml", "", "more than 100"},
		{"large.yml", "", "together larger than 1048576 bytes"},
	} {
		docs, err := Read(dir, []string{tt.paths})
		var got []string
		for _, d := range docs {
			got = append(got, d.Source)
		}
		if tt.err == "" && (err != nil || strings.Join(got, "; ") != tt.want) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: %q, %v, want %q %q", tt.paths, got, err, tt.want, tt.err)
		}
	}
}

// FuzzRender: no manifest ends in a panic, or in an object outside of its slot.
func FuzzRender(f *testing.F) {
	f.Add(workload("Deployment", "web", plainPod, ""))
	f.Add("apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {selector: {app: x}}" + shop + workload("StatefulSet", "{slot}", `volumes: [{secret: 1}]`, "  serviceName: x\n"))
	f.Add("apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\nspec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: web}}" + shop + workload("Deployment", "web", plainPod, ""))
	f.Fuzz(func(t *testing.T, text string) {
		set, err := render(t, text)
		if err != nil {
			return
		}
		for _, o := range set.Objects {
			meta := o.Doc["metadata"].(map[string]any)
			labels := meta["labels"].(map[string]any)
			if meta["name"] != o.Name || meta["namespace"] != "prod" || labels[LabelTrack] != "b" || !o.slotted && !strings.HasSuffix(o.Name, "-b") {
				t.Errorf("%s: %v", o, meta)
			}
		}
	})
}
