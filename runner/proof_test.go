package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	pluginmem "github.com/manent/action/providers/plugin/memory"
	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
)

var night = flag.Int("night", 0, "random crash scenarios to run beyond the enumeration")

// scenario is a whole story of an environment. play is what pipelines and
// people do; it is played again by a fresh process until it has ended, and it
// looks at the world to find out how far the story is.
type scenario struct {
	name  string
	opts  routertest.MemoryOptions
	setup func(*sim)
	play  func(*sim, *runner.Engine) error
	told  map[string]*state.Document // see sim
	want  string                     // how the story ends: "v2 completed, a 0, b 100"
}

// release drives one version to its end; people answer as answer says.
func release(s *sim, e *runner.Engine, version string, answer func(runner.Outcome) string) error {
	ctx := context.Background()
	for {
		out, err := e.Run(ctx, runner.Request{Version: version, Config: s.cfg}, runner.RunOptions{})
		if err != nil {
			return err
		}
		switch out.Result {
		case runner.Complete, runner.Failure:
			return sweep(s, e)
		case runner.Approval, runner.PausedNow:
			r := s.doc().Rollout
			if out.Result == runner.PausedNow && !s.strangers {
				s.problems = append(s.problems, "asked without need: "+out.Message)
			}
			w := runner.Word{Verb: answer(out), Version: version, Pause: r.Pause.ID, Seen: r.Pause.Seen, Who: "ann", From: "test"}
			if err := e.Decide(ctx, w); err != nil {
				return err
			}
		default:
			return fmt.Errorf("run ended %s at %s: %s", out.Result, out.Step, out.Message)
		}
	}
}

// sweep lets an hour pass and scales down what is due.
func sweep(s *sim, e *runner.Engine) error {
	if _, err := e.Resume(context.Background()); err != nil {
		return err
	}
	if err := s.sleep(context.Background(), 31*time.Minute); err != nil {
		return err
	}
	_, err := e.Resume(context.Background())
	return err
}

func yes(runner.Outcome) string { return "approve" }
func no(runner.Outcome) string  { return "reject" }

func scenarios() []scenario {
	plain := func(*sim) {}
	one := func(s *sim, e *runner.Engine) error { return release(s, e, "v2", yes) }
	return []scenario{
		{name: "healthy", setup: plain, play: one, want: "v2 completed, a 0, b 100"},
		{name: "healthy with testers, approvals and growing capacity", setup: guarded, play: one, want: "v2 completed, a 0, b 100"},
		{name: "failing", setup: func(s *sim) { s.broken = func(share float64) bool { return share >= 50 } }, play: one, want: "v2 returned, a 100, b 0"},
		{name: "failing on two parts", opts: routertest.MemoryOptions{Parts: 2, Lag: 1},
			setup: func(s *sim) { guarded(s); s.broken = func(share float64) bool { return share >= 50 } }, play: one, want: "v2 returned, a 100, b 0"},
		{name: "failing under statistics", setup: func(s *sim) { analysed(s); s.broken = func(share float64) bool { return share >= 50 } }, play: one, want: "v2 returned, a 100, b 0"},
		{name: "drifting, approved", setup: drifting, play: one, want: "v2 completed, a 0, b 100"},
		{name: "drifting, rejected", setup: drifting, play: func(s *sim, e *runner.Engine) error { return release(s, e, "v2", no) }, want: "v2 returned, a 100, b 0"},
		{name: "first release", setup: firstRelease, play: one, want: "v2 completed, a 100, b 0"},
		{name: "first release that fails", setup: func(s *sim) {
			firstRelease(s)
			s.cfg.Rollout.Health.Metrics[0].Compare, s.cfg.Rollout.Health.Metrics[0].MaxRatio = "", nil
			limit := 0.1
			s.cfg.Rollout.Health.Metrics[0].Max = &limit
			s.broken = func(share float64) bool { return share == 100 }
		}, play: one, want: "v2 stopped, a 100, b 0"},
		{name: "adopted in slot b", setup: func(s *sim) {
			s.router.SetShare(0, 100)
			s.slots.Put(state.SlotA, pluginmem.Slot{})
			s.slots.Put(state.SlotB, pluginmem.Slot{Version: "v1", Capacity: 100})
		}, play: one, want: "v2 completed, a 100, b 0"},
		{name: "superseded", setup: func(s *sim) { s.cfg.Rollout.OnNewVersion = "supersede" }, play: superseded, want: "v3 completed, a 0, b 100"},
		{name: "reverted on its way", setup: plain, play: revertedAt("50%"), want: "v2 returned, a 100, b 0"},
		{name: "reverted before anything was claimed", setup: plain, play: revertedAt("traffic:prepare"), want: "v2 returned, a 100, b 0"},
		{name: "reverted while a call may be under way", setup: plain, play: revertedInTheMiddle, want: "v2 returned, a 100, b 0"},
		{name: "reverted at once", setup: plain, play: revertedAt("gate@traffic@5"), want: "v2 returned, a 100, b 0"},
		{name: "reverted after completion", setup: plain, play: revertedAt("done"), want: "v2 returned, a 100, b 0"},
		{name: "without testers, scaler or promotion", setup: func(s *sim) { s.bare = true }, play: one, want: "v2 completed, a 0, b 100"},
		{name: "re-pointed on promotion", setup: func(s *sim) { s.promoting = true }, play: one, want: "v2 completed, a 0, b 100"},
		{name: "re-pointed, then reverted", setup: func(s *sim) { s.promoting = true }, play: revertedAt("done"), want: "v2 returned, a 100, b 0"},
		{name: "two releases", setup: plain, play: func(s *sim, e *runner.Engine) error {
			if v := s.doc().Rollout; v == nil || v.Version == "v2" && !v.Status.Terminal() {
				if err := release(s, e, "v2", yes); err != nil {
					return err
				}
			}
			return release(s, e, "v3", yes)
		}, want: "v3 completed, a 100, b 0"},
	}
}

