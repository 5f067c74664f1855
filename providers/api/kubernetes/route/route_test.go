package route

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/kubernetes/kubetest"
	"github.com/manent/action/providers/api/kubernetes/patch"
	"github.com/manent/action/state"
)

type reader func(map[string]any, Names) (Split, error)

var shop = Names{Service: "shop", Namespace: "shop"}

// parse reads JSON as a client does: whole numbers are int64.
func parse(t testing.TB, text string) any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return numbers(v)
}

func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	}
	return v
}

// document is an HTTPRoute (list rules) or a VirtualService (list http).
func document(t testing.TB, list, entries string) map[string]any {
	t.Helper()
	return parse(t, `{"metadata":{"namespace":"shop","name":"web","generation":7,"uid":"u"},"spec":{"`+list+`":`+entries+`}}`).(map[string]any)
}

func refs(weights ...any) string { return `"backendRefs":` + pair(`{"name":"shop-%s"%s}`, weights) }

func destinations(weights ...any) string {
	return `"route":` + pair(`{"destination":{"host":"shop","subset":"%s"}%s}`, weights)
}

// pair is a list of slot a and slot b with their weights, nil for none.
func pair(format string, weights []any) string {
	var out []string
	for i, w := range weights {
		weight := ""
		if w != nil {
			weight = fmt.Sprintf(`,"weight":%v`, w)
		}
		out = append(out, fmt.Sprintf(format, []string{"a", "b"}[i], weight))
	}
	return "[" + strings.Join(out, ",") + "]"
}

