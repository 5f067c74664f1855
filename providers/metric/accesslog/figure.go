package accesslog

import (
	"strconv"
	"strings"

	"github.com/manent/action/providers/api/accesslog"
)

// figure is one number of a track's requests.
type figure struct {
	of         func(*accesslog.Stats) (float64, bool)
	traffic    bool // is the traffic itself, and so told of a track without any
	abandoned  bool // also of requests that the client left
	durations  bool // needs durations
	percentile bool // needs each of them
}

// The figures by name, but for the percentiles. Rates are from 0 to 1,
// durations in seconds.
func named(text string) (figure, bool) {
	switch text {
	case "requests":
		return figure{of: func(s *accesslog.Stats) (float64, bool) { return float64(s.Requests), true }, traffic: true}, true
	case "errors":
		return figure{of: func(s *accesslog.Stats) (float64, bool) { return float64(s.Errors), true }}, true
	case "client_errors":
		return figure{of: func(s *accesslog.Stats) (float64, bool) { return float64(s.ClientErrors), true }, abandoned: true}, true
	case "error_rate":
		return figure{of: (*accesslog.Stats).ErrorRate}, true
	case "mean":
		return figure{of: (*accesslog.Stats).Mean, durations: true}, true
	}
	return figure{}, false
}

// parseFigure reads the text of a query: a name, or p with a percentage above
// 0 and below 100 with at most one decimal place (p50, p99.9).
func parseFigure(text string) (figure, bool) {
	if f, ok := named(text); ok {
		return f, true
	}
	number, ok := strings.CutPrefix(text, "p")
	whole, decimal, dotted := strings.Cut(number, ".")
	if !ok || len(whole) == 0 || len(whole) > 2 || (dotted && len(decimal) != 1) {
		return figure{}, false
	}
	n, err := strconv.Atoi(whole + (decimal + "0")[:1])
	if err != nil || n <= 0 || whole[0] == '+' {
		return figure{}, false
	}
	return figure{
		of:        func(s *accesslog.Stats) (float64, bool) { return s.Percentile(n) },
		durations: true, percentile: true,
	}, true
}
