package runner_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/metric"
	metricmem "github.com/manent/action/providers/metric/memory"
	"github.com/manent/action/providers/plugin"
	pluginmem "github.com/manent/action/providers/plugin/memory"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/providers/store"
	storemem "github.com/manent/action/providers/store/memory"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
	"github.com/manent/action/state/checkpoint"
)

const key = "shop/shop/prod"

// fault is what befalls one call of a process to the world or the store.
type fault uint8

const (
	none         fault = iota
	killedBefore       // the process dies, nothing was sent
	killedAfter        // it was done, the process dies before it knows
	refused            // not done, the system says that it is unavailable
	lost               // not done, nobody knows
	unanswered         // done, nobody knows
	lateNext           // nobody knows; done right after the next call
	lateWindow         // nobody knows; done 15 s later, inside CallLimit
)

func (f fault) String() string {
	return [...]string{"none", "killed-before", "killed-after", "refused", "lost", "unanswered", "late-next", "late-window"}[f]
}

var errDead = errors.New("the process is dead")

// sim is a world with a clock of its own: store, router, plugin and metric
// system outlive the processes that are started and killed over them.
type sim struct {
	t       testing.TB
	clock   time.Time
	store   *storemem.Store
	router  *routertest.Memory
	slots   *pluginmem.World
	cfg     config.Config
	catalog config.Catalog

	calls  int    // numbered over store, router, plugin and metric system
	writes []bool // by call from 1: it can change something
	strike int    // the call that meets fault
	fault  fault  // and what befalls it
	dead   bool   // the running process
	after  bool   // kill once the plugin's change is made
	blind  bool   // lose the answer once the plugin's change is made
	lands  []landing

	ids        int
	processes  int
	skew       time.Duration // of the next process's clock
	owner      state.RunRef
	machine    string // "" = a new machine for each process
	broken     func(share float64) bool
	tick       func()          // called with every sleep
	down       map[string]bool // parts that cannot be reached
	strangers  bool            // somebody else changes the weights, so that a person may be asked
	forbidden  bool            // the router refuses every read with 403
	downWrites bool            // no part takes a write
	mute       bool            // the router answers no write, and does none
	onWrite    func()          // called in front of every write of weights
	onRead     func()          // called in front of every read of weights
	race       *race           // several processes at once; nil for one

	cached    *state.Document // as of the revision
	revision  store.Revision
	told      map[string]*state.Document // documents of the undisturbed story by their text, only read
	says      []string
	problems  []string
	bare      bool // router without optional abilities
	promoting bool // router where promoting takes more than a weight
}

// landing is a write under way: done when the calls or the clock get there.
type landing struct {
	call int
	at   time.Time
	do   func()
}

func newSim(t testing.TB, opts routertest.MemoryOptions) *sim {
	s := &sim{
		t: t, clock: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), store: storemem.New(),
		slots: pluginmem.New(100), cfg: simConfig(), catalog: config.Known(),
		owner:  state.RunRef{Platform: "sim", Repository: "shop", Run: "100", Order: 100, Attempt: 1},
		broken: func(float64) bool { return false }, tick: func() {},
	}
	opts.Now = func() time.Time { return s.clock }
	s.router = routertest.NewMemory(opts)
	s.slots.Put(state.SlotA, pluginmem.Slot{Version: "v1", Capacity: 100})
	s.router.Hook(s.routerFault)
	s.router.OnKill(func(routertest.Point) { s.dead = true })
	s.slots.Hook(s.pluginFault)
	s.router.OnChange(s.watch)
	return s
}

