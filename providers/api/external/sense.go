package external

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxRef is how many entries a program may add to a release.
const maxRef = 32

// Sense refuses a reference that must not go into the state.
func (r DeployResult) Sense() error {
	if len(r.Ref) > maxRef {
		return fmt.Errorf("ref has %d entries, expected at most %d", len(r.Ref), maxRef)
	}
	for key := range r.Ref {
		if strings.HasPrefix(strings.ToLower(key), "manent") {
			return fmt.Errorf("ref has key %q, expected none that begins with manent", key)
		}
	}
	return nil
}

// Differences says what of a description is not as declared. A program may be
// capable of more than it is used for.
func (d Description) Differences(capabilities []string, want Traits) []string {
	var out []string
	if !slices.Contains(d.Protocols, Protocol) {
		out = append(out, fmt.Sprintf("it speaks protocol %v, expected %d", d.Protocols, Protocol))
	}
	for _, c := range capabilities {
		if !slices.Contains(d.Capabilities, c) {
			out = append(out, fmt.Sprintf("it is not capable of %s, but of %s", c, strings.Join(d.Capabilities, ", ")))
		}
	}
	if !slices.Contains(capabilities, Routes) {
		return out
	}
	for _, pair := range []struct {
		key        string
		want, says any
	}{
		{"unit", want.Unit, d.Traits.Unit}, {"conditional", want.Conditional, d.Traits.Conditional},
		{"testers", want.Testers, d.Traits.Testers}, {"plans", want.Plans, d.Traits.Plans},
		{"pinned_for", duration(want.PinnedFor), duration(d.Traits.PinnedFor)},
	} {
		if pair.want != pair.says {
			out = append(out, fmt.Sprintf("%s is %v, it says %v", pair.key, shown(pair.want), shown(pair.says)))
		}
	}
	if !want.Plans && want.Step != d.Traits.Step {
		out = append(out, fmt.Sprintf("step is %v, it says %v", want.Step, d.Traits.Step))
	}
	return out
}

// duration reads a text that was checked before; "" is none.
func duration(text string) time.Duration {
	d, _ := time.ParseDuration(text)
	return d
}

func shown(value any) any {
	if value == "" {
		return "not given"
	}
	return value
}
