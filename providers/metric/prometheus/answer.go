package prometheus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/promql"
	"github.com/manent/action/providers/metric"
)

// connection is the API with credentials, for one call of Query.
type connection struct {
	api     v1.API
	secrets *providers.Redactor
	limit   time.Duration // of the whole call
}

// answer asks one query. The window of one value reaches back as far as the
// query's own range.
func (c *connection) answer(ctx context.Context, q metric.Query) metric.Answer {
	a := metric.Answer{ID: q.ID, Resolved: q.Text, Step: q.Step}
	if a.From, a.To, a.Err = metric.Align(q); a.Err == nil && q.Step > 0 && a.To.Sub(a.From)/q.Step > maxSteps {
		a.Err = fmt.Errorf("%d steps of %v, expected at most %d: a longer step or a shorter lookback", a.To.Sub(a.From)/q.Step, q.Step, maxSteps)
	}
	if a.Err != nil {
		a.Err = &providers.Fault{Kind: providers.Invalid, Err: a.Err}
	} else {
		c.ask(ctx, q, &a)
	}
	if a.Err != nil {
		a.Points = nil
	}
	a.Err = c.fault(ctx, q, a.Err)
	return a
}

func (c *connection) ask(ctx context.Context, q metric.Query, a *metric.Answer) {
	var value model.Value
	var warnings v1.Warnings
	var err error
	if q.Step == 0 {
		a.From = a.To.Add(-promql.Window(q.Text))
		value, warnings, _, err = c.api.Query(ctx, q.Text, a.To)
	} else {
		value, warnings, _, err = c.api.QueryRange(ctx, q.Text, v1.Range{Start: a.From, End: a.To, Step: q.Step})
	}
	if a.Err = err; err != nil {
		return
	}
	a.Warnings = c.warnings(warnings)
	a.Partial = len(a.Warnings) > 0
	a.Points, a.Err = points(value, q.Step > 0)
	switch {
	case errors.Is(a.Err, metric.ErrNoData) && a.Partial:
		// An empty answer may count as zero; one with holes must not.
		a.Err = &providers.Fault{Kind: providers.Unknown, Err: fmt.Errorf("empty and partial answer: %s", strings.Join(a.Warnings, "; "))}
	case a.Err == nil && q.Step > 0:
		a.Err = ordered(a.Points, a.From, a.To)
	case a.Err == nil:
		a.Err = instant(a.Points[0].At, a.To)
	}
}

// warnings keeps what the server warns of. Each speaks of an answer that may
// be wrong: a store that did not answer (Thanos), mixed kinds of samples. What
// servers before 2.54 send as a warning although it is only information (a
// counter whose name does not end in _total) is not one.
func (c *connection) warnings(said v1.Warnings) []string {
	var out []string
	for _, w := range said {
		if !strings.HasPrefix(w, "PromQL info:") && len(out) < 10 {
			out = append(out, c.clean(w))
		}
	}
	return out
}

// clean blanks secrets and bounds a text of the server.
func (c *connection) clean(text string) string {
	const most = 500
	runes := []rune(strings.Join(strings.Fields(c.secrets.Clean(text)), " "))
	if len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return string(runes)
}

// fault completes the error of a query with its text. What is no answer of
// the server comes through as it is.
func (c *connection) fault(ctx context.Context, q metric.Query, err error) error {
	if err == nil || errors.Is(err, metric.ErrNoData) {
		return err
	}
	out := providers.Fault{Kind: providers.Unknown, Err: err}
	if f, ok := errors.AsType[*providers.Fault](err); ok {
		out = *f
	} else if said, ok := errors.AsType[*v1.Error](err); ok {
		out.Kind, out.Err = kind(said.Type), errors.New(c.clean(strings.TrimSpace(said.Msg+" "+said.Detail)))
	}
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && providers.Lost(err) {
		out.Err = fmt.Errorf("no answer within %v for all queries", c.limit) // not the caller's own deadline
	}
	out.Provider = name
	out.Op = fmt.Sprintf("query %q", q.Text)
	return &out
}

// kind maps errorType, as listed in the server's web/api/v1.
func kind(t v1.ErrorType) providers.Kind {
	switch t {
	case v1.ErrBadData, v1.ErrExec, v1.ErrClient:
		return providers.Invalid
	case v1.ErrTimeout, v1.ErrCanceled, v1.ErrServer, "internal", "unavailable":
		return providers.Unavailable
	case "not_found":
		return providers.NotFound
	}
	return providers.Unknown
}
