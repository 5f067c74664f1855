package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/metric"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/gate"
	"github.com/manent/action/runner/plan"
	"github.com/manent/action/state"
	"github.com/manent/action/state/checkpoint"
)

// stepGate watches a stage: a reading whenever one is due, until the gate says
// that the stage is done or has failed. Weights are read first: under drift a
// reading is void and the rollout pauses.
func stepGate(ctx context.Context, c *call) (result, error) {
	stage := c.stage()
	if stage.InForce.IsZero() {
		stage.InForce, stage.Status, stage.Achieved = c.now, state.StageBaking, c.pass.Share
		c.dirty = true
	}
	if due := gate.NextDue(c.health(), c.clock(stage), *stage); c.now.Before(due) {
		return pending(due, "stage %s: next reading at %s", stage.Name, due.Format(time.RFC3339)), nil
	}
	out, rec, res, err := c.reading(ctx, c.clock(stage))
	if err != nil || res.state != "" {
		return res, err
	}
	stage.Status = out.Status
	switch out.Act {
	case gate.Finish:
		stage.Ended = c.e.World.Now().UTC()
		return done("stage %s %s: %s", stage.Name, stage.Status, out.Reason), nil
	case gate.Refuse:
		stage.Ended = c.e.World.Now().UTC()
		return failed(out.Reason, "look at the readings with `manent status`; start again with `manent retry`"), nil
	}
	return pending(out.Next, "stage %s: reading %d is %s, %s", stage.Name, stage.Count, rec.Verdict, out.Reason), nil
}

// reading takes one reading of the stage, stores it beside the document and
// says what the gate makes of it. A result with a state ends the step.
func (c *call) reading(ctx context.Context, clock gate.Clock) (gate.Outcome, gate.Record, result, error) {
	var none gate.Outcome
	stage := c.stage()
	seen, err := c.read(ctx)
	if err != nil {
		return none, gate.Record{}, result{}, err // whatever the router says about itself, it says nothing about the candidate
	}
	res, paused := c.checkDrift(seen, nil)
	if !paused {
		if res, err = c.inForce(ctx, seen, pollLimit, true); err != nil {
			return none, gate.Record{}, result{}, err
		}
	}
	if res.state == isPaused {
		stage.Count++
		c.note(stage, state.Reading{N: stage.Count, At: c.now, Verdict: string(gate.Void), Reason: res.message})
		return none, gate.Record{}, res, nil
	}
	rec := c.judge(ctx, stage, clock)
	out := gate.Decide(c.health(), clock, *stage, rec)
	stage.Count++
	rec.N = stage.Count
	stage.Score, stage.Red, stage.FirstError, stage.Memory = rec.Score, out.Red, out.FirstError, rec.Memory
	if err := c.keep(stage, rec); err != nil {
		return none, rec, result{}, err
	}
	return out, rec, result{}, nil
}

// inForce pauses when weights that were seen in force are it no more for as
// long as patience: somebody has moved traffic past the configuration. A server
// that warms up does so too, for a while. judging goes on meanwhile as long as
// the candidate gets no more than it was given.
func (c *call) inForce(ctx context.Context, seen router.Reading, patience time.Duration, judging bool) (result, error) {
	c.sayMore(seen)
	i := slices.IndexFunc(seen.Parts, func(p router.Part) bool { return p.Pending })
	if i < 0 || c.cfg.Rollout.Traffic.OnDrift == "ignore" || judging && !c.getsMore(seen) {
		c.inForceAgain()
		return result{}, nil
	}
	if c.pass.Off.IsZero() {
		c.pass.Off, c.dirty = c.e.World.Now().UTC(), true
	}
	var receipt state.Receipt
	if last := lastShare(c.doc.Rollout, c.step.Pass); last != nil {
		receipt = last.Receipt
	}
	ok, err := c.settledWith(ctx, c.pass.Weights, receipt)
	p := seen.Parts[i]
	switch {
	case err != nil:
		return result{}, fmt.Errorf("see weights in force: %w", err)
	case ok:
		c.inForceAgain()
		return result{}, nil
	case c.e.World.Now().Sub(c.pass.Off) < patience:
		return pending(c.later(), "part %s has weights %s, which are not in force at the moment", p.ID, router.Text(p.Weights)), nil
	}
	return drifted(fmt.Sprintf("part %s has weights %s, and they are not in force any more: it gives slot %s %s",
		p.ID, router.Text(p.Weights), c.candidate(), router.PercentText(p.Shares[c.candidate()])), seen), nil
}

