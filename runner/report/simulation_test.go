package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/runner/simulate"
)

func TestSimulationText(t *testing.T) {
	minutes := 12.5
	r := simulate.Result{
		Trials: 10_000, Seed: 7, Rate: 200, StableError: 0.01, FaultMinutes: 0.1, FaultFrom: 50, Stages: []string{"10%", "100%"},
		Metrics: []simulate.MetricModel{{Name: "errors", Query: "counter of errors", Samples: "counter of requests"}, {Name: "p99", Query: "latency p99 over 1m"}},
		Assumed: []string{"probes and alarms pass", "approvals are given at once"},
		Candidates: []simulate.Candidate{
			{Error: 0.01, Unchanged: true, Returned: 0.005, ReturnedInterval: []float64{0.0038, 0.0066}, ByStage: []float64{0.005, 0}, MedianMinutes: &minutes, BadRequests: 123.4},
			{Error: 0.03, Returned: 0.9999, ReturnedInterval: []float64{0.999, 1}, Inconclusive: 0.00005, ByStage: []float64{0.9999, 0}, MedianMinutes: &minutes},
			{Error: 0.5, ReturnedInterval: []float64{0, 0.01}, ByStage: []float64{0, 0}},
		},
	}
	const want = `10000 rollouts of each candidate at 200 requests/s; the stable fails 1 % of its requests; seed 7
a candidate has its error rate in 10 % of the minutes, and the stable's in the others
a candidate has its error rate from a share of 50 % on, and the stable's below

candidate fails  returned  95 % interval    inconclusive  returned at 10%, 100%  median    failed requests
1 % (unchanged)  0.5 %     0.38 % – 0.66 %  0 %           0.5 %, 0 %             12.5 min  123
3 %              99.99 %   99.9 % – 100 %   0.005 %       99.99 %, 0 %           12.5 min  0
50 %             0 %       0 % – 1 %        0 %           0 %, 0 %               –         0

metric errors is taken as counter of errors, its samples as counter of requests
metric p99 is taken as latency p99 over 1m
assumed: probes and alarms pass; approvals are given at once

a candidate that is like the stable is returned in 0.5 % of rollouts; a candidate that fails 3 % of its requests is returned in 99.99 % of rollouts, half of them within 12 min, and in 0.005 % because data stay too thin; a candidate that fails 50 % of its requests is returned in 0 % of rollouts
`
	if diff := cmp.Diff(want, SimulationText(r)); diff != "" {
		t.Error(diff)
	}
}
