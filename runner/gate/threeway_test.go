package gate

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// The published worked cases of an access-log gate (396 requests of which 19
// failed against 3604; 19 requests; a healthy candidate), and each way in
// which there is too little to say.
func TestThreeWay(t *testing.T) {
	usual := ThreeWay{MinRequests: 300, MaxExtraError: 1, MaxLatencyRatio: 1.2}
	ms := func(requests, errors int, p95 float64) Track {
		return Track{Requests: requests, Errors: errors, Timed: requests, P95: p95 / 1000}
	}
	untimed := func(requests, errors int) Track { return Track{Requests: requests, Errors: errors} }
	left := func(k Track, abandoned int) Track { k.Abandoned = abandoned; return k }
	for _, tc := range []struct {
		name              string
		gate              ThreeWay
		candidate, stable Track
		want              Result
		words             string
	}{
		{"19 of 396 failed", usual, ms(396, 19, 1), ms(3604, 0, 1), Fail, "ABORT candidate=4.80% stable=0.00% limit=+1.0"},
		{"19 requests", usual, ms(19, 1, 1), ms(181, 0, 1), Inconclusive, "WAIT: candidate has 19 requests, need 300"},
		{"19 good requests", usual, ms(19, 0, 1), ms(181, 0, 1), Inconclusive, "WAIT: candidate has 19 requests, need 300"},
		{"healthy", usual, ms(396, 0, 1), ms(3604, 0, 1), Pass, "PROMOTE candidate=0.00% stable=0.00% limit=+1.0, p95 candidate=0.001s stable=0.001s limit=x1.2"},

		{"nothing at all", usual, Track{}, Track{}, Inconclusive, "WAIT: candidate has 0 requests, need 300"},
		{"one short", usual, ms(299, 299, 1), ms(3604, 0, 1), Inconclusive, "WAIT: candidate has 299 requests, need 300"},
		{"just enough", usual, ms(300, 0, 1), ms(300, 0, 1), Pass, "PROMOTE candidate=0.00% stable=0.00% limit=+1.0, p95 candidate=0.001s stable=0.001s limit=x1.2"},
		{"no stable", usual, ms(400, 0, 1), Track{}, Inconclusive, "WAIT: stable has no requests to compare with, need 300"},
		{"no stable, bad", usual, ms(400, 400, 1), Track{}, Inconclusive, "WAIT: stable has no requests to compare with, need 300"},
		{"thin stable", usual, ms(400, 0, 1), ms(3, 1, 1), Inconclusive, "WAIT: stable has 3 requests, need 300"},
		{"thin stable that fails would hide it", usual, ms(400, 20, 1), ms(3, 1, 1), Inconclusive, "WAIT: stable has 3 requests, need 300"},
		{"worse than a thin stable", usual, ms(400, 20, 1), ms(3, 0, 1), Fail, "ABORT candidate=5.00% stable=0.00% limit=+1.0"},
		{"no minimum is one", ThreeWay{MaxExtraError: 1}, Track{}, ms(9, 0, 1), Inconclusive, "WAIT: candidate has 0 requests, need 1"},

		{"exactly the limit", usual, ms(400, 4, 1), ms(400, 0, 1), Pass, "PROMOTE candidate=1.00% stable=0.00% limit=+1.0, p95 candidate=0.001s stable=0.001s limit=x1.2"},
		{"exactly the limit, between two rates", ThreeWay{MinRequests: 300, MaxExtraError: 1.1}, ms(1000, 23, 1), ms(1000, 12, 1), Pass, "PROMOTE candidate=2.30% stable=1.20% limit=+1.1"},
		{"a little more", usual, ms(100_000, 1001, 1), ms(400, 0, 1), Fail, "ABORT candidate=1.001000% stable=0.000000% limit=+1.0"},
		{"both bad alike", usual, ms(400, 80, 1), ms(400, 80, 1), Pass, "PROMOTE candidate=20.00% stable=20.00% limit=+1.0, p95 candidate=0.001s stable=0.001s limit=x1.2"},
		{"another limit", ThreeWay{MinRequests: 10, MaxExtraError: 0.25}, untimed(400, 2), untimed(400, 0), Fail, "ABORT candidate=0.50% stable=0.00% limit=+0.25"},

		{"p95 a fifth above", usual, ms(400, 0, 12), ms(400, 0, 10), Pass, "PROMOTE candidate=0.00% stable=0.00% limit=+1.0, p95 candidate=0.012s stable=0.010s limit=x1.2"},
		{"p95 more than a fifth above", usual, ms(400, 0, 12.1), ms(400, 0, 10), Fail, "ABORT p95 candidate=0.0121s stable=0.010s limit=x1.2"},
		{"both worse", usual, ms(400, 40, 50), ms(400, 0, 10), Fail, "ABORT candidate=10.00% stable=0.00% limit=+1.0, p95 candidate=0.050s stable=0.010s limit=x1.2"},
		{"p95 of the stable 0", usual, ms(400, 0, 1), ms(400, 0, 0), Fail, "ABORT p95 candidate=0.001s stable=0.000s limit=x1.2"},
		{"p95 of both 0", usual, ms(400, 0, 0), ms(400, 0, 0), Pass, "PROMOTE candidate=0.00% stable=0.00% limit=+1.0, p95 candidate=0.000s stable=0.000s limit=x1.2"},
		{"p95 left alone", ThreeWay{MinRequests: 300, MaxExtraError: 1}, ms(400, 0, 900), ms(400, 0, 1), Pass, "PROMOTE candidate=0.00% stable=0.00% limit=+1.0"},
		{"no durations", usual, untimed(400, 0), untimed(400, 0), Pass, "PROMOTE candidate=0.00% stable=0.00% limit=+1.0, p95 not compared: the log has no durations"},
		{"no durations, bad", usual, untimed(400, 40), untimed(400, 0), Fail, "ABORT candidate=10.00% stable=0.00% limit=+1.0"},
		{"only the stable's durations", usual, untimed(400, 0), ms(400, 0, 1), Inconclusive, "WAIT: candidate has 0 requests with a duration, need 300"},
		{"the candidate loses its clients", usual, left(ms(400, 0, 1), 399), ms(400, 0, 1), Inconclusive, "WAIT: abandoned candidate=49.94% stable=0.00% limit=+1.0: a slow candidate loses its clients"},
		{"both lose them alike", usual, left(ms(400, 0, 1), 100), left(ms(400, 0, 1), 100), Pass, "PROMOTE candidate=0.00% stable=0.00% limit=+1.0, p95 candidate=0.001s stable=0.001s limit=x1.2, abandoned candidate=20.00% stable=20.00% limit=+1.0"},
		{"only the stable loses them", usual, ms(400, 0, 1), left(ms(400, 0, 1), 399), Pass, "PROMOTE candidate=0.00% stable=0.00% limit=+1.0, p95 candidate=0.001s stable=0.001s limit=x1.2, abandoned candidate=0.00% stable=49.94% limit=+1.0"},
		{"exactly the limit of them", usual, left(ms(396, 0, 1), 4), ms(400, 0, 1), Pass, "PROMOTE candidate=0.00% stable=0.00% limit=+1.0, p95 candidate=0.001s stable=0.001s limit=x1.2, abandoned candidate=1.00% stable=0.00% limit=+1.0"},
		{"a little more of them", usual, left(ms(98_999, 0, 1), 1001), left(ms(400, 0, 1), 0), Inconclusive, "WAIT: abandoned candidate=1.001000% stable=0.000000% limit=+1.0: a slow candidate loses its clients"},
		{"another limit of them", ThreeWay{MinRequests: 300, MaxExtraError: 60}, left(untimed(400, 0), 399), untimed(400, 0), Pass, "PROMOTE candidate=0.00% stable=0.00% limit=+60.0, abandoned candidate=49.94% stable=0.00% limit=+60.0"},
		{"no durations, and they leave", usual, left(untimed(400, 0), 4), untimed(400, 0), Pass, "PROMOTE candidate=0.00% stable=0.00% limit=+1.0, abandoned candidate=0.99% stable=0.00% limit=+1.0, p95 not compared: the log has no durations"},
		{"errors before clients", usual, left(ms(400, 40, 1), 399), ms(400, 0, 1), Fail, "ABORT candidate=10.00% stable=0.00% limit=+1.0"},
		{"p95 before clients", usual, left(ms(400, 0, 50), 399), ms(400, 0, 10), Fail, "ABORT p95 candidate=0.050s stable=0.010s limit=x1.2"},
		{"clients before a thin stable", usual, left(ms(400, 0, 1), 399), ms(3, 0, 1), Inconclusive, "WAIT: abandoned candidate=49.94% stable=0.00% limit=+1.0: a slow candidate loses its clients"},
		{"clients before a thin candidate", usual, left(ms(200, 0, 1), 199), ms(400, 0, 1), Inconclusive, "WAIT: abandoned candidate=49.87% stable=0.00% limit=+1.0: a slow candidate loses its clients"},
		{"too few to lose", usual, left(ms(18, 0, 1), 1), ms(400, 0, 1), Inconclusive, "WAIT: candidate has 18 requests, need 300"},
		{"clients of no stable", usual, left(ms(400, 0, 1), 399), Track{}, Inconclusive, "WAIT: stable has no requests to compare with, need 300"},
		{"all clients of both", usual, left(Track{}, 400), left(Track{}, 400), Inconclusive, "WAIT: candidate has 0 requests, need 300"},

		{"only the candidate's durations", usual, ms(400, 0, 1), untimed(400, 0), Inconclusive, "WAIT: stable has no requests with a duration to compare with, need 300"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.gate.Judge(tc.candidate, tc.stable)
			if got.Result != tc.want || got.Words != tc.words {
				t.Errorf("got %s %q\nexpected %s %q", got.Result, got.Words, tc.want, tc.words)
			}
			if (got.Remedy != "") != (tc.want == Inconclusive) {
				t.Errorf("%s has the remedy %q", got.Words, got.Remedy)
			}
			for _, m := range got.Metrics {
				if m.Name == abandoned && m.Result == Fail {
					t.Errorf("%s: abandoned requests alone abort", m.Reason)
				}
			}
		})
	}
}

