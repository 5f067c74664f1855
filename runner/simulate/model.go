package simulate

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/manent/action/runner/config"
)

// Kind is what a metric is taken to measure. A query is not evaluated: what it
// would show of the modelled service is known from what it measures.
type Kind string

// The kinds.
const (
	Errors    Kind = "errors"       // failed requests
	ErrorRate Kind = "error-rate"   // failed ÷ all requests
	Success   Kind = "success-rate" // the others ÷ all requests
	Requests  Kind = "requests"     // all requests
	Latency   Kind = "latency"      // duration of a request
)

// Kinds lists them.
func Kinds() []Kind { return []Kind{Errors, ErrorRate, Success, Requests, Latency} }

// form is what one value of a query covers.
type form string

const (
	counter  form = "counter"  // total since the process began
	increase form = "increase" // over the query's range, extrapolated to its ends
	rate     form = "rate"     // the same per second
	ratio    form = "ratio"    // of two rates, or a duration over the range
	exact    form = "exact"    // what happened in a step or window, to the request
)

// series is how one query is answered.
type series struct {
	kind      Kind
	form      form
	window    time.Duration // range of one value; of exact 0: the step, or the query's window
	quantile  float64       // of Latency; 0 for the mean
	durations durations
}

func (s series) String() string {
	what := string(s.kind)
	switch {
	case s.kind == Latency && s.quantile > 0:
		what = "latency p" + strconv.FormatFloat(s.quantile*100, 'g', 4, 64)
	case s.kind == Latency:
		what = "latency mean"
	}
	switch s.form {
	case counter:
		return "counter of " + what
	case exact:
		return what + " of each step"
	case rate, increase:
		return fmt.Sprintf("%s of %s over %s", s.form, what, config.Duration(s.window))
	}
	return fmt.Sprintf("%s over %s", what, config.Duration(s.window))
}

// MetricModel says how a metric was modelled.
type MetricModel struct {
	Name    string `json:"name"`              // of the metric
	Query   string `json:"query"`             // what the modelled metric system answers for it, in words
	Samples string `json:"samples,omitempty"` // and for its samplesQuery
}

// UnclearError is a metric that cannot be modelled.
type UnclearError struct {
	Metric string
	Why    string
	Hint   string
}

// Error names the metric.
func (e *UnclearError) Error() string { return "metric " + e.Metric + ": " + e.Why }

// modelled is the model of every query, by the id that gate.Ask gives it.
type modelled map[string]answerer

// of is the model of a metric's query.
func (m modelled) of(one config.Metric) series {
	return m[url.PathEscape(one.Name)+"/candidate"].series
}

type answerer struct {
	series
	candidate bool
}

// classify models every metric of a configuration.
func classify(h config.Health, cat config.Catalog, kinds map[string]Kind) (modelled, []MetricModel, error) {
	out, said := modelled{}, []MetricModel{}
	for name, kind := range kinds {
		if !slices.Contains(Kinds(), kind) || !slices.ContainsFunc(h.Metrics, func(m config.Metric) bool { return m.Name == name }) {
			return nil, nil, &UnclearError{name, fmt.Sprintf("there is no such metric or no model %q", kind), "the models are " + kindList()}
		}
	}
	for _, m := range h.Metrics {
		query, err := seriesOf(m, cat, m.Query, kinds[m.Name])
		if err != nil {
			return nil, nil, err
		}
		id, says := url.PathEscape(m.Name), MetricModel{Name: m.Name, Query: query.String()}
		out[id+"/candidate"], out[id+"/stable"] = answerer{query, true}, answerer{query, false}
		if m.SamplesQuery != "" {
			samples, err := seriesOf(m, cat, m.SamplesQuery, Requests)
			if err != nil {
				return nil, nil, err
			}
			says.Samples = samples.String()
			out[id+"/samples/candidate"], out[id+"/samples/stable"] = answerer{samples, true}, answerer{samples, false}
		}
		said = append(said, says)
	}
	return out, said, nil
}