func TestRead(t *testing.T) {
	const host, b, a = `{"destination":{"host":"%s","subset":"%s"},"weight":%d}`, "b", "a"
	hosts := func(name string) string {
		return "[" + fmt.Sprintf(host, name, a, 90) + "," + fmt.Sprintf(host, name, b, 10) + "]"
	}
	ninety := map[string]float64{"a": 90, "b": 10}
	tests := []struct {
		name    string
		list    string
		entries string
		names   Names
		weights map[string]float64
		shares  map[state.Slot]float64
		foreign map[string]float64
		err     string // part of the error and its hint, or of why it is unfit
		kind    providers.Kind
		unfit   bool
	}{
		{name: "both slots", list: "rules", entries: `[{` + refs(90, 10) + `}]`, weights: ninety},
		{name: "an absent weight is 1", list: "rules", entries: `[{` + refs(nil, nil) + `}]`, weights: map[string]float64{"a": 1, "b": 1}, shares: map[state.Slot]float64{"a": 50, "b": 50}},
		{name: "the sum need not be 100", list: "rules", entries: `[{` + refs(1, 0) + `}]`, weights: map[string]float64{"a": 1, "b": 0}, shares: map[state.Slot]float64{"a": 100, "b": 0}},
		{name: "slots in the other order", list: "rules", entries: `[{"backendRefs":[{"name":"shop-b","weight":10},{"name":"shop-a","weight":90}]}]`, weights: ninety},
		{name: "several rules that agree", list: "rules", entries: `[{` + refs(90, 10) + `},{"backendRefs":[{"name":"cdn"}]},{` + refs(90, 10) + `}]`, weights: ninety},
		{name: "one rule differs", list: "rules", entries: `[{` + refs(90, 10) + `},{"name":"api",` + refs(50, 50) + `}]`,
			weights: map[string]float64{"a of rule 0": 90, "b of rule 0": 10, "a of rule 1 (api)": 50, "b of rule 1 (api)": 50}, shares: map[state.Slot]float64{"a": 70, "b": 50}},
		{name: "only the named rules", list: "rules", entries: `[{"name":"web",` + refs(90, 10) + `},{"name":"other",` + refs(0, 100) + `},{"backendRefs":[{"name":"shop-a"}]}]`,
			names: Names{Service: "shop", Namespace: "shop", Rules: []string{"web"}}, weights: ninety, foreign: map[string]float64{"slot b in rule 1 (other), which the setting rules leaves out and somebody has to change": 100}},
		{name: "a foreign backend with weight", list: "rules", entries: `[{"backendRefs":[{"name":"shop-a","weight":60},{"name":"old","weight":20},{"name":"shop-b","weight":20}]}]`,
			weights: map[string]float64{"a": 60, "b": 20}, shares: map[state.Slot]float64{"a": 60, "b": 20}, foreign: map[string]float64{"old": 20}},
		{name: "a foreign backend without weight", list: "rules", entries: `[{"backendRefs":[{"name":"shop-a","weight":90},{"name":"old","weight":0},{"name":"shop-b","weight":10}]}]`, weights: ninety},
		{name: "a foreign backend whose weight is absent", list: "rules", entries: `[{"backendRefs":[{"name":"shop-a","weight":1},{"kind":"ServiceImport","name":"old"},{"name":"shop-b","weight":0}]}]`,
			weights: map[string]float64{"a": 1, "b": 0}, shares: map[state.Slot]float64{"a": 50, "b": 0}, foreign: map[string]float64{"ServiceImport old": 1}},
		{name: "services of another namespace", list: "rules", entries: `[{"backendRefs":[{"name":"shop-a","namespace":"prod","weight":90},{"name":"shop-b","namespace":"prod","weight":10}]}]`,
			names: Names{Service: "shop", Namespace: "prod"}, weights: ninety},
		{name: "like named but of another namespace", list: "rules", entries: `[{"backendRefs":[{"name":"shop-a","namespace":"prod","weight":90},{"name":"shop-b","namespace":"prod","weight":10}]}]`,
			kind: providers.NotFound, err: "none of its 1 rules names both slots of shop"},
		{name: "like named but no Service", list: "rules", entries: `[{"backendRefs":[{"group":"example.net","name":"shop-a"},{"kind":"Bucket","name":"shop-b"}]}]`, kind: providers.NotFound, err: "none of its 1 rules"},
		{name: "no rule", list: "rules", entries: `[]`, kind: providers.NotFound, err: "Service shop-a with weight 100 and shop-b with weight 0"},
		{name: "one slot only", list: "rules", entries: `[{` + refs(90, 10) + `},{"name":"pinned","backendRefs":[{"name":"shop-a"}]}]`, unfit: true, kind: providers.Invalid, err: "rule 1 (pinned) sends to slot a only",
			weights: ninety, shares: map[state.Slot]float64{"a": 95, "b": 10}},
		{name: "the candidate only", list: "rules", entries: `[{` + refs(100, 0) + `},{"backendRefs":[{"name":"shop-b"}]}]`, unfit: true, kind: providers.Invalid, err: "rule 1 sends to slot b only",
			weights: map[string]float64{"a": 100, "b": 0}, shares: map[state.Slot]float64{"a": 50, "b": 100}},
		{name: "no rule but with one slot", list: "rules", entries: `[{"backendRefs":[{"name":"shop-a","weight":7},{"name":"cdn","weight":0}]}]`, unfit: true, kind: providers.NotFound, err: "none of its 1 rules names both slots",
			weights: map[string]float64{"a": 7}, shares: map[state.Slot]float64{"a": 100, "b": 0}},
		{name: "a slot twice", list: "rules", entries: `[{"backendRefs":[{"name":"shop-a","port":80,"weight":60},{"name":"shop-a","port":81,"weight":30},{"name":"shop-b","weight":10}]}]`, unfit: true, kind: providers.Invalid, err: "names slot a of shop twice", weights: ninety},
		{name: "a named rule that is not there", list: "rules", entries: `[{` + refs(90, 10) + `}]`, names: Names{Service: "shop", Namespace: "shop", Rules: []string{"web"}}, unfit: true, kind: providers.NotFound, err: `no rule named "web"`, weights: ninety},
		{name: "a named rule that was renamed", list: "rules", entries: `[{"name":"web",` + refs(90, 10) + `},{"name":"apis",` + refs(90, 10) + `}]`, names: Names{Service: "shop", Namespace: "shop", Rules: []string{"web", "api"}}, unfit: true, kind: providers.NotFound, err: `no rule named "api"`, weights: ninety},
		{name: "a named rule with one slot", list: "rules", entries: `[{"name":"web","backendRefs":[{"name":"shop-b"}]}]`, names: Names{Service: "shop", Namespace: "shop", Rules: []string{"web"}}, unfit: true, kind: providers.NotFound, err: `no rule named "web" that names both slots`,
			weights: map[string]float64{"b": 1}, shares: map[state.Slot]float64{"a": 0, "b": 100}},
		{name: "the Service without a slot", list: "rules", entries: `[{` + refs(90, 10) + `},{"name":"v1","backendRefs":[{"name":"shop"}]}]`, unfit: true, kind: providers.Invalid, err: "rules entry 1 (v1) sends to shop itself", weights: ninety, foreign: map[string]float64{"shop in rule 1 (v1)": 1}},
		{name: "a weight that is no number", list: "rules", entries: `[{` + refs(`"9"`, 10) + `}]`, kind: providers.Invalid, err: "weight 9 is not a whole number"},
		{name: "testers' entries are not managed", list: "rules", entries: `[{` + refs(90, 10) + `},{"name":"manent-testers-shop-0","backendRefs":[{"name":"shop-b","weight":1}]}]`, weights: ninety},
		{name: "testers' entries of another service", list: "rules", entries: `[{` + refs(90, 10) + `},{"name":"manent-testers-shop-api-0","backendRefs":[{"name":"shop-api-b"}]}]`, weights: ninety},

		{name: "both subsets", list: "http", entries: `[{` + destinations(90, 10) + `}]`, weights: ninety},
		{name: "an absent weight beside another is 0", list: "http", entries: `[{` + destinations(100, nil) + `}]`, weights: map[string]float64{"a": 100, "b": 0}, shares: map[state.Slot]float64{"a": 100, "b": 0}},
		{name: "a sum of 125", list: "http", entries: `[{` + destinations(95, 30) + `}]`, weights: map[string]float64{"a": 95, "b": 30}, shares: map[state.Slot]float64{"a": 76, "b": 24}},
		{name: "host with namespace", list: "http", entries: `[{"route":` + hosts("shop.shop") + `}]`, weights: ninety},
		{name: "host in full", list: "http", entries: `[{"route":` + hosts("shop.shop.svc.cluster.local") + `}]`, weights: ninety},
		{name: "host of another namespace", list: "http", entries: `[{"route":` + hosts("shop.prod.svc.cluster.local") + `}]`, kind: providers.NotFound, err: "subset a and weight 100"},
		{name: "host of another service", list: "http", entries: `[{"route":` + hosts("shop-api") + `}]`, kind: providers.NotFound, err: "none of its"},
		{name: "host outside", list: "http", entries: `[{"route":` + hosts("shop.shop.example.net") + `}]`, kind: providers.NotFound, err: "none of its"},
		{name: "a lone destination", list: "http", entries: `[{` + destinations(90, 10) + `},{"route":[{"destination":{"host":"shop","subset":"a"},"weight":0}]}]`, unfit: true, kind: providers.Invalid, err: "add slot b of shop to it with weight 0",
			weights: ninety, shares: map[state.Slot]float64{"a": 95, "b": 10}},
		{name: "a foreign destination", list: "http", entries: `[{"route":[{"destination":{"host":"shop","subset":"a"},"weight":80},{"destination":{"host":"shop","subset":"old"},"weight":20},{"destination":{"host":"shop","subset":"b"}}]}]`,
			weights: map[string]float64{"a": 80, "b": 0}, shares: map[state.Slot]float64{"a": 80, "b": 0}, foreign: map[string]float64{"shop subset old": 20}},
		{name: "tcp to a slot", list: "http", entries: `[{` + destinations(90, 10) + `}],"tcp":[{` + destinations(90, 10) + `}]`, unfit: true, kind: providers.Invalid, err: "tcp entry 0 sends to a slot of shop", weights: ninety},
		{name: "the host without subset", list: "http", entries: `[{"name":"api","route":[{"destination":{"host":"shop"}}]},{` + destinations(90, 10) + `}]`, unfit: true, kind: providers.Invalid, err: "http entry 0 (api) sends to shop itself, and so to the pods of both slots",
			weights: ninety, foreign: map[string]float64{"shop in rule 0 (api)": 100}},
		{name: "the host without subset, of no weight", list: "http", entries: `[{"route":[{"destination":{"host":"cdn"},"weight":100},{"destination":{"host":"shop.shop"}}]},{` + destinations(90, 10) + `}]`, unfit: true, kind: providers.Invalid, err: "sends to shop.shop itself", weights: ninety},
		{name: "the host without subset beside both", list: "http", entries: `[{"route":[{"destination":{"host":"shop","subset":"a"},"weight":80},{"destination":{"host":"shop"},"weight":20},{"destination":{"host":"shop","subset":"b"}}]}]`, unfit: true, kind: providers.Invalid, err: "sends to shop itself",
			weights: map[string]float64{"a": 80, "b": 0}, shares: map[state.Slot]float64{"a": 80, "b": 0}, foreign: map[string]float64{"shop": 20}},
		{name: "the host without subset in tls", list: "http", entries: `[{` + destinations(90, 10) + `}],"tls":[{"route":[{"destination":{"host":"shop"},"weight":30}]}]`, unfit: true, kind: providers.Invalid, err: "tls entry 0 sends to shop itself", weights: ninety, foreign: map[string]float64{"shop in tls entry 0": 30}},
		{name: "only the named entries", list: "http", entries: `[{"name":"web",` + destinations(90, 10) + `},{"route":[{"destination":{"host":"shop"}}]}],"tcp":[{` + destinations(0, 100) + `}]`,
			names: Names{Service: "shop", Namespace: "shop", Rules: []string{"web"}}, weights: ninety, foreign: map[string]float64{"slot b in tcp entry 0, which the setting rules leaves out and somebody has to change": 100}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.names.Service == "" {
				tt.names = shop
			}
			if tt.shares == nil {
				tt.shares = map[state.Slot]float64{"a": 90, "b": 10}
			}
			got, err := readers[tt.list](document(t, tt.list, tt.entries), tt.names)
			if tt.unfit && err == nil {
				err = got.Unfit()
			} else if err == nil && got.Unfit() != nil {
				t.Errorf("unfit: %v", got.Unfit())
			}
			if err != nil || tt.err != "" {
				if tt.err == "" || err == nil || providers.KindOf(err) != tt.kind || !strings.Contains(err.Error()+" "+providers.HintOf(err), tt.err) {
					t.Errorf("error %v (%v), hint %q, want %q (%v)", err, providers.KindOf(err), providers.HintOf(err), tt.err, tt.kind)
				}
			}
			if tt.weights == nil {
				return
			}
			if diff := cmp.Diff(tt.weights, got.Weights()); diff != "" {
				t.Errorf("weights: %s", diff)
			}
			if diff := cmp.Diff(tt.shares, got.Shares(state.SlotB)); diff != "" {
				t.Errorf("shares: %s", diff)
			}
			if diff := cmp.Diff(tt.foreign, got.Foreign(state.SlotB)); diff != "" {
				t.Errorf("foreign: %s", diff)
			}
		})
	}
}