func (c *call) inForceAgain() {
	if !c.pass.Off.IsZero() {
		c.pass.Off, c.dirty = time.Time{}, true
	}
}

// getsMore reports whether the candidate gets more than it was given.
func (c *call) getsMore(seen router.Reading) bool {
	return seen.Share(c.candidate()) > c.pass.Share+c.cfg.Tolerance(c.pass.Share) && !c.doc.Rollout.First
}

func (c *call) sayMore(seen router.Reading) {
	if c.getsMore(seen) {
		c.e.World.Say(fmt.Sprintf("slot %s gets %s of the traffic, %s were given to it: servers of slot %s are out of service, or somebody has set weights past the configuration",
			c.candidate(), router.PercentText(seen.Share(c.candidate())), router.PercentText(c.pass.Share), c.stable()))
	}
}

// judge asks metric systems and probes, and judges.
func (c *call) judge(ctx context.Context, stage *state.Stage, clock gate.Clock) gate.Record {
	subject := c.subject(stage, clock)
	questions, _ := gate.Ask(c.health(), subject) // what cannot be asked is an error of its metric in Judge
	rec := gate.Judge(c.health(), subject, c.ask(ctx, questions), c.probe(ctx, subject))
	rec.Stage = stage.Name
	return rec
}

// ask sends every question; a system that failed as a whole has its error
// under each of its queries and alarms.
func (c *call) ask(ctx context.Context, questions []gate.Question) gate.Answers {
	answers := gate.Answers{}
	for _, q := range questions {
		one, cancel := limit(ctx)
		if len(q.Queries) > 0 {
			got, err := c.query(one, q)
			for i, query := range q.Queries {
				answers[query.ID] = answerAt(got, i, err)
			}
		}
		if len(q.Alarms) > 0 {
			got, err := c.alarms(one, q)
			for i, name := range q.Alarms {
				answers[gate.AlarmID(q.Provider, name)] = answerAt(got, i, err)
			}
		}
		cancel()
	}
	return answers
}

func (c *call) query(ctx context.Context, q gate.Question) ([]metric.Answer, error) {
	system, ok := c.e.World.Metrics[q.Provider]
	if !ok {
		return nil, absent(q.Provider)
	}
	return system.Query(ctx, q.Queries)
}

func (c *call) alarms(ctx context.Context, q gate.Question) ([]metric.Answer, error) {
	system, ok := c.e.World.Metrics[q.Provider].(metric.Alarms)
	if !ok {
		return nil, absent(q.Provider)
	}
	return system.Alarms(ctx, q.Alarms)
}

func absent(provider string) error {
	return &providers.Fault{Provider: provider, Kind: providers.NotFound, Err: errors.New("not in this build")}
}

// answerAt never takes a missing answer for one.
func answerAt(got []metric.Answer, i int, err error) metric.Answer {
	if err == nil && i < len(got) {
		return got[i]
	}
	if err == nil {
		err = errors.New("no answer came back")
	}
	return metric.Answer{Err: err}
}

func (c *call) probe(ctx context.Context, s gate.Subject) []gate.ProbeResult {
	var out []gate.ProbeResult
	for _, p := range c.health().Probes {
		for _, vars := range c.hosts(p.URL, s.Vars) {
			out = append(out, c.probeOne(ctx, p, vars))
		}
	}
	return out
}