func guarded(s *sim) {
	s.slots = pluginmem.New(0)
	s.slots.Put(state.SlotA, pluginmem.Slot{Version: "v1", Capacity: 100})
	s.slots.Hook(s.pluginFault)
	s.cfg.Rollout.Traffic.Testers = &config.Testers{Header: "x-canary: always"}
	s.cfg.Rollout.Traffic.Replicas = "proportional"
	s.cfg.Rollout.ApprovalsBetween = []string{"0", "5"}
}

// analysed judges by ranks and by counts, under scoring.
func analysed(s *sim) {
	t, h := &s.cfg.Rollout.Traffic, &s.cfg.Rollout.Health
	minute, one, alarm := config.Duration(time.Minute), 1.0, config.Percent(0.2)
	t.Bake, t.MaxBake = 2*minute, 3*minute
	h.Analysis, h.FalseAlarm = &config.Analysis{Pass: 95, Marginal: 50}, &alarm
	h.Metrics = []config.Metric{
		{Name: "rate", Provider: "memory", Query: "rate {track}", Compare: "stable", Analysis: "mann-whitney",
			Direction: "increase", MaxRatio: &one, Alpha: 0.05, MinPoints: 5, Step: minute / 4, Weight: 1},
		{Name: "count", Provider: "memory", Query: "bad {track}", SamplesQuery: "all {track}", Compare: "stable", Analysis: "sequential",
			Direction: "increase", MaxRatio: &one, Alpha: 0.05, Step: minute / 4, Weight: 1},
	}
}

func firstRelease(s *sim) {
	s.router.SetUnits(state.SlotA, 0)
	s.router.SetUnits(state.SlotB, 0)
	s.slots.Put(state.SlotA, pluginmem.Slot{})
}

// drifting: somebody sets 30 % by hand while 5 % bakes.
func drifting(s *sim) {
	s.strangers = true
	s.tick = func() {
		r := s.doc().Rollout
		if r == nil || r.Status != state.Running {
			return
		}
		if st := r.Stage("5%"); st != nil && st.Count == 1 && s.share(state.SlotB) == 5 && len(r.Decisions) == 0 {
			s.router.SetShare(0, 30)
		}
	}
}

// superseded: v2 bakes at 50 % when v3 comes.
func superseded(s *sim, e *runner.Engine) error {
	r := s.doc().Rollout
	if r == nil || r.Version == "v2" && r.Superseded == "" && !r.Status.Terminal() {
		out, err := e.Run(context.Background(), runner.Request{Version: "v2", Config: s.cfg}, runner.RunOptions{Until: "gate@traffic@50"})
		if err != nil {
			return err
		}
		if out.Result != runner.Reached {
			return fmt.Errorf("v2 ended %s at %s: %s", out.Result, out.Step, out.Message)
		}
	}
	return release(s, e, "v3", yes)
}

