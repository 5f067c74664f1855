package f5

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/f5"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

const most = 65535 // ratio that a pool takes; a share needs no more than 100

// returned is the receipt of a return, which has no transaction.
const returned = "returned"

// job is the write of the pool.
type job struct {
	*Router
	want   map[string]float64
	expect *router.Part // nil when the caller did not see the part
	slot   state.Slot   // whose share is bounded on the way
	back   bool         // nothing is wanted for that slot
}

// job checks what is wanted before anything is touched.
func (r *Router) job(slots state.Slots, want state.PartWeights, expect router.Reading) (job, error) {
	if want.ID != r.settings.part() {
		return job{}, r.noPart(want.ID)
	}
	_, err := router.Whole(want.Weights, r.members, most)
	return job{
		Router: r, want: want.Weights, expect: expect.Part(want.ID), slot: slots.Candidate,
		back: router.Returns(r.members, want.Weights, slots.Candidate),
	}, err
}

// write compares and writes, and reads whether it is so; what a return wrote
// its caller reads. It returns the receipt, and the pool as it was before.
func (j job) write(ctx context.Context, s *f5.Session) (string, view, error) {
	receipt := map[bool]string{true: returned}[j.back]
	before, err := j.look(ctx, s, false)
	if err != nil || before.has(j.want) {
		return receipt, before, err
	}
	if err := j.allowed(before); err != nil {
		return receipt, before, err
	}
	if j.back {
		return receipt, before, router.Back(before.servers(), j.slot, before.wanted(j.want), j.set(ctx, s, 0, before))
	}
	id, err := j.transact(ctx, s, before)
	if id != 0 {
		receipt = fmt.Sprint(id)
	}
	return receipt, before, err
}

// transact changes all members together, and finds out what became of it where
// the answer was lost. It warns of changes that are not ours and will be sent
// with these: not to know of any keeps nobody from writing.
func (j job) transact(ctx context.Context, s *f5.Session, before view) (int64, error) {
	if err := before.Behind(); err != nil {
		j.log.Once("whatever is pending in device group %s is sent with this change: %v", before.Group, err)
	}
	id, lost := s.Transact(ctx, func(id int64) error {
		for _, c := range router.Changes(before.servers(), j.slot, before.wanted(j.want)) {
			if err := j.set(ctx, s, id, before)(c); err != nil {
				return err
			}
		}
		return nil
	})
	if lost != nil && providers.KindOf(lost).Definite() {
		return id, lost
	}
	after, err := j.look(ctx, s, false)
	switch {
	case err == nil && after.has(j.want):
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

// set changes one member, in a transaction unless that is 0. One that goes out
// keeps its ratio; one that was forced offline by hand stays so.
func (j job) set(ctx context.Context, s *f5.Session, transaction int64, v view) func(router.Change) error {
	return func(c router.Change) error {
		i := slices.IndexFunc(v.Pool.Members, func(m f5.Member) bool { return m.FullPath == c.ID })
		return s.Set(ctx, transaction, j.settings.part(), v.Pool.Members[i], f5.Reweigh(c.From, c.To))
	}
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
	switch {
	case j.back:
		return nil
	case j.expect != nil && !router.Same(has, j.expect.Weights): // all of it changes at once, so none of it is ours
		return router.Drifted(j.settings.part(), has, j.expect.Weights)
	case !router.Splits(j.members, j.want):
		return cmp.Or(v.unclear, v.Standby())
	}
	return cmp.Or(v.unfit(j.settings), v.Standby())
}

// keep has what was written outlast the device. The traffic of a return is back
// without.
func (j job) keep(ctx context.Context, s *f5.Session, before view) error {
	err := s.Keep(ctx, before.Look, j.settings.Save)
	if err != nil && j.back {
		j.log.Once("all traffic is back on this device, but: %v", err)
		return nil
	}
	return err
}
