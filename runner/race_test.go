package runner_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers/router/routertest"
	"github.com/manent/action/runner"
)

// race lets several processes run over one sim, one at a time: at each call
// and each sleep the next one is drawn, so that a seed tells the whole order.
// When all sleep, the clock goes on to the first who wakes.
type race struct {
	s       *sim
	rng     *rand.Rand
	arrive  chan runnerAt
	waiting []runnerAt
	alive   int
}

type runnerAt struct {
	wake time.Time
	gone bool
	go_  chan struct{}
}

// yield waits for this process's turn, not before wake.
func (r *race) yield(wake time.Time) {
	turn := make(chan struct{})
	r.arrive <- runnerAt{wake: wake, go_: turn}
	<-turn
}

// referee gives turns until every process has ended.
func (r *race) referee() {
	for {
		for len(r.waiting) < r.alive {
			at := <-r.arrive
			if at.gone {
				r.alive--
				continue
			}
			r.waiting = append(r.waiting, at)
		}
		if r.alive == 0 {
			return
		}
		i := r.draw()
		at := r.waiting[i]
		r.waiting = append(r.waiting[:i], r.waiting[i+1:]...)
		at.go_ <- struct{}{}
	}
}

// draw picks one of those who are awake.
func (r *race) draw() int {
	first := r.waiting[0].wake
	var awake []int
	for i, at := range r.waiting {
		if at.wake.Before(first) {
			first = at.wake
		}
		if !at.wake.After(r.s.clock) {
			awake = append(awake, i)
		}
	}
	if len(awake) > 0 {
		return awake[r.rng.IntN(len(awake))]
	}
	r.s.clock = first
	return r.draw()
}

// TestEnginesRace: two and three processes drive one rollout at once, in many
// orders of their calls. One world, one end; each share is written once.
func TestEnginesRace(t *testing.T) {
	orders := 150
	if stride > 1 { // under the race detector
		orders = 30
	}
	for seed := range orders {
		broken := seed%3 == 2
		s := newSim(t, routertest.MemoryOptions{Unconditional: seed%2 == 1})
		s.broken = func(share float64) bool { return broken && share >= 50 }
		want := map[bool]string{false: "v2 completed, a 0, b 100", true: "v2 returned, a 100, b 0"}[broken]
		engines := []*runner.Engine{s.process(), s.process()}
		if seed%5 == 0 {
			engines = append(engines, s.process())
		}
		ends := s.racing(uint64(seed), engines)
		for i, end := range ends {
			if end != "" {
				t.Fatalf("seed %d: process %d: %s\n%s", seed, i, end, strings.Join(s.says, "\n"))
			}
		}
		if got := s.ends(); got != want {
			t.Fatalf("seed %d ended %s, want %s\n%s", seed, got, want, strings.Join(s.says, "\n"))
		}
		if n := s.router.Writes(); n != 3 {
			t.Fatalf("seed %d: %d changes of weights, want 3", seed, n)
		}
		s.holds(t)
		if t.Failed() {
			t.Fatalf("seed %d\n%s", seed, strings.Join(s.says, "\n"))
		}
	}
	t.Logf("race: %d orders", orders)
}

// racing runs the engines to their ends and returns what went wrong in each.
func (s *sim) racing(seed uint64, engines []*runner.Engine) []string {
	r := &race{s: s, rng: rand.New(rand.NewPCG(seed, 7)), arrive: make(chan runnerAt), alive: len(engines)}
	s.race = r
	defer func() { s.race = nil }()
	ends := make([]string, len(engines))
	for i, e := range engines {
		go func() {
			r.yield(s.clock)
			ends[i] = s.toTheEnd(e)
			r.arrive <- runnerAt{gone: true}
		}()
	}
	r.referee()
	return ends
}

// toTheEnd calls run again and again, as a pipeline would that is told to
// come back.
func (s *sim) toTheEnd(e *runner.Engine) string {
	var last string
	for range 50 {
		out, err := e.Run(context.Background(), runner.Request{Version: "v2", Config: s.cfg}, runner.RunOptions{})
		if err == nil && (out.Result == runner.Complete || out.Result == runner.Failure) {
			return ""
		}
		last = fmt.Sprintf("%s %s %v", out.Result, out.Message, err)
		s.race.yield(s.clock.Add(time.Second))
	}
	return last
}
