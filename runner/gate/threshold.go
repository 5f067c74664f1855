package gate

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/manent/action/runner/config"
)

// values are the finite figures of a metric's sides.
type values struct {
	candidate, stable float64
	compared          bool
}

func (v values) String() string {
	if !v.compared {
		return "candidate " + figure(v.candidate)
	}
	return fmt.Sprintf("candidate %s, stable %s", beside(v.candidate, v.stable), figure(v.stable))
}

// thresholds holds the values against every threshold of a metric: all must
// hold. A metric that has none is an error, never a pass.
func thresholds(m config.Metric, v values) finding {
	if !finite(v.candidate) || !finite(v.stable) {
		return finding{Inconclusive, "", "out of range"}
	}
	var all []finding
	add := func(rule string, want *float64, check func(values, float64) finding) {
		if want == nil {
			return
		}
		f := check(v, *want)
		f.rule = rule + " " + limit(*want)
		all = append(all, f)
	}
	compared := func(check func(values, float64) finding) func(values, float64) finding {
		return func(v values, want float64) finding {
			if !v.compared {
				return finding{result: Errored, reason: "a comparison without compare: stable"}
			}
			return check(v, want)
		}
	}
	add("max", m.Max, func(v values, want float64) finding { return most("value", v.candidate, want) })
	add("min", m.Min, func(v values, want float64) finding { return least("value", v.candidate, want) })
	add("maxRatio", m.MaxRatio, compared(maxRatio))
	add("minRatio", m.MinRatio, compared(minRatio))
	add("maxDelta", m.MaxDelta, compared(maxDelta))
	return worst(all)
}

// worst keeps the findings that decide: failures, else what could not be
// told, else all of them passed.
func worst(all []finding) finding {
	if len(all) == 0 {
		return finding{Errored, "", "no threshold, expected max, min, maxRatio, minRatio or maxDelta"}
	}
	for _, result := range []Result{Fail, Errored, Inconclusive, Pass} {
		var rules, reasons []string
		for _, f := range all {
			if f.result == result {
				rules, reasons = append(rules, f.rule), append(reasons, f.reason)
			}
		}
		if len(rules) > 0 {
			return finding{result, strings.Join(rules, ", "), strings.Join(reasons, ", ")}
		}
	}
	return finding{Errored, "", "unknown result"}
}

// most passes up to the limit. It is written so that NaN fails.
func most(what string, got, want float64) finding {
	if got <= want {
		return finding{result: Pass, reason: fmt.Sprintf("%s %s <= %s", what, beside(got, want), limit(want))}
	}
	return finding{result: Fail, reason: fmt.Sprintf("%s %s > %s", what, beside(got, want), limit(want))}
}

// least passes from the limit on.
func least(what string, got, want float64) finding {
	if got >= want {
		return finding{result: Pass, reason: fmt.Sprintf("%s %s >= %s", what, beside(got, want), limit(want))}
	}
	return finding{result: Fail, reason: fmt.Sprintf("%s %s < %s", what, beside(got, want), limit(want))}
}

// maxRatio: with stable 0 a candidate of 0 passes and one above fails.
func maxRatio(v values, want float64) finding {
	switch {
	case v.candidate < 0 || v.stable < 0:
		return negative()
	case v.stable == 0 && v.candidate == 0:
		return finding{result: Pass, reason: "both are 0"}
	}
	return most("ratio", v.candidate/v.stable, want)
}

// minRatio: a fall cannot be seen from 0, so 0 against 0 is inconclusive.
func minRatio(v values, want float64) finding {
	switch {
	case v.candidate < 0 || v.stable < 0:
		return negative()
	case v.stable == 0 && v.candidate == 0:
		return finding{result: Inconclusive, reason: "both are 0, so a fall cannot be seen"}
	}
	return least("ratio", v.candidate/v.stable, want)
}

func negative() finding {
	return finding{result: Errored, reason: "a ratio of values below 0, expected 0 or more, or maxDelta instead"}
}

// maxDelta is signed: a candidate below the stable has a negative one.
func maxDelta(v values, want float64) finding {
	delta := v.candidate - v.stable
	if !finite(delta) {
		return finding{result: Inconclusive, reason: "the difference is out of range"}
	}
	return most("delta", delta, want)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// figure writes a measured value in four digits, or in whole numbers.
func figure(v float64) string {
	if abs := math.Abs(v); abs >= 1000 && abs < 1e15 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// limit writes a configured value as it was configured.
func limit(v float64) string {
	if abs := math.Abs(v); abs >= 1e-4 && abs < 1e15 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// beside writes a value that stands next to another: in full when four digits
// would make the two look alike.
func beside(v, other float64) string {
	if s := figure(v); v == other || (s != limit(other) && s != figure(other)) {
		return s
	}
	return limit(v)
}
