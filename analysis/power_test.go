package analysis

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestSampleSizes(t *testing.T) {
	for _, test := range []struct {
		candidate, stable float64
		want              [3]float64
	}{
		{0.002, 0.001, [3]float64{23510, 11474, 10053}},
		{0.01, 0.001, [3]float64{1059, 375, 273}},
		{0.02, 0.01, [3]float64{2318, 1133, 993}},
		{0.05, 0.01, [3]float64{284, 115, 92}},
		{0.05, 0.001, [3]float64{161, 49, 28}},
		{0.015, 0.01, [3]float64{7750, 4010, 3579}},
	} {
		for i, ratio := range []float64{1, 9, 99} {
			if got := math.Round(SampleSize(test.candidate, test.stable, ratio, 0.05, 0.8)); got != test.want[i] {
				t.Errorf("%v against %v, %v times as many: got %v, expected %v", test.candidate, test.stable, ratio, got, test.want[i])
			}
		}
	}
	if got := SampleSize(0.01, 0.01, 9, 0.05, 0.8); !math.IsInf(got, 1) {
		t.Errorf("equal rates: got %v, expected +Inf", got)
	}
}

func TestCleanRequests(t *testing.T) {
	for rate, want := range map[float64]float64{0.001: 2995, 0.01: 299, 0.05: 59} {
		if got := CleanRequests(rate, 0.95); got != want {
			t.Errorf("%v: got %v, expected %v", rate, got, want)
		}
	}
}

func TestRequests(t *testing.T) {
	candidate, stable := Traffic{Rate: 200, Share: 5, Time: 15 * minute}.Requests()
	if candidate != 9000 || stable != 171000 {
		t.Errorf("got %v and %v, expected 9000 and 171000", candidate, stable)
	}
}

// The chances that others measured for a candidate no worse than a stable whose
// rate is known. A ratio slightly above keeps that from being a tie.
func TestRatioTestAgainstReference(t *testing.T) {
	for _, test := range []struct{ requests, ratio, want float64 }{
		{100, 1.5, 0.27}, {500, 1.5, 0.136}, {1000, 1.5, 0.05}, {5000, 1.5, 0.0004},
		{100, 2, 0.08}, {500, 2, 0.013}, {1000, 2, 0.002},
	} {
		traffic := Traffic{Rate: test.requests * 1e6, Share: 1e-4, StableError: 0.01, Time: sec}
		near(t, "false alarms", RatioTest{MaxRatio: test.ratio * 1.01}.Chance(traffic, 0.01), test.want, 0.01)
	}
}

func TestRatioTestAgainstSimulation(t *testing.T) {
	g := rand.New(rand.NewPCG(4, 4))
	for _, test := range []struct{ share, rate, ratio float64 }{
		{10, 0.01, 1.5}, {10, 0.01, 2}, {50, 0.02, 1.3}, {1, 0.05, 2},
	} {
		traffic := Traffic{Rate: 20, Share: test.share, StableError: 0.01, Time: 5 * minute}
		n, m := traffic.Requests()
		trials, failed := 5000**moreTrials, 0.0
		for range trials {
			x, all := events(g, n, test.rate)
			y, others := events(g, m, 0.01)
			if x/all > test.ratio*y/others {
				failed++
			}
		}
		near(t, "failed", RatioTest{MaxRatio: test.ratio}.Chance(traffic, test.rate), failed/float64(trials), 0.03)
	}
}

func TestRatioTestWantsSamples(t *testing.T) {
	few := Traffic{Rate: 1, Share: 10, StableError: 0.01, Time: minute}
	if got := (RatioTest{MaxRatio: 1, MinSamples: 7}).Chance(few, 1); got != 0 {
		t.Errorf("6 of 7 samples: got %v, expected 0", got)
	}
	if got := (RatioTest{MaxRatio: 1, MinSamples: 6}).Chance(few, 1); got < 0.99 {
		t.Errorf("6 of 6 samples, all bad: got %v, expected nearly 1", got)
	}
}

