package external

import (
	"errors"
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

// Sense refuses what cannot be true of a part that was read.
func (p Part) Sense() error {
	if len(p.Weights) == 0 {
		return errors.New("it has no weights")
	}
	for unit, weight := range p.Weights {
		if unit == "" || weight < 0 {
			return fmt.Errorf("weight %v of %q, expected 0 or more", weight, unit)
		}
	}
	var sum float64
	for _, slot := range enums("slot") {
		share, known := p.Shares[slot]
		if !known || share < 0 || share > 100 {
			return fmt.Errorf("the share of slot %s is %v, expected 0 to 100", slot, share)
		}
		sum += share
	}
	if len(p.Shares) != 2 || sum > 100.01 || sum < 99.99 && sum > 0 && len(p.Foreign) == 0 {
		return fmt.Errorf("shares %v, expected those of a and b, 100 together unless a foreign entry has some", p.Shares)
	}
	for slot, up := range p.Units {
		if !slices.Contains(enums("slot"), slot) || up < 0 {
			return fmt.Errorf("units %v, expected servers up in a and b", p.Units)
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
