package gate

import (
	"flag"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/manent/action/runner/config"
)

var update = flag.Bool("update", false, "write the golden files")

func TestSituations(t *testing.T) {
	for _, s := range slices.Concat(situations(), ofRanks(), ofCounts()) {
		t.Run(s.name, func(t *testing.T) {
			for atEnd, want := range map[bool]Result{false: s.during, true: s.atEnd} {
				r := s.judge(atEnd)
				if got := r.Metrics[0].Result; got != want {
					t.Errorf("at end %t: %s, want %s (%s)", atEnd, got, want, r.Metrics[0].Reason)
				}
				if verdict := map[Result]Verdict{Pass: Green, Fail: Red, Inconclusive: Thin, Errored: Error}[want]; r.Verdict != verdict {
					t.Errorf("at end %t: reading %s, want %s", atEnd, r.Verdict, verdict)
				}
			}
		})
	}
}

func TestWeighings(t *testing.T) {
	for _, w := range weighings() {
		t.Run(w.name, func(t *testing.T) {
			r := w.weigh()
			if r.Verdict != w.verdict {
				t.Errorf("%s, want %s (%s)", r.Verdict, w.verdict, r.Reason)
			}
			switch {
			case (r.Score == nil) != (w.score < 0):
				t.Errorf("score %v, want %v", r.Score, w.score)
			case r.Score != nil && math.Abs(*r.Score-w.score) > 1e-8:
				t.Errorf("score %v, want %v", *r.Score, w.score)
			}
		})
	}
}

// Weights that no configuration should have give no score, never a good one.
func TestScoreOfOddWeights(t *testing.T) {
	for _, weights := range [][2]float64{{3, -1}, {-1, 2}, {0, 0}, {math.NaN(), 1}, {math.Inf(1), 1}, {-1, -1}} {
		r := Record{Health: config.Health{Analysis: &config.Analysis{}}, Metrics: []MetricResult{{Result: Pass, Weight: weights[0]}, {Result: Fail, Weight: weights[1]}}}
		if s := score(r); s != nil {
			t.Errorf("weights %v: score %v", weights, *s)
		}
	}
}

func TestMoments(t *testing.T) {
	for _, m := range moments() {
		t.Run(m.name+" "+string(m.verdict), func(t *testing.T) {
			o := m.decide()
			if o.Act != m.act {
				t.Fatalf("%s, want %s (%s)", o.Act, m.act, o.Reason)
			}
			if o.Act == GoOn && !o.Next.Equal(minute(m.next)) {
				t.Errorf("next at %s, want %s", o.Next, minute(m.next))
			}
			if o.Act != GoOn && !o.Next.IsZero() {
				t.Errorf("next at %s after %s, want none", o.Next, o.Act)
			}
		})
	}
}

func TestTruthGolden(t *testing.T) {
	const path = "testdata/truth.md"
	got := Truth()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not what the code says; run go test ./runner/gate -update and read the difference", path)
	}
}