func (c *call) probeOne(ctx context.Context, p config.Probe, vars map[string]string) gate.ProbeResult {
	url, err := gate.ExpandProbe(p, vars)
	if err != nil {
		return gate.ProbeResult{Name: p.Name, URL: p.URL, Result: gate.Errored, Reason: err.Error()}
	}
	status, body, err := c.e.World.Probe(ctx, Probe{URL: url, Header: c.testerHeader(), Timeout: p.Timeout.Std()})
	return gate.JudgeProbe(p, url, status, body, err)
}

// hosts repeats a probe for each target of the candidate's slot when its URL
// names the host.
func (c *call) hosts(url string, vars map[string]string) []map[string]string {
	if !strings.Contains(url, "{host}") {
		return []map[string]string{vars}
	}
	var out []map[string]string
	for _, t := range c.cfg.Targets {
		if slot := t.Labels["slot"]; slot != "" && slot != string(c.candidate()) {
			continue
		}
		own := maps.Clone(vars)
		own["host"], own["port"] = t.Host, fmt.Sprint(t.Port)
		out = append(out, own)
	}
	if len(out) == 0 {
		return []map[string]string{vars}
	}
	return out
}

// testerHeader makes a probe reach the candidate while testers are routed.
func (c *call) testerHeader() map[string]string {
	if !c.pass.Testers {
		return nil
	}
	if m := c.match(); m.Header != "" {
		return map[string]string{m.Header: m.Value}
	}
	return nil
}

func (c *call) subject(stage *state.Stage, clock gate.Clock) gate.Subject {
	r := c.doc.Rollout
	return gate.Subject{
		Vars: map[string]string{
			"project": c.cfg.Project, "application": c.cfg.Application, "environment": c.cfg.Environment,
			"wave": c.wave(), "version": r.Version,
		},
		Candidate: c.candidate(), Share: stage.Achieved, First: r.First,
		InForce: stage.InForce, Now: c.now, AtEnd: clock.AtEnd(),
		Systems: c.e.World.Systems, Course: gate.CourseOf(c.cfg, r.Stages, *stage),
	}
}

func (c *call) wave() string {
	i := slices.IndexFunc(c.plan.Passes, func(p plan.Pass) bool { return p.Name == c.step.Pass })
	if i < 0 {
		return ""
	}
	return c.plan.Passes[i].Wave
}

// clock says how long the stage is to be watched: the last share by finalBake,
// a share of 0 by one reading.
func (c *call) clock(stage *state.Stage) gate.Clock {
	t := c.cfg.Rollout.Traffic
	clock := gate.Clock{InForce: stage.InForce, Now: c.now, Bake: t.Bake.Std(), MaxBake: t.MaxBake.Std()}
	switch c.step.Share {
	case 0:
		clock.Bake, clock.MaxBake = 0, 0
	case 100:
		clock.Bake, clock.MaxBake = t.FinalBake.Std(), t.FinalBake.Std()
	}
	clock.LastRead = gate.LastRead(*stage)
	clock.Delay = gate.LargestDelay(c.health(), c.subject(stage, clock))
	return clock
}

// keep stores the raw reading as a side object and its summary in the stage.
func (c *call) keep(stage *state.Stage, rec gate.Record) error {
	data, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("encode reading %d of %s: %w", rec.N, stage.Name, err)
	}
	r := c.doc.Rollout
	name := checkpoint.ReadingName(r.ID, strings.NewReplacer("/", "-", "%", "").Replace(stage.Name), rec.N)
	sum := sha256.Sum256(data)
	c.attach(name, data)
	c.note(stage, state.Reading{
		N: rec.N, At: c.now, Verdict: string(rec.Verdict), Score: rec.Score, Reason: rec.Reason,
		Object: name, Digest: hex.EncodeToString(sum[:]),
	})
	return nil
}

// note adds a summary and keeps the newest ReadingLimit of them.
func (c *call) note(stage *state.Stage, r state.Reading) {
	stage.Readings = append(stage.Readings, r)
	if extra := len(stage.Readings) - state.ReadingLimit; extra > 0 {
		stage.Readings = slices.Delete(stage.Readings, 0, extra)
	}
	c.dirty = true
}