var readers = map[string]reader{"rules": Gateway, "http": Istio}

// applied is the document after the patch, as the API server makes it.
func applied(t testing.TB, doc map[string]any, ops []patch.Op) map[string]any {
	t.Helper()
	data, err := json.Marshal(ops)
	if err != nil {
		t.Fatal(err)
	}
	next, err := kubetest.Apply(doc, data)
	if err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	text, err := json.Marshal(next)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(text)).(map[string]any)
}

func read(t testing.TB, list string, doc map[string]any) Split {
	t.Helper()
	s, err := readers[list](doc, shop)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWrite(t *testing.T) {
	tests := []struct{ name, list, before, after string }{
		{"gateway", "rules",
			`[{"backendRefs":[{"name":"cdn"}]},{"name":"x","filters":[{"type":"URLRewrite"}],"backendRefs":[{"name":"old","weight":0},{"name":"shop-b","port":80},{"name":"shop-a","port":80,"weight":1}]},{"name":"manent-testers-shop-0","backendRefs":[{"name":"shop-b","weight":1}]}]`,
			`[{"backendRefs":[{"name":"cdn"}]},{"name":"x","filters":[{"type":"URLRewrite"}],"backendRefs":[{"name":"old","weight":0},{"name":"shop-b","port":80,"weight":5},{"name":"shop-a","port":80,"weight":95}]},{"name":"manent-testers-shop-0","backendRefs":[{"name":"shop-b","weight":1}]}]`},
		{"istio", "http",
			`[{"retries":{"attempts":2},` + destinations(100, nil) + `},{"route":[{"destination":{"host":"cdn"}}]},{` + destinations(100, 0) + `}]`,
			`[{"retries":{"attempts":2},` + destinations(95, 5) + `},{"route":[{"destination":{"host":"cdn"}}]},{` + destinations(95, 5) + `}]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			doc := document(t, tt.list, tt.before)
			ops := read(t, tt.list, doc).Write(map[string]float64{"a": 95, "b": 5}, "")
			if diff := cmp.Diff(document(t, tt.list, tt.after), applied(t, doc, ops)); diff != "" {
				t.Errorf("document: %s", diff)
			}
			for member, change := range map[string]func(){
				"generation": func() { doc["metadata"].(map[string]any)["generation"] = int64(8) },
				"the rules' order": func() {
					list := doc["spec"].(map[string]any)[tt.list].([]any)
					list[0], list[1] = list[1], list[0]
				},
			} {
				whole := copied(doc)
				change()
				data, _ := json.Marshal(ops)
				if _, err := kubetest.Apply(doc, data); err == nil {
					t.Errorf("the patch is applied although %s changed", member)
				}
				doc = whole.(map[string]any)
			}
		})
	}
}

// TestReturns: a return takes all traffic from slot b, whatever somebody has
// made of the document, and leaves what sends to slot a.
func TestReturns(t *testing.T) {
	const to = `{"destination":{"host":"shop","subset":"%s"},"weight":%d}`
	only := func(slot string, weight int) string { return `"route":[` + fmt.Sprintf(to, slot, weight) + `]` }
	tests := []struct{ name, list, before, after string }{
		{"pinned to stable", "rules", `[{` + refs(75, 25) + `},{"backendRefs":[{"name":"shop-a","weight":3}]}]`, `[{` + refs(100, 0) + `},{"backendRefs":[{"name":"shop-a","weight":3}]}]`},
		{"pinned to the candidate", "rules", `[{` + refs(75, 25) + `},{"name":"beta","backendRefs":[{"name":"old"},{"name":"shop-b","port":80,"filters":[{"type":"x"}]}]}]`,
			`[{` + refs(100, 0) + `},{"name":"beta","backendRefs":[{"name":"old"},{"name":"shop-b","port":80,"filters":[{"type":"x"}],"weight":0},{"name":"shop-a","port":80,"filters":[{"type":"x"}],"weight":100}]}]`},
		{"a slot twice", "rules", `[{"backendRefs":[{"name":"shop-b","weight":10},{"name":"shop-a","weight":60},{"name":"shop-b","port":8080,"weight":10},{"name":"shop-a","port":8080,"weight":20}]}]`,
			`[{"backendRefs":[{"name":"shop-b","weight":0},{"name":"shop-a","weight":100},{"name":"shop-b","port":8080,"weight":0},{"name":"shop-a","port":8080,"weight":0}]}]`},
		{"the candidate alone", "rules", `[{"backendRefs":[{"name":"shop-b"}]}]`, `[{"backendRefs":[{"name":"shop-b","weight":0},{"name":"shop-a","weight":100}]}]`},
		{"the stable alone", "rules", `[{"backendRefs":[{"name":"shop-a"}]}]`, `[{"backendRefs":[{"name":"shop-a","weight":100}]}]`},
		{"entries with one destination", "http", `[{` + only("a", 0) + `},{` + only("b", 0) + `},{` + destinations(75, 25) + `}],"tcp":[{` + destinations(30, 70) + `},{` + only("a", 0) + `},{"route":[{"destination":{"host":"db"}}]}],"tls":[{` + only("b", 100) + `}]`,
			`[{` + only("a", 0) + `},{"route":[` + fmt.Sprintf(to, "b", 0) + `,` + fmt.Sprintf(to, "a", 100) + `]},{` + destinations(100, 0) + `}],"tcp":[{` + destinations(100, 0) + `},{` + only("a", 0) + `},{"route":[{"destination":{"host":"db"}}]}],"tls":[{"route":[` + fmt.Sprintf(to, "b", 0) + `,` + fmt.Sprintf(to, "a", 100) + `]}]`},
	}
	back := map[string]float64{"a": 100, "b": 0}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			doc := document(t, tt.list, tt.before)
			if s := read(t, tt.list, doc); s.Unfit() == nil {
				t.Error("fit for shares")
			}
			after := applied(t, doc, read(t, tt.list, doc).Write(back, state.SlotB))
			if diff := cmp.Diff(document(t, tt.list, tt.after), after); diff != "" {
				t.Errorf("document: %s", diff)
			}
			s := read(t, tt.list, after)
			if !s.Done(back, state.SlotB) || s.Shares(state.SlotB)["b"] != 0 {
				t.Errorf("not done: weights %v, shares %v", s.Weights(), s.Shares(state.SlotB))
			}
		})
	}
}

// TestWriteTestsOldWeights does without the generation: what the condition has
// beside it.
func TestWriteTestsOldWeights(t *testing.T) {
	doc := document(t, "rules", `[{`+refs(90, 10)+`}]`)
	ops := read(t, "rules", doc).Write(map[string]float64{"a": 50, "b": 50}, "")
	for _, other := range []string{`[{` + refs(80, 10) + `}]`, `[{"backendRefs":[{"name":"shop-b","weight":90},{"name":"shop-a","weight":10}]}]`} {
		data, _ := json.Marshal(ops[1:])
		if _, err := kubetest.Apply(document(t, "rules", other), data); err == nil {
			t.Errorf("the patch is applied to %s", other)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, want := range []map[string]float64{{"a": 0, "b": 0}, {}, {"a": -1, "b": 101}, {"a": 0.5, "b": 99.5}, {"a": 1_000_001, "b": 0}, {"a": 50, "c": 50}} {
		if err := Check(want); providers.KindOf(err) != providers.Invalid || err == nil {
			t.Errorf("weights %v: %v, want Invalid", want, err)
		}
	}
	if err := Check(map[string]float64{"a": 9950, "b": 50}); err != nil {
		t.Error(err)
	}
}

func TestTargets(t *testing.T) {
	pathV2 := `{"path":{"type":"PathPrefix","value":"/v2"}`
	tests := []struct{ name, list, before, after string }{
		{"gateway", "rules",
			`[{"backendRefs":[{"name":"cdn"}]},
			  {"matches":[` + pathV2 + `,"headers":[{"name":"x","value":"1"}]},{"method":"GET"}],"filters":[{"type":"URLRewrite"}],` + refs(100, 0) + `},
			  {"name":"rest","timeouts":{"request":"3s"},` + refs(100, 0) + `}]`,
			`[{"backendRefs":[{"name":"cdn"}]},
			  {"matches":[` + pathV2 + `,"headers":[{"name":"x","value":"1"}]},{"method":"GET"}],"filters":[{"type":"URLRewrite"}],` + refs(100, 0) + `},
			  {"name":"rest","timeouts":{"request":"3s"},` + refs(100, 0) + `},
			  {"name":"manent-testers-shop-0","matches":[` + pathV2 + `,"headers":[{"name":"x","value":"1"},{"type":"Exact","name":"X-Canary","value":"always"}]},
			      {"method":"GET","path":{"type":"PathPrefix","value":"/"},"headers":[{"type":"Exact","name":"X-Canary","value":"always"}]}],
			   "filters":[{"type":"URLRewrite"}],"backendRefs":[{"name":"shop-b","weight":1}]},
			  {"name":"manent-testers-shop-1","matches":[{"path":{"type":"PathPrefix","value":"/"},"headers":[{"type":"Exact","name":"X-Canary","value":"always"}]}],"timeouts":{"request":"3s"},"backendRefs":[{"name":"shop-b","weight":1}]}]`},
		{"istio", "http",
			`[{"match":[{"uri":{"prefix":"/static"}}],"route":[{"destination":{"host":"cdn"}}]},
			  {"name":"v2","match":[{"uri":{"prefix":"/v2"},"headers":{"x":{"exact":"1"}}},{"port":80}],"rewrite":{"uri":"/"},` + destinations(100, 0) + `},
			  {"match":[{"uri":{"prefix":"/img"}}],"route":[{"destination":{"host":"cdn"}}]},
			  {` + destinations(100, 0) + `}]`,
			`[{"match":[{"uri":{"prefix":"/static"}}],"route":[{"destination":{"host":"cdn"}}]},
			  {"name":"manent-testers-shop-0","match":[{"uri":{"prefix":"/v2"},"headers":{"x":{"exact":"1"},"x-canary":{"exact":"always"}}},{"port":80,"headers":{"x-canary":{"exact":"always"}}}],"rewrite":{"uri":"/"},
			   "route":[{"destination":{"host":"shop","subset":"b"},"weight":100}]},
			  {"name":"v2","match":[{"uri":{"prefix":"/v2"},"headers":{"x":{"exact":"1"}}},{"port":80}],"rewrite":{"uri":"/"},` + destinations(100, 0) + `},
			  {"match":[{"uri":{"prefix":"/img"}}],"route":[{"destination":{"host":"cdn"}}]},
			  {"name":"manent-testers-shop-1","match":[{"headers":{"x-canary":{"exact":"always"}}}],"route":[{"destination":{"host":"shop","subset":"b"},"weight":100}]},
			  {` + destinations(100, 0) + `}]`},
	}
	testers := &Testers{Slot: state.SlotB, Header: "X-Canary", Value: "always"}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, after := document(t, tt.list, tt.before), document(t, tt.list, tt.after)
			on := target(t, tt.list, before, testers)
			if diff := cmp.Diff(after, on); diff != "" {
				t.Fatalf("with testers: %s", diff)
			}
			if s := read(t, tt.list, on); !s.Targeted() || s.Weights()["b"] != 0 || len(s.Rules) != 2 {
				t.Errorf("with testers: %v, weights %v, %d rules", s.Targeted(), s.Weights(), len(s.Rules))
			}
			if ops, err := read(t, tt.list, on).Target(testers); err != nil || len(ops) != 0 {
				t.Errorf("testers again: %v, %v, want nothing to do", ops, err)
			}
			moved := applied(t, on, read(t, tt.list, on).Write(map[string]float64{"a": 0, "b": 100}, ""))
			if got := testersOf(t, tt.list, moved); !reflect.DeepEqual(got, testersOf(t, tt.list, on)) {
				t.Errorf("writing weights changed the testers' entries to %v", got)
			}
			other := target(t, tt.list, on, &Testers{Slot: state.SlotA, Header: "x-team", Value: "qa"})
			if got, want := other, target(t, tt.list, before, &Testers{Slot: state.SlotA, Header: "x-team", Value: "qa"}); !reflect.DeepEqual(got, want) {
				t.Errorf("other testers: %s", cmp.Diff(want, got))
			}
			if diff := cmp.Diff(before, target(t, tt.list, other, nil)); diff != "" {
				t.Errorf("testers off: %s", diff)
			}
			if ops, err := read(t, tt.list, before).Target(nil); err != nil || len(ops) != 0 {
				t.Errorf("testers off again: %v, %v, want nothing to do", ops, err)
			}
		})
	}
}

func target(t testing.TB, list string, doc map[string]any, testers *Testers) map[string]any {
	t.Helper()
	ops, err := read(t, list, doc).Target(testers)
	if err != nil {
		t.Fatal(err)
	}
	return applied(t, doc, ops)
}

func testersOf(t testing.TB, list string, doc map[string]any) []map[string]any {
	t.Helper()
	s := read(t, list, doc)
	var out []map[string]any
	for _, i := range s.testers {
		out = append(out, s.all[i])
	}
	return out
}

func TestTargetsRefused(t *testing.T) {
	many := func(n int, entry string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(entry+",", n), ",") + "]"
	}
	tests := []struct{ name, list, entries, err string }{
		{"header taken", "rules", `[{"matches":[{"headers":[{"name":"X-CANARY","value":"never"}]}],` + refs(1, 0) + `}]`, "already has a condition on header x-canary"},
		{"more than 16 rules", "rules", many(9, `{`+refs(1, 0)+`}`), "18 rules, expected at most 16"},
		{"16 rules with foreign ones", "rules", `[` + strings.Trim(many(15, `{"backendRefs":[{"name":"cdn"}]}`), "[]") + `,{` + refs(1, 0) + `}]`, "17 rules, expected at most 16"},
		{"more than 128 matches", "rules", `[{"matches":` + many(64, `{"method":"GET"}`) + `,` + refs(1, 0) + `},{` + refs(1, 0) + `}]`, "130 matches, expected at most 128"},
		{"more than 16 headers", "rules", `[{"matches":[{"headers":` + many(16, `{"name":"y","value":"1"}`) + `}],` + refs(1, 0) + `}]`, "17 headers in a match"},
		{"header taken in istio", "http", `[{"match":[{"headers":{"X-Canary":{"exact":"never"}}}],` + destinations(1, 0) + `}]`, "already has a condition"},
		{"header excluded in istio", "http", `[{"match":[{"withoutHeaders":{"x-canary":{}}}],` + destinations(1, 0) + `}]`, "already has a condition"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ops, err := read(t, tt.list, document(t, tt.list, tt.entries)).Target(&Testers{Slot: "b", Header: "x-canary", Value: "always"})
			if providers.KindOf(err) != providers.Invalid || err == nil || !strings.Contains(err.Error(), tt.err) || len(ops) > 0 {
				t.Errorf("%d operations, %v, want %q", len(ops), err, tt.err)
			}
		})
	}
	full := document(t, "rules", many(8, `{`+refs(1, 0)+`}`))
	if on := target(t, "rules", full, &Testers{Slot: "b", Header: "x", Value: "1"}); len(objects(on["spec"].(map[string]any)["rules"])) != 16 {
		t.Error("8 rules and 8 for testers do not fit into 16")
	}
}

func TestSubsets(t *testing.T) {
	rule := func(host, subsets string) map[string]any {
		return parse(t, `{"metadata":{"namespace":"shop"},"spec":{"host":"`+host+`","subsets":`+subsets+`}}`).(map[string]any)
	}
	const a, b = `{"name":"a","labels":{"track":"a"}}`, `{"name":"b","labels":{"track":"b"}}`
	got, err := Subsets(rule("shop.shop.svc.cluster.local", `[`+b+`,{"name":"c","labels":{"x":"y"}},`+a+`]`), shop)
	if err != nil || !maps.Equal(got["a"], map[string]string{"track": "a"}) || !maps.Equal(got["b"], map[string]string{"track": "b"}) {
		t.Errorf("subsets %v, %v", got, err)
	}
	for name, tt := range map[string]struct{ host, subsets, err string }{
		"another host": {"cart", `[` + a + `,` + b + `]`, `host "cart", expected Service shop`},
		"no subset b":  {"shop", `[` + a + `]`, "no subset b with labels"},
		"no labels":    {"shop", `[{"name":"a"},` + b + `]`, "no subset a with labels"},
		"no subsets":   {"shop", `null`, "no subset a"},
	} {
		_, err := Subsets(rule(tt.host, tt.subsets), shop)
		if providers.KindOf(err) != providers.Invalid || err == nil || !strings.Contains(err.Error(), tt.err) || providers.HintOf(err) == "" {
			t.Errorf("%s: %v, want %q and a hint", name, err, tt.err)
		}
	}
}