func TestRankPoints(t *testing.T) {
	for _, test := range []struct {
		window, step, watched time.Duration
		want                  int
	}{
		{minute, 15 * sec, 15 * minute, 15}, {minute, 15 * sec, 59 * sec, 0}, {minute, 15 * sec, minute, 1},
		{15 * sec, minute, 15 * minute, 15}, {0, minute, 15 * minute, 16}, {0, 0, minute, 0}, {5 * minute, 15 * sec, 15 * minute, 3},
	} {
		if got := (RankTest{Window: test.window, Step: test.step}).Points(test.watched); got != test.want {
			t.Errorf("%+v: got %d", test, got)
		}
	}
}

// rankFailures is how often the real comparison, of two-sided level 5 % or bound
// by 2.5 %, fails at the end.
func rankFailures(r RankTest, traffic Traffic, candidateError float64, trials int) float64 {
	g := rand.New(rand.NewPCG(8, 1))
	n := r.Points(traffic.Time)
	rule := Rule{Direction: Increase, MaxRatio: r.MaxRatio, Alpha: 0.05, MinPoints: r.MinPoints}
	if r.Bounded {
		rule.Bound = &Bound{Alpha: 0.025, Planned: n}
	}
	traffic.Time = r.Window
	x, y := traffic.Requests()
	draw := func(requests, rate float64) []float64 {
		var points []float64
		for range n {
			if bad, all := events(g, requests, rate); all > 0 {
				points = append(points, bad/all)
			}
		}
		return points
	}
	failed := 0
	for range trials {
		if Compare(draw(x, candidateError), draw(y, traffic.StableError), rule).Outcome == Fail {
			failed++
		}
	}
	return float64(failed) / float64(trials)
}

func TestRankTestAgainstSimulation(t *testing.T) {
	for _, test := range few([]struct {
		name     string
		rate     float64
		share    float64
		stable   float64
		minutes  int
		maxRatio float64
		bounded  bool
	}{
		{"20/s, 5 %, 1 %", 20, 5, 0.01, 15, 1, false},
		{"20/s, 50 %, 1 %", 20, 50, 0.01, 15, 1, false},
		{"200/s, 5 %, 0.1 %", 200, 5, 0.001, 15, 1, false},
		{"200/s, 25 %, 1 %", 200, 25, 0.01, 30, 1, false},
		{"200/s, 25 %, 1 %, ratio 1.5", 200, 25, 0.01, 30, 1.5, false},
		{"20/s, 50 %, 1 %, bounded", 20, 50, 0.01, 15, 1, true},
		{"200/s, 5 %, 1 %, bounded", 200, 5, 0.01, 15, 1, true},
		{"2000/s, 1 %, 1 %, bounded", 2000, 1, 0.01, 60, 1, true},
		{"2/s, 50 %, 5 %", 2, 50, 0.05, 30, 1, false},
	}) {
		t.Run(test.name, func(t *testing.T) {
			traffic := Traffic{Rate: test.rate, Share: test.share, StableError: test.stable, Time: time.Duration(test.minutes) * minute}
			r := RankTest{Level: 0.025, Bounded: test.bounded, Window: minute, Step: 15 * sec, MaxRatio: test.maxRatio, MinPoints: 5}
			if r.Bounded {
				r.Level = Level(0.025, 1)
			}
			for _, power := range []float64{0.5, 0.8, 0.95} {
				smallest := SmallestError(traffic, power, r.Chance)
				got := rankFailures(r, traffic, smallest, 200**moreTrials)
				t.Logf("%.3f %% for power %v: %.3f", 100*smallest, power, got)
				near(t, "failed", got, power, 0.1)
			}
		})
	}
}

