package haproxy

import (
	"context"
	"fmt"
	"maps"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/haproxy"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// instance is one HAProxy while a call lasts.
type instance struct {
	*Router
	haproxy.Instance
}

// ours are the weights of the members that exist.
func (r *Router) ours(c haproxy.Configuration) map[string]float64 {
	out := map[string]float64{}
	for _, m := range r.members {
		if w, ok := c.Weights[m.Name]; ok {
			out[m.Name] = float64(w)
		}
	}
	return out
}

// read reports one part. What keeps it from being used, but not from being
// read, is in Unfit.
func (i instance) read(ctx context.Context) (router.Part, error) {
	part := router.Part{PartWeights: state.PartWeights{ID: i.ID}}
	c, err := i.Configuration(ctx)
	if err != nil {
		return part, err
	}
	backend, err := i.Backend(ctx)
	if err != nil {
		return part, err
	}
	running, err := i.Running(ctx)
	if err == nil {
		part.Unfit, err = i.Unfit(ctx, i.use(), backend, c, running)
	}
	switch {
	case err == nil:
		part.Pending = i.notInForce(c, running) != ""
	case providers.KindOf(err) == providers.Unavailable:
		part.Unfit, part.Pending, running = err, true, nil
	default:
		return part, err
	}
	part.Weights, part.Revision = i.ours(c), fmt.Sprint(c.Version)
	i.share(&part, c, running)
	return part, nil
}

// use is what is asked of the backend.
func (i instance) use() haproxy.Use {
	use := haproxy.Use{Keeps: i.settings.PinnedFor, Member: i.settings.Member, Warn: i.log.Once}
	for _, m := range i.members {
		use.Servers = append(use.Servers, m.Name)
	}
	return use
}

// share fills in who gets what: by the weights in force of the servers that
// are up or, where running is nil, by those configured, and nobody knows what
// is up.
func (i instance) share(part *router.Part, c haproxy.Configuration, running map[string]haproxy.Running) {
	serving, total := c.Serving(running), 0.0
	units, held := map[state.Slot]int{}, map[state.Slot]float64{state.SlotA: 0, state.SlotB: 0}
	others := maps.Clone(serving)
	for _, w := range serving {
		total += float64(w)
	}
	for _, m := range i.members {
		if w, ok := serving[m.Name]; ok {
			units[m.Slot]++
			held[m.Slot] += float64(w)
			delete(others, m.Name)
		}
	}
	if part.Shares = held; total > 0 {
		held[state.SlotA], held[state.SlotB] = 100*held[state.SlotA]/total, 100*held[state.SlotB]/total
	}
	for name, w := range others {
		if w > 0 {
			if part.Foreign == nil {
				part.Foreign = map[string]float64{}
			}
			part.Foreign[name] = 100 * float64(w) / total
		}
	}
	if running != nil {
		part.Units = map[state.Slot]int{state.SlotA: units[state.SlotA], state.SlotB: units[state.SlotB]}
	}
}

// notInForce is about our servers only.
func (i instance) notInForce(c haproxy.Configuration, running map[string]haproxy.Running) string {
	want := map[string]int{}
	for name, w := range i.ours(c) {
		want[name] = int(w)
	}
	return haproxy.InForce(want, running)
}

// settled takes one look.
func (i instance) settled(ctx context.Context, want map[string]float64, reload string) (bool, error) {
	c, err := i.Configuration(ctx)
	if err != nil || !router.Same(i.ours(c), want) {
		return false, err
	}
	if reload != "" {
		if done, err := i.Reloaded(ctx, reload); err != nil || !done {
			return false, err
		}
	}
	running, err := i.Running(ctx)
	if err != nil {
		return false, err
	}
	why := i.notInForce(c, running)
	if why != "" {
		i.log.Once("%s: not in force: %s; if that stays so, somebody set it at run time, an agent does, or slowstart has not ended", i.ID, why)
	}
	return why == "", nil
}
