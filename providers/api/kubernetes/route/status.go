package route

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Verdict is what the controllers of an HTTPRoute's parents say about it.
type Verdict struct {
	Refused []Refusal // conditions that say no
	Silent  []string  // parents that have not spoken about this generation
	Former  []Refusal // of an earlier generation, where another controller has accepted this one
}

// Refusal is a condition that says no.
type Refusal struct {
	Parent, Condition, Reason, Message string
	Current                            bool // about the present generation
}

// String names all of it.
func (r Refusal) String() string {
	return strings.TrimSuffix(fmt.Sprintf("%s: %s is not so, %s: %s", r.Parent, r.Condition, r.Reason, r.Message), ": ")
}

// Dropped reports whether some rules were left out and the others are in force;
// a controller that falls back to what it had before says so instead (Gateway
// API 1.6, PartiallyInvalid).
func (r Refusal) Dropped() bool {
	return r.Condition == "PartiallyInvalid" && strings.HasPrefix(r.Message, "Dropped Rule")
}

// Detached reports whether the parent does not take the route at all, whatever
// it says, and so serves nobody by it (RouteConditionReason of Gateway API 1.6).
// With other reasons of Accepted it may go on with what it had before.
func (r Refusal) Detached() bool {
	return r.Condition == "Accepted" && slices.Contains([]string{"NotAllowedByListeners", "NoMatchingListenerHostname", "NoMatchingParent"}, r.Reason)
}

// Names reports whether the message is about an object of this name.
func (r Refusal) Names(object string) bool {
	return slices.Contains(strings.FieldsFunc(r.Message, func(c rune) bool {
		return c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z')
	}), object)
}

// Parents looks at every parent of the route, or at those named: each has to
// have accepted this generation, with all its references resolved.
func Parents(doc map[string]any, only []string) Verdict {
	spec, _ := doc["spec"].(map[string]any)
	status, _ := doc["status"].(map[string]any)
	var v Verdict
	seen := 0
	for _, parent := range objects(spec["parentRefs"]) {
		if len(only) > 0 && !slices.Contains(only, text(parent, "name", "")) {
			continue
		}
		seen++
		var own []map[string]any
		for _, entry := range objects(status["parents"]) {
			ref, _ := entry["parentRef"].(map[string]any)
			if parentKey(ref, doc) == parentKey(parent, doc) {
				own = append(own, entry)
			}
		}
		v.hear(parentName(parent), own, Generation(doc))
	}
	if seen == 0 {
		v.Refused = append(v.Refused, Refusal{Parent: "the route", Condition: "Attached", Reason: "NoParent", Message: "spec.parentRefs names no such Gateway", Current: true})
	}
	return v
}

// hear takes what all controllers say of one parent. A controller of policies
// writes an entry without Accepted and ResolvedRefs: that is nobody's word. Nor
// is a no that a controller has left behind which another has followed.
func (v *Verdict) hear(parent string, entries []map[string]any, generation int64) {
	spoken := false
	for _, entry := range entries {
		var one Verdict
		spoken = one.add(parent, entry, generation) || spoken
		if len(one.Refused) > 0 && !of(entry, generation) && followed(entries, text(entry, "controllerName", ""), generation) {
			v.Former = append(v.Former, one.Refused...)
			continue
		}
		v.Refused = append(v.Refused, one.Refused...)
		if len(one.Silent) > 0 {
			v.silent(parent)
		}
	}
	if !spoken {
		v.silent(parent)
	}
}

// of reports whether any condition about the route is of this generation.
func of(entry map[string]any, generation int64) bool {
	return slices.ContainsFunc(objects(entry["conditions"]), func(c map[string]any) bool {
		observed, _, _ := number(c["observedGeneration"])
		return observed >= generation && slices.Contains([]string{"Accepted", "ResolvedRefs", "PartiallyInvalid"}, text(c, "type", ""))
	})
}