// revertedAt: a person reverts v2 once it is there.
func revertedAt(place string) func(*sim, *runner.Engine) error {
	return func(s *sim, e *runner.Engine) error {
		ctx := context.Background()
		q, o := runner.Request{Version: "v2", Config: s.cfg}, runner.RunOptions{}
		if place != "done" {
			o.Until = place
		}
		if r := s.doc().Rollout; r == nil || r.Return == nil && r.Status != state.Completed {
			out, err := e.Run(ctx, q, o)
			if err != nil {
				return err
			}
			if out.Result != runner.Reached && out.Result != runner.Complete && out.Result != runner.Failure {
				return fmt.Errorf("v2 ended %s at %s: %s", out.Result, out.Step, out.Message)
			}
		}
		if s.doc().Rollout.Return == nil {
			if err := e.Decide(ctx, runner.Word{Verb: "revert", Version: "v2", Who: "ann", From: "test"}); err != nil {
				return err
			}
		}
		out, err := e.Back(ctx)
		if err != nil {
			return err
		}
		if out.Result != runner.Failure {
			return fmt.Errorf("revert ended %s: %s", out.Result, out.Message)
		}
		return sweep(s, e)
	}
}

// revertedInTheMiddle: a person reverts as soon as 5 % is set, or the call that
// sets it has gone wrong, without waiting for anything.
func revertedInTheMiddle(s *sim, e *runner.Engine) error {
	ctx := context.Background()
	if r := s.doc().Rollout; r == nil || r.Return == nil {
		hasty := *e
		hasty.NoWait = true
		_, err := hasty.Run(ctx, runner.Request{Version: "v2", Config: s.cfg}, runner.RunOptions{Until: "gate@traffic@5", NoWait: true})
		if s.dead || s.doc().Rollout == nil || s.doc().Rollout.Step("traffic@5") == nil {
			return errors.Join(err, errors.New("not far enough to be reverted"))
		}
		if err := e.Decide(ctx, runner.Word{Verb: "revert", Version: "v2", Who: "ann", From: "test"}); err != nil {
			return err
		}
	}
	out, err := e.Back(ctx)
	if err == nil && out.Result != runner.Failure {
		err = fmt.Errorf("revert ended %s: %s", out.Result, out.Message)
	}
	return errors.Join(err, sweep(s, e))
}

// live plays a scenario to its end, with a new process whenever one dies or
// gives up. It returns the number of processes.
func live(t *testing.T, sc scenario, at int, f fault) *sim {
	t.Helper()
	s := newSim(t, sc.opts)
	sc.setup(s)
	s.strike, s.fault, s.told = at, f, sc.told
	var err error
	for range 12 {
		if err = sc.play(s, s.process()); err == nil && !s.dead {
			return s
		}
		_ = s.sleepAlive(2 * time.Second) // the pipeline starts the job again
	}
	t.Fatalf("did not end after %d processes: %v\n%s", s.processes, err, strings.Join(s.says, "\n"))
	return nil
}

func (s *sim) sleepAlive(d time.Duration) error {
	s.dead = false
	return s.sleep(context.Background(), d)
}

// ends is the end of the story in short.
func (s *sim) ends() string {
	r := s.doc().Rollout
	return fmt.Sprintf("%s %s, a %v, b %v", r.Version, r.Status, s.share(state.SlotA), s.share(state.SlotB))
}

