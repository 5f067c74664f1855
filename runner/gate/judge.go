package gate

import (
	"fmt"
	"slices"
	"time"

	"github.com/manent/action/runner/config"
)

// Judge makes a reading of what came back. It never passes what it could not
// see: an answer, probe or alarm that is missing is an error. The caller fills
// in N.
func Judge(h config.Health, s Subject, answers Answers, probes []ProbeResult) Record {
	r := record(h, s)
	for _, m := range h.Metrics {
		got := frame(m, h, s)
		for _, p := range sidesOf(got) {
			answer, ok := answers[p.id]
			p.side.fill(answer, ok)
		}
		r.Metrics = append(r.Metrics, got)
	}
	for _, a := range alarmsAt(h, s.Share) {
		seen := &Side{Query: a.Alarm}
		answer, ok := answers[AlarmID(a.Provider, a.Alarm)]
		seen.fill(answer, ok)
		r.Alarms = append(r.Alarms, AlarmResult{Name: a.Name, Alarm: a.Alarm, Seen: seen})
	}
	r.Probes = complete(h.Probes, probes)
	return conclude(r)
}

// Replay judges a stored reading again, from nothing but the record. A void
// reading stays void: why it was is not in it.
func Replay(r Record) Record {
	if r.Verdict == Void {
		return r
	}
	return conclude(r)
}

// Voided is the reading that drift made worthless: it judges nothing.
func Voided(h config.Health, s Subject, reason string) Record {
	r := record(h, s)
	r.Verdict, r.Reason = Void, reason
	return r
}

// conclude fills in every result, the score and the verdict.
func conclude(r Record) Record {
	seen := r.Metrics
	r.Metrics = nil
	carried := carry{now: memory{}}
	carried.was, carried.err = recall(r.Course.Memory, r.At)
	for _, m := range r.Health.Metrics {
		got := MetricResult{Name: m.Name}
		if i := slices.IndexFunc(seen, func(o MetricResult) bool { return o.Name == m.Name }); i >= 0 {
			got.Candidate, got.Stable, got.Samples = seen[i].Candidate, seen[i].Stable, seen[i].Samples
			got.Planned, got.Each, got.Cumulative = seen[i].Planned, seen[i].Each, seen[i].Cumulative
		}
		var f finding
		f, got.Statistics = judge(m, got, r, carried)
		got.Result, got.Rule, got.Reason = f.result, f.rule, "metric "+m.Name+": "+f.reason
		got.Weight, got.Critical = m.Weight, critical(m, r.Health)
		r.Metrics = append(r.Metrics, got)
	}
	r.Alarms = slices.Clone(r.Alarms)
	for i := range r.Alarms {
		r.Alarms[i].Result, r.Alarms[i].Reason = judgeAlarm(r.Alarms[i].Seen)
	}
	r.Memory = carried.encode(r.Course.Memory)
	r.Score = score(r)
	r.Verdict, r.Reason = verdict(r)
	return r
}

// critical: under scoring an absolute metric is, unless said otherwise.
func critical(m config.Metric, h config.Health) bool {
	if m.Critical != nil {
		return *m.Critical
	}
	return h.Analysis != nil && m.Compare == ""
}

// finding is what became of one metric, or of one of its thresholds.
type finding struct {
	result Result
	rule   string
	reason string
}

// judge takes a metric through the rows of the table, the first that applies.
// What it carries over to the next reading is put into carried.
func judge(m config.Metric, got MetricResult, r Record, carried carry) (finding, *Statistics) {
	if why := skipped(m, r.Share, r.First); why != "" {
		return finding{SkippedHere, "", "skipped: " + why}, nil
	}
	switch m.Analysis {
	case "":
		return judgeValues(m, got, r), nil
	case "mann-whitney":
		return judgeRanks(m, got, r)
	case "sequential":
		if carried.err != nil {
			return finding{Errored, "", carried.err.Error()}, nil
		}
		f, stats, now := judgeCounts(m, got, r, carried.was[m.Name])
		carried.now[m.Name] = now
		return f, stats
	}
	return finding{Errored, "analysis " + m.Analysis, fmt.Sprintf("analysis %s is not known", m.Analysis)}, nil
}

// judgeValues judges a metric by single values and thresholds.
func judgeValues(m config.Metric, got MetricResult, r Record) finding {
	if why := unusable(m, got); why != "" {
		return finding{Errored, "", why}
	}
	for _, p := range sidesOf(got) {
		if why := p.side.early(r.InForce); why != "" {
			return finding{Inconclusive, "", p.name + ": " + why}
		}
	}
	requests, f := countRequests(m, got, r.AtEnd)
	if f != nil {
		return *f
	}
	candidate, why := got.Candidate.value(m, requests.candidate)
	if why != "" {
		return finding{Inconclusive, "", "candidate: " + why}
	}
	candidate = perShare(m, candidate, r.Share)
	v := values{candidate: candidate}
	if got.Stable != nil {
		if v.stable, why = got.Stable.value(m, requests.stable); why != "" {
			return finding{Inconclusive, "", "stable: " + why}
		}
		v.stable, v.compared = perShare(m, v.stable, 100-r.Share), true
	}
	f2 := thresholds(m, v)
	f2.reason = v.String() + ": " + f2.reason + requests.String()
	return f2
}

