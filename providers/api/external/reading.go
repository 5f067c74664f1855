package external

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Seen is one part as a program shows it. At most one of Err and Unfit is set.
type Seen struct {
	Part
	Err   error // its weights cannot be known; all but its id is empty then
	Unfit error // its weights are known, something else that it says makes no sense
}

// Read asks for a reading. Each part is judged by itself, so that garbage in
// one hides no other: what cannot be known of it is its own error.
func (c *Client) Read(ctx context.Context, call Call) (parts []Seen, testers bool, err error) {
	var list []any
	p := parser{result: typ[ReadResult](), redact: c.redact, list: "parts", items: &list}
	result, err := c.exchange(ctx, call, p)
	if err != nil {
		return nil, false, err
	}
	read, _ := result.(ReadResult)
	return c.each(p, list), read.Testers, nil
}

// each judges the parts of a list. None has the name of another.
func (c *Client) each(p parser, list []any) (parts []Seen) {
	known := map[string]int{}
	for i, value := range list {
		one := c.seen(p, i, value)
		if first, twice := known[one.ID]; twice {
			parts[first] = Seen{Part: Part{ID: one.ID}, Err: errors.New("another part has the same name")}
			continue
		}
		known[one.ID] = len(parts)
		parts = append(parts, one)
	}
	return parts
}

// seen judges a part, the i-th of its list.
func (c *Client) seen(p parser, i int, value any) Seen {
	object, _ := value.(map[string]any)
	id, _ := object["id"].(string)
	if id == "" || p.secret(id) || fitsText(id, "id") != nil {
		return Seen{Part: Part{ID: fmt.Sprintf("#%d", i+1)}, Err: errors.New("it has no name that can be shown")}
	}
	message, hint := p.texts(object)
	if given, failed := object["error"]; failed {
		no, err := parseError(given, message, hint)
		if err == nil && p.secret(given) {
			err = errSecret
		}
		if err == nil {
			err = c.refused("read, part "+id, *no)
		}
		return Seen{Part: Part{ID: id}, Err: err}
	}
	out, wrong, err := p.part(object)
	if err != nil {
		return Seen{Part: Part{ID: id}, Err: c.plain(err)}
	}
	return Seen{Part: out, Unfit: c.plain(wrong)}
}

// plain is an error without secrets, on one line; nil stays nil.
func (c *Client) plain(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(cut(c.redact(err.Error())))
}

var errSecret = errors.New("it holds a secret, which must not go into the state")

// part reads a part, with what makes no sense of it but for its weights; or
// why these are not known.
func (p parser) part(object map[string]any) (out Part, wrong, err error) {
	if p.secret(object) {
		wrong = errSecret
	} else {
		wrong = fits(object, typ[Part](), "part")
	}
	if wrong != nil { // only what is written and compared is left of it
		object = map[string]any{"id": object["id"], "weights": object["weights"]}
		if p.secret(object) {
			return out, nil, errSecret
		}
		if err := fits(object, typ[Part](), "part"); err != nil {
			return out, nil, err
		}
	}
	if err := convert(object, &out); err != nil {
		return out, nil, err
	}
	if err := out.weighs(); err != nil {
		return out, nil, err
	}
	if wrong == nil {
		wrong = out.sense()
	} else {
		out.Pending = true // whether these are in force is not known
	}
	return out, wrong, nil
}

// weighs says why its weights are none.
func (p Part) weighs() error {
	if len(p.Weights) == 0 {
		return errors.New("it has no weights")
	}
	for unit, weight := range p.Weights {
		if unit == "" || weight < 0 {
			return fmt.Errorf("weight %v of %q, expected 0 or more", weight, unit)
		}
	}
	return nil
}

// rounding is how far off a share may be, and shares may be together, since
// programs round and add up, percentage points.
const rounding = 0.2

// Rounded is a share as it was meant: what is off by no more than rounding is
// exactly 0 or 100. It is not ok when it is further off.
func Rounded(share float64) (exact float64, ok bool) {
	const off = rounding + 1e-9
	switch {
	case share < -off || share > 100+off || math.IsNaN(share):
		return share, false
	case share <= off:
		return 0, true
	case share >= 100-off:
		return 100, true
	}
	return share, true
}

// sense says what cannot be true, and takes it out.
func (p *Part) sense() error {
	if err := p.splits(); err != nil {
		p.Shares, p.Foreign, p.Pending = nil, nil, true // where requests go is not known
		return err
	}
	for slot, up := range p.Units {
		if !slices.Contains(enums("slot"), slot) || up < 0 {
			err := fmt.Errorf("units %v, expected servers up in a and b", p.Units)
			p.Units = nil
			return err
		}
	}
	return nil
}

// splits says what of its shares cannot be true.
func (p *Part) splits() error {
	var sum float64
	for _, slot := range enums("slot") {
		share, known := p.Shares[slot]
		if _, ok := Rounded(share); !known || !ok {
			return fmt.Errorf("the share of slot %s is %v, expected 0 to 100", slot, share)
		}
		sum += share
	}
	for name, weight := range p.Foreign {
		if weight < 0 {
			return fmt.Errorf("foreign entry %q has weight %v, expected 0 or more", name, weight)
		}
	}
	const most, least = 100 + rounding + 1e-9, 100 - rounding - 1e-9
	if len(p.Shares) != 2 || sum > most || sum < least && sum > 0 && !p.shared() {
		return fmt.Errorf("shares %v, expected those of a and b, 100 together unless a foreign entry has some", p.Shares)
	}
	p.round()
	return nil
}

// round makes exact what is not only by rounding. A slot of little weight has
// little traffic and not none, so that the weights decide; of units that only
// the program knows, whether it says exactly 0.
func (p *Part) round() {
	for slot, share := range p.Shares {
		p.Shares[slot] = min(max(share, 0), 100)
	}
	for _, pair := range [][2]string{{"a", "b"}, {"b", "a"}} {
		all, _ := Rounded(p.Shares[pair[0]])
		none, _ := Rounded(p.Shares[pair[1]])
		if p.idle(pair[1]) && all == 100 && none == 0 && !p.Pending && !p.shared() {
			p.Shares[pair[0]], p.Shares[pair[1]] = 100, 0
		}
	}
}

// shared says whether entries of others take some of the traffic.
func (p *Part) shared() bool {
	for _, weight := range p.Foreign {
		if weight > 0 {
			return true
		}
	}
	return false
}

// idle is a slot that is to get nothing.
func (p *Part) idle(slot string) bool {
	weight, known := p.Weights[slot]
	return known && weight == 0 || p.Shares[slot] < 1e-6
}
