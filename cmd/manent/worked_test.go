package main

import (
	"strings"
	"testing"
	"time"
)

// The worked numbers of the documentation on canaries, with as many real
// requests through manent proxy, judged from its access log.
//
//   - 19 requests with 1 error say nothing: the gate waits, also past the end
//     of the bake.
//   - 396 requests of the candidate with 19 errors against 3,604 without any
//     fail the stage.
//   - The same requests without an error pass it.
func TestWorkedNumbers(t *testing.T) {
	for _, test := range few([]struct {
		name  string
		every int64 // the last but one of so many of the candidate's requests fails
		early int   // errors among its first 19 requests
		all   int   // and among its 396
		code  int
		says  string
	}{
		{"19 errors", 20, 1, 19, 1, "candidate 0.04798, stable 0: ratio +Inf > 1.5 (396 and 3604 requests); all traffic is at slot a"},
		{"no error", 0, 0, 0, 0, "gate@traffic@9.9: stage 9.9% passed: 1 passed"},
	}) {

		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.proxy()
			s.configure(workedConfig)
			s.visits(people("before", 10)) // a log that begins with the stage could have lost its beginning
			s.exits(0, "run", "--version", "2.0", "--until", "gate@traffic@9.9")
			s.b.every.Store(test.every)

			few, _ := s.visits(people("early", 192))
			s.counted(few, 173, 19, test.early)
			out := s.exits(2, "run", "--version", "2.0", "--max-time", "2s")
			if !strings.Contains(out, "is thin, metric errors: candidate has 19 requests, minSamples is 100") {
				t.Errorf("19 requests are not called thin:\n%s", out)
			}
			doc, _ := s.status()
			stage := doc.Rollout.Stage("9.9%")
			last := stage.Readings[len(stage.Readings)-1].At
			if len(stage.Readings) < 2 || last.Before(stage.InForce.Add(time.Second)) || doc.Passes[0].Share != 9.9 {
				t.Errorf("did not wait past the bake: %d readings, the last %s after the share was in force, which is %v now",
					len(stage.Readings), last.Sub(stage.InForce), doc.Passes[0].Share)
			}

			more, _ := s.visits(people("late", 4000-192))
			s.counted(more, 3604-173, 396-19, test.all-test.early)
			out = s.exits(test.code, "run", "--version", "2.0")
			if !strings.Contains(out, test.says) {
				t.Errorf("expected %q in\n%s", test.says, out)
			}
		})
	}
}

// counted demands what clients saw: requests of each slot, errors of b only.
func (s *shop) counted(seen tally, a, b, errors int) {
	s.t.Helper()
	if len(seen.Failed) > 0 || seen.Slots["a"] != a || seen.Slots["b"] != b || seen.Errors["a"] != 0 || seen.Errors["b"] != errors {
		s.t.Fatalf("clients saw %+v, expected %d of a, %d of b, %d errors of b", seen, a, b, errors)
	}
}

const workedConfig = `
project: shop
application: web
environment: prod
state: file:state
steps:
  - {name: copy, at: deploy, run: "true"}
rollout:
  traffic: {steps: [9.9, 100], bake: 1s, maxBake: 1h}
  providers:
    accesslog: {files: [access.log], format: proxy}
  health:
    interval: 500ms
    metrics:
      - {name: errors, provider: accesslog, query: error_rate, compare: stable, maxRatio: 1.5,
         samplesQuery: requests, minSamples: 100, delay: 1ms}
traffic:
  router: {provider: proxy, settings: {admin: $ADMIN}}
`