func TestSequentialTestAgainstSimulation(t *testing.T) {
	for _, test := range few([]struct {
		name    string
		rate    float64
		share   float64
		stable  float64
		minutes int
	}{
		{"20/s, 5 %, 1 %", 20, 5, 0.01, 15},
		{"200/s, 1 %, 1 %", 200, 1, 0.01, 15},
		{"2000/s, 50 %, 0.1 %", 2000, 50, 0.001, 15},
		{"20/s, 25 %, stable clean", 20, 25, 0, 15},
		{"2/s, 50 %, 5 %", 2, 50, 0.05, 60},
	}) {
		t.Run(test.name, func(t *testing.T) {
			traffic := Traffic{Rate: test.rate, Share: test.share, StableError: test.stable, Time: time.Duration(test.minutes) * minute}
			chance := SequentialTest{Alpha: 0.01, Planned: 3, MaxRatio: 1}.Chance
			for _, power := range []float64{0.5, 0.8, 0.95} {
				smallest := SmallestError(traffic, power, chance)
				a := 60 * test.rate * test.share / 100
				c := simulateCounts(400**moreTrials, []simStage{{a, 60*test.rate - a, test.minutes, smallest, test.stable}}, 3, 0.01)
				t.Logf("%.4f %% for power %v: %.3f", 100*smallest, power, c.failed[0])
				near(t, "failed", c.failed[0], power, 0.1)
			}
		})
	}
}

func TestTimeToSee(t *testing.T) {
	traffic := Traffic{Rate: 1000.0 / 60, Share: 10, StableError: 0.01}
	chances := map[string]Chance{
		"sequential": SequentialTest{Alpha: 0.05, Planned: 1, MaxRatio: 1}.Chance,
		"ranks":      RankTest{Level: 0.025, Window: minute, Step: minute, MaxRatio: 1, MinPoints: 5}.Chance,
		"ratio":      RatioTest{MaxRatio: 1.5, MinSamples: 200}.Chance,
	}
	for name, chance := range chances {
		t.Run(name, func(t *testing.T) {
			took, ok := TimeToSee(traffic, 0.03, 0.8, chance)
			if !ok {
				t.Fatal("not seen in 90 days")
			}
			t.Logf("1 to 3 %%: %v", took)
			at := traffic
			at.Time = took
			if got := chance(at, 0.03); got < 0.8 {
				t.Errorf("chance after %v is %v, expected 0.8", took, got)
			}
			at.Time = took - 2*sec
			if got := chance(at, 0.03); got >= 0.8 {
				t.Errorf("chance after %v is %v already", at.Time, got)
			}
			if took, ok := TimeToSee(traffic, 0.01, 0.8, chance); ok {
				t.Errorf("no difference seen after %v", took)
			}
		})
	}
}

func TestSmallestErrorAtTheEdges(t *testing.T) {
	never := func(Traffic, float64) float64 { return 0 }
	if got := SmallestError(Traffic{}, 0.8, never); !math.IsInf(got, 1) {
		t.Errorf("got %v, expected +Inf", got)
	}
	for name, chance := range map[string]Chance{
		"sequential": SequentialTest{Alpha: 0.05, Planned: 1, MaxRatio: 1}.Chance,
		"ranks":      RankTest{Level: 0.025, Window: minute, Step: minute, MaxRatio: 1, MinPoints: 5}.Chance,
		"ratio":      RatioTest{MaxRatio: 1.5}.Chance,
	} {
		for _, traffic := range []Traffic{{}, {Rate: 10, Share: 0, Time: 10 * minute}, {Rate: 10, Share: 100, Time: 10 * minute}, {Rate: 10, Share: 50}} {
			if got := chance(traffic, 1); got != 0 {
				t.Errorf("%s, %+v: chance %v, expected 0", name, traffic, got)
			}
		}
		last := 0.0
		for _, rate := range []float64{0.01, 0.02, 0.05, 0.1, 0.5, 1} {
			got := chance(Traffic{Rate: 20, Share: 10, StableError: 0.01, Time: 15 * minute}, rate)
			if !(got >= last && got <= 1) {
				t.Errorf("%s: chance %v of rate %v, expected %v to 1", name, got, rate, last)
			}
			last = got
		}
	}
}
