package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/manent/action/cmd/internal/wire"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/gate"
)

// logFlags are those of the three-way gate.
type logFlags struct {
	wire.AccessLog
	gate.ThreeWay
	tracks       map[string]string
	maxMalformed float64
}

func logFlagNames() []string {
	return []string{
		"log-format", "min-requests", "max-extra-error", "max-latency-ratio", "max-malformed",
		"tracks", "track-field", "time-field", "status-field", "duration-field", "duration-unit",
	}
}

func (l *logFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&l.File, "access-log", "", "`FILE` to count")
	f.StringVar(&l.Format, "log-format", "", "`FORMAT`: nginx's log_format as it is between the quotes, json, or proxy (the log of manent proxy)")
	f.IntVar(&l.MinRequests, "min-requests", 300, "`NUMBER` of requests of a track below which nothing is concluded")
	f.Float64Var(&l.MaxExtraError, "max-extra-error", 1, "`POINTS` of percent that the candidate's error rate, and the part of its requests that the client left, may be above the stable's")
	f.Float64Var(&l.MaxLatencyRatio, "max-latency-ratio", 1.2, "largest `RATIO` of the p95s, candidate ÷ stable; 0 leaves them alone")
	f.Float64Var(&l.maxMalformed, "max-malformed", 1, "`PERCENT` of unreadable lines, of requests of other tracks, or of none, above which nothing is concluded")
	f.StringToStringVar(&l.tracks, "tracks", nil, "candidate=`VALUE`,stable=VALUE of the track field (candidate or canary, and stable)")
	f.StringVar(&l.Track, "track-field", "", "`FIELD` that says what served a request (backend, json track)")
	f.StringVar(&l.Time, "time-field", "", "`FIELD` of the time (msec, time_iso8601 or time_local, json time)")
	f.StringVar(&l.Status, "status-field", "", "`FIELD` of the status (status)")
	f.StringVar(&l.Duration, "duration-field", "", "`FIELD` of the duration (request_time)")
	f.StringVar(&l.Unit, "duration-unit", "s", "unit of the duration: s, ms, us or ns")
}

// check looks at the numbers and fills in the tracks.
func (l *logFlags) check() error {
	switch {
	case l.File == "":
		return need("--access-log FILE", "no log is named")
	case l.Format == "":
		return need("--log-format FORMAT, such as '$msec $status $backend $request_time'", "no format of the log is named")
	case !slices.Contains([]string{"s", "ms", "us", "ns"}, l.Unit):
		return usage("", "--duration-unit is %q, expected s, ms, us or ns", l.Unit)
	case l.MinRequests < 1:
		return usage("", "--min-requests is %d, expected 1 or more", l.MinRequests)
	case !(l.MaxExtraError >= 0 && l.MaxExtraError <= 100):
		return usage("", "--max-extra-error is %v, expected 0 to 100", l.MaxExtraError)
	case !(l.MaxLatencyRatio >= 0 && l.MaxLatencyRatio <= 1e9):
		return usage("", "--max-latency-ratio is %v, expected 0 or more", l.MaxLatencyRatio)
	case !(l.maxMalformed >= 0 && l.maxMalformed <= 100):
		return usage("", "--max-malformed is %v, expected 0 to 100", l.maxMalformed)
	}
	return l.checkTracks()
}

func (l *logFlags) checkTracks() error {
	const hint = "for example --tracks candidate=b,stable=a"
	if l.tracks == nil {
		if l.Format == "proxy" {
			return usage(hint, "the log of manent proxy names slots, and only you know which one is the candidate")
		}
		l.Candidate, l.Stable = []string{"candidate", "canary"}, []string{"stable"}
		return nil
	}
	candidate, stable := l.tracks["candidate"], l.tracks["stable"]
	switch {
	case len(l.tracks) != 2 || candidate == "" || stable == "":
		return usage(hint, "--tracks names %s, expected candidate and stable", strings.Join(slices.Sorted(maps.Keys(l.tracks)), ", "))
	case candidate == stable:
		return usage(hint, "--tracks has %q for both: it would be compared with itself", stable)
	}
	l.Candidate, l.Stable = []string{candidate}, []string{stable}
	return nil
}

// tracksJSON is what an access log holds.
type tracksJSON struct {
	Candidate trackJSON `json:"candidate"` // the new version
	Stable    trackJSON `json:"stable"`    // what it is compared with
}

