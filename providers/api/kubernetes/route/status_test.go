package route

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParents(t *testing.T) {
	ok := func(generation string) string {
		return `{"type":"Accepted","status":"True","reason":"Accepted","observedGeneration":` + generation + `},{"type":"ResolvedRefs","status":"True","reason":"ResolvedRefs","observedGeneration":` + generation + `}`
	}
	parent := func(ref, conditions string) string {
		return `{"parentRef":` + ref + `,"conditions":[` + conditions + `]}`
	}
	const edge, inner = `{"name":"edge"}`, `{"name":"inner","sectionName":"http"}`
	no := func(kind, status, reason, generation string) string {
		return `{"type":"` + kind + `","status":"` + status + `","reason":"` + reason + `","message":"why","observedGeneration":` + generation + `}`
	}
	both := edge + "," + inner
	by := func(controller, entry string) string { return `{"controllerName":"` + controller + `",` + entry[1:] }
	live := by("new", parent(edge, ok("7")))
	const policy = `{"type":"x/Affected","status":"True","observedGeneration":7}`
	stale, now := no("Accepted", "False", "NoMatchingParent", "6"), no("Accepted", "False", "NoMatchingParent", "7")
	refusal := func(current bool) []Refusal {
		return []Refusal{{"Gateway edge", "Accepted", "NoMatchingParent", "why", current}}
	}
	tests := []struct {
		name, parents, status string
		only                  []string
		want                  Verdict
	}{
		{"in force", edge, parent(edge, ok("7")), nil, Verdict{}},
		{"the API server's defaults in the reference", edge, parent(`{"group":"gateway.networking.k8s.io","kind":"Gateway","name":"edge","namespace":"shop"}`, ok("7")), nil, Verdict{}},
		{"an older generation", edge, parent(edge, ok("6")), nil, Verdict{Silent: []string{"Gateway edge"}}},
		{"no generation", edge, parent(edge, ok("0")), nil, Verdict{Silent: []string{"Gateway edge"}}},
		{"no status", edge, "", nil, Verdict{Silent: []string{"Gateway edge"}}},
		{"ResolvedRefs missing", edge, parent(edge, no("Accepted", "True", "Accepted", "7")), nil, Verdict{Silent: []string{"Gateway edge"}}},
		{"still pending", edge, parent(edge, no("Accepted", "False", "Pending", "7")+","+no("ResolvedRefs", "True", "ResolvedRefs", "7")), nil, Verdict{Silent: []string{"Gateway edge"}}},
		{"one of two parents", both, parent(edge, ok("7")), nil, Verdict{Silent: []string{"Gateway inner"}}},
		{"one of two sections", both, parent(edge, ok("7")) + "," + parent(`{"name":"inner","sectionName":"https"}`, ok("7")), nil, Verdict{Silent: []string{"Gateway inner"}}},
		{"one parent is of interest", both, parent(edge, ok("7")), []string{"edge"}, Verdict{}},
		{"two controllers of one parent", edge, parent(edge, ok("7")) + "," + parent(edge, ok("6")), nil, Verdict{Silent: []string{"Gateway edge"}}},
		{"a former controller's no", edge, live + "," + by("old", parent(edge, stale+","+no("ResolvedRefs", "True", "ResolvedRefs", "6"))), nil, Verdict{Former: refusal(false)}},
		{"a former controller's no, first", edge, by("old", parent(edge, stale)) + "," + live, nil, Verdict{Former: refusal(false)}},
		{"another controller's present no", edge, live + "," + by("old", parent(edge, now+","+no("ResolvedRefs", "True", "ResolvedRefs", "7"))), nil, Verdict{Refused: refusal(true)}},
		{"in part of an earlier generation", edge, live + "," + by("old", parent(edge, no("Accepted", "True", "Accepted", "7")+","+no("ResolvedRefs", "False", "BackendNotFound", "6"))), nil,
			Verdict{Refused: []Refusal{{"Gateway edge", "ResolvedRefs", "BackendNotFound", "why", false}}}},
		{"a former no, and nobody's yes", edge, by("new", parent(edge, ok("6"))) + "," + by("old", parent(edge, stale)), nil, Verdict{Refused: refusal(false), Silent: []string{"Gateway edge"}}},
		{"a former no, and its own yes", edge, by("old", parent(edge, ok("7"))) + "," + by("old", parent(edge, stale)), nil, Verdict{Refused: refusal(false), Silent: []string{"Gateway edge"}}},
		{"a former no, and another parent's yes", both, by("new", parent(inner, ok("7"))) + "," + by("old", parent(edge, stale+","+no("ResolvedRefs", "True", "ResolvedRefs", "7"))), nil, Verdict{Refused: refusal(false)}},
		{"policies beside a word", edge, by("policy", parent(edge, policy)) + "," + live, nil, Verdict{}},
		{"policies beside a word of before", edge, parent(edge, ok("6")) + "," + by("policy", parent(edge, policy)), nil, Verdict{Silent: []string{"Gateway edge"}}},
		{"policies only", edge, by("policy", parent(edge, policy)), nil, Verdict{Silent: []string{"Gateway edge"}}},
		{"a parent that the route has left", edge, parent(edge, ok("7")) + "," + parent(inner, no("Accepted", "False", "NoMatchingParent", "7")), nil, Verdict{}},
		{"not accepted", edge, parent(edge, no("Accepted", "False", "NotAllowedByListeners", "7")+","+no("ResolvedRefs", "True", "ResolvedRefs", "7")), nil,
			Verdict{Refused: []Refusal{{"Gateway edge", "Accepted", "NotAllowedByListeners", "why", true}}}},
		{"references of an older generation", edge, parent(edge, no("Accepted", "True", "Accepted", "7")+","+no("ResolvedRefs", "False", "BackendNotFound", "6")), nil,
			Verdict{Refused: []Refusal{{"Gateway edge", "ResolvedRefs", "BackendNotFound", "why", false}}}},
		{"in part", edge, parent(edge, ok("7")+","+no("PartiallyInvalid", "True", "UnsupportedValue", "7")), nil,
			Verdict{Refused: []Refusal{{"Gateway edge", "PartiallyInvalid", "UnsupportedValue", "why", true}}}},
		{"unknown conditions", edge, parent(edge, ok("7")+","+no("Programmed", "False", "x", "7")), nil, Verdict{}},
		{"no parent of that name", edge, parent(edge, ok("7")), []string{"other"}, Verdict{Refused: []Refusal{{"the route", "Attached", "NoParent", "spec.parentRefs names no such Gateway", true}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			doc := document(t, "rules", `[],"parentRefs":[`+tt.parents+`]`)
			doc["status"] = parse(t, `{"parents":[`+tt.status+`]}`)
			if diff := cmp.Diff(tt.want, Parents(doc, tt.only)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := (Refusal{"Gateway edge", "Accepted", "NoMatchingParent", "", true}).String(); got != "Gateway edge: Accepted is not so, NoMatchingParent" {
		t.Errorf("refusal %q", got)
	}
}

func TestLastChange(t *testing.T) {
	entry := func(manager, at, sub, fields string) string {
		return `{"manager":"` + manager + `","time":"` + at + `","subresource":"` + sub + `","fieldsV1":` + fields + `}`
	}
	const rules, hosts = `{"f:spec":{"f:rules":{}}}`, `{"f:spec":{"f:hostnames":{}}}`
	tests := []struct{ name, fields, want string }{
		{"none", "", ""},
		{"one", entry("helm", "2026-11-30T10:00:00Z", "", rules), "helm at 2026-11-30T10:00:00Z"},
		{"the newest", entry("manent", "2026-11-30T11:00:00Z", "", rules) + "," + entry("helm", "2026-11-30T10:00:00Z", "", rules), "manent at 2026-11-30T11:00:00Z"},
		{"not of other fields", entry("kubectl", "2026-11-30T12:00:00Z", "", hosts) + "," + entry("argocd-controller", "2026-11-30T10:00:00Z", "", rules), "argocd-controller at 2026-11-30T10:00:00Z"},
		{"not a status", entry("traefik", "2026-11-30T12:00:00Z", "status", rules), ""},
		{"time that is none", entry("helm", "yesterday", "", rules), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			doc := document(t, "rules", `[{`+refs(1, 0)+`}]`)
			doc["metadata"].(map[string]any)["managedFields"] = parse(t, "["+tt.fields+"]")
			got, ok := read(t, "rules", doc).LastChange()
			if ok != (tt.want != "") || ok && got.String() != tt.want {
				t.Errorf("last change %v, %v, want %q", got, ok, tt.want)
			}
			if !ok && got.At.After(time.Time{}) {
				t.Errorf("time %v of no change", got.At)
			}
		})
	}
}

// FuzzRead: no document ends in a panic, and what is read can be written.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"spec":{"rules":[{` + refs(1, 0) + `}],"parentRefs":[{"name":"x"}]},"status":{"parents":[{"parentRef":{"name":"x"},"conditions":[{}]}]}}`,
		`{"metadata":{"namespace":"shop","generation":1},"spec":{"http":[{` + destinations(1, nil) + `,"match":[{"headers":{"x":null}}]}],"tcp":[null]}}`,
		`{"spec":{"rules":[null,1,{"backendRefs":[null,{"name":"shop-a","weight":1.5}],"matches":[null]}]}}`,
		`{"metadata":{"namespace":"shop","generation":1},"spec":{"http":[{` + destinations(1) + `},{"route":[{"destination":{"host":"shop","subset":"b"}},{"destination":{"host":"shop"}}]}],"tcp":[{` + destinations(1, 2) + `}]}}`,
		`{"metadata":{"namespace":"shop","generation":1},"spec":{"rules":[{"backendRefs":[{"name":"shop-b"},{"name":"shop-b","weight":0},{"name":"shop"}]},{"name":"x",` + refs(1) + `}]}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !strings.HasPrefix(text, "{") || !validJSON(text) {
			return
		}
		for list, read := range readers {
			doc := parse(t, text).(map[string]any)
			Parents(doc, nil)
			_, _ = Subsets(doc, shop)
			s, err := read(doc, shop)
			if err != nil {
				continue
			}
			_, _ = s.LastChange()
			if ops, err := s.Target(&Testers{Slot: "b", Header: "x-canary", Value: "always"}); err == nil && Generation(doc) > 0 {
				applied(t, doc, ops)
			}
			if Generation(doc) == 0 {
				continue // the API server gives each document one
			}
			after, err := read(applied(t, doc, s.Write(map[string]float64{"a": 3, "b": 4}, "")), shop)
			if err != nil || !after.Done(map[string]float64{"a": 3, "b": 4}, "") {
				t.Errorf("%s: weights after a write are %v, %v", list, after.Weights(), err)
			}
			after, err = read(applied(t, doc, s.Write(map[string]float64{"a": 1, "b": 0}, "b")), shop)
			if err != nil || !after.Done(map[string]float64{"a": 1, "b": 0}, "b") || after.Shares("b")["b"] > 0 {
				t.Errorf("%s: weights after a return are %v, shares %v, %v", list, after.Weights(), after.Shares("b"), err)
			}
		}
	})
}

func validJSON(text string) bool { return json.Valid([]byte(text)) }
