package f5

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/f5"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

const most = 65535 // ratio that a pool takes; a share needs no more than 100

// job is the write of the pool.
type job struct {
	*Router
	want   map[string]float64
	units  map[string]int // want in whole numbers
	expect *router.Part   // nil when the caller did not see the part
	slot   state.Slot     // whose share is bounded on the way
}

// job checks what is wanted before anything is touched.
func (r *Router) job(slots state.Slots, want state.PartWeights, expect router.Reading) (job, error) {
	if want.ID != r.settings.part() {
		return job{}, r.noPart(want.ID)
	}
	whole, err := router.Whole(want.Weights, r.members, most)
	return job{Router: r, want: want.Weights, units: whole, expect: expect.Part(want.ID), slot: slots.Candidate}, err
}

// write compares and writes, and reads whether it is so. It returns the
// transaction's id, 0 if there was none.
func (j job) write(ctx context.Context, s *f5.Session) (int64, error) {
	before, err := j.look(ctx, s)
	if err != nil || router.Same(before.weights(), j.want) {
		return 0, err
	}
	if err := j.allowed(before); err != nil {
		return 0, err
	}
	j.othersPending(ctx, s)
	id, lost := s.Transact(ctx, func(id int64) error { return j.add(ctx, s, id, before) })
	if lost != nil && providers.KindOf(lost) != providers.Unknown {
		return id, lost
	}
	after, err := j.look(ctx, s)
	switch {
	case err == nil && router.Same(after.weights(), j.want):
		return id, nil
	case lost != nil:
		return id, lost
	case err != nil:
		return id, err
	case router.Same(after.weights(), before.weights()):
		return id, &providers.Fault{Kind: providers.Unknown, Err: errors.New("the transaction is completed, and the members are as before"), Hint: "look who sets them: AS3, Terraform and a sync from another device bring their own values back"}
	}
	return id, router.Drifted(j.settings.part(), after.weights(), j.want)
}

// allowed returns nil if the pool is what the caller saw, and can give what is
// wanted.
func (j job) allowed(v view) error {
	for _, unit := range slices.Sorted(maps.Keys(j.want)) {
		if _, ok := v.ours[unit]; !ok && j.want[unit] != 0 {
			v.missing = []string{unit}
			return v.unfit(j.settings)
		}
	}
	has := v.weights()
	if err := router.Expected(j.settings.part(), has, j.want, j.expect); err != nil {
		return err
	}
	if !router.Same(has, j.expect.Weights) { // all of it changes at once, so none of it is ours
		return router.Drifted(j.settings.part(), has, j.expect.Weights)
	}
	if !v.splits(j.want) {
		return nil
	}
	return v.unfit(j.settings)
}

// othersPending warns of changes that are not ours and will be sent with them.
// Not to know of any keeps nobody from writing.
func (j job) othersPending(ctx context.Context, s *f5.Session) {
	if j.settings.SyncGroup == "" {
		return
	}
	sync, err := s.Sync(ctx, j.settings.SyncGroup)
	switch {
	case err != nil:
		j.log.Once("whatever is pending in device group %s is sent with this change: %v", j.settings.SyncGroup, err)
	case sync.Status != f5.InSync:
		j.log.Once("device group %s was not in sync before this change, whatever is pending is sent with it: %s", j.settings.SyncGroup, sync)
	}
}

// add puts the changes into a transaction. A member that goes out keeps its
// ratio; one that was forced offline by hand stays so.
func (j job) add(ctx context.Context, s *f5.Session, id int64, v view) error {
	var servers []router.Server
	for _, unit := range slices.Sorted(maps.Keys(v.ours)) {
		m := v.ours[unit]
		servers = append(servers, router.Server{ID: unit, Slot: v.slots[unit], Weight: m.Weight()})
	}
	for _, c := range router.Changes(servers, j.slot, j.units) {
		if err := s.Set(ctx, id, j.settings.part(), v.ours[c.ID], f5.Reweigh(c.From, c.To)); err != nil {
			return err
		}
	}
	return nil
}
