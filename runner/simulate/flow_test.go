package simulate

import (
	"math"
	"math/rand/v2"
	"testing"
)

func testFlow(seed uint64) *flow {
	f := newFlow(rand.New(rand.NewPCG(seed, 0)), 0)
	f.timed = true
	return f
}

// A time that is asked for later than those around it splits what was known:
// nothing is drawn twice, and no count ever falls.
func TestFlowIsConsistent(t *testing.T) {
	f := testFlow(1)
	f.change(0, 100, 0.1, 0.5, 0.3)
	end := f.at(600_000)
	rng := rand.New(rand.NewPCG(2, 0))
	for range 500 {
		at := rng.Int64N(600_001)
		first := f.at(at)
		if again := f.at(at); again != first {
			t.Fatalf("at %d first %+v, then %+v", at, first, again)
		}
	}
	before := tally{}
	for _, k := range f.known {
		if d := k.since(before); d.all < 0 || d.bad < 0 || d.bad > d.all || k.at < before.at {
			t.Fatalf("%+v after %+v", k, before)
		}
		before = k
	}
	if f.at(600_000) != end {
		t.Error("splitting changed the total")
	}
	if got := f.at(-5); got != (tally{at: -5}) {
		t.Errorf("%+v before the beginning", got)
	}
}

// What is split has the law of what was drawn at once: the first 30 s of a
// minute, over many flows.
func TestFlowSplitsByTheLaw(t *testing.T) {
	const n = 20_000
	for _, late := range []bool{false, true} {
		flows, score, squares := 0, 0.0, 0.0
		m, v := moments(n, func() int {
			f := testFlow(uint64(flows))
			flows++
			f.change(0, 4, 0.25, 0.25, 1)
			if late {
				f.at(60_000)
			}
			half := f.at(30_000)
			score += half.score
			squares += half.score * half.score
			return half.bad
		})
		near(t, n, m, v, 30, 30)
		near(t, n, score/n, squares/n, 0, 120) // 120 requests, a score of variance 1 each
	}
}

func TestFlowFaultMinutes(t *testing.T) {
	f := testFlow(3)
	f.change(0, 1_000, 0, 0.2, 0.1)
	faulty := 0
	for minute := range int64(2_000) {
		d := f.at((minute + 1) * minuteMs).since(f.at(minute * minuteMs))
		switch part := float64(d.bad) / float64(d.all); {
		case d.bad == 0:
		case math.Abs(part-0.2) < 0.02:
			faulty++
		default:
			t.Fatalf("minute %d: %v of requests failed, want 0 or 0.2", minute, part)
		}
	}
	if faulty < 130 || faulty > 270 { // 200, standard deviation 13.4
		t.Errorf("%d of 2000 minutes have the fault, want about 200", faulty)
	}
}

func TestFlowFollowsTheShare(t *testing.T) {
	f := testFlow(4)
	f.change(0, 100, 0.1, 0.1, 1)
	f.change(600_000, 1_000, 0.01, 0.01, 1)
	first, second := f.at(600_000), f.at(1_200_000)
	second = second.since(first)
	for what, got := range map[string][2]float64{
		"requests before": {float64(first.all), 60_000}, "errors before": {float64(first.bad), 6_000},
		"requests after": {float64(second.all), 600_000}, "errors after": {float64(second.bad), 6_000},
	} {
		if math.Abs(got[0]-got[1]) > 5*math.Sqrt(got[1]) {
			t.Errorf("%s: %v, want about %v", what, got[0], got[1])
		}
	}
}
