package gate

import (
	"math"
	"time"

	"github.com/manent/action/providers/metric"
	"github.com/manent/action/runner/config"
)

// each is a series of one value a minute that ends ten minutes into the stage.
func each(values ...float64) metric.Answer {
	return from(float64(11-len(values)), values...)
}

// from is a series of one value a minute from a minute of the stage on.
func from(first float64, values ...float64) metric.Answer {
	var a metric.Answer
	for i, v := range values {
		a.Points = append(a.Points, was(v, first+float64(i)).Points...)
	}
	return a
}

// ranks makes errorRatio a comparison by Mann-Whitney, without samplesQuery.
func ranks(m *config.Metric) {
	one := 1.0
	m.Analysis, m.Direction, m.MaxRatio, m.Alpha, m.MinPoints = "mann-whitney", "increase", &one, 0.05, 5
	m.Step, m.Window = config.Duration(time.Minute), config.Duration(time.Minute)
	m.SamplesQuery, m.MinSamples = "", nil
}

// ofRanks are the rows of analysis: mann-whitney.
func ofRanks() []situation {
	with := func(change func(*config.Metric)) func(*config.Metric) {
		return func(m *config.Metric) { ranks(m); change(m) }
	}
	zero := with(func(m *config.Metric) { m.Empty, m.SamplesQuery = "zero", `requests{track="{track}"}` })
	low, high := each(.01, .012, .009, .011, .01, .013, .008, .01, .012, .009), each(.05, .04, .06, .05, .07, .05, .04, .06, .05, .05)
	few, none := each(.05, .04, .06, .05), metric.Answer{Err: metric.ErrNoData}
	gaps := each(math.NaN(), .05, math.NaN(), .04, math.NaN(), .06, math.NaN(), math.NaN(), math.NaN(), .05)
	infinite := each(.01, .01, math.Inf(1), .01, .01, .01)
	var unasked [2]metric.Answer
	return []situation{
		{"ranks: both sides alike", ranks, low, low, unasked, Pass, Pass},
		{"ranks: candidate worse", ranks, high, low, unasked, Fail, Fail},
		{"ranks: candidate better", ranks, low, high, unasked, Pass, Pass},
		{"ranks: worse, within `maxRatio: 10`", with(func(m *config.Metric) { ten := 10.0; m.MaxRatio = &ten }), high, low, unasked, Pass, Pass},
		{"ranks: better, `direction: decrease`", with(func(m *config.Metric) { m.Direction = "decrease" }), low, high, unasked, Fail, Fail},
		{"ranks: 4 points, `minPoints: 5`", ranks, few, low, unasked, Inconclusive, Inconclusive},
		{"ranks: NaN points are gaps, 4 are left", ranks, gaps, low, unasked, Inconclusive, Inconclusive},
		{"ranks: `alpha: 0.001` with 5 points", with(func(m *config.Metric) { m.Alpha = 0.001 }), each(.05, .04, .06, .05, .07), each(.01, .02, .01, .02, .01), unasked, Inconclusive, Inconclusive},
		{"ranks: a point is infinite", ranks, infinite, low, unasked, Inconclusive, Inconclusive},
		{"ranks: no series of the candidate", ranks, none, low, unasked, Inconclusive, Inconclusive},
		{"ranks: no error series of the stable yet, `empty: zero`", zero, high, none, worked(), Fail, Fail},
		{"ranks: no error series of either, `empty: zero`", zero, none, none, worked(), Pass, Pass},
		{"ranks: the candidate's points end at minute 6", ranks, from(1, .01, .012, .009, .011, .01, .013), low, unasked, Pass, Inconclusive},
		{"ranks: a point from before the share was in force", ranks, from(-1, .01, .01, .01, .01, .01), low, unasked, Inconclusive, Inconclusive},
		{"ranks: partial answer", ranks, partly(low), low, unasked, Errored, Errored},
	}
}

