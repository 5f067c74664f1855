package gate

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ThreeWay is the gate for a pipeline that has nothing but an access log:
// promote, abort, or wait for more requests. Its thresholds are compared as
// they are, without statistics.
type ThreeWay struct {
	MinRequests     int     // of either track, from 1
	MaxExtraError   float64 // percentage points that the candidate's error rate may be above the stable's, and so its abandoned part
	MaxLatencyRatio float64 // of the p95s, candidate ÷ stable; 0 to leave them alone
}

// Track is what one track did.
type Track struct {
	Requests  int
	Errors    int     // 5xx
	Timed     int     // requests with a duration
	P95       float64 // of the durations, in seconds; 0 without any
	Abandoned int     // that the client left unanswered: none of the requests
}

// Call is what the three-way gate comes to.
type Call struct {
	Result  Result // pass, fail or inconclusive
	Words   string // "PROMOTE …", "ABORT …" or "WAIT: …", with the numbers that decided
	Remedy  string // of a WAIT: what to do about it
	Metrics []MetricResult
}

// The metrics of the three-way gate.
const (
	errorRate = "error_rate"
	latency   = "p95"
	abandoned = "abandoned"
)

// Judge calls a candidate. In this order: a candidate with fewer requests than
// MinRequests waits, and so does one that has no stable to be compared with; a
// candidate that is worse than a threshold is aborted; one that is not, but
// was compared with a thin stable or with too few durations, waits. So does
// one that loses more of its clients than MaxExtraError allows: an abandoned
// request has neither a status nor a duration that could be held against it,
// and a candidate that is slow enough has no others. Where neither track has
// durations these are not compared.
func (t ThreeWay) Judge(candidate, stable Track) Call {
	c := Call{Metrics: []MetricResult{t.errors(candidate, stable)}}
	timed := candidate.Timed+stable.Timed > 0
	if t.MaxLatencyRatio != 0 && timed {
		c.Metrics = append(c.Metrics, t.latency(candidate, stable))
	}
	if candidate.Abandoned+stable.Abandoned > 0 {
		c.Metrics = append(c.Metrics, t.abandoned(candidate, stable))
	}
	c = c.weighed()
	if c.Result == Pass && t.MaxLatencyRatio != 0 && !timed {
		c.Words += ", p95 not compared: the log has no durations"
	}
	return c
}

// weighed makes one call of the metrics.
func (c Call) weighed() Call {
	var worse, lost, thin, fine []string
	for i := range c.Metrics {
		m := &c.Metrics[i]
		switch {
		case m.Result == Fail && m.Name == abandoned:
			m.Result = Inconclusive // it says that something is wrong, and not what
			lost = append(lost, m.Reason)
		case m.Result == Fail:
			worse = append(worse, m.Reason)
		case m.Result == Inconclusive:
			thin = append(thin, m.Reason)
		default:
			fine = append(fine, m.Reason)
		}
	}
	switch {
	case len(worse) > 0:
		c.Result, c.Words = Fail, "ABORT "+strings.Join(worse, ", ")
	case len(lost) > 0:
		c.Result, c.Words = Inconclusive, "WAIT: "+lost[0]+": a slow candidate loses its clients"
		c.Remedy = "see what takes the candidate so long: an abandoned request has no duration that could be compared"
	case len(thin) > 0:
		c.Result, c.Words, c.Remedy = Inconclusive, "WAIT: "+thin[0], "judge again when there were more requests"
	default:
		c.Result, c.Words = Pass, "PROMOTE "+strings.Join(fine, ", ")
	}
	return c
}

func (t ThreeWay) errors(candidate, stable Track) MetricResult {
	return t.points(errorRate, percent(candidate.Errors, candidate.Requests), percent(stable.Errors, stable.Requests), candidate.Requests, stable.Requests)
}

// abandoned compares what part of all its requests a track lost.
func (t ThreeWay) abandoned(candidate, stable Track) MetricResult {
	counted, against := candidate.Requests+candidate.Abandoned, stable.Requests+stable.Abandoned
	m := t.points(abandoned, percent(candidate.Abandoned, counted), percent(stable.Abandoned, against), counted, against)
	if m.Result != Inconclusive {
		m.Reason = "abandoned " + m.Reason
	}
	return m
}

