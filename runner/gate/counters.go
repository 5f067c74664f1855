package gate

import (
	"fmt"
	"math"
	"time"

	"github.com/manent/action/analysis"
	"github.com/manent/action/runner/config"
)

// instant are the four counts at one time; what is missing is NaN.
type instant struct {
	at time.Time
	analysis.Counts
}

// count adds what the answers hold to what was counted before. The finding is
// nil when they could be counted.
func count(m config.Metric, got MetricResult, was counted) (counted, *finding) {
	seen, f := instants(m, got)
	if f != nil {
		return was, f
	}
	if !got.Cumulative {
		return addSteps(m, seen, was)
	}
	return addDifferences(m, seen, was)
}

// instants are the times for which all four counts are known, oldest first.
func instants(m config.Metric, got MetricResult) ([]instant, *finding) {
	sides := []placed{
		{name: "candidate", side: got.Candidate}, {name: "candidate's requests", side: got.Samples.Candidate},
		{name: "stable", side: got.Stable}, {name: "stable's requests", side: got.Samples.Stable},
	}
	for _, p := range sides {
		for _, point := range p.side.Points {
			if v := point.Value; !math.IsNaN(v) && (v < 0 || v != math.Trunc(v) || math.IsInf(v, 0)) {
				return nil, &finding{Errored, "sequential", fmt.Sprintf("%s: %s at %s, expected a count: a whole number of events, not a rate (query %s)",
					p.name, figure(v), clock(point.At), short(p.side.Query))}
			}
		}
	}
	zero := m.Empty == "zero"
	candidate := counter{got.Candidate.byTime(), got.Samples.Candidate.byTime(), zero, got.Cumulative, true, 0}
	stable := counter{got.Stable.byTime(), got.Samples.Stable.byTime(), zero, got.Cumulative, true, 0}
	var all []instant
	for _, t := range got.Samples.Candidate.instants() {
		one := instant{at: t}
		one.CandidateBad, one.CandidateAll = candidate.read(t)
		one.StableBad, one.StableAll = stable.read(t)
		if !math.IsNaN(one.CandidateBad + one.CandidateAll + one.StableBad + one.StableAll) {
			all = append(all, one)
		}
	}
	return all, nil
}

// counter reads the counts of a side, oldest first.
type counter struct {
	bad, all   map[int64]float64
	zero       bool // no point of bad events may stand for 0
	cumulative bool
	young      bool    // no bad event since the process that counts began, as far as anybody saw
	last       float64 // all events at the last instant
}

// read returns the counts at a time; what is missing is NaN. With empty: zero
// that of bad events is 0 where it did not exist yet: before its first point,
// and again after the counter of all events fell, since then it is another
// process that counts. Where a point is a step's own count it is 0 in any step
// without one.
func (c *counter) read(t time.Time) (bad, all float64) {
	bad, seen := valueAt(t, c.bad)
	all, known := valueAt(t, c.all)
	c.young = !seen && (c.young || all < c.last)
	if !math.IsNaN(all) {
		c.last = all
	}
	if c.zero && known && !seen && (c.young || !c.cumulative) {
		bad = 0
	}
	return bad, all
}

func valueAt(t time.Time, values map[int64]float64) (float64, bool) {
	if v, ok := values[t.UnixMilli()]; ok {
		return v, true
	}
	return math.NaN(), false
}

// addSteps counts points that each stand for one step.
func addSteps(m config.Metric, seen []instant, was counted) (counted, *finding) {
	for _, one := range seen {
		if !one.at.After(was.Until) {
			continue
		}
		if err := one.Check(); err != nil {
			return was, &finding{Errored, "sequential", err.Error() + ": query counts bad events, samplesQuery all of them"}
		}
		was.add(m, one.Counts, one.at)
	}
	return was, nil
}

// addDifferences counts what cumulative counters grew by between two points.
// A block in which one fell is left out, and so is the one in which it comes
// back. One that has more bad events than events is joined to the next: the
// two counters were not read at one instant.
func addDifferences(m config.Metric, seen []instant, was counted) (counted, *finding) {
	now := was
	var from *instant
	var why error
	for i, one := range seen {
		if one.at.Before(was.Until) {
			continue
		}
		if from == nil {
			from, now.Until = &seen[i], one.at
			continue
		}
		grown := one.since(*from)
		switch {
		case now.reset(grown):
			now.Resets, now.Lost = now.Resets+1, now.Lost+one.at.Sub(from.at)
		case grown.Check() != nil:
			why = grown.Check()
			continue
		default:
			now.add(m, grown, one.at)
		}
		from, now.Until, why = &seen[i], one.at, nil
	}
	if why != nil && now.Blocks == was.Blocks && now.Resets == was.Resets {
		return was, &finding{Errored, "sequential", why.Error() + ": query counts bad events, samplesQuery all of them"}
	}
	return now, nil
}

// add counts one block that ends at a time.
func (n *counted) add(m config.Metric, c analysis.Counts, at time.Time) {
	n.Sums, n.Until = n.Sums.Add(c, ratioOr1(m.MaxRatio)), at
	n.Blocks++
	if c.CandidateAll > 0 {
		n.CandidateGrew = at
	}
	if c.StableAll > 0 {
		n.StableGrew = at
	}
}

func (i instant) since(from instant) analysis.Counts {
	return analysis.Counts{
		CandidateBad: i.CandidateBad - from.CandidateBad, CandidateAll: i.CandidateAll - from.CandidateAll,
		StableBad: i.StableBad - from.StableBad, StableAll: i.StableAll - from.StableAll,
	}
}

// reset reports whether a block tells nothing because a counter fell in it, or
// came back: a sum over instances falls when one of them is not read, and has
// all of its past again when it is, which was counted already or is older than
// the share. Only the numbers of events tell what has come back: to leave a
// block out for its bad events would favour a side.
func (n *counted) reset(grown analysis.Counts) bool {
	candidate := back(&n.CandidateFell, grown.CandidateAll)
	stable := back(&n.StableFell, grown.StableAll)
	return candidate || stable || min(grown.CandidateBad, grown.StableBad) < 0
}

// back notes a fall, and reports one, or a growth that makes up for the last.
func back(fell *float64, grown float64) bool {
	switch {
	case grown < 0 && (*fell == 0 || -grown < *fell):
		*fell = -grown
	case grown < 0:
	case *fell > 0 && grown >= *fell:
		*fell = 0
	default:
		return false
	}
	return true
}
