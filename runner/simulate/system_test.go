package simulate

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers/metric"
)

// fixed is a side whose counters are given by hand: requests and errors at
// each scrape, 15 s apart, the first at 0 ms.
func fixed(before float64, counts ...[2]int) *side {
	s := &side{flow: newFlow(rand.New(rand.NewPCG(1, 1)), 0), median: 0.1, before: before, every: 15_000, born: -60_000}
	for i, c := range counts {
		s.scraped = append(s.scraped, tally{at: int64(i) * 15_000, all: c[0], bad: c[1]})
	}
	return s
}

// The figures below are by hand from Prometheus's rule: samples later than
// the beginning of the range, the rise carried on to its ends.
func TestScrapeByHand(t *testing.T) {
	const minute = time.Minute
	growing := [][2]int{{0, 0}, {30, 0}, {60, 3}, {90, 3}, {120, 6}, {150, 6}}
	tests := []struct {
		name   string
		side   *side
		series series
		at     int64
		want   float64
		none   bool
	}{
		// samples at 15, 30, 45, 60 s; rise 90 over 45 s; 15 s to the beginning, under 16.5: carried on to it.
		{"increase on the grid", fixed(1e9, growing...), series{kind: Requests, form: increase, window: minute}, 60_000, 120, false},
		{"rate", fixed(1e9, growing...), series{kind: Requests, form: rate, window: minute}, 60_000, 2, false},
		// samples at 15 … 60 s, range from 4 s to 64 s: 11 s and 4 s at the ends.
		{"off the grid", fixed(1e9, growing...), series{kind: Requests, form: increase, window: minute}, 64_000, 120, false},
		// a counter that began at 0: bad 0 at the first sample, so nothing is carried on before it.
		{"not before 0", fixed(0, growing...), series{kind: Errors, form: increase, window: minute}, 60_000, 6, false},
		// the same of one that had a past: 6 × 60 ÷ 45.
		{"of an old counter", fixed(1e9, growing...), series{kind: Errors, form: increase, window: minute}, 60_000, 8, false},
		{"ratio", fixed(1e9, growing...), series{kind: ErrorRate, form: ratio, window: minute}, 60_000, 8.0 / 120, false},
		{"success", fixed(1e9, growing...), series{kind: Success, form: ratio, window: minute}, 60_000, 1 - 8.0/120, false},
		{"0 of 0", fixed(1e9, [][2]int{{5, 1}, {5, 1}, {5, 1}, {5, 1}, {5, 1}}...), series{kind: ErrorRate, form: ratio, window: minute}, 60_000, math.NaN(), false},
		{"no errors", fixed(1e9, [][2]int{{0, 0}, {30, 0}, {60, 0}, {90, 0}, {120, 0}}...), series{kind: ErrorRate, form: ratio, window: minute}, 60_000, 0, false},
		// one sample in the range, at 60 s: the one at 45 s is its beginning.
		{"range of one scrape", fixed(1e9, growing...), series{kind: Requests, form: rate, window: 15 * time.Second}, 60_000, 0, true},
		{"counter", fixed(1e9, growing...), series{kind: Requests, form: counter}, 59_000, 1e9 + 90, false},
		{"counter of errors", fixed(0, growing...), series{kind: Errors, form: counter}, 60_000, 6, false},
		{"counter before the rollout", fixed(7, growing...), series{kind: Errors, form: counter}, -10_000, 7, false},
		{"counter before it began", fixed(7, growing...), series{kind: Errors, form: counter}, -70_000, 0, true},
		// a minute before the rollout is known to be 0, so that a range may reach back.
		{"range before the rollout", fixed(1e9, growing...), series{kind: Requests, form: increase, window: minute}, 15_000, 40, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := tt.side.scrape(tt.series, tt.at)
			if ok == tt.none || ok && !(math.Abs(got-tt.want) < 1e-6 || math.IsNaN(got) && math.IsNaN(tt.want)) {
				t.Errorf("%v, %t; want %v, %t", got, ok, tt.want, !tt.none)
			}
		})
	}
}