// final is the end of the story whole: the world, and the document without
// what differs from one telling to the next (times, nonces, tries, messages,
// the numbers of readings).
func (s *sim) final() string {
	doc, err := json.Marshal(s.doc())
	if err != nil {
		s.t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(doc, &tree); err != nil {
		s.t.Fatal(err)
	}
	text, err := json.MarshalIndent(strip(tree), "", " ")
	if err != nil {
		s.t.Fatal(err)
	}
	a, b := s.slots.Slot(state.SlotA), s.slots.Slot(state.SlotB)
	return fmt.Sprintf("%sa %s capacity %v\nb %s capacity %v\n%s", s.router.World(), a.Version, a.Capacity, b.Version, b.Capacity, text)
}

func strip(v any) any {
	told := []string{
		"seq", "nonce", "written", "note", "lease", "began", "ended", "started", "at", "due", "since", "inForce", "until",
		"firstError", "tries", "message", "readings", "count", "receipt", "reason", "id", "rollout", "manent-rollout", "unsettled", "StepID", "pause",
	}
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			if !slices.Contains(told, k) {
				out[k] = strip(x)
			}
		}
		return out
	case []any:
		for i := range v {
			v[i] = strip(v[i])
		}
	}
	return v
}

// TestProof enumerates every store write and read and every provider call of
// whole rollouts. For each: killed before and after it, refused, lost,
// answered into the void, and landing late; then resumed with fresh processes
// on other machines. The world and the document must end as in the
// undisturbed run, and the promises of watch hold at every instant. Under the
// race detector, which finds nothing in a story told by one goroutine, a few
// calls are enough.
func TestProof(t *testing.T) {
	var cases atomic.Int64
	t.Run("all", func(t *testing.T) {
		for _, sc := range scenarios() {
			t.Run(sc.name, func(t *testing.T) {
				t.Parallel()
				cases.Add(enumerate(t, sc))
			})
		}
	})
	t.Logf("proof: %d cases enumerated", cases.Load())
}

func enumerate(t *testing.T, sc scenario) (cases int64) {
	sc.told = map[string]*state.Document{}
	quiet := live(t, sc, 0, none)
	if got := quiet.ends(); got != sc.want {
		t.Fatalf("undisturbed: %s, want %s\n%s", got, sc.want, strings.Join(quiet.says, "\n"))
	}
	quiet.holds(t)
	want := quiet.final()
	for at := 1; at <= quiet.calls; at += stride {
		for _, f := range faultsOf(quiet.writes[at-1]) {
			cases++
			s := live(t, sc, at, f)
			if got := s.final(); got != want {
				t.Errorf("another end (-undisturbed +disturbed):\n%s", cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
			}
			s.holds(t)
			if t.Failed() {
				t.Fatalf("call %d of %d %s\n%s", at, quiet.calls, f, strings.Join(s.says, "\n"))
			}
		}
	}
	return cases
}

// faultsOf lists what can befall a call. A read leaves the same world behind
// whether it was refused, lost or not answered.
func faultsOf(write bool) []fault {
	if write {
		return []fault{killedBefore, killedAfter, refused, lost, unanswered, lateNext, lateWindow}
	}
	return []fault{killedBefore, lost}
}

// holds fails when a promise was broken on the way.
func (s *sim) holds(t *testing.T) {
	t.Helper()
	for _, p := range s.problems {
		t.Errorf("broken promise: %s", p)
	}
	if d := s.slots.Doubles(); len(d) > 0 {
		t.Errorf("deployed twice: %+v", d)
	}
	if n := s.slots.Overlaps(); n > 0 {
		t.Errorf("%d overlapping calls", n)
	}
}

// TestProofRandom strikes several times in one story. It is small by default;
// -night N runs N stories.
func TestProofRandom(t *testing.T) {
	stories := max(*night, 60)
	if stride > 1 { // under the race detector
		stories = max(*night, 20)
	}
	rng := rand.New(rand.NewPCG(1, uint64(stories)))
	all := scenarios()
	for range stories {
		sc := all[rng.IntN(len(all))]
		s := newSim(t, sc.opts)
		sc.setup(s)
		err := errors.New("not begun")
		for range 40 {
			s.strike, s.fault = s.calls+1+rng.IntN(60), fault(1+rng.IntN(int(lateWindow)))
			if err = sc.play(s, s.process()); err == nil && !s.dead {
				break
			}
			_ = s.sleepAlive(time.Duration(rng.IntN(40)) * time.Second)
		}
		if err != nil || s.dead {
			t.Fatalf("%s did not end: %v", sc.name, err)
		}
		if got := s.ends(); got != sc.want {
			t.Fatalf("%s ended %s, want %s\n%s", sc.name, got, sc.want, strings.Join(s.says, "\n"))
		}
		s.holds(t)
	}
	t.Logf("random: %d stories", stories)
}
