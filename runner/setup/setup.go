// Package setup says what a platform lacks for the generated pipelines: from
// what is there and what should be, what to change. It is pure: it must not
// know how anything is read or written, nor loosen what somebody has set.
package setup

import "strings"

// State is how one thing of the platform stands.
type State string

// The states: before anything is written, and after it was.
const (
	Kept        State = "is as it should be"
	WouldMake   State = "would be made"
	WouldChange State = "would be changed"
	Made        State = "is made"
	Changed     State = "is changed"
	ByHand      State = "is left to you"
)

// Change is one property that is not as it should be.
type Change struct {
	Of   string `json:"of"`   // what it is, as the platform calls it
	From string `json:"from"` // as it is, "none" for nothing
	To   string `json:"to"`   // as it should be
}

// Item is one thing of the platform.
type Item struct {
	What    string   `json:"what"`              // kind and name
	State   State    `json:"state"`             // is as it should be, would be made, would be changed, is made, is changed, is left to you
	Changes []Change `json:"changes,omitempty"` // what differs
	Notes   []string `json:"notes,omitempty"`   // what only a person can do, or has to know
}

// Error says why nothing was planned.
type Error struct {
	Reason string
	Hint   string
}

// Error returns the reason.
func (e *Error) Error() string { return e.Reason }

// Done is the item once its change was written.
func (i Item) Done() Item {
	switch i.State {
	case WouldMake:
		i.State = Made
	case WouldChange:
		i.State = Changed
	}
	return i
}

// compare collects properties that differ.
type compare []Change

func (c *compare) text(of, from, to string) {
	if from != to {
		*c = append(*c, Change{Of: of, From: or(from, "none"), To: or(to, "none")})
	}
}

func (c *compare) flag(of string, from, to bool) {
	word := map[bool]string{true: "on", false: "off"}
	c.text(of, word[from], word[to])
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func list(names []string) string { return strings.Join(names, ", ") }
