package runner

import (
	"errors"
	"fmt"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/state"
)

// HeldError says that the environment is another rollout's, or this call belongs to an
// older run. Nothing was touched.
type HeldError struct {
	Reason string
	Hint   string
}

// Error returns the reason.
func (e *HeldError) Error() string { return e.Reason }

// UsageError says that the call names something that is not there. Nothing was touched.
type UsageError struct {
	Reason string
	Hint   string
}

// Error returns the reason.
func (e *UsageError) Error() string { return e.Reason }

// UnsureError says that a provider or the store did not answer, or that its
// answer was lost.
// Nothing was moved because of it; the next call reads the world again.
type UnsureError struct {
	Step string
	Err  error
}

// Error names the step once.
func (e *UnsureError) Error() string {
	if e.Step == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("%s: %v", e.Step, e.Err)
}

// Unwrap returns the error below.
func (e *UnsureError) Unwrap() error { return e.Err }

// errStale: somebody wrote the document between our read and our write; the
// caller reads again and decides anew.
var errStale = errors.New("the state changed meanwhile")

// definite reports whether a provider's error is an answer: trying again
// without a change is pointless, so the step has failed.
func definite(err error) bool {
	k := providers.KindOf(err)
	return k == providers.Denied || k == providers.NotFound || k == providers.Invalid
}

// heldBy describes the rollout that holds the environment.
func heldBy(d *state.Document, why string) *HeldError {
	r := d.Rollout
	reason := fmt.Sprintf("%s: %s is held by rollout %s of version %s (%s), %s, since %s", why,
		d.Key, r.ID, r.Version, r.Status, runOf(r.Owner), r.Started.UTC().Format("2006-01-02T15:04:05Z"))
	if r.Owner.URL != "" {
		reason += ", " + r.Owner.URL
	}
	return &HeldError{Reason: reason,
		Hint: fmt.Sprintf("wait for it, or end it with `manent revert --version %s`", r.Version)}
}

// whose names a run for a person, with its page if it has one.
func whose(run state.RunRef) string {
	return strings.TrimSuffix(runOf(run)+", "+run.URL, ", ")
}

func runOf(run state.RunRef) string {
	words := make([]string, 0, 3)
	for _, word := range []string{run.Platform, run.Repository} {
		if word != "" {
			words = append(words, word)
		}
	}
	if run.Run != "" {
		words = append(words, "run "+run.Run)
	}
	return strings.Join(words, " ")
}
