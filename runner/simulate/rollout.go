package simulate

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/manent/action/providers/metric"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/gate"
	"github.com/manent/action/runner/plan"
	"github.com/manent/action/state"
)

// scene is what all rollouts of a cell share; it is only read.
type scene struct {
	cfg     config.Config
	plan    plan.Plan
	gates   []watch
	models  modelled
	systems map[string]metric.Traits
	vars    map[string]string // of every query
	probes  []gate.ProbeResult
	timed   bool // durations are wanted
	opts    Options
	error   float64 // of the candidate
	judge   judge
}

// judge makes a reading of what came back: gate.Judge, or in tests the rule of
// another judge.
type judge func(config.Health, gate.Subject, gate.Answers, []gate.ProbeResult) gate.Record

// watch is a stage with traffic, and whether a person is asked after it.
type watch struct {
	plan.Step
	asked bool
}

// watches are the gates of a plan that see traffic.
func watches(p plan.Plan) []watch {
	var out []watch
	for _, s := range p.Steps {
		switch {
		case s.Kind == plan.Gate && s.Share > 0:
			out = append(out, watch{Step: s})
		case s.Kind == plan.Approval && len(out) > 0 && s.Stage == out[len(out)-1].Stage:
			out[len(out)-1].asked = true
		}
	}
	return out
}

// fate is how one rollout ended.
type fate struct {
	stage   int  // of watches in which it was returned, -1 when it was not
	thin    bool // for data that were too thin or missing, not for what they said
	minutes float64
	bad     int // requests that the candidate failed
}

// rollout is one in virtual time.
type rollout struct {
	*scene
	world  *system
	now    time.Time
	stages []state.Stage // as in the document
}

// trial rolls out once. The number picks the random stream, so that a trial
// comes out the same whoever runs it.
func (s *scene) trial(ctx context.Context, number int) fate {
	rng := rand.New(rand.NewPCG(s.opts.Seed, uint64(number))) //nolint:gosec // G404, G115: a simulation has to be repeatable; numbers are 0 and above
	begin := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC).Add(time.Duration(rng.Int64N(int64(time.Minute)))).Truncate(time.Millisecond)
	r := &rollout{scene: s, now: begin}
	candidate, stable := newSides(rng, s.opts, begin.UnixMilli(), s.timed)
	r.world = &system{models: s.models, candidate: candidate, stable: stable}
	end := fate{stage: -1}
	for i, w := range s.gates {
		if last, ok := r.stage(ctx, w); !ok {
			end.stage, end.thin = i, last.Verdict != gate.Red && !gate.Conclusive(last.Metrics)
			break
		}
	}
	end.minutes = r.now.Sub(begin).Minutes()
	end.bad = candidate.flow.at(r.now.UnixMilli()).bad
	return end
}

// stage watches one share as the engine's gate step does, and then once more
// if a person is asked, who approves at once. ok is false when it failed, by
// the last reading.
func (r *rollout) stage(ctx context.Context, w watch) (last gate.Record, ok bool) {
	r.shift(w.Share)
	r.stages = append(r.stages, state.Stage{
		Name: w.Stage, Pass: w.Pass, Share: w.Share, Achieved: w.Share, Status: state.StageBaking, InForce: r.now,
	})
	stage := &r.stages[len(r.stages)-1]
	r.now = gate.NextDue(r.health(), r.clock(stage), *stage)
	last, ok = r.watch(ctx, stage, r.clock, func(_ gate.Record, out gate.Outcome) bool { return out.Act == gate.Finish })
	if !ok || !w.asked || stage.Status == state.StageUngated {
		return last, ok
	}
	given := r.now
	approved := func(s *state.Stage) gate.Clock { return r.clock(s).Approved(given) }
	return r.watch(ctx, stage, approved, func(rec gate.Record, _ gate.Outcome) bool { return gate.Opens(rec) })
}

// watch takes readings until one opens the way or the gate refuses.
func (r *rollout) watch(ctx context.Context, stage *state.Stage, clock func(*state.Stage) gate.Clock, opens func(gate.Record, gate.Outcome) bool) (gate.Record, bool) {
	for ctx.Err() == nil {
		rec, out := r.reading(stage, clock(stage))
		stage.Status = out.Status
		switch {
		case opens(rec, out):
			return rec, true
		case out.Act == gate.Refuse:
			return rec, false
		case out.Act == gate.GoOn:
			r.now = out.Next
		}
	}
	return gate.Record{}, false
}

// reading is one reading, and what the stage keeps of it.
func (r *rollout) reading(stage *state.Stage, clock gate.Clock) (gate.Record, gate.Outcome) {
	subject := r.subject(stage, clock)
	questions, _ := gate.Ask(r.health(), subject)
	answers := gate.Answers{}
	for _, q := range questions {
		r.world.answer(q, answers)
	}
	rec := r.judge(r.health(), subject, answers, r.probes)
	out := gate.Decide(r.health(), clock, *stage, rec)
	stage.Count++
	stage.Score, stage.Red, stage.FirstError, stage.Memory = rec.Score, out.Red, out.FirstError, rec.Memory
	stage.Readings = append(stage.Readings, state.Reading{N: stage.Count, At: r.now, Verdict: string(rec.Verdict)})
	if extra := len(stage.Readings) - state.ReadingLimit; extra > 0 {
		stage.Readings = slices.Delete(stage.Readings, 0, extra)
	}
	return rec, out
}

// shift puts a share in force.
func (r *rollout) shift(share float64) {
	o, at, part := r.opts, r.now.UnixMilli(), share/100
	faulty, minutes := r.error, o.FaultMinutes
	if share < o.FaultFrom {
		faulty = o.StableError
	}
	r.world.candidate.flow.change(at, o.Rate*part, o.StableError, faulty, minutes)
	r.world.stable.flow.change(at, o.Rate*(1-part), o.StableError, o.StableError, 1)
}

func (r *rollout) health() config.Health { return r.cfg.Rollout.Health }

func (r *rollout) subject(stage *state.Stage, clock gate.Clock) gate.Subject {
	return gate.Subject{
		Stage: stage.Name, Vars: r.vars, Candidate: state.SlotB, Share: stage.Achieved,
		InForce: stage.InForce, Now: r.now, AtEnd: clock.AtEnd(), Systems: r.systems, Course: gate.CourseOf(r.cfg, r.stages, *stage),
	}
}

func (r *rollout) clock(stage *state.Stage) gate.Clock {
	t := r.cfg.Rollout.Traffic
	clock := gate.Clock{InForce: stage.InForce, Now: r.now, Bake: t.Bake.Std(), MaxBake: t.MaxBake.Std()}
	if stage.Share == 100 {
		clock.Bake, clock.MaxBake = t.FinalBake.Std(), t.FinalBake.Std()
	}
	clock.LastRead = gate.LastRead(*stage)
	clock.Delay = gate.LargestDelay(r.health(), r.subject(stage, clock))
	return clock
}
