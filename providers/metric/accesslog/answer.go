package accesslog

import (
	"fmt"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/accesslog"
	"github.com/manent/action/providers/metric"
	"github.com/manent/action/state"
)

// maxSpans bounds a series as Prometheus does.
const maxSpans = 11_000

// question is a query as understood.
type question struct {
	figure
	window
	tally *tally
	err   error
}

// understand reads a query. A series has one point for each whole step of the
// window, at the step's end; an incomplete step at its ends has none.
func (s *System) understand(q metric.Query) question {
	f, ok := parseFigure(strings.TrimSpace(q.Text))
	from, to, err := metric.Align(q)
	hint := ""
	switch {
	case !ok:
		err = fmt.Errorf("not a figure, expected requests, errors, client_errors, error_rate, mean or a percentile such as p95")
	case f.durations && !s.timed:
		err, hint = fmt.Errorf("the log has no durations"), "name their field in duration_field"
	case q.Track.Other() == "":
		err = fmt.Errorf("track %q, expected a or b", q.Track)
	case err == nil && q.Step > 0 && from.Equal(to):
		err = fmt.Errorf("window of %v, expected one that holds a whole step of %v", q.To.Sub(q.From), q.Step)
	case err == nil && q.Step > 0 && to.Sub(from)/q.Step > maxSpans:
		err = fmt.Errorf("%d steps of %v, expected at most %d: a longer step or a shorter lookback", to.Sub(from)/q.Step, q.Step, maxSpans)
	}
	if err != nil {
		return question{err: &providers.Fault{Provider: name, Op: fmt.Sprintf("query %q", q.Text), Kind: providers.Invalid, Err: err, Hint: hint}}
	}
	return question{figure: f, window: window{from.UTC(), to.UTC(), q.Step}}
}

func (s *System) answer(q metric.Query, asked question, read reading) metric.Answer {
	a := metric.Answer{ID: q.ID, Resolved: fmt.Sprintf("%s of slot %s in %s", strings.TrimSpace(q.Text), q.Track, strings.Join(s.settings.Files, ", "))}
	if a.Err = asked.err; a.Err != nil {
		return a
	}
	a.From, a.To, a.Step = asked.from, asked.to, asked.step
	a.Warnings, a.Partial = read.judge(asked.window, s.settings)
	doubts, partial := asked.tally.judge(q.Track, s.settings.MaxMalformed)
	a.Warnings, a.Partial = append(a.Warnings, doubts...), a.Partial || partial
	if why := asked.silent(q.Track, read); why != "" {
		a.Err = fmt.Errorf("%w: %s", metric.ErrNoData, why)
		return a
	}
	a.Points = asked.points(q.Track, read)
	if len(a.Points) == 0 {
		a.Err = fmt.Errorf("%w: no request of slot %s has a duration", metric.ErrNoData, q.Track)
	}
	return a
}

// silent says why there is nothing to tell, "" when there is. A track without
// requests while the other has some has 0 requests, and that is a figure; it
// says nothing about errors and durations.
func (q question) silent(track state.Slot, read reading) string {
	mine, left := q.tally.requests(track)
	other, _ := q.tally.requests(track.Other())
	if q.abandoned {
		mine += left
	}
	switch {
	case mine+other == 0:
		return "no requests of either slot" + read.where()
	case mine == 0 && !q.traffic:
		return fmt.Sprintf("no requests of slot %s, %d of slot %s", track, other, track.Other())
	}
	return ""
}

// points are the figure of each span. A count is 0 in a span without requests
// if the logs reach over it; any other figure has a gap there.
func (q question) points(track state.Slot, read reading) []metric.Point {
	var out []metric.Point
	for n, stats := range q.tally.slots[track] {
		from, to := q.span(n)
		if stats == nil {
			if q.step > 0 && !read.covers(from, to) {
				continue
			}
			stats = new(accesslog.Stats)
		}
		if v, ok := q.of(stats); ok {
			out = append(out, metric.Point{At: to, Value: v})
		}
	}
	return out
}
