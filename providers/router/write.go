package router

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/manent/action/providers"
	"github.com/manent/action/state"
)

// Job is the write of one part of several.
type Job interface {
	ID() string                                // of the part
	Compare(ctx context.Context) error         // may it be written? A Conflict keeps every part as it is; called beside other jobs'
	Write(ctx context.Context) (string, error) // compares again, and returns the part's receipt, "" for none
}

// WriteParts compares every part, all at the same time, before the first is
// written; then each that could be compared is written in order, also after
// one that failed. A single part is compared by its write alone.
func WriteParts(ctx context.Context, jobs []Job) (state.Receipt, error) {
	var problems []error
	var ready []Job
	for i, err := range compare(ctx, jobs) {
		switch {
		case providers.IsConflict(err):
			return nil, err
		case err != nil:
			problems = append(problems, err)
		default:
			ready = append(ready, jobs[i])
		}
	}
	receipt := state.Receipt{}
	for _, j := range ready {
		got, err := j.Write(ctx)
		if got != "" {
			receipt[j.ID()] = got
		}
		if err != nil {
			problems = append(problems, err)
		}
	}
	return receipt, Join(problems)
}

func compare(ctx context.Context, jobs []Job) []error {
	if len(jobs) == 1 {
		return make([]error, 1)
	}
	return Each(len(jobs), func(k int) error { return jobs[k].Compare(ctx) })
}

// Each does something for all of n parts at the same time, so that a slow one
// takes nobody else's time.
func Each(n int, do func(k int) error) []error {
	problems := make([]error, n)
	var all sync.WaitGroup
	for k := range n {
		all.Go(func() { problems[k] = do(k) })
	}
	all.Wait()
	return problems
}

// Whole are weights in whole numbers, at most most. Only a member may get any.
func Whole(weights map[string]float64, members []Member, most int) (map[string]int, error) {
	out := make(map[string]int, len(weights))
	for unit, w := range weights {
		switch {
		case w != math.Trunc(w) || w < 0 || w > float64(most):
			return nil, &providers.Fault{Kind: providers.Invalid, Err: fmt.Errorf("weight %v of %s, expected a whole number from 0 to %d", w, unit, most)}
		case w > 0 && !slices.ContainsFunc(members, func(m Member) bool { return m.Name == unit }):
			return nil, &providers.Fault{
				Kind: providers.Invalid, Err: fmt.Errorf("weight %v of %s, which is no target's", w, unit),
				Hint: "put the target back, or read the weights again",
			}
		}
		out[unit] = int(w)
	}
	return out, nil
}

// Expected returns nil if a part with weights has may be written: each unit is
// as the caller saw it in expect, or as wanted. expect is nil when the caller
// did not see the part.
func Expected(part string, has, want map[string]float64, expect *Part) error {
	switch {
	case Same(has, want):
		return nil
	case expect == nil:
		return Drifted(part, has, nil)
	case expect.Err != nil:
		return &providers.Fault{
			Kind: providers.Unavailable, Err: errors.New("it could not be read before, so there is nothing to compare with"),
			Hint: "read again",
		}
	case !Between(has, expect.Weights, want):
		return Drifted(part, has, expect.Weights)
	}
	return nil
}

// Drifted is the Conflict that a part has other weights than expected.
func Drifted(part string, seen, want map[string]float64) error {
	return &providers.Fault{
		Kind: providers.Conflict, Err: &ErrDrifted{Part: part, Seen: maps.Clone(seen), Want: maps.Clone(want)},
		Hint: "somebody else moved the weights, or the system went back to older ones; find out before going on",
	}
}
