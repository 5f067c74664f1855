package simulate

import "slices"

// Result is what was modelled and what came of it.
type Result struct {
	Candidates   []Candidate   `json:"candidates"`    // one per error rate, in the order asked for
	Trials       int           `json:"trials"`        // rollouts of each
	Seed         uint64        `json:"seed"`          // the same seed gives the same rollouts
	Rate         float64       `json:"rate"`          // requests a second, both sides together
	StableError  float64       `json:"stable_error"`  // part of the stable's requests that fail
	FaultMinutes float64       `json:"fault_minutes"` // part of the minutes in which the candidate has its error rate
	FaultFrom    float64       `json:"fault_from"`    // share in percent from which it has
	Stages       []string      `json:"stages"`        // shares that are watched, as in by_stage
	Metrics      []MetricModel `json:"metrics"`       // how each was modelled
	Assumed      []string      `json:"assumed"`       // what was taken as given
}

// Candidate is what came of candidates with one error rate. Parts are of the
// trials, from 0 to 1.
type Candidate struct {
	Error            float64   `json:"error"`             // part of its requests that fail
	Unchanged        bool      `json:"unchanged"`         // it is as the stable in everything, so every return is a false alarm
	Returned         float64   `json:"returned"`          // part returned for what was measured
	ReturnedInterval []float64 `json:"returned_interval"` // 95 % interval of it (Wilson), for the number of trials
	Inconclusive     float64   `json:"inconclusive"`      // part returned because data were too thin or missing
	ByStage          []float64 `json:"by_stage"`          // part returned in each of stages, thin data left out
	MedianMinutes    *float64  `json:"median_minutes"`    // from the first share until the return; null when none was returned
	BadRequests      float64   `json:"bad_requests"`      // mean of the requests that the candidate failed, until the return or the end
}

// result is the head of the result.
func (s *scene) result(models []MetricModel) Result {
	r := Result{
		Trials: s.opts.Trials, Seed: s.opts.Seed, Rate: s.opts.Rate, StableError: s.opts.StableError,
		FaultMinutes: s.opts.FaultMinutes, FaultFrom: s.opts.FaultFrom, Metrics: models,
		Stages: []string{}, Assumed: []string{"the router splits exactly as planned, and counters of both sides exist from the start"},
	}
	asked := false
	for _, w := range s.gates {
		r.Stages = append(r.Stages, w.Stage)
		asked = asked || w.asked
	}
	h := s.cfg.Rollout.Health
	if len(h.Probes)+len(h.Alarms) > 0 {
		r.Assumed = append(r.Assumed, "probes and alarms pass")
	}
	if asked {
		r.Assumed = append(r.Assumed, "approvals are given at once")
	}
	if len(s.plan.Passes) > 1 {
		r.Assumed = append(r.Assumed, "each part has the whole rate")
	}
	return r
}

// count sums up the rollouts of one candidate.
func (s *scene) count(fates []fate) Candidate {
	o := s.opts
	c := Candidate{
		Error: s.error, Unchanged: s.error == o.StableError && o.CandidateLatency == o.StableLatency,
		ByStage: make([]float64, len(s.gates)),
	}
	total := float64(len(fates))
	returned, thin, bad := 0, 0, 0
	var minutes []float64
	for _, f := range fates {
		bad += f.bad
		switch {
		case f.stage < 0:
		case f.thin:
			thin++
		default:
			returned++
			c.ByStage[f.stage]++
			minutes = append(minutes, f.minutes)
		}
	}
	for i := range c.ByStage {
		c.ByStage[i] /= total
	}
	c.Returned, c.Inconclusive, c.BadRequests = float64(returned)/total, float64(thin)/total, float64(bad)/total
	low, high := wilson(returned, len(fates))
	c.ReturnedInterval = []float64{low, high}
	if len(minutes) > 0 {
		slices.Sort(minutes)
		m := (minutes[(len(minutes)-1)/2] + minutes[len(minutes)/2]) / 2
		c.MedianMinutes = &m
	}
	return c
}
