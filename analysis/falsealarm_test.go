package analysis

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

const sec, minute = time.Second, time.Minute

// documented is the default plan's: a look each minute of 15, three stages.
func documented(window, step time.Duration) Looks {
	return Looks{Bake: 15 * minute, Interval: minute, Step: step, Window: window, Stages: 1, Alpha: 0.05, Direction: Increase, MinPoints: 5}
}

// ranksReturned simulates one stage with the real rule on both sides' series.
func ranksReturned(l Looks, trials int) float64 {
	g := rand.New(rand.NewPCG(1, 9))
	looks := l.points()
	most := looks[len(looks)-1]
	rule := Rule{Direction: l.Direction, MaxRatio: 1, MinRatio: 1, Alpha: l.Alpha, MinPoints: l.MinPoints}
	series := newMovingAverage(l.Window, l.Step, most)
	draw := func() []float64 {
		series.draw(g)
		points := make([]float64, most)
		for i := range points {
			points[i] = 100 + series.sums[i+1] - series.sums[i]
		}
		return points
	}
	failed := 0
	for range trials {
		candidate, stable, red := draw(), draw(), 0
		for _, n := range looks {
			if n > 0 && Compare(candidate[n-l.used(n):n], stable[n-l.used(n):n], rule).Outcome == Fail {
				red++
			}
		}
		if red > l.FailureLimit {
			failed++
		}
	}
	return float64(failed) / float64(trials)
}

func TestFalseAlarmAgainstRanks(t *testing.T) {
	with := func(change func(*Looks)) Looks {
		l := documented(minute, 15*sec)
		change(&l)
		return l
	}
	for _, test := range few([]struct {
		name      string
		looks     Looks
		ranks     float64 // 4,000 trials of the simulation above
		elsewhere float64 // by an independent one; 0 for none
	}{
		{"1m at 15s", documented(minute, 15*sec), 0.411, 0.42},
		{"independent 15s", documented(15*sec, 15*sec), 0.097, 0.10},
		{"1m at 60s", documented(minute, minute), 0.072, 0.064},
		{"5m at 15s", documented(5*minute, 15*sec), 0.564, 0.61},
		{"5m at 60s", documented(5*minute, minute), 0.302, 0.35},
		{"40s at 15s", documented(40*sec, 15*sec), 0.344, 0},
		{"either", with(func(l *Looks) { l.Direction = Either }), 0.799, 0},
		{"two tolerated", with(func(l *Looks) { l.FailureLimit = 2 }), 0.267, 0},
		{"lookback 5m", with(func(l *Looks) { l.Lookback = 5 * minute }), 0.620, 0},
		{"half an hour", with(func(l *Looks) { l.Bake = 30 * minute }), 0.518, 0},
		{"alpha 1 %", with(func(l *Looks) { l.Alpha = 0.01 }), 0.256, 0},
		{"alpha 1 %, independent", with(func(l *Looks) { l.Alpha, l.Window = 0.01, 0 }), 0.025, 0},
		{"one look, at the end", with(func(l *Looks) { l.Interval = 15 * minute }), 0.159, 0.15},
	}) {
		t.Run(test.name, func(t *testing.T) {
			start := time.Now()
			got := FalseAlarm(test.looks)
			took := time.Since(start)
			ranks := ranksReturned(test.looks, 200**moreTrials)
			t.Logf("%.3f in %v, ranks %.3f", got, took, ranks)
			near(t, "ranks, many trials", got, test.ranks, 0.04)
			near(t, "ranks", ranks, test.ranks, 0.1)
			if test.elsewhere > 0 {
				near(t, "elsewhere", got, test.elsewhere, 0.04)
			}
		})
	}
}

func TestFalseAlarmOfARollout(t *testing.T) {
	l := documented(minute, 15*sec)
	one := FalseAlarm(l)
	l.Stages = 3
	near(t, "three stages", FalseAlarm(l), Combine(one, one, one), 1e-12)
	near(t, "three stages, as known", FalseAlarm(l), 0.80, 0.05)
	if again := FalseAlarm(l); again != FalseAlarm(l) {
		t.Error("two calls differ")
	}
	l.Alpha = 0.01
	if less := FalseAlarm(l); less >= 0.7 || less <= 0.4 {
		t.Errorf("alpha 1 %%: got %v, expected between 0.4 and 0.7", less)
	}
}

func TestFalseAlarmOfNoLook(t *testing.T) {
	for name, change := range map[string]func(*Looks){
		"no stage":             func(l *Looks) { l.Stages = 0 },
		"no step":              func(l *Looks) { l.Step = 0 },
		"no interval":          func(l *Looks) { l.Interval = 0 },
		"alpha 0":              func(l *Looks) { l.Alpha = 0 },
		"alpha NaN":            func(l *Looks) { l.Alpha = math.NaN() },
		"window above bake":    func(l *Looks) { l.Window = 16 * minute },
		"too few points":       func(l *Looks) { l.MinPoints = 58 },
		"all looks tolerated":  func(l *Looks) { l.FailureLimit = 15 },
		"lookback of 3 points": func(l *Looks) { l.Lookback = 40 * sec },
	} {
		t.Run(name, func(t *testing.T) {
			l := documented(minute, 15*sec)
			change(&l)
			if got := FalseAlarm(l); got != 0 {
				t.Errorf("got %v, expected 0", got)
			}
		})
	}
}

func TestPointsAtLooks(t *testing.T) {
	l := documented(minute, 15*sec)
	l.Bake = 210 * sec
	want := []int{0, 5, 9, 13} // one window after the beginning the first, one too few for minPoints
	got := l.points()
	if len(got) != len(want) {
		t.Fatalf("got %v, expected %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %v, expected %v", got, want)
		}
	}
}

func TestMovingAverage(t *testing.T) {
	g := rand.New(rand.NewPCG(6, 6))
	for _, test := range []struct {
		window time.Duration
		next   float64 // correlation of neighbours
	}{{minute, 0.75}, {40 * sec, 0.625}, {15 * sec, 0}, {0, 0}, {time.Second, 0}} {
		m := newMovingAverage(test.window, 15*sec, 50_000)
		m.draw(g)
		_, variance := m.moments(0, 50_000)
		product := 0.0
		for i := 2; i < len(m.sums); i++ {
			product += (m.sums[i] - m.sums[i-1]) * (m.sums[i-1] - m.sums[i-2])
		}
		near(t, "variance", variance, 1, 0.04)
		near(t, "correlation", product/50_000, test.next, 0.04)
	}
}

func TestCombine(t *testing.T) {
	near(t, "none", Combine(), 0, 0)
	near(t, "one", Combine(0.05), 0.05, 1e-15)
	near(t, "six of 5 %", Combine(.05, .05, .05, .05, .05, .05), 0.2649, 1e-4)
	near(t, "a sure one", Combine(0.1, 1), 1, 0)
}

func BenchmarkFalseAlarm(b *testing.B) {
	for b.Loop() {
		FalseAlarm(documented(minute, 15*sec))
	}
}