func TestScrapesOnTheGrid(t *testing.T) {
	s := fixed(1e9, [2]int{0, 0}, [2]int{30, 0}, [2]int{60, 3}, [2]int{90, 3}, [2]int{120, 6})
	world := &system{models: modelled{"m/candidate": {series{kind: Requests, form: rate, window: 30 * time.Second}, true}}, candidate: s, stable: s}
	ms := func(n int64) time.Time { return time.UnixMilli(n).UTC() }
	a := world.one(metric.Query{ID: "m/candidate", From: ms(29_000), To: ms(61_000), Step: 15 * time.Second})
	var times []time.Time
	for _, p := range a.Points {
		times = append(times, p.At)
		if math.Abs(p.Value-2) > 1e-9 {
			t.Errorf("%v at %s, want 2 a second", p.Value, p.At)
		}
	}
	if diff := cmp.Diff([]time.Time{ms(30_000), ms(45_000), ms(60_000)}, times); diff != "" || a.Err != nil {
		t.Error(diff, a.Err)
	}
	one := world.one(metric.Query{ID: "m/candidate", From: ms(10_000), To: ms(61_000)})
	if len(one.Points) != 1 || !one.Points[0].At.Equal(ms(61_000)) || !one.From.Equal(ms(31_000)) {
		t.Errorf("one value: %+v, want it at the end, over the query's own range", one)
	}
}

func TestStepsOfALog(t *testing.T) {
	quiet := &side{flow: newFlow(rand.New(rand.NewPCG(1, 1)), 0), median: 0.1}
	busy := &side{flow: newFlow(rand.New(rand.NewPCG(2, 2)), 0), median: 0.1}
	busy.flow.change(0, 10, 0.5, 0.5, 1)
	models := modelled{}
	for _, k := range Kinds() {
		models[string(k)+"/candidate"] = answerer{series{kind: k, form: exact}, true}
		models[string(k)+"/stable"] = answerer{series{kind: k, form: exact}, false}
	}
	world := &system{models: models, candidate: quiet, stable: busy}
	ask := func(id string, step time.Duration) metric.Answer {
		return world.one(metric.Query{ID: id, From: time.UnixMilli(7_000), To: time.UnixMilli(67_000), Step: step})
	}
	if a := ask("requests/candidate", 15*time.Second); len(a.Points) != 3 || a.Points[0].Value != 0 || !a.Points[0].At.Equal(time.UnixMilli(30_000)) {
		t.Errorf("a silent side has 0 requests in each whole step, got %+v", a)
	}
	if a := ask("error-rate/candidate", 0); !errors.Is(a.Err, metric.ErrNoData) {
		t.Errorf("a silent side has no error rate, got %+v", a)
	}
	whole, bad := ask("requests/stable", 0), ask("errors/stable", 0)
	rate := ask("error-rate/stable", 0)
	if n := whole.Points[0].Value; n < 480 || n > 720 || rate.Points[0].Value != bad.Points[0].Value/n {
		t.Errorf("%v of %v requests, error rate %v", bad.Points, whole.Points, rate.Points)
	}
	sum := 0.0
	for _, p := range ask("requests/stable", 15*time.Second).Points {
		sum += p.Value
	}
	d := busy.between(time.UnixMilli(15_000), time.UnixMilli(60_000))
	if sum != float64(d.all) {
		t.Errorf("steps have %v requests in all, want %d", sum, d.all)
	}
	world.stable = quiet
	if a := ask("requests/candidate", 0); !errors.Is(a.Err, metric.ErrNoData) {
		t.Errorf("without any traffic there is nothing to tell, got %+v", a)
	}
}

// Means and quantiles of many windows lie around those of the lognormal, with
// its standard error.
func TestDurations(t *testing.T) {
	const requests, n = 400, 4_000
	rng := rand.New(rand.NewPCG(9, 9))
	for quantile, want := range map[float64]float64{0: 0.1 * math.Exp(spread*spread/2), 0.5: 0.1, 0.99: 0.1 * math.Exp(spread*2.3263478740408408)} {
		m := series{kind: Latency, durations: durationsOf(quantile)}
		sum, squares := 0.0, 0.0
		for range n {
			v := math.Log(m.quotient(0, requests, rng.NormFloat64()*math.Sqrt(requests), 0.1))
			sum += v
			squares += v * v
		}
		mean := sum / n
		if sd := math.Sqrt(squares/n - mean*mean); math.Abs(mean-math.Log(want)) > 5*sd/math.Sqrt(n) || sd <= 0 || sd > 0.15 {
			t.Errorf("quantile %v: %v ± %v, want %v", quantile, math.Exp(mean), sd, want)
		}
		if !math.IsNaN(m.quotient(0, 0, 0, 0.1)) {
			t.Error("a duration of no requests")
		}
	}
}
