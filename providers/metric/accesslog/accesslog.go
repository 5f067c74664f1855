// Package accesslog takes metrics from access logs on this machine: requests,
// errors and durations per track, where there is no metric system. It must
// not know formats of lines; those are providers/api/accesslog's.
//
// Requests that the client left (499, 000) count for client_errors only: with
// nothing else a track is silent, and with more than half an answer is partial.
package accesslog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/accesslog"
	"github.com/manent/action/providers/metric"
	"github.com/manent/action/state"
)

var _ metric.System = (*System)(nil)

const name = "accesslog"

// Settings of the system, rollout.providers.accesslog in a configuration.
type Settings struct {
	Files        []string          `name:"files" required:"true" help:"paths or globs of the logs, relative to the workspace or absolute; rotated files are found by themselves"`
	Format       string            `name:"format" required:"true" help:"nginx's log_format as it is between the quotes, json (one object a line), or proxy (the log of manent proxy)"`
	Time         string            `name:"time_field" help:"field of the time: seconds, RFC 3339 or $time_local; default $msec, $time_iso8601 or $time_local, json time"`
	Status       string            `name:"status_field" help:"field of the status; default $status, json status"`
	Track        string            `name:"track_field" help:"field that says what served the request, such as $backend; default json track"`
	Duration     string            `name:"duration_field" help:"field of the duration; default $request_time if the format has it, json request_time"`
	DurationUnit string            `name:"duration_unit" default:"s" enum:"s,ms,us,ns" help:"unit of the duration in the log; answers are in seconds"`
	Tracks       map[string]string `name:"tracks" help:"slot of each value of the track field, such as {canary: b, stable: a}; default {a: a, b: b}"`
	MaxSilence   time.Duration     `name:"max_silence" default:"2m" help:"a log that has nothing for longer at either end of the window makes the answer partial; raise it where requests are rare"`
	MaxMalformed float64           `name:"max_malformed" default:"1" help:"more unreadable lines, or requests of unknown tracks, than this, in percent, make the answer partial"`
}

// Spec describes the system.
//
// Its delay is 5 s: $time_local and $time_iso8601 have whole seconds, and a
// line is written when its request is done with. A log written through a
// buffer (access_log … buffer= flush=) needs a delay above flush.
func Spec() metric.Spec {
	return metric.Spec{
		Spec: providers.Define(name, "access logs on this machine: nginx, JSON, or manent's own proxy", New),
		Traits: metric.Traits{
			Language:  "figure of an access log",
			Delay:     5 * time.Second,
			OwnTracks: true,
			Escape:    func(value string) string { return value }, // a figure has no place for a value
		},
	}
}

// System reads one set of logs.
type System struct {
	settings Settings
	dir      string
	parse    accesslog.Parser
	timed    bool                  // the log has durations
	tracks   map[string]state.Slot // by value of the track field
}

// New checks the settings and compiles the format. It does no I/O.
func New(env providers.Env, s Settings) (metric.System, error) {
	sys := &System{settings: s, dir: env.Dir}
	var err error
	if sys.tracks, err = slots(s.Tracks); err == nil {
		sys.parse, sys.timed, err = Parser(s)
	}
	switch {
	case err != nil:
	case len(s.Files) == 0:
		err = errors.New("files is empty, expected paths")
	case s.MaxSilence < 0:
		err = fmt.Errorf("max_silence: %v, expected 0 or more", s.MaxSilence)
	case !(s.MaxMalformed >= 0 && s.MaxMalformed <= 100):
		err = fmt.Errorf("max_malformed: %v, expected 0 to 100", s.MaxMalformed)
	}
	if err != nil {
		return nil, fault("settings", providers.Invalid, err)
	}
	return sys, nil
}

func slots(tracks map[string]string) (map[string]state.Slot, error) {
	if len(tracks) == 0 {
		tracks = map[string]string{"a": "a", "b": "b"}
	}
	out, seen := map[string]state.Slot{}, map[state.Slot]bool{}
	for value, slot := range tracks {
		s := state.Slot(slot)
		if s.Other() == "" {
			return nil, fmt.Errorf("tracks: %q is slot %q, expected a or b", value, slot)
		}
		out[value], seen[s] = s, true
	}
	if len(seen) != 2 {
		return nil, fmt.Errorf("tracks: %d of the slots a and b have a value, expected both", len(seen))
	}
	return out, nil
}