// simConfig is a canary with a comparative metric, testers and approvals off.
func simConfig() config.Config {
	ratio, samples := 1.5, 10.0
	minute := config.Duration(time.Minute)
	return config.Config{
		Project: "shop", Application: "shop", Environment: "prod",
		Plugin: config.Provider{Name: "external"},
		Rollout: config.Rollout{
			Strategy: "traffic", OnFailure: "rollback-all", OnCancel: "return", OnNewVersion: "refuse", Wait: "run",
			ApprovalTimeout: 60 * minute, OrphanAfter: 15 * minute,
			Traffic: config.Traffic{
				Steps: []float64{5, 50, 100}, Bake: 2 * minute, MaxBake: 4 * minute, OnDrift: "pause", ScaleDownDelay: 30 * minute,
			},
			Health: config.Health{
				Interval: minute, Grace: 2 * minute,
				Metrics: []config.Metric{{
					Name: "errors", Provider: "memory", Query: "errors {track}", Compare: "stable", MaxRatio: &ratio,
					SamplesQuery: "requests {track}", MinSamples: &samples, Window: minute / 2, Weight: 1, MinPoints: 5, Alpha: 0.05,
				}},
			},
		},
		Traffic: config.Network{Router: &config.Router{Provider: "memory"}},
	}
}

// next numbers a call and says what befalls it.
func (s *sim) next(write bool) fault {
	s.land()
	if s.race != nil {
		s.race.yield(s.clock)
	}
	if s.dead {
		return killedBefore
	}
	s.calls++
	s.writes = append(s.writes, write)
	if s.calls != s.strike {
		return none
	}
	if s.fault == killedBefore || s.fault == killedAfter {
		s.dead = true
	}
	return s.fault
}

// land does the writes whose time has come.
func (s *sim) land() {
	var left []landing
	due := s.lands
	s.lands = nil
	for _, l := range due {
		if (l.call > 0 && s.calls >= l.call) || (!l.at.IsZero() && !s.clock.Before(l.at)) {
			l.do()
			continue
		}
		left = append(left, l)
	}
	s.lands = append(left, s.lands...)
}

func (s *sim) later(f fault, do func()) {
	l := landing{do: do}
	if f == lateNext {
		l.call = s.calls + 1
	} else {
		l.at = s.clock.Add(15 * time.Second)
	}
	s.lands = append(s.lands, l)
}

func (s *sim) routerFault(p routertest.Point) routertest.Fault {
	if s.onWrite != nil && p.Op == routertest.OpWrite {
		s.onWrite()
	}
	if s.onRead != nil && p.Op == routertest.OpRead {
		s.onRead()
	}
	if s.forbidden && p.Op == routertest.OpRead {
		return routertest.Fault{Mode: routertest.Refused, Kind: providers.Denied}
	}
	if s.down[p.Part] || s.downWrites && p.Op == routertest.OpWrite {
		return routertest.Fault{Mode: routertest.Refused, Kind: providers.Unavailable}
	}
	if s.mute && p.Op == routertest.OpWrite {
		return routertest.Fault{Mode: routertest.Lost}
	}
	f := s.next(p.Op != routertest.OpRead && p.Op != routertest.OpSettled)
	switch f {
	case killedBefore:
		return routertest.Fault{Mode: routertest.KilledBefore}
	case killedAfter:
		return routertest.Fault{Mode: routertest.KilledAfter}
	case refused:
		return routertest.Fault{Mode: routertest.Refused, Kind: providers.Unavailable}
	case lost:
		return routertest.Fault{Mode: routertest.Lost}
	case unanswered:
		return routertest.Fault{Mode: routertest.Unanswered}
	case lateNext, lateWindow:
		s.later(f, s.router.Land)
		return routertest.Fault{Mode: routertest.Delayed}
	}
	return routertest.Fault{}
}

func (s *sim) pluginFault(_ context.Context, e pluginmem.Event) error {
	if e.After {
		switch e.Op {
		case pluginmem.Deploy:
			s.router.SetUnits(e.Call.Slot, 1)
		case pluginmem.Retire:
			s.router.SetUnits(e.Call.Slot, 0)
		}
		switch {
		case s.after:
			s.after = false
			return errDead
		case s.blind:
			s.blind = false
			return errors.New("no answer")
		}
		return nil
	}
	s.checkEffect(e)
	f := s.next(e.Op != pluginmem.Ready)
	switch f {
	case killedBefore:
		return errDead
	case killedAfter:
		s.after = true
	case refused:
		return &providers.Fault{Provider: "memory", Kind: providers.Unavailable, Err: errors.New("refused")}
	case lost:
		return errors.New("no answer")
	case unanswered:
		s.blind = true
	case lateNext, lateWindow:
		if e.Op == pluginmem.Ready {
			return errors.New("no answer")
		}
		s.later(f, func() { s.slots.Land() })
		return pluginmem.ErrLate
	}
	return nil
}