func partly(a metric.Answer) metric.Answer {
	a.Partial = true
	return a
}

// counts makes errorRatio a sequential test on cumulative counters.
func counts(m *config.Metric) {
	one := 1.0
	m.Analysis, m.Direction, m.MaxRatio, m.Alpha = "sequential", "increase", &one, 0.05
	m.Step, m.Window, m.MinSamples = config.Duration(time.Minute), 0, nil
}

// growing is a counter that begins at a value and grows by each step in turn.
func growing(value float64, steps ...float64) metric.Answer {
	values := []float64{value}
	for _, s := range steps {
		value += s
		values = append(values, value)
	}
	return each(values...)
}

// ofCounts are the rows of analysis: sequential.
func ofCounts() []situation {
	with := func(change func(*config.Metric)) func(*config.Metric) {
		return func(m *config.Metric) { counts(m); change(m) }
	}
	zero := with(func(m *config.Metric) { m.Empty = "zero" })
	none := metric.Answer{Err: metric.ErrNoData}
	all := [2]metric.Answer{growing(1000, 100, 100, 100, 100, 100), growing(90000, 900, 900, 900, 900, 900)}
	usual, bad := growing(40, 1, 0, 2, 1, 1), growing(40, 8, 9, 7, 8, 9)
	stable := growing(700, 9, 8, 10, 9, 9)
	fell := each(40, 41, 0, 1, 2, 3)
	anew := [2]metric.Answer{each(1000, 1100, 1200, 60, 160, 260), all[1]}
	away := [2]metric.Answer{each(1000, 1100, 600, 700, 1400, 1500), all[1]}
	few := [2]metric.Answer{growing(7, 0, 1, 0, 0, 0), all[1]}
	return []situation{
		{"counts: both sides alike", counts, usual, stable, all, Inconclusive, Pass},
		{"counts: candidate worse", counts, bad, stable, all, Fail, Fail},
		{"counts: worse, within `maxRatio: 10`", with(func(m *config.Metric) { ten := 10.0; m.MaxRatio = &ten }), bad, stable, all, Inconclusive, Pass},
		{"counts: no error series of either yet", counts, none, none, all, Inconclusive, Inconclusive},
		{"counts: the same, `empty: zero`", zero, none, none, all, Inconclusive, Pass},
		{"counts: a counter was reset", counts, fell, stable, all, Inconclusive, Pass},
		{"counts: a process began anew, and with it all counters", zero, from(5, 40, 41, 41), stable, anew, Inconclusive, Pass},
		{"counts: one of several instances was not read for two minutes", counts, each(40, 41, 1, 2, 43, 44), stable, away, Inconclusive, Pass},
		{"counts: 1 request, too few to fail", counts, growing(3, 0, 0, 0, 0, 0), stable, few, Inconclusive, Inconclusive},
		{"counts: candidate silent, stable busy", counts, growing(3, 0, 0, 0, 0, 0), stable, [2]metric.Answer{growing(7, 0, 0, 0, 0, 0), all[1]}, Inconclusive, Fail},
		{"counts: requests of the candidate unknown", counts, usual, stable, [2]metric.Answer{none, all[1]}, Inconclusive, Inconclusive},
		{"counts: more bad events than events", counts, growing(40, 200, 200, 200, 200, 200), stable, all, Errored, Errored},
		{"counts: a rate instead of a count", counts, each(.1, .2, .1, .2), stable, all, Errored, Errored},
		{"counts: the counters end at minute 6", counts, from(1, 40, 41, 41, 43, 44, 45), from(1, 700, 709, 717, 727, 736, 745),
			[2]metric.Answer{from(1, 1000, 1100, 1200, 1300, 1400, 1500), from(1, 90000, 90900, 91800, 92700, 93600, 94500)}, Inconclusive, Inconclusive},
		{"counts: several series", counts, metric.Answer{Err: metric.ErrSeveral}, stable, all, Errored, Errored},
	}
}