// points compares two percentages of so many requests with MaxExtraError.
func (t ThreeWay) points(name string, mine, other float64, counted, against int) MetricResult {
	m := compared(name, mine/100, other/100, counted, against)
	worse, places := exceeds(mine-other, t.MaxExtraError), 2
	if worse && !exceeds(rounded(mine, places)-rounded(other, places), t.MaxExtraError) {
		places = 6 // or else the figures shown would contradict what they decided
	}
	m.Rule = "limit +" + decimal(t.MaxExtraError, 1)
	m.Reason = fmt.Sprintf("candidate=%.*f%% stable=%.*f%% %s", places, mine, places, other, strings.Replace(m.Rule, " ", "=", 1))
	return t.rule(m, worse, counted, against, "requests")
}

func (t ThreeWay) latency(candidate, stable Track) MetricResult {
	m := compared(latency, candidate.P95, stable.P95, candidate.Timed, stable.Timed)
	m.Rule = "limit x" + decimal(t.MaxLatencyRatio, 1)
	m.Reason = fmt.Sprintf("p95 candidate=%ss stable=%ss %s", decimal(candidate.P95, 3), decimal(stable.P95, 3), strings.Replace(m.Rule, " ", "=", 1))
	worse := exceeds(float64(m.Statistics.Ratio), t.MaxLatencyRatio)
	return t.rule(m, worse, candidate.Timed, stable.Timed, "requests with a duration")
}

// rule decides one comparison; what is thin is said of the candidate first.
func (t ThreeWay) rule(m MetricResult, worse bool, candidate, stable int, what string) MetricResult {
	least := max(1, t.MinRequests)
	m.Result = Pass
	switch {
	case candidate < least:
		m.Result, m.Reason = Inconclusive, fmt.Sprintf("candidate has %d %s, need %d", candidate, what, least)
	case stable == 0:
		m.Result, m.Reason = Inconclusive, fmt.Sprintf("stable has no %s to compare with, need %d", what, least)
	case worse:
		m.Result = Fail
	case stable < least:
		m.Result, m.Reason = Inconclusive, fmt.Sprintf("stable has %d %s, need %d", stable, what, least)
	}
	return m
}

// compared holds the figures of both tracks. The ratio is 1 when both are 0,
// +Inf when only the stable's is.
func compared(name string, candidate, stable float64, counted, against int) MetricResult {
	ratio := 1.0
	if candidate != stable {
		ratio = candidate / stable
	}
	return MetricResult{Name: name, Weight: 1, Statistics: &Statistics{
		Ratio: Number(ratio), Delta: Number(candidate - stable),
		CandidateMean: Number(candidate), StableMean: Number(stable),
		CandidatePoints: counted, StablePoints: against,
	}}
}

// percent is a part of a whole; 0 of nothing.
func percent(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// String is the row of a report.
func (t Track) String() string {
	p95 := "-"
	if t.Timed > 0 {
		p95 = decimal(t.P95, 3) + "s"
	}
	rate := "-"
	if t.Requests > 0 {
		rate = fmt.Sprintf("%.2f%%", percent(t.Errors, t.Requests))
	}
	row := fmt.Sprintf("requests=%-5d 5xx=%-4d error_rate=%s p95=%s", t.Requests, t.Errors, rate, p95)
	if t.Abandoned > 0 {
		row += fmt.Sprintf(" abandoned=%d", t.Abandoned)
	}
	return row
}

// exceeds is written so that NaN does. It rounds, so that the difference of
// two rates can meet a limit exactly.
func exceeds(v, limit float64) bool { return !(rounded(v, 9) <= limit) }

func rounded(v float64, places int) float64 {
	unit := math.Pow10(places)
	return math.Round(v*unit) / unit
}

// decimal writes a number with so many places at least, and all that it has up
// to a millionth.
func decimal(v float64, least int) string {
	text := strconv.FormatFloat(v, 'f', 6, 64)
	if !finite(v) {
		return text
	}
	whole, fraction, _ := strings.Cut(text, ".")
	fraction = fraction[:least] + strings.TrimRight(fraction[least:], "0")
	return whole + "." + fraction
}
