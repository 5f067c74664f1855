//go:build peers

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers/api/accesslog"
	"github.com/manent/action/runner/gate"
	"github.com/manent/action/state"
)

// byAccessLog is a rollout whose gate asks the access log for every figure.
const byAccessLog = `
rollout:
  traffic: {steps: [1, 5, 25, 50, 100], bake: 1s, maxBake: 1m, finalBake: 1s}
  providers:
    accesslog: {files: [$LOG], format: $FORMAT}
  health:
    interval: 500ms
    metrics:
      - {name: requests, provider: accesslog, query: requests, min: 1, delay: 200ms}
      - {name: errors, provider: accesslog, query: errors, max: 1000000, delay: 200ms}
      - {name: client_errors, provider: accesslog, query: client_errors, max: 1000000, delay: 200ms}
      - {name: p95, provider: accesslog, query: p95, max: 10, delay: 200ms}
      - {name: error_rate, provider: accesslog, query: error_rate, compare: stable, maxDelta: 1, samplesQuery: requests, minSamples: 1, delay: 200ms}
`

const throughProxy = `
traffic:
  router: {provider: proxy, settings: {admin: $ADMIN}}
`

// In each stage so many requests are sent, and counted by the clients, by the
// releases, in the access log, and by the gate: all four have the same
// figures. The candidate's share of them is exact where the router is, and
// else as near as a correct build leaves it but for once in ten million
// stages. In mode split_clients a user who has come to the candidate stays.
func TestPeersShares(t *testing.T) {
	for _, router := range []struct {
		name   string
		exact  bool
		fields accesslog.Fields
		build  func(*shop)
	}{
		{"proxy", true, accesslog.Proxy(), func(s *shop) {
			s.vars["LOG"], s.vars["FORMAT"] = filepath.Join(s.dir, "access.log"), "proxy"
			s.proxy()
			s.configure(head + byAccessLog + throughProxy)
		}},
		{"nginx by weight", true, generated(), func(s *shop) { s.loggedByNGINX("weight") }},
		{"nginx by user", false, generated(), func(s *shop) { s.loggedByNGINX("split_clients") }},
	} {
		t.Run(router.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			repository := s.repository()
			router.build(s)
			s.a.every.Store(50)
			s.b.every.Store(10)
			var first map[string]string // slots of the users who come in every stage
			shares := []int{1, 5, 25, 50, 100}
			for i, share := range shares {
				s.exits(0, "run", "--version", "2.0", "--until", fmt.Sprintf("gate@traffic@%d", share))
				before := s.counters(router.fields)
				seen := s.stage(share, router.exact)
				var again map[string]string
				if !router.exact {
					var more tally
					more, again = s.visits(people("regular", 2000))
					seen.merge(more)
					stays(t, share, first, again)
					first = again
				}
				s.agree(seen, before, s.counters(router.fields))
				pause(t.Context(), 400*time.Millisecond) // until the gate counts what is as young as delay
				if i+1 < len(shares) {
					s.exits(0, "run", "--version", "2.0", "--until", fmt.Sprintf("traffic@%d", shares[i+1]))
				} else {
					s.exits(0, "run", "--version", "2.0", "--until", "traffic:promote")
				}
				s.judged(repository, share, seen)
			}
			s.exits(0, "run", "--version", "2.0")
			s.b.every.Store(0)
			s.servesOnly("b")
		})
	}
}

// generated are the fields of the log that manent generate nginx defines.
func generated() accesslog.Fields {
	return accesslog.Fields{Time: "time", Status: "status", Track: "track", Duration: "request_time", Unit: time.Second}
}

func (s *shop) loggedByNGINX(mode string) {
	n := s.nginx(mode)
	s.vars["FORMAT"] = "json"
	s.configure(head + byAccessLog + localNGINX)
	s.serve(n)
}

// stage sends requests of new users and looks at how they were split.
func (s *shop) stage(share int, exact bool) tally {
	s.t.Helper()
	n := 2000
	if !exact {
		n = 4000
	}
	users := people(fmt.Sprintf("new-at-%d", share), n-100)
	seen, _ := s.visits(append(users, people(fmt.Sprintf("lost-at-%d", share), 100)...))
	low, high := n*share/100, n*share/100
	if !exact {
		low, high = binomial(n, float64(share)/100, 1e-7)
	}
	s.t.Logf("at %d %%: %d of %d requests reached the candidate, expected %d to %d", share, seen.Slots["b"], n, low, high)
	if b := seen.Slots["b"]; len(seen.Failed) > 0 || b < low || b > high || b+seen.Slots["a"] != n {
		s.t.Errorf("at %d %%: clients saw %v, %d failed, expected %d to %d of %d from b", share, seen.Slots, len(seen.Failed), low, high, n)
	}
	return seen
}

// merge adds what other clients saw.
func (c *tally) merge(other tally) {
	c.Sent += other.Sent
	c.Failed = append(c.Failed, other.Failed...)
	for _, slot := range []string{"a", "b"} {
		c.Slots[slot] += other.Slots[slot]
		c.Errors[slot] += other.Errors[slot]
		c.Lost[slot] += other.Lost[slot]
	}
}

