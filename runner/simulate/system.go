package simulate

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/manent/action/providers/metric"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/gate"
)

// side is one version: its requests and how they are measured.
type side struct {
	flow    *flow
	median  float64 // of the durations, in seconds
	born    int64   // when its counters began; long before the rollout for the stable
	before  float64 // what they had counted then
	phase   int64   // of the first scrape, milliseconds since the epoch
	every   int64   // milliseconds between two scrapes
	scraped []tally // by number since phase
}

// spread is sigma of the lognormal durations: p99 is 3.2 times the median.
const spread = 0.5

// sample is the tally at scrape k, counted from the first of the rollout.
// Earlier ones saw the counters as they were before it.
func (s *side) sample(k int64) tally {
	at := s.phase + k*s.every
	if k < 0 {
		return tally{at: at}
	}
	for int64(len(s.scraped)) <= k {
		s.scraped = append(s.scraped, s.flow.at(s.phase+int64(len(s.scraped))*s.every))
	}
	return s.scraped[k]
}

// newest is the number of the newest scrape at or before a time.
func (s *side) newest(at int64) int64 {
	n := (at - s.phase) / s.every
	if (at-s.phase)%s.every < 0 {
		n--
	}
	return n
}

// system answers the gate's queries of one rollout.
type system struct {
	models            modelled
	candidate, stable *side
}

// answer fills in the answers of a question.
func (s *system) answer(q gate.Question, into gate.Answers) {
	for _, query := range q.Queries {
		into[query.ID] = s.one(query)
	}
	for _, a := range q.Alarms {
		into[gate.AlarmID(q.Provider, a)] = metric.Answer{Points: []metric.Point{{Value: 0}}}
	}
}

func (s *system) one(q metric.Query) metric.Answer {
	a := metric.Answer{ID: q.ID, Resolved: q.Text, Step: q.Step}
	m := s.models[q.ID]
	if a.From, a.To, a.Err = metric.Align(q); a.Err != nil {
		return a
	}
	own, other := s.candidate, s.stable
	if !m.candidate {
		own, other = other, own
	}
	if m.form == exact {
		a.Points = own.steps(m.series, a.From, a.To, q.Step)
		if m.kind != Requests && len(a.Points) > 0 && own.between(a.From, a.To).all == 0 {
			a.Points = nil // a log says nothing of a silent track
		}
		if m.kind == Requests && own.between(a.From, a.To).all+other.between(a.From, a.To).all == 0 {
			a.Points = nil
		}
	} else {
		a.Points = own.scrapes(m.series, a.From, a.To, q.Step)
		if q.Step == 0 {
			a.From = a.To.Add(-m.window)
		}
	}
	if len(a.Points) == 0 {
		a.Err = metric.ErrNoData
	}
	return a
}

func (s *side) between(from, to time.Time) tally {
	before := s.flow.at(from.UnixMilli())
	return s.flow.at(to.UnixMilli()).since(before)
}

// steps are the values of a system that keeps what happened in each step: one
// at the end of each whole step of the window, or one for all of it.
func (s *side) steps(m series, from, to time.Time, step time.Duration) []metric.Point {
	if step == 0 {
		step = to.Sub(from)
	}
	points := make([]metric.Point, 0, int(to.Sub(from)/step))
	for at := from.Add(step); !at.After(to); at = at.Add(step) {
		if v, ok := m.exactly(s.between(at.Add(-step), at), s.median); ok {
			points = append(points, metric.Point{At: at, Value: v})
		}
	}
	return points
}

// exactly is the value of a step; there is none without requests, but for
// counts.
func (s series) exactly(t tally, median float64) (float64, bool) {
	switch s.kind {
	case Requests:
		return float64(t.all), true
	case Errors:
		return float64(t.bad), true
	}
	return s.quotient(float64(t.bad), float64(t.all), t.score, median), t.all > 0
}

// scrapes are the values of a system that scrapes counters: on the grid from
// the beginning to the end, or one at the end.
func (s *side) scrapes(m series, from, to time.Time, step time.Duration) []metric.Point {
	if step == 0 {
		from, step = to, time.Second
	}
	points := make([]metric.Point, 0, int(to.Sub(from)/step)+1)
	for at := from; !at.After(to); at = at.Add(step) {
		if v, ok := s.scrape(m, at.UnixMilli()); ok {
			points = append(points, metric.Point{At: at, Value: v})
		}
	}
	return points
}