// trackJSON is one track of an access log.
type trackJSON struct {
	Requests  int      `json:"requests"`   // without those that the client left
	Errors    int      `json:"errors"`     // 5xx
	ErrorRate *float64 `json:"error_rate"` // 0 to 1, null without requests
	P95       *float64 `json:"p95"`        // seconds, null without durations
	Abandoned int      `json:"abandoned"`  // that the client left: 499 and 000
}

func trackOf(t gate.Track) trackJSON {
	out := trackJSON{Requests: t.Requests, Errors: t.Errors, Abandoned: t.Abandoned}
	if t.Requests > 0 {
		rate := float64(t.Errors) / float64(t.Requests)
		out.ErrorRate = &rate
	}
	if t.Timed > 0 {
		out.P95 = &t.P95
	}
	return out
}

// judgeLog is the three-way gate.
func (a *app) judgeLog(ctx context.Context, l logFlags) (view, error) {
	if err := l.check(); err != nil {
		return view{}, err
	}
	seen, err := wire.CountLog(ctx, l.AccessLog)
	if err != nil {
		return view{}, err
	}
	warnings, doubt := l.doubts(seen)
	for _, w := range warnings {
		a.complain("manent: warning: "+w, "")
	}
	report := fmt.Sprintf("%-9s %s\n%-9s %s\n", "candidate", seen.Candidate, "stable", seen.Stable)
	if doubt != nil {
		return view{Text: report}, &exitError{ending: ending{Code: exitUnsure, Message: l.File + ": " + doubt.text, Hint: doubt.hint}}
	}
	call := l.Judge(seen.Candidate, seen.Stable)
	doc := judgeJSON{
		Verdict: string(call.Result), Metrics: judgedOf(call.Metrics),
		Tracks: &tracksJSON{trackOf(seen.Candidate), trackOf(seen.Stable)},
	}
	out := &runner.Outcome{Result: runner.Progress}
	switch call.Result {
	case gate.Pass:
	case gate.Fail:
		out = &runner.Outcome{Result: runner.Failure, Message: call.Words}
	default:
		out = &runner.Outcome{Result: runner.NotYet, Message: call.Words, Remedy: call.Remedy}
	}
	return view{JSON: doc, Text: report + call.Words, Outcome: out}, nil
}

// doubt is something that is wrong with a log, and what to do about it.
type doubt struct{ text, hint string }

// doubts says what is wrong with a log, and with much when so much is that it
// can be judged by nobody.
func (l *logFlags) doubts(seen wire.LogCount) (warnings []string, much *doubt) {
	add := func(beyond bool, hint, format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if beyond && much == nil {
			much = &doubt{text, hint}
			return
		}
		warnings = append(warnings, text)
	}
	beyond := func(part, whole int) bool { return float64(part)*100 > l.maxMalformed*float64(whole) }
	if seen.Cut {
		add(true, "", "is too long to be read whole: give a part of it")
	}
	if seen.Lines == 0 && seen.Size > 64<<10 {
		add(true, "", "has no line that is readable")
	}
	if seen.Malformed > 0 {
		add(beyond(seen.Malformed, seen.Lines), "", "%d of %s are unreadable, one because: %v", seen.Malformed, counted(seen.Lines, "line"), seen.Problem)
	}
	if seen.Strays > 0 {
		add(beyond(seen.Strays, seen.Requests), "", "%d of %s are of other tracks: %s; --tracks says which value is which", seen.Strays, counted(seen.Requests, "request"), others(seen.Others))
	}
	if u := seen.Untracked; u.Requests+u.Abandoned > 0 {
		add(beyond(u.Requests+u.Abandoned, seen.Requests), trackless,
			"%d of %s name no track, %d of them with an error: they count for neither side", u.Requests+u.Abandoned, counted(seen.Requests, "request"), u.Errors)
	}
	for _, t := range []struct {
		name string
		gate.Track
	}{{"candidate", seen.Candidate}, {"stable", seen.Stable}} {
		if t.Abandoned > t.Requests {
			add(true, "", "%d of %s of the %s were left by the client (499, 000)", t.Abandoned, counted(t.Abandoned+t.Requests, "request"), t.name)
		}
	}
	return warnings, much
}

// trackless is the hint for a log of which too many requests name no track.
const trackless = "nginx writes - where it answered by itself or no upstream could be chosen: log those locations elsewhere, " +
	"name a field with --track-field that is set before the upstream is asked, or allow them with --max-malformed"

func others(strays map[string]int) string {
	var parts []string
	for _, value := range slices.Sorted(maps.Keys(strays)) {
		parts = append(parts, fmt.Sprintf("%.40q (%d)", value, strays[value]))
	}
	return strings.Join(parts, ", ")
}