// storeFault is the hook of one process's handle.
func (s *sim) storeFault(op, _ string) storemem.Fault {
	switch f := s.next(op == "put"); f {
	case killedBefore:
		return storemem.KillBefore
	case killedAfter:
		return storemem.KillAfter
	case refused:
		return storemem.Refused
	case lost:
		return storemem.Lost
	case unanswered:
		return storemem.Unanswered
	case lateNext, lateWindow:
		return storemem.Late
	}
	return storemem.None
}

func (s *sim) metricFault(context.Context, int, []metric.Query) error {
	switch s.next(false) {
	case none:
		return nil
	case refused:
		return &providers.Fault{Provider: "memory", Kind: providers.Unavailable, Err: errors.New("refused")}
	}
	return errors.New("no answer")
}

// answer is the service as measured: the candidate fails 20 % of its requests
// when it is broken at the share it has.
func (s *sim) answer(q metric.Query) metric.Answer {
	what, track, _ := strings.Cut(q.Text, " ")
	doc := s.doc()
	slot := state.Slot(track)
	share := s.share(slot)
	if what == "requests" {
		return metricmem.Value(q, 30000*share/100)
	}
	candidate := len(doc.Passes) > 0 && doc.Passes[0].Slots.Candidate == slot
	rate := 0.01
	if candidate && s.broken(share) {
		rate = 0.2
	}
	if q.Step == 0 {
		return metricmem.Value(q, rate)
	}
	return series(q, what, share, rate)
}

// series is what happens each step: a rate that stirs a little, or counts of
// 100 events for each percent of the traffic.
func series(q metric.Query, what string, share, rate float64) metric.Answer {
	return metricmem.Points(q, func(_ int, at time.Time) (float64, bool) {
		stir := 1 + float64(at.Unix()/60%7-3)/20
		switch what {
		case "all":
			return 100 * share, true
		case "bad":
			return math.Round(100 * share * rate * stir), true
		}
		return rate * stir, true
	})
}

// share is the largest share a slot has on any part, read past all faults.
func (s *sim) share(slot state.Slot) float64 {
	most := 0.0
	for _, w := range s.weights() {
		most = max(most, w[string(slot)])
	}
	return most
}

// weights are the router's weights per part, read past all faults.
func (s *sim) weights() []map[string]float64 {
	s.router.Hook(nil)
	defer s.router.Hook(s.routerFault)
	seen, err := s.router.Read(context.Background(), state.Slots{})
	if err != nil {
		s.t.Fatal(err)
	}
	var out []map[string]float64
	for _, p := range seen.Parts {
		out = append(out, p.Weights)
	}
	return out
}

// doc is the stored document, read past all faults.
func (s *sim) doc() *state.Document {
	data, revision, err := s.store.Get(context.Background(), key)
	if err != nil {
		s.t.Fatal(err)
	}
	if revision == "" {
		return &state.Document{}
	}
	if revision == s.revision {
		return s.cached
	}
	s.revision = revision
	if s.cached = s.told[string(data)]; s.cached != nil {
		return s.cached
	}
	if s.cached, err = checkpoint.Decode(data, key); err != nil {
		s.t.Fatalf("stored document: %v", err)
	}
	if s.strike == 0 && s.told != nil {
		s.told[string(data)] = s.cached
	}
	return s.cached
}

// process starts a process: an engine with connections of its own.
func (s *sim) process() *runner.Engine {
	s.processes++
	s.dead, s.after, s.blind = false, false, false
	handle := s.store.Again()
	handle.Hook = s.storeFault
	return s.engineOn(handle, s.processes)
}

