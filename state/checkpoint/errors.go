package checkpoint

import (
	"fmt"

	"github.com/manent/action/providers"
	"github.com/manent/action/state"
)

// Conflict says that another process has written the document since it was
// loaded. Nothing of the refused write is in Found. In a store without
// ancestry it may have landed for a moment and been built upon, so what to do
// next follows from Found, never from the refusal alone.
type Conflict struct {
	Found *state.Document // as it is now; never nil
	err   error
}

// Error implements error.
func (c *Conflict) Error() string { return c.err.Error() }

// Unwrap returns a *providers.Fault of kind Conflict.
func (c *Conflict) Unwrap() error { return c.err }

func conflict(key string, base uint64, found *state.Document, cause error) *Conflict {
	return &Conflict{Found: found, err: &providers.Fault{
		Provider: "state", Op: key, Kind: providers.Conflict,
		Err: fmt.Errorf("write %d (%q) by another process found where write %d was expected: %w", found.Seq, found.Note, base, cause),
	}}
}

// Unsure says that nobody can tell whether a write has landed or still will.
// A later Load finds out.
type Unsure struct{ err error }

// Error implements error.
func (u *Unsure) Error() string { return u.err.Error() }

// Unwrap returns a *providers.Fault of kind Unknown, and the store's own
// faults below it.
func (u *Unsure) Unwrap() error { return u.err }

func unsure(key string, seq uint64, cause error) *Unsure {
	return &Unsure{err: &providers.Fault{
		Provider: "state", Op: key, Kind: providers.Unknown,
		Err:  fmt.Errorf("cannot tell whether write %d has landed: %w", seq, cause),
		Hint: "run the same command again once the state store answers; it continues from what it finds",
	}}
}
