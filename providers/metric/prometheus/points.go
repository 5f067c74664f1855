package prometheus

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/metric"
)

// points takes the one series out of a result.
func points(value model.Value, series bool) ([]metric.Point, error) {
	switch v := value.(type) {
	case nil:
		return nil, unreadable("no result")
	case *model.Scalar:
		return []metric.Point{point(v.Timestamp, v.Value)}, nil
	case model.Vector:
		return ofVector(v)
	case model.Matrix:
		if !series {
			return nil, invalid(errors.New("result is a range of raw samples, expected one value"), "put the range into a function such as rate(…) or avg_over_time(…)")
		}
		return ofMatrix(v)
	}
	return nil, unreadable(fmt.Sprintf("result of type %q", value.Type()))
}

func ofVector(samples model.Vector) ([]metric.Point, error) {
	if len(samples) == 0 {
		return nil, metric.ErrNoData
	}
	if len(samples) > 1 {
		var labels []model.Metric
		for _, s := range samples {
			labels = append(labels, s.Metric)
		}
		return nil, several(labels)
	}
	if samples[0].Histogram != nil {
		return nil, histogram()
	}
	return []metric.Point{point(samples[0].Timestamp, samples[0].Value)}, nil
}

func ofMatrix(streams model.Matrix) ([]metric.Point, error) {
	var labels []model.Metric
	for _, s := range streams {
		if s == nil {
			return nil, unreadable("series that is null")
		}
		if len(s.Histograms) > 0 {
			return nil, histogram()
		}
		labels = append(labels, s.Metric)
	}
	if len(streams) > 1 {
		return nil, several(labels)
	}
	if len(streams) == 0 || len(streams[0].Values) == 0 {
		return nil, metric.ErrNoData
	}
	out := make([]metric.Point, 0, len(streams[0].Values))
	for _, p := range streams[0].Values {
		out = append(out, point(p.Timestamp, p.Value))
	}
	return out, nil
}

func point(at model.Time, v model.SampleValue) metric.Point {
	return metric.Point{At: at.Time().UTC(), Value: float64(v)}
}

// ordered refuses a series that is not what was asked for: a cache in between
// that answers for another window would bring in another version's traffic.
func ordered(series []metric.Point, from, to time.Time) error {
	last := from.Add(-1)
	for _, p := range series {
		if !p.At.After(last) || p.At.After(to) {
			return unreadable(fmt.Sprintf("point at %s, expected rising times from %s to %s",
				p.At.Format(time.RFC3339Nano), from.Format(time.RFC3339), to.Format(time.RFC3339)))
		}
		last = p.At
	}
	return nil
}

// instant refuses a value of another time than the one asked for. A server
// states the time of the question, or of a sample that it may look back to
// (5m, its default), and may round to seconds.
func instant(at, asked time.Time) error {
	const back, rounding = 5 * time.Minute, time.Second
	if at.After(asked.Add(rounding)) || at.Before(asked.Add(-back-rounding)) {
		return unreadable(fmt.Sprintf("value at %s, expected one at %s or at most %v before",
			at.Format(time.RFC3339Nano), asked.Format(time.RFC3339Nano), back))
	}
	return nil
}

func several(found []model.Metric) error {
	const most = 3
	var names []string
	for _, m := range found[:min(len(found), most)] {
		names = append(names, m.String())
	}
	if len(found) > most {
		names = append(names, "…")
	}
	return invalid(fmt.Errorf("%w: %d, %s", metric.ErrSeveral, len(found), strings.Join(names, ", ")),
		"bring them together, as with sum(…)")
}

func histogram() error {
	return invalid(errors.New("result is a native histogram, expected a number"), "take one out of it, as with histogram_quantile(0.99, …)")
}

func invalid(err error, hint string) error {
	return &providers.Fault{Kind: providers.Invalid, Err: err, Hint: hint}
}