// Parser fills in the default fields of a format; timed says that lines have durations.
func Parser(s Settings) (parse accesslog.Parser, timed bool, err error) {
	units := map[string]time.Duration{"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond, "ns": time.Nanosecond}
	f := accesslog.Fields{Time: s.Time, Status: s.Status, Track: s.Track, Duration: s.Duration, Unit: units[s.DurationUnit]}
	switch s.Format {
	case "proxy":
		if s.Time+s.Status+s.Track+s.Duration != "" {
			return nil, false, errors.New("format proxy has its own fields, expected none set")
		}
		f = accesslog.Proxy()
		parse, err = accesslog.JSON(f)
	case "json":
		f = defaults(f, accesslog.Fields{Time: "time", Status: "status", Track: "track", Duration: "request_time"})
		parse, err = accesslog.JSON(f)
	default:
		if f.Track == "" {
			return nil, false, errors.New("track_field is missing, expected the variable that says what served a request, such as $backend")
		}
		d := accesslog.Fields{Time: first(s.Format, "msec", "time_iso8601", "time_local"), Status: "status"}
		if accesslog.HasVariable(s.Format, "request_time") {
			d.Duration = "request_time"
		}
		f = defaults(f, d)
		parse, err = accesslog.Nginx(s.Format, f)
	}
	if err != nil {
		return nil, false, fmt.Errorf("format: %w", err)
	}
	return parse, f.Duration != "", nil
}

func defaults(f, d accesslog.Fields) accesslog.Fields {
	for _, p := range []struct {
		field *string
		value string
	}{{&f.Time, d.Time}, {&f.Status, d.Status}, {&f.Track, d.Track}, {&f.Duration, d.Duration}} {
		if *p.field == "" {
			*p.field = p.value
		}
	}
	return f
}

// first is the first of the variables that the format has, or else the first.
func first(format string, variables ...string) string {
	i := max(0, slices.IndexFunc(variables, func(v string) bool { return accesslog.HasVariable(format, v) }))
	return variables[i]
}

// Query implements metric.System. All queries of a call are answered from one
// reading of the logs.
func (s *System) Query(ctx context.Context, queries []metric.Query) ([]metric.Answer, error) {
	if len(queries) == 0 {
		return nil, nil
	}
	asked := make([]question, len(queries))
	tallies := map[window]*tally{}
	for i, q := range queries {
		asked[i] = s.understand(q)
		if asked[i].err == nil {
			asked[i].tally = tallyFor(tallies, asked[i])
		}
	}
	read, err := s.read(ctx, tallies)
	if err != nil {
		return nil, err
	}
	answers := make([]metric.Answer, len(queries))
	for i, q := range queries {
		answers[i] = s.answer(q, asked[i], read)
	}
	return answers, nil
}

// read goes through every log once and counts into all tallies.
func (s *System) read(ctx context.Context, tallies map[window]*tally) (reading, error) {
	if err := ctx.Err(); err != nil {
		return reading{}, fault("read", providers.Unknown, err)
	}
	if len(tallies) == 0 {
		return reading{}, nil
	}
	logs, err := accesslog.Find(s.dir, s.settings.Files)
	if err != nil {
		return reading{}, fault("look for "+strings.Join(s.settings.Files, ", "), kind(err), err)
	}
	var whole window
	for w := range tallies {
		whole = whole.union(w)
	}
	out := reading{logs: make([]extent, 0, len(logs))}
	for _, l := range logs {
		x, err := l.Read(ctx, whole.from, whole.to, s.parse, func(e accesslog.Entry) {
			slot := s.tracks[e.Track]
			for _, t := range tallies {
				t.add(slot, e)
			}
		})
		if err != nil {
			return reading{}, fault("read "+l.Path, kind(err), err)
		}
		out.logs = append(out.logs, extent{l.Path, x})
	}
	return out, nil
}

// kind of an error of the file system. What broke off midway is Unknown.
func kind(err error) providers.Kind {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return providers.Denied
	case errors.Is(err, fs.ErrNotExist):
		return providers.NotFound
	}
	return providers.Unknown
}

func fault(op string, kind providers.Kind, err error) error {
	return &providers.Fault{Provider: name, Op: op, Kind: kind, Err: err}
}