func kindList() string {
	var words []string
	for _, k := range Kinds() {
		words = append(words, string(k))
	}
	return strings.Join(words, ", ")
}

// seriesOf models one query, as the given kind or as what its text says.
func seriesOf(m config.Metric, cat config.Catalog, query string, kind Kind) (series, error) {
	text := strings.ToLower(query)
	s := series{kind: kind, quantile: quantileIn(text)}
	s.durations = durationsOf(s.quantile)
	if s.kind == "" && m.Analysis == "sequential" {
		s.kind = Errors
	}
	if s.kind == "" {
		s.kind = kindOf(text)
	}
	if s.kind == "" {
		s.kind = kindOf(strings.ToLower(m.Name))
	}
	if s.kind == "" {
		return s, &UnclearError{m.Name, fmt.Sprintf("cannot tell what the query %q measures", query), fmt.Sprintf("say it with --model %s=KIND, one of %s", m.Name, kindList())}
	}
	e, _ := config.Lookup(cat.Metrics, m.Provider)
	if e.Window == nil { // a value stands for its step
		s.form = exact
		return s, nil
	}
	if s.window = e.Window(query); s.window == 0 {
		s.window = m.Window.Std()
	}
	s.form = formOf(text, s)
	if s.form == ratio && s.window == 0 {
		return s, &UnclearError{m.Name, fmt.Sprintf("cannot tell the range of time of the query %q", query), "write a range such as [1m], or set window"}
	}
	return s, nil
}

var (
	quoted       = regexp.MustCompile(`"[^"]*"|'[^']*'`)
	quantileCall = regexp.MustCompile(`quantile(?:\(\s*|="?)(0?\.[0-9]+)`)
	percentile   = regexp.MustCompile(`\bp([0-9]{2}(\.[0-9])?)\b`)
	success      = regexp.MustCompile(`!~\s*["']?5|success|availab`)
	failing      = regexp.MustCompile(`5\.\.|5xx|50[0-9]|\b5\.[*+]|[45]\[0-9\]|err|fail|fehler|exception`)
	relative     = regexp.MustCompile(`/|\brat(e|io)\b|_rat(e|io)\b|percent|quota`)
	slow         = regexp.MustCompile(`quantile|percentile|laten|duration|response_?time|request_?time|elapsed|_seconds|\bmean\b|\bp[0-9]{2}(\.[0-9])?\b`)
	many         = regexp.MustCompile(`request|throughput|hits|calls|count|_total|traffic|volume|\brps\b`)
	rates        = regexp.MustCompile(`\b(i?rate)\(`)
)

// kindOf is what the words of a query or name measure, "" when nobody can tell.
func kindOf(text string) Kind {
	// Neither the function rate nor a path in a label is a ratio.
	plain := rates.ReplaceAllString(quoted.ReplaceAllString(text, ""), "(")
	switch {
	case strings.Contains(text, "quantile") || percentile.MatchString(text):
		return Latency
	case success.MatchString(text) && relative.MatchString(plain):
		return Success
	case failing.MatchString(text) && relative.MatchString(plain):
		return ErrorRate
	case failing.MatchString(text):
		return Errors
	case slow.MatchString(text) && (!strings.Contains(text, "_count") || strings.Contains(text, "_sum")):
		return Latency
	case many.MatchString(text):
		return Requests
	}
	return ""
}

func quantileIn(text string) float64 {
	if m := quantileCall.FindStringSubmatch(text); m != nil {
		q, _ := strconv.ParseFloat(m[1], 64)
		return q
	}
	if m := percentile.FindStringSubmatch(text); m != nil {
		q, _ := strconv.ParseFloat(m[1], 64)
		return q / 100
	}
	return 0
}

// formOf is what a value of a query covers in a system that scrapes counters.
func formOf(text string, s series) form {
	switch {
	case s.kind != Errors && s.kind != Requests:
		return ratio
	case s.window == 0:
		return counter
	case rates.MatchString(text):
		return rate
	}
	return increase
}