// scrape is the value at a time. A range without two samples has none.
func (s *side) scrape(m series, at int64) (float64, bool) {
	newest := s.newest(at)
	if m.form == counter {
		t := s.sample(newest)
		if m.kind == Requests {
			return s.before + float64(t.all), t.at >= s.born
		}
		return s.before + float64(t.bad), t.at >= s.born
	}
	from := at - m.window.Milliseconds()
	oldest := max(s.newest(from)+1, s.newest(s.born-1)+1)
	if newest <= oldest {
		return 0, false
	}
	w := span{from: from, to: at, first: s.sample(oldest), last: s.sample(newest), n: newest - oldest + 1}
	seen := w.last.since(w.first)
	all := w.extrapolated(float64(seen.all), s.before+float64(w.first.all))
	bad := w.extrapolated(float64(seen.bad), s.before+float64(w.first.bad))
	if m.form == ratio {
		return m.quotient(bad, all, seen.score*all/max(1, float64(seen.all)), s.median), true
	}
	v := all
	if m.kind == Errors {
		v = bad
	}
	if m.form == rate {
		v /= m.window.Seconds()
	}
	return v, true
}

// span is a range of time with the samples in it: later than its beginning, up
// to its end.
type span struct {
	from, to    int64
	first, last tally
	n           int64
}

// extrapolated is how much a counter rose in the whole range, as Prometheus's
// increase() and rate() have it (promql/functions.go, extrapolatedRate): the
// rise between the samples is carried on to the ends of the range, half a
// scrape at most where they are far, and not to before the counter was 0.
func (w span) extrapolated(rise, first float64) float64 {
	sampled := float64(w.last.at - w.first.at)
	apart := sampled / float64(w.n-1)
	head, tail := float64(w.first.at-w.from), float64(w.to-w.last.at)
	far := apart * 1.1
	if head >= far {
		head = apart / 2
	}
	if rise > 0 {
		head = min(head, sampled*first/rise)
	}
	if tail >= far {
		tail = apart / 2
	}
	return rise * (sampled + head + tail) / sampled
}

// quotient is a ratio or a duration, NaN when there was nothing: PromQL's 0/0.
func (s series) quotient(bad, all, score, median float64) float64 {
	switch s.kind {
	case ErrorRate:
		return bad / all
	case Success:
		return 1 - bad/all
	}
	if !(all > 0) {
		return math.NaN()
	}
	return median * s.durations.around * math.Exp(s.durations.scatter*score/all)
}

// durations say how a mean or quantile of lognormal durations lies to their
// median: around so many times it, and of n requests scattered, in the
// logarithm, by scatter ÷ √n, the standard error it has in large samples.
type durations struct{ around, scatter float64 }

// durationsOf are those of a quantile, or of the mean for 0.
func durationsOf(quantile float64) durations {
	if quantile == 0 {
		return durations{math.Exp(spread * spread / 2), math.Sqrt(math.Expm1(spread * spread))}
	}
	z := math.Sqrt2 * math.Erfinv(2*quantile-1)
	density := math.Exp(-z*z/2) / math.Sqrt(2*math.Pi)
	return durations{math.Exp(spread * z), spread * math.Sqrt(quantile*(1-quantile)) / density}
}

// newSides makes both versions of one rollout that begins at a time.
func newSides(rng *rand.Rand, o Options, begin int64, timed bool) (candidate, stable *side) {
	build := func(median time.Duration, born int64, before float64) *side {
		every := o.Scrape.Milliseconds()
		s := &side{flow: newFlow(rng, begin), median: median.Seconds(), born: born, before: before, every: every}
		s.phase = begin + rng.Int64N(every)
		s.flow.timed = timed
		return s
	}
	const minutes, week = 5 * minuteMs, 7 * 24 * 60 * minuteMs
	return build(o.CandidateLatency, begin-minutes, 0), build(o.StableLatency, begin-week, 1e9)
}

// systemsOf are the traits that the gate has to know of each metric system.
func systemsOf(cat config.Catalog) map[string]metric.Traits {
	out := map[string]metric.Traits{}
	for _, e := range cat.Metrics {
		out[e.Name] = metric.Traits{
			Delay: e.Delay, Window: e.Window, OwnTracks: e.OwnTracks,
			Escape: func(value string) string { return value }, // values are this package's own
		}
	}
	return out
}
