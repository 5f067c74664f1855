package traffic

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/kubernetes"
	"github.com/manent/action/providers/api/kubernetes/dialect"
	"github.com/manent/action/providers/api/kubernetes/route"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// job is the write of one part.
type job struct {
	*Router
	want   state.PartWeights
	slot   state.Slot   // the candidate
	expect *router.Part // nil when the caller did not see the part
	found  dialect.Route
	failed error
}

// Write implements router.Router. Conflicts are looked for on every part
// before the first is written; then each part that can be reached is written
// in order, also after one that failed. The condition is what the API server
// itself tests with the patch: generation, names and weights. The
// resourceVersion is no part of it, since a controller changes that with each
// status it writes. The candidate gets no more traffic than it has while nothing
// is ready in its slot, or nobody can say, nor while a part is unfit; a return
// is written in any case. The receipt holds each patched part's generation and
// the time.
func (r *Router) Write(ctx context.Context, slots state.Slots, want []state.PartWeights, expect router.Reading) (state.Receipt, error) {
	jobs := make([]job, len(want))
	var compared sync.WaitGroup
	for i, p := range want {
		jobs[i] = job{Router: r, want: p, slot: slots.Candidate}
		if k := slices.IndexFunc(expect.Parts, func(q router.Part) bool { return q.ID == p.ID }); k >= 0 {
			jobs[i].expect = &expect.Parts[k]
		}
		compared.Go(func() { jobs[i].failed = named("compare "+p.ID, jobs[i].compare(ctx)) })
	}
	compared.Wait()
	var problems []error
	for _, j := range jobs {
		if k := providers.KindOf(j.failed); k == providers.Conflict || j.failed != nil && k == providers.Invalid {
			return nil, j.failed
		}
		if j.failed != nil {
			problems = append(problems, j.failed)
		}
	}
	if err := r.carries(ctx, jobs, slots.Candidate); err != nil {
		return nil, err
	}
	receipt := state.Receipt{}
	for i := range jobs {
		j := &jobs[i]
		if j.failed != nil {
			continue
		}
		sent, err := j.write(ctx)
		if err != nil {
			problems = append(problems, named("write weights of "+j.want.ID, err))
			continue
		}
		dialect.Note(receipt, j.want.ID, j.found, j.gone(), sent, r.Now())
	}
	return receipt, api.Join(problems...)
}

// carries refuses to raise the candidate's share before its slot can serve.
func (r *Router) carries(ctx context.Context, jobs []job, candidate state.Slot) error {
	if !slices.ContainsFunc(jobs, func(j job) bool { return j.failed == nil && j.raises() }) {
		return nil
	}
	serving, err := r.In.Capacity(ctx)
	if err == nil {
		err = serving.Any()
	}
	if err != nil {
		return named("look at what serves", err)
	}
	if n, known := serving.Units[candidate]; known && n == 0 {
		return named("write weights", &providers.Fault{Kind: providers.Unavailable,
			Err: fmt.Errorf("nothing in slot %s is ready, and its share is to grow", candidate), Hint: "bring its pods up first"})
	}
	return nil
}

// raises reports whether the candidate is to get a larger share than it has.
func (j *job) raises() bool {
	want := j.want.Weights
	return j.slot != "" && !j.done() && 100*want[string(j.slot)]/(want["a"]+want["b"]) > j.found.Split.Lowest(j.slot)
}

// gone is the candidate if it is to get nothing, else "".
func (j *job) gone() state.Slot {
	if j.want.Weights[string(j.slot)] == 0 {
		return j.slot
	}
	return ""
}

// compare reads the part and finds out whether it may be written.
func (j *job) compare(ctx context.Context) (err error) {
	if err := route.Check(j.want.Weights); err != nil {
		return err
	}
	if j.found, err = j.look(ctx, j.want.ID); err != nil {
		return err
	}
	return j.expected()
}

func (j *job) done() bool { return j.found.Split.Done(j.want.Weights, j.gone()) }

// expected returns nil if the part is what the caller saw, or as wanted, and
// its share may be raised if that is wanted.
func (j *job) expected() error {
	seen, foreign := j.found.Split.Weights(), j.found.Split.Foreign(j.slot)
	switch {
	case j.done():
		return nil
	case j.expect != nil && j.expect.Err != nil:
		return &providers.Fault{Kind: providers.Unavailable, Err: errors.New("it could not be read before, so there is nothing to compare with"), Hint: "read again"}
	case j.expect == nil || !router.Same(seen, j.expect.Weights):
		return j.drifted(seen)
	case !router.Same(foreign, j.seenForeign()):
		return j.drifted(together(seen, foreign))
	}
	if unfit := j.found.Split.Unfit(); unfit != nil && j.raises() {
		return &providers.Fault{Kind: providers.Invalid, Err: unfit, Hint: providers.HintOf(unfit)}
	}
	return nil
}

// seenForeign is what the caller saw in the route itself.
func (j *job) seenForeign() map[string]float64 {
	out := maps.Clone(j.expect.Foreign)
	delete(out, dialect.Strayed(j.slot))
	return out
}

func together(seen, foreign map[string]float64) map[string]float64 {
	for name, w := range foreign {
		seen[name] = w
	}
	return seen
}

// drifted names both sides, and who did it.
func (j *job) drifted(seen map[string]float64) error {
	drift := &router.ErrDrifted{Part: j.want.ID, Seen: seen}
	if j.expect != nil {
		drift.Want = together(map[string]float64{}, j.expect.Weights)
	}
	f := &providers.Fault{Kind: providers.Conflict, Err: drift, Hint: "find out who changed the weights before going on"}
	if change, ok := j.found.Split.LastChange(); ok {
		f.Hint = "last changed by " + change.String() + "; see that this tool leaves the weights alone"
	}
	return f
}

// write patches, and after a refusal reads again to learn which it was: the
// weights changed (Conflict), something else did (once more), or nothing
// (the API server refuses what the patch says). It says whether a patch of
// this call did it.
func (j *job) write(ctx context.Context) (sent bool, err error) {
	for range dialect.Tries {
		if j.done() {
			return false, nil
		}
		if err := j.expected(); err != nil {
			return false, err
		}
		patched, err := j.Client.Patch(ctx, j.found.Ref, j.found.Split.Write(j.want.Weights, j.gone()))
		if err == nil {
			return true, j.verify(j.In.Parse(j.found.Ref, patched.Object))
		}
		if !dialect.LostRace(err) {
			return false, err
		}
		before, refused := j.found, err
		if j.found, err = j.look(ctx, j.want.ID); err != nil {
			return false, err
		}
		if providers.KindOf(refused) == providers.Invalid && j.found.Split.Same(before.Split) {
			return false, refused
		}
	}
	return false, dialect.Busy()
}

// verify looks at what the API server stored: an admission webhook may have
// made something else of it.
func (j *job) verify(stored dialect.Route, err error) error {
	if err != nil {
		return err
	}
	if j.found = stored; j.done() {
		return nil
	}
	return &providers.Fault{Kind: providers.Invalid,
		Err:  fmt.Errorf("the API server stored weights %v instead of %v", stored.Split.Weights(), j.want.Weights),
		Hint: "an admission webhook of the cluster changes this object: take its rule away"}
}