func (s *sim) engineOn(handle store.Store, n int) *runner.Engine {
	skew := s.skew
	now := func() time.Time { return s.clock.Add(skew) }
	host := s.machine
	if host == "" {
		host = fmt.Sprint("machine", n)
	}
	metrics := metricmem.New(s.answer)
	metrics.Before = s.metricFault
	return &runner.Engine{
		State: checkpoint.Open(handle, key, now, func() string { s.ids++; return fmt.Sprintf("nonce%06d", s.ids) }),
		World: runner.World{
			Router:  func(string) router.Router { return s.asRouter() },
			Traits:  router.Traits{Conditional: true},
			Plugin:  func(string) plugin.Bundle { return s.bundle() },
			Metrics: map[string]metric.System{"memory": metrics},
			Systems: map[string]metric.Traits{"memory": {}},
			Command: func(context.Context, runner.Command) (map[string]string, error) { return nil, nil },
			Probe:   func(context.Context, runner.Probe) (int, []byte, error) { return 200, nil, nil },
			Secrets: func(context.Context) error { return nil },
			Now:     now, Sleep: s.sleep,
			Say:     func(line string) { s.says = append(s.says, line) },
			NewID:   func() string { s.ids++; return fmt.Sprintf("r%06d", s.ids) },
			Catalog: s.catalog,
			Process: runner.Process{ID: fmt.Sprint("process", n), Owner: s.owner, Host: host, PID: n, Alive: func(pid int) bool { return pid == s.processes }},
		},
	}
}

func (s *sim) asRouter() router.Router {
	switch {
	case s.bare:
		return s.router.Bare()
	case s.promoting:
		return s.router.Promoting()
	}
	return s.router
}

func (s *sim) bundle() plugin.Bundle { return s.slots.Bundle() }

// sleep is the passing of time. A dead process does not see it pass.
func (s *sim) sleep(ctx context.Context, d time.Duration) error {
	if d == runner.BeatEvery && ctx.Done() != nil { // the renewal beside a call, which takes no time here
		<-ctx.Done()
		return ctx.Err()
	}
	if s.dead {
		return errDead
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.race != nil {
		s.race.yield(s.clock.Add(d))
		return nil
	}
	end := s.clock.Add(d)
	for len(s.lands) > 0 && s.clock.Before(end) {
		s.clock = s.clock.Add(min(time.Second, end.Sub(s.clock)))
		s.land()
	}
	s.clock = end
	s.tick()
	return nil
}

// watch holds the promises that must be true at every instant: the candidate
// has no more than the share of a stage whose intent is stored, and a version
// with weight has capacity.
func (s *sim) watch(c routertest.Change) {
	if c.By == "foreign" {
		return
	}
	doc := s.doc()
	if doc.Rollout == nil || len(doc.Passes) == 0 || doc.Passes[0].Slots.Candidate == "" {
		return
	}
	candidate := doc.Passes[0].Slots.Candidate
	allowed := 0.0
	for _, step := range doc.Rollout.Steps {
		if step.Kind == "traffic" && step.Intent != nil {
			allowed = max(allowed, step.Intent.Share)
		}
	}
	if got := c.Shares[candidate]; c.By != "testers" && got > allowed && !doc.Passes[0].Promoted {
		s.problems = append(s.problems, fmt.Sprintf("share %v of slot %s with only %v intended", got, candidate, allowed))
	}
	for slot, share := range c.Shares {
		if has := s.slots.Slot(slot); share > 0 && (has.Version == "" || has.Capacity < share) {
			s.problems = append(s.problems, fmt.Sprintf("slot %s gets %v %% with capacity %v", slot, share, has.Capacity))
		}
	}
}

// checkEffect: nothing is scaled down that can still receive traffic.
func (s *sim) checkEffect(e pluginmem.Event) {
	if e.Op != pluginmem.Retire || s.dead {
		return
	}
	doc := s.doc()
	if share := s.share(e.Call.Slot); share > 0 || !doc.Rollout.Status.Terminal() {
		s.problems = append(s.problems, fmt.Sprintf("slot %s is retired with share %v while the rollout is %s", e.Call.Slot, share, doc.Rollout.Status))
	}
}