// A threshold that is no number lets nothing pass.
func TestThreeWayFailsClosed(t *testing.T) {
	fine := Track{Requests: 400, Timed: 400, P95: 0.001}
	for name, g := range map[string]ThreeWay{
		"errors": {MinRequests: 1, MaxExtraError: math.NaN()},
		"below":  {MinRequests: 1, MaxExtraError: math.Inf(-1)},
		"ratio":  {MinRequests: 1, MaxExtraError: 1, MaxLatencyRatio: math.NaN()},
	} {
		if got := g.Judge(fine, fine); got.Result == Pass {
			t.Errorf("%s: %s", name, got.Words)
		}
	}
	fine.Abandoned = 1
	if got := (ThreeWay{MinRequests: 1, MaxExtraError: math.NaN()}).Judge(fine, fine); got.Result == Pass {
		t.Errorf("abandoned: %s", got.Words)
	}
	slow := Track{Requests: 400, Timed: 400, P95: math.NaN()}
	g := ThreeWay{MinRequests: 1, MaxExtraError: 1, MaxLatencyRatio: 1.2}
	if got := g.Judge(slow, fine); got.Result == Pass {
		t.Errorf("p95 NaN: %s", got.Words)
	}
}

// Whatever was counted: the words begin as the result says, a pass has the
// requests on both sides and loses no more clients than the limit, and neither
// more errors of the candidate nor more clients that left ever help it.
func TestThreeWayProperties(t *testing.T) {
	begins := map[Result]string{Pass: "PROMOTE ", Fail: "ABORT ", Inconclusive: "WAIT: "}
	rank := map[Result]int{Pass: 2, Inconclusive: 1, Fail: 0}
	random := rand.New(rand.NewPCG(3, 5))
	track := func() Track {
		n := random.IntN(700)
		k := Track{Requests: n, Errors: random.IntN(n/20 + 1)}
		if random.IntN(4) > 0 {
			k.Timed, k.P95 = random.IntN(n+1), float64(random.IntN(4))/1000
		}
		if random.IntN(2) > 0 {
			k.Abandoned = random.IntN(n/40 + 2)
		}
		return k
	}
	g := ThreeWay{MinRequests: 300, MaxExtraError: 1, MaxLatencyRatio: 1.2}
	seen := map[Result]int{}
	for range 20_000 / fewer {
		candidate, stable := track(), track()
		got := g.Judge(candidate, stable)
		seen[got.Result]++
		if !strings.HasPrefix(got.Words, begins[got.Result]) {
			t.Fatalf("%+v against %+v: %s %q", candidate, stable, got.Result, got.Words)
		}
		if got.Result == Pass && (candidate.Requests < 300 || stable.Requests < 300) {
			t.Fatalf("%+v against %+v passed", candidate, stable)
		}
		part := func(k Track) float64 { return float64(k.Abandoned) / float64(k.Requests+k.Abandoned) }
		if got.Result == Pass && part(candidate)-part(stable) > 0.01+1e-9 {
			t.Fatalf("%+v against %+v passed", candidate, stable)
		}
		fled := candidate
		fled.Abandoned++
		if worse := g.Judge(fled, stable); rank[worse.Result] > rank[got.Result] {
			t.Fatalf("%+v against %+v: one client more left, and %s became %s", candidate, stable, got.Result, worse.Result)
		}
		if candidate.Errors < candidate.Requests {
			candidate.Errors++
			if worse := g.Judge(candidate, stable); rank[worse.Result] > rank[got.Result] {
				t.Fatalf("%+v against %+v: one error more, and %s became %s", candidate, stable, got.Result, worse.Result)
			}
		}
	}
	for result := range begins {
		if seen[result] < 100/fewer {
			t.Errorf("only %d of the cases came to %s: %v", seen[result], result, seen)
		}
	}
}