// followed reports whether another controller has accepted this generation.
func followed(entries []map[string]any, former string, generation int64) bool {
	return slices.ContainsFunc(entries, func(entry map[string]any) bool {
		return text(entry, "controllerName", "") != former && slices.ContainsFunc(objects(entry["conditions"]), func(c map[string]any) bool {
			observed, _, _ := number(c["observedGeneration"])
			return observed >= generation && text(c, "type", "") == "Accepted" && text(c, "status", "") == "True"
		})
	})
}

// add takes one controller's word, and reports whether it is one: with Accepted
// or ResolvedRefs. A condition without observedGeneration says nothing about
// the present one.
func (v *Verdict) add(parent string, entry map[string]any, generation int64) bool {
	have := map[string]bool{}
	for _, c := range objects(entry["conditions"]) {
		kind, good := text(c, "type", ""), "True"
		switch kind {
		case "Accepted", "ResolvedRefs":
			have[kind] = true
		case "PartiallyInvalid":
			good = "False"
		default:
			continue
		}
		observed, _, _ := number(c["observedGeneration"])
		said := text(c, "status", "Unknown")
		switch {
		case said == "Unknown" || text(c, "reason", "") == "Pending":
			v.silent(parent)
		case said != good:
			v.Refused = append(v.Refused, Refusal{Parent: parent, Condition: kind, Reason: text(c, "reason", "no reason"), Message: text(c, "message", ""), Current: observed >= generation})
		case observed < generation:
			v.silent(parent)
		}
	}
	if have["Accepted"] != have["ResolvedRefs"] {
		v.silent(parent)
	}
	return len(have) > 0
}

func (v *Verdict) silent(parent string) {
	if !slices.Contains(v.Silent, parent) {
		v.Silent = append(v.Silent, parent)
	}
}

func parentName(ref map[string]any) string {
	return text(ref, "kind", "Gateway") + " " + text(ref, "name", "")
}

func parentKey(ref, doc map[string]any) string {
	port, _, _ := number(ref["port"])
	return fmt.Sprint([]any{
		text(ref, "group", "gateway.networking.k8s.io"), text(ref, "kind", "Gateway"),
		text(ref, "namespace", namespaceOf(doc)), text(ref, "name", ""), text(ref, "sectionName", ""), port,
	})
}

// ReportedAt is when a status was written last, as the API server recorded it
// to the second; zero when it did not.
func ReportedAt(doc map[string]any) time.Time {
	meta, _ := doc["metadata"].(map[string]any)
	var last time.Time
	for _, entry := range objects(meta["managedFields"]) {
		at, err := time.Parse(time.RFC3339, text(entry, "time", ""))
		if err == nil && text(entry, "subresource", "") == "status" && at.After(last) {
			last = at
		}
	}
	if last.IsZero() {
		return last
	}
	return last.Add(time.Second)
}

// Change is who changed the rules last, as the API server recorded it.
type Change struct {
	Manager string
	At      time.Time
}

// String is "argocd-controller at 2026-11-30T17:00:00Z".
func (c Change) String() string { return c.Manager + " at " + c.At.UTC().Format(time.RFC3339) }

// LastChange finds in metadata.managedFields who changed the list of rules
// last; false when the document does not say. The list is atomic: whoever
// changes a part of it holds the whole.
func (s Split) LastChange() (Change, bool) {
	var last Change
	for _, c := range s.Holders() {
		if !c.At.IsZero() && !c.At.Before(last.At) {
			last = c
		}
	}
	return last, last.Manager != ""
}

// Holders are all who hold the list of rules, with the time of their last
// change of it, zero when that is not recorded. A tool that applies the list
// from elsewhere stays a holder when others change it.
func (s Split) Holders() []Change {
	meta, _ := s.doc["metadata"].(map[string]any)
	var out []Change
	for _, entry := range objects(meta["managedFields"]) {
		fields, _ := entry["fieldsV1"].(map[string]any)
		spec, _ := fields["f:spec"].(map[string]any)
		at, err := time.Parse(time.RFC3339, text(entry, "time", ""))
		if err != nil {
			at = time.Time{}
		}
		if _, holds := spec["f:"+s.format.list]; holds && text(entry, "subresource", "") == "" {
			out = append(out, Change{Manager: text(entry, "manager", "unknown"), At: at})
		}
	}
	return out
}
