package analysis

import "math"

// Compare judges a candidate by a rule. Each side is in the order of time,
// which matters only when there are more points than Bound.Planned.
//
// Without Bound it is the documented rule: Fail when P < Alpha and the ratio
// of means is beyond MaxRatio or MinRatio in a bad direction. The means decide
// on the direction, whatever the ranks say.
//
// With Bound, Fail when U is beyond this look's Level in a bad direction, by
// the largest variance that it can have (Judged < Level, see Level), and the means
// agree and are beyond the ratio tolerated. Downwards a candidate whose least
// value is that of more than half of its points is never a Fail: where events
// are rare, a small share of the traffic ranks low although nothing differs.
// With more than Planned points the first Planned of each side are judged
// too, as the look at the end of the bake, so that being late for it costs
// nothing.
//
// Both: with fewer than MinPoints, with infinite points, or where not even
// complete separation could be significant (with Bound: with as many points as
// planned, or when the bake is over, and only then), the outcome is Inconclusive. So it is for a
// significant difference of means below zero, whose ratio means nothing,
// unless any difference is bad (ratio 1). An unknown direction is Either; a
// MaxRatio below 1 and a MinRatio that is not in (0, 1] are 1.
func Compare(candidate, stable []float64, r Rule) Verdict {
	if r.Bound != nil && r.Bound.Planned > 0 && r.Bound.Each <= 1 {
		m, n := first(candidate, r.Bound.Planned), first(stable, r.Bound.Planned)
		if m < len(candidate) || n < len(stable) {
			if v := judge(candidate[:m], stable[:n], r); v.Outcome == Fail {
				return v
			}
		}
	}
	return judge(candidate, stable, r)
}

// first is the length of the head that holds n points which are numbers.
func first(points []float64, n int) int {
	for i, v := range points {
		if n == 0 {
			return i
		}
		if !math.IsNaN(v) {
			n--
		}
	}
	return len(points)
}

func judge(candidate, stable []float64, r Rule) Verdict {
	v := Verdict{Comparison: MannWhitney(candidate, stable, r.Method, r.Confidence)}
	test := v.documented
	if r.Bound != nil {
		test = v.bounded
	}
	significant, reachable := test(candidate, stable, r)
	few := min(v.CandidatePoints, v.StablePoints)
	switch {
	case few < max(r.MinPoints, 1):
		return v.as(Inconclusive, FewPoints)
	case !finite(v.CandidateMean) || !finite(v.StableMean):
		return v.as(Inconclusive, NotFinite)
	case !reachable:
		return v.as(Inconclusive, OutOfReach)
	case !significant:
		return v.as(Pass, NoDifference)
	case r.Bound != nil && v.disagree():
		return v.as(Pass, Disagreeing)
	}
	return v.direction(candidate, r)
}

// documented compares P with Alpha.
func (v *Verdict) documented(_, _ []float64, r Rule) (significant, reachable bool) {
	v.Judged, v.Level = v.P, r.Alpha
	return v.P < r.Alpha, leastP(v.CandidatePoints, v.StablePoints, r.Method) < r.Alpha
}

// bounded compares the bounding p of the bad side, of Either the likelier one
// with half of alpha, with this look's level. Before the end of the bake
// nothing is out of reach: more points are to come. At it, points that are too
// few for any difference to be significant are no pass.
func (v *Verdict) bounded(candidate, stable []float64, r Rule) (significant, reachable bool) {
	m, n, alpha := v.CandidatePoints, v.StablePoints, r.Bound.Alpha
	pairs := float64(m) * float64(n)
	if v.Judged = 1; pairs > 0 {
		up, down := boundedP(v.U, m, n), max(boundedP(pairs-v.U, m, n), fallP(candidate, stable, v.Comparison, r.Bound.Share))
		switch r.Direction {
		case Increase:
			v.Judged = up
		case Decrease:
			v.Judged = down
		default:
			v.Judged, alpha = min(up, down), alpha/2
		}
	}
	t := float64(min(m, n)*max(1, r.Bound.Each)) / float64(r.Bound.Planned)
	v.Level = Level(alpha, t)
	reachable = t > 0 && t < 1 && !r.Bound.Last || v.Level > 0 && boundedP(pairs, m, n) < Level(alpha, min(t, 1))
	return v.Judged < v.Level, reachable
}

// disagree reports whether ranks and means point to different directions, or
// the means to none.
func (v *Verdict) disagree() bool {
	return v.Delta == 0 || v.Delta > 0 != (v.Effect > 0.5)
}

// direction judges a significant difference.
func (v *Verdict) direction(candidate []float64, r Rule) Verdict {
	up := v.Delta > 0
	limit := ratioLimit(r, up)
	switch {
	case v.Delta == 0:
		return v.as(Pass, Tolerated)
	case up && r.Direction == Decrease, !up && r.Direction == Increase:
		return v.as(Pass, Better)
	case limit != 1 && min(v.CandidateMean, v.StableMean) < 0:
		return v.as(Inconclusive, Signed)
	case limit != 1 && up && v.Ratio <= limit, limit != 1 && !up && v.Ratio >= limit:
		return v.as(Pass, Tolerated)
	case r.Bound != nil && !up && sparse(candidate):
		return v.as(Inconclusive, TooSparse)
	}
	return v.as(Fail, Worse)
}

func (v *Verdict) as(outcome Outcome, cause Cause) Verdict {
	v.Outcome, v.Cause = outcome, cause
	return *v
}

// ratioLimit is the ratio tolerated in that direction; 1 is any difference.
func ratioLimit(r Rule, up bool) float64 {
	if up && r.MaxRatio > 1 {
		return r.MaxRatio
	}
	if !up && r.MinRatio > 0 && r.MinRatio < 1 {
		return r.MinRatio
	}
	return 1
}

// sparse reports whether more than half of the points have the least value.
func sparse(points []float64) bool {
	least, times, all := math.Inf(1), 0, 0
	for _, v := range points {
		switch {
		case math.IsNaN(v):
			continue
		case v < least:
			least, times = v, 1
		case v == least:
			times++
		}
		all++
	}
	return 2*times > all
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
