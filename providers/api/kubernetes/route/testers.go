package route

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/manent/action/providers/api/kubernetes/patch"
	"github.com/manent/action/state"
)

// Testers are who is sent to one slot whatever the share is.
type Testers struct {
	Slot          state.Slot
	Header, Value string
}

// Check refuses what no route takes.
func (t Testers) Check() error {
	ok := t.Value != "" && len(t.Header) <= 256 && len(t.Value) <= 4096 && !strings.ContainsFunc(t.Header, func(c rune) bool {
		return !strings.ContainsRune("!#$%&'*+-.^_`|~", c) && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	}) && !strings.ContainsFunc(t.Value, func(c rune) bool { return c < ' ' || c == 0x7f })
	if ok {
		return nil
	}
	return invalid("", "testers' header %q with value %q, expected the name of a header and a value for it", t.Header, t.Value)
}

// prefix is how the names of manent's own entries for a service begin; an
// index follows.
func (n Names) prefix() string { return "manent-testers-" + n.Service + "-" }

// own reports whether an entry is one that manent put there for testers.
func (s Split) own(entry map[string]any) bool {
	name, _ := entry["name"].(string)
	index, ok := strings.CutPrefix(name, s.names.prefix())
	_, err := strconv.ParseUint(index, 10, 16)
	return ok && err == nil
}

// Target is the patch that puts the testers' entries in place, one for each
// managed rule and like it but for one more condition and the only backend; or,
// with nil, takes them away. It is empty when they are as they should be.
func (s Split) Target(t *Testers) ([]patch.Op, error) {
	var want []map[string]any
	for i, r := range s.Rules {
		if t == nil {
			break
		}
		entry, err := s.format.target(s, r, i, *t)
		if err != nil {
			return nil, err
		}
		want = append(want, entry)
	}
	if s.inPlace(want) {
		return nil, nil
	}
	ops := s.condition()
	for _, i := range slices.Backward(s.testers) {
		at := []any{"spec", s.format.list, i}
		ops = append(ops, patch.Test(s.all[i]["name"], append(slices.Clone(at), "name")...), patch.Remove(at...))
	}
	return append(ops, s.insert(want)...), nil
}

// insert adds the entries to a list that has none of them any more.
func (s Split) insert(entries []map[string]any) []patch.Op {
	var ops []patch.Op
	if !s.format.before {
		for _, e := range entries {
			ops = append(ops, patch.Add(e, "spec", s.format.list, "-"))
		}
		return ops
	}
	for n, e := range slices.Backward(entries) { // from the end, so that the indexes before stay right
		at := s.Rules[n].Index
		for _, i := range s.testers {
			if i < s.Rules[n].Index {
				at--
			}
		}
		ops = append(ops, patch.Add(e, "spec", s.format.list, at))
	}
	return ops
}

// inPlace reports whether exactly these entries are there, and where they count.
func (s Split) inPlace(want []map[string]any) bool {
	if len(want) != len(s.testers) {
		return false
	}
	for n, i := range s.testers {
		if !reflect.DeepEqual(s.all[i], want[n]) || s.format.before && i > s.Rules[n].Index {
			return false
		}
	}
	return true
}

// clone copies a rule for testers, with its one backend.
func (s Split) clone(r Rule, n int, slot state.Slot) (entry, ref map[string]any) {
	entry, _ = copied(s.all[r.Index]).(map[string]any)
	entry["name"] = s.names.prefix() + strconv.Itoa(n)
	ref = objects(entry[s.format.refs])[r.Refs[slot].Index]
	entry[s.format.refs] = []any{ref}
	return entry, ref
}

// copied is a deep copy of a document's value.
func copied(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, item := range v {
			out[k] = copied(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = copied(item)
		}
		return out
	}
	return v
}

// taken refuses a header that a rule decides by already.
func taken(r Rule, header string) error {
	return invalid("use another header for testers",
		"rule %s already has a condition on header %s, and of two on one header only the first counts", r.label(), header)
}

func atMost(what string, got, most int) error {
	if got <= most {
		return nil
	}
	return invalid("split the route, or list fewer rules in the setting rules", "with entries for testers it would have %s", fmt.Sprintf("%d %s, expected at most %d", got, what, most))
}
