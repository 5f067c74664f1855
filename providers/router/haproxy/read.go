package haproxy

import (
	"context"
	"errors"
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
	s, err := i.Look(ctx, i.names())
	if err != nil {
		return part, err
	}
	part.Weights, part.Unfit = i.ours(s.Configuration), i.Unfit(i.use(), s)
	if s.Version > 0 {
		part.Revision = fmt.Sprint(s.Version)
	}
	i.share(&part, s.Configuration, s.Running)
	set := s.SetAtRunTime(i.names(), s.Running)
	part.Pending = s.Running == nil || i.inForce(part.Weights, s.Configuration, s.Running) != ""
	if part.Unfit == nil {
		part.Unfit = s.Unsaid(i.names(), set)
	}
	maps.DeleteFunc(set, func(name string, _ int) bool { return s.Assumed[name] }) // nobody's hand
	i.byHand(&part, set)
	return part, nil
}

// inForce returns why these weights are not those that HAProxy runs with, "" if
// they are. All of them count in a split. Where one slot is to have everything,
// as after a return, what counts is that it has, and that nobody set another
// weight of its servers by hand: neither an agent's say nor a server that gets
// nothing keeps a return.
func (i instance) inForce(want map[string]float64, c haproxy.Configuration, running map[string]haproxy.Running) string {
	with, without, ok := router.Sole(i.members, want)
	if !ok {
		return c.InForce(i.names(), running)
	}
	set := c.SetAtRunTime(with, running)
	if err := c.Unsaid(with, set); err != nil {
		return err.Error()
	}
	for _, name := range with {
		if w, ok := set[name]; ok {
			return fmt.Sprintf("server %s has weight %d, HAProxy runs it with %d", name, c.Weights[name], w)
		}
	}
	return haproxy.Alone(with, without, running)
}

// byHand names the weights that somebody set at run time. Where that is within
// the slot which has all the configured weight, a first share would undo it.
func (i instance) byHand(part *router.Part, set map[string]int) {
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
			part.Unfit = &providers.Fault{Kind: providers.Invalid, Err: &router.Hand{Text: fmt.Sprintf("slot %s serves, and was last changed by %s", slot, part.By)},
				Hint: "a first share would undo that: set the weights back, or reload HAProxy; a server that is to stay out needs weight 0 in its line too, and has to leave the targets for as long"}
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
			c, err = i.Inherited(ctx, i.names())
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
	if problems[2] != nil {
		return false, problems[2]
	}
	why := i.inForce(want, c, running)
	if why != "" {
		i.log.Once("%s: not in force: %s; if that stays so, somebody set it at run time, an agent does, slowstart has not ended, or a defaults section says it", i.ID, why)
	}
	if why == "" && errors.Is(problems[1], haproxy.ErrRefused) { // of an earlier try: what is wanted is in force
		return true, nil
	}
	return why == "" && done, problems[1]
}