// stays demands that nobody has left the candidate.
func stays(t *testing.T, share int, first, again map[string]string) {
	t.Helper()
	came := 0
	for user, slot := range again {
		switch {
		case first[user] == "b" && slot != "b":
			t.Errorf("at %d %%: %s was taken from the candidate back to %q", share, user, slot)
		case first[user] != "b" && slot == "b":
			came++
		}
	}
	t.Logf("at %d %%: %d of %d regular users came to the candidate, none left it", share, came, len(again))
	if came == 0 {
		t.Errorf("at %d %%: nobody came to the candidate", share)
	}
}

// binomial is the interval that a binomial variable leaves with probability
// out, half of it on either side. Both sums are exact but for rounding.
func binomial(n int, p, out float64) (low, high int) {
	if p <= 0 || p >= 1 {
		return int(p) * n, int(p) * n
	}
	density := func(k int) float64 {
		lg := func(x int) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
		return math.Exp(lg(n) - lg(k) - lg(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
	}
	tail := density(0)
	for low = 0; tail <= out/2; tail += density(low) {
		low++
	}
	tail = density(n)
	for high = n; tail <= out/2; tail += density(high) {
		high--
	}
	return low, high
}

// counters are requests, server errors and client errors by slot, as counted
// by the releases and in the access log.
type counters struct{ served, logged map[string]int }

func (s *shop) counters(fields accesslog.Fields) counters {
	s.t.Helper()
	c := counters{served: map[string]int{"a": int(s.a.served.Load()), "b": int(s.b.served.Load())}, logged: map[string]int{}}
	c.served["a 5"], c.served["b 5"] = int(s.a.failed.Load()), int(s.b.failed.Load())
	parse, err := accesslog.JSON(fields)
	if err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, func() error { // a line may be written a moment after the answer
		log, err := os.ReadFile(s.vars["LOG"])
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		clear(c.logged)
		for line := range strings.Lines(string(log)) {
			entry, err := parse([]byte(line))
			if err != nil {
				return err
			}
			c.logged[entry.Track]++
			c.logged[fmt.Sprintf("%s %d", entry.Track, entry.Status/100)]++
		}
		if got, want := c.logged["a"]+c.logged["b"], c.served["a"]+c.served["b"]; got != want {
			return fmt.Errorf("%d requests are in the access log, %d were served", got, want)
		}
		return nil
	})
	return c
}

// agree demands that clients, releases and access log have counted the same.
func (s *shop) agree(seen tally, before, after counters) {
	s.t.Helper()
	for _, slot := range []string{"a", "b"} {
		for key, clients := range map[string]int{slot: seen.Slots[slot], slot + " 5": seen.Errors[slot], slot + " 4": seen.Lost[slot]} {
			if logged := after.logged[key] - before.logged[key]; logged != clients {
				s.t.Errorf("%s: clients saw %d, %d are in the access log", key, clients, logged)
			}
			if served := after.served[key] - before.served[key]; !strings.HasSuffix(key, " 4") && served != clients {
				s.t.Errorf("%s: clients saw %d, the release has served %d", key, clients, served)
			}
		}
	}
}

// judged demands that the last reading of a stage has the figures that the
// clients counted.
func (s *shop) judged(repository string, share int, seen tally) {
	s.t.Helper()
	doc, _ := s.status()
	stage := doc.Rollout.Stage(fmt.Sprintf("%d%%", share))
	if stage.Status != state.StagePassed || len(stage.Readings) == 0 {
		s.t.Fatalf("stage %s is %s with %d readings", stage.Name, stage.Status, len(stage.Readings))
	}
	var reading gate.Record
	object := stage.Readings[len(stage.Readings)-1].Object
	if err := json.Unmarshal([]byte(s.git("--git-dir", repository, "show", "refs/manent/shop/web/prod:"+object)), &reading); err != nil {
		s.t.Fatal(err)
	}
	rate := func(slot string) float64 { return float64(seen.Errors[slot]) / float64(seen.Slots[slot]) }
	want := map[string]float64{
		"requests": float64(seen.Slots["b"]), "errors": float64(seen.Errors["b"]), "client_errors": float64(seen.Lost["b"]),
		"error_rate": rate("b"), "error_rate of stable": rate("a"), "requests of stable": float64(seen.Slots["a"]),
	}
	got := map[string]float64{}
	for _, m := range reading.Metrics {
		note(got, m.Name, m.Candidate)
		note(got, m.Name+" of stable", m.Stable)
		if m.Samples != nil {
			note(got, "requests of stable", m.Samples.Stable)
		}
	}
	if share == 100 { // nothing is compared there
		for _, name := range []string{"error_rate", "error_rate of stable", "requests of stable"} {
			delete(want, name)
		}
	}
	for name, value := range want {
		if have, ok := got[name]; !ok || have != value {
			s.t.Errorf("at %d %%: the gate has %s %v (%v), the clients counted %v", share, name, have, ok, value)
		}
	}
	if p95, ok := got["p95"]; !ok || p95 < 0 || p95 > 10 {
		s.t.Errorf("at %d %%: p95 is %v (%v) seconds", share, p95, ok)
	}
}

func note(figures map[string]float64, name string, side *gate.Side) {
	if side != nil && len(side.Points) == 1 {
		figures[name] = side.Points[0].Value
	}
}
