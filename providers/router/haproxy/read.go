package haproxy

import (
	"context"
	"fmt"
	"maps"
	"strings"

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

// read reports one part. Only where the configured weights cannot be known it
// is an error; what else keeps it from being used is in Unfit.
func (i instance) read(ctx context.Context) (router.Part, error) {
	part := router.Part{PartWeights: state.PartWeights{ID: i.ID}}
	s, err := i.Look(ctx)
	if err != nil {
		return part, err
	}
	part.Weights, part.Unfit = i.ours(s.Configuration), i.Unfit(i.use(), s)
	if s.Version > 0 {
		part.Revision = fmt.Sprint(s.Version)
	}
	part.Pending = s.Running == nil || s.InForce(i.names(), s.Running) != ""
	i.share(&part, s.Configuration, s.Running)
	i.byHand(&part, s)
	return part, nil
}

// byHand names the weights that somebody set at run time. Where that is within
// the slot which has all the configured weight, a first share would undo it.
func (i instance) byHand(part *router.Part, s haproxy.Seen) {
	set := s.SetAtRunTime(i.names(), s.Running)
	if len(set) == 0 {
		return
	}
	var said []string
	inSlot, total := map[state.Slot]bool{}, map[state.Slot]float64{}
	for _, m := range i.members {
		total[m.Slot] += part.Weights[m.Name]
		if w, ok := set[m.Name]; ok {
			said = append(said, fmt.Sprintf("%s with %d, configured %v", m.Name, w, part.Weights[m.Name]))
			inSlot[m.Slot] = true
		}
	}
	part.By = "somebody at the stats socket, or a file not loaded yet: HAProxy runs " + strings.Join(said, ", ")
	for slot := range inSlot {
		if total[slot.Other()] == 0 && part.Unfit == nil {
			part.Unfit = &providers.Fault{Kind: providers.Invalid, Err: fmt.Errorf("slot %s serves, and was last changed by %s", slot, part.By),
				Hint: "a first share would undo that: set the weights back, reload HAProxy, or take the servers out of the targets for as long"}
		}
	}
}

func (i instance) names() []string {
	out := make([]string, len(i.members))
	for k, m := range i.members {
		out[k] = m.Name
	}
	return out
}

// use is what is asked of the backend.
func (i instance) use() haproxy.Use {
	return haproxy.Use{Servers: i.names(), Keeps: i.settings.PinnedFor, Member: i.settings.Member, Warn: i.log.Once}
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

// settled takes one look.
func (i instance) settled(ctx context.Context, want map[string]float64, reload string) (bool, error) {
	var c haproxy.Configuration
	var running map[string]haproxy.Running
	done := true
	problems := router.Each(3, func(k int) (err error) {
		switch {
		case k == 0:
			c, err = i.Configured(ctx)
		case k == 1 && reload != "":
			done, err = i.Reloaded(ctx, reload)
		case k == 2:
			running, err = i.Running(ctx)
		}
		return err
	})
	if problems[0] != nil || !router.Same(i.ours(c), want) {
		return false, problems[0]
	}
	if problems[1] != nil || !done {
		return false, problems[1]
	}
	if problems[2] != nil {
		return false, problems[2]
	}
	why := c.InForce(i.names(), running)
	if why != "" {
		i.log.Once("%s: not in force: %s; if that stays so, somebody set it at run time, an agent does, or slowstart has not ended", i.ID, why)
	}
	return why == "", nil
}
