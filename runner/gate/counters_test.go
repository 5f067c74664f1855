package gate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/analysis"
	"github.com/manent/action/providers/metric"
	"github.com/manent/action/runner/config"
)

// countsOf is what came back of a sequential metric, the candidate's figures
// given, the stable's steady.
func countsOf(bad, all metric.Answer, cumulative bool) MetricResult {
	side := func(a metric.Answer) *Side { return &Side{State: Answered, Points: a.Points} }
	return MetricResult{
		Candidate: side(bad), Stable: side(growing(500, 5, 5, 5, 5, 5)), Cumulative: cumulative,
		Samples: &Samples{Candidate: side(all), Stable: side(growing(9000, 90, 90, 90, 90, 90))},
	}
}

func zeroWhereEmpty() config.Metric { return config.Metric{Name: "errors", Empty: "zero"} }

// What is not there of a counter of bad events is a gap, or 0, but never a
// reason to look at the bad steps only.
func TestCountsWithoutBadEvents(t *testing.T) {
	steady, fell := each(10, 110, 210, 310, 410, 510), each(1000, 1100, 1200, 50, 150, 250)
	some := from(7, 3) // at the third of six instants only
	for _, tt := range []struct {
		name       string
		metric     config.Metric
		all        metric.Answer
		cumulative bool
		want       []float64 // at the instants that can be compared
	}{
		{"0 before the first point, a gap after it", zeroWhereEmpty(), steady, true, []float64{0, 0, 3}},
		{"0 again once its process is another", zeroWhereEmpty(), fell, true, []float64{0, 0, 3, 0, 0, 0}},
		{"a gap without empty: zero", config.Metric{}, fell, true, []float64{3}},
		{"0 in each step that has none", zeroWhereEmpty(), steady, false, []float64{0, 0, 3, 0, 0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			seen, f := instants(tt.metric, countsOf(some, tt.all, tt.cumulative))
			if f != nil {
				t.Fatal(f.reason)
			}
			var got []float64
			for _, one := range seen {
				got = append(got, one.CandidateBad)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A sum over instances falls when one of them is not read. What it grows by
// when that is back was counted before, or is older than the share.
func TestCountsOfAnInstanceThatIsBack(t *testing.T) {
	bad, all := []float64{40, 41, 1, 2, 42, 43}, []float64{5000, 5100, 1100, 1200, 5300, 5400}
	want := counted{Blocks: 3, Resets: 2, Lost: 2 * time.Minute, CandidateGrew: minute(10), StableGrew: minute(10), Sums: analysis.Sums{CandidateBad: 3, CandidateAll: 300, StableBad: 15, StableAll: 270}}
	m := zeroWhereEmpty()
	for _, cut := range []int{6, 5, 4, 3, 2} { // how much of it the first of two readings sees
		head, f := count(m, countsOf(from(5, bad[:cut]...), from(5, all[:cut]...), true), counted{})
		if f != nil {
			t.Fatal(f.reason)
		}
		got, f := count(m, countsOf(from(4+float64(cut), bad[cut-1:]...), from(4+float64(cut), all[cut-1:]...), true), head)
		if f != nil {
			t.Fatal(f.reason)
		}
		got.Until, got.Sums.Gains = want.Until, want.Sums.Gains
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("read after %d instants: %s", cut, diff)
		}
	}
}

// A memory that nobody can read is an error in every reading, not in the first
// alone: the second would begin without what was counted and spent before.
func TestUnreadableMemoryStays(t *testing.T) {
	m := errorRatio()
	counts(&m)
	all := growing(1000, 100, 100, 100, 100, 100)
	subject := subject(true)
	for _, memory := range []string{
		`{"errors": 7}`, `{"errors": {"sums": {"candidate_bad": "many"}}}`, `no JSON`, `{"errors": {"until": "2126-11-30T12:00:00Z"}}`,
	} {
		subject.Course.Memory = []byte(memory)
		for n := range 2 {
			r := Judge(config.Health{Metrics: []config.Metric{m}}, subject, Answers{
				"errors/candidate": growing(40, 1, 0, 2, 1, 1), "errors/stable": growing(40, 1, 0, 2, 1, 1),
				"errors/samples/candidate": all, "errors/samples/stable": all,
			}, nil)
			if r.Verdict != Error || string(r.Memory) != memory {
				t.Errorf("reading %d is %s and carries over %s, expected an error and %s", n+1, r.Verdict, r.Memory, memory)
			}
			subject.Course.Memory = r.Memory
		}
	}
}