// unusable says why a metric is an error whatever the figures.
func unusable(m config.Metric, got MetricResult) string {
	sides := sidesOf(got)
	for _, p := range sides {
		if why := p.side.trouble(); why != "" {
			return fmt.Sprintf("%s: %s (query %s)", p.name, why, short(p.side.Query))
		}
	}
	switch {
	case got.Candidate == nil, m.Compare != "" && got.Stable == nil, m.SamplesQuery != "" && got.Samples == nil:
		return "the reading does not hold its figures"
	case m.Analysis != "" && m.Compare == "":
		return "analysis without compare: stable"
	case m.Analysis == "sequential" && m.SamplesQuery == "":
		return "analysis: sequential without samplesQuery"
	case m.MinSamples != nil && m.SamplesQuery == "":
		return "minSamples without samplesQuery"
	}
	return ""
}

// perShare turns a volume into what it would be with all of the traffic.
func perShare(m config.Metric, value, share float64) float64 {
	if m.PerShare {
		return value / (share / 100)
	}
	return value
}

// requests are the counts of samplesQuery.
type requests struct {
	counted           bool
	compared          bool
	candidate, stable float64
}

func (q requests) String() string {
	switch {
	case !q.counted:
		return ""
	case !q.compared:
		return fmt.Sprintf(" (%s requests)", figure(q.candidate))
	}
	return fmt.Sprintf(" (%s and %s requests)", figure(q.candidate), figure(q.stable))
}

// countRequests reads samplesQuery; the finding is nil when there are enough.
func countRequests(m config.Metric, got MetricResult, atEnd bool) (requests, *finding) {
	var q requests
	if got.Samples == nil {
		return q, nil
	}
	q.counted, q.compared = true, m.Compare != ""
	for _, p := range sidesOf(MetricResult{Samples: got.Samples}) {
		n, why := p.side.number()
		switch {
		case why != "":
			return q, &finding{Inconclusive, "samplesQuery", p.name + ": " + why}
		case n < 0:
			return q, &finding{Errored, "samplesQuery", fmt.Sprintf("%s: %s, expected 0 or more (query %s)", p.name, figure(n), short(p.side.Query))}
		case p.stable:
			q.stable = n
		default:
			q.candidate = n
		}
	}
	return q, q.enough(m, atEnd)
}

func (q requests) enough(m config.Metric, atEnd bool) *finding {
	switch {
	case q.candidate == 0 && q.stable > 0 && atEnd:
		return &finding{Fail, "samplesQuery", fmt.Sprintf("the candidate is silent: no requests, stable has %s", figure(q.stable))}
	case q.candidate == 0 && q.stable > 0:
		return &finding{Inconclusive, "samplesQuery", fmt.Sprintf("the candidate is silent so far: no requests, stable has %s", figure(q.stable))}
	case q.candidate == 0:
		return &finding{Inconclusive, "samplesQuery", "no requests"}
	case q.compared && q.stable == 0:
		return &finding{Inconclusive, "samplesQuery", fmt.Sprintf("stable has no requests to compare with, candidate has %s", figure(q.candidate))}
	case m.MinSamples != nil && !(q.candidate >= *m.MinSamples):
		return &finding{Inconclusive, "minSamples " + limit(*m.MinSamples),
			fmt.Sprintf("candidate has %s requests, minSamples is %s", beside(q.candidate, *m.MinSamples), limit(*m.MinSamples))}
	}
	return nil
}

// judgeAlarm reads one point: 0 quiet, 1 firing.
func judgeAlarm(seen *Side) (Result, string) {
	if seen == nil {
		return Errored, "was not looked at"
	}
	if why := seen.trouble(); why != "" {
		return Errored, why
	}
	if len(seen.Points) == 0 || seen.State == NoData {
		return Inconclusive, "has too little data"
	}
	switch v := seen.Points[0].Value; v {
	case 0:
		return Pass, "quiet"
	case 1:
		return Fail, "firing"
	default:
		return Errored, fmt.Sprintf("state %s, expected 0 or 1", figure(v))
	}
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05Z") }

// short bounds a query in a message; the whole of it is in the record.
func short(query string) string {
	if runes := []rune(query); len(runes) > 160 {
		return string(runes[:160]) + "…"
	}
	return query
}
