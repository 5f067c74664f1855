package router

import (
	"errors"
	"fmt"

	"github.com/manent/action/providers"
)

// Named makes an error the named router's, with what was done; nil stays nil.
// A router that is named already is not named twice.
func Named(router, op string, err error) error {
	if err == nil {
		return nil
	}
	f := providers.Fault{Provider: router, Op: op, Kind: providers.KindOf(err), Err: err, Hint: providers.HintOf(err)}
	if below, ok := errors.AsType[*providers.Fault](err); ok {
		f.After = below.After
		if below.Provider == router && err.Error() == below.Error() {
			inner := *below
			inner.Provider, f.Err = "", &inner
		}
	}
	return &f
}

// Join makes one error of the parts' errors, on one line, nil where none has
// one. It is of the first one's kind.
func Join(problems []error) (all error) {
	for _, p := range problems {
		switch {
		case all == nil:
			all = p
		case p != nil:
			all = fmt.Errorf("%w; %w", all, p)
		}
	}
	return all
}

// Unfit returns the first reason that a part has against any share of the
// candidate.
func (r Reading) Unfit() error {
	for _, p := range r.Parts {
		if p.Unfit != nil {
			return p.Unfit
		}
	}
	return nil
}

// Part returns the part with this id, nil when the reading has none.
func (r Reading) Part(id string) *Part {
	for i := range r.Parts {
		if r.Parts[i].ID == id {
			return &r.Parts[i]
		}
	}
	return nil
}
