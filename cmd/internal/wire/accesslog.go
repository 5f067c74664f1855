package wire

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/accesslog"
	"github.com/manent/action/providers/metric/accesslog"
	"github.com/manent/action/runner/gate"
)

// AccessLog is one log, to be counted as a whole. Format and fields are those
// of the metric system accesslog, and so are their defaults; the track's is
// $backend where the format has it.
type AccessLog struct {
	File, Format                  string
	Time, Status, Track, Duration string
	Unit                          string   // of the duration: s, ms, us or ns
	Candidate, Stable             []string // values of the track field
}

// LogCount is what a log holds.
type LogCount struct {
	Candidate, Stable gate.Track
	Requests          int            // of any track
	Untracked         gate.Track     // without a track, or with "-"
	Strays            int            // of other tracks
	Others            map[string]int // the same by value, those beyond a few as "others"
	Lines, Malformed  int            // of the log, and of these not readable
	Problem           error          // of one that was not
	Cut               bool           // the log is longer than one reading goes through
	Size              int64          // of the file, in bytes
}

// CountLog reads a log from end to end. The error is a fault of kind Invalid
// where the settings or the file are wrong, and another one where reading
// broke off.
func CountLog(ctx context.Context, l AccessLog) (LogCount, error) {
	if l.Track == "" && api.HasVariable(l.Format, "backend") {
		l.Track = "backend"
	}
	parse, _, err := accesslog.Parser(accesslog.Settings{
		Format: l.Format, Time: l.Time, Status: l.Status, Track: l.Track, Duration: l.Duration, DurationUnit: l.Unit,
	})
	if err != nil {
		return LogCount{}, logFault("settings", providers.Invalid, err)
	}
	info, err := os.Stat(l.File)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", l.File)
	}
	if err != nil {
		return LogCount{}, logFault("open", providers.Invalid, err)
	}
	count := newLogCounter(l)
	count.out.Size = info.Size()
	met, err := api.Log{Path: l.File, Files: []string{l.File}}.Read(ctx, time.Time{}, time.Time{}, parse, count.add)
	if err != nil {
		kind := providers.Unknown
		if errors.Is(err, fs.ErrPermission) {
			kind = providers.Invalid
		}
		return LogCount{}, logFault("read "+l.File, kind, err)
	}
	return count.result(met), nil
}

func logFault(op string, kind providers.Kind, err error) error {
	return &providers.Fault{Provider: "accesslog", Op: op, Kind: kind, Err: err}
}

// maxOthers bounds how many unknown values are told apart: a client may decide
// what is logged.
const maxOthers = 5

// logCounter counts requests by track.
type logCounter struct {
	log               AccessLog
	out               LogCount
	candidate, stable *api.Stats
	untracked         *api.Stats
}

func newLogCounter(l AccessLog) *logCounter {
	return &logCounter{
		log: l, out: LogCount{Others: map[string]int{}},
		candidate: api.NewStats(), stable: api.NewStats(), untracked: api.NewStats(),
	}
}

func (c *logCounter) add(e api.Entry) {
	c.out.Requests++
	switch {
	case slices.Contains(c.log.Candidate, e.Track):
		c.candidate.Add(e)
	case slices.Contains(c.log.Stable, e.Track):
		c.stable.Add(e)
	case e.Track == "" || e.Track == "-":
		c.untracked.Add(e)
	default:
		c.out.Strays++
		value := e.Track
		if _, known := c.out.Others[value]; !known && len(c.out.Others) >= maxOthers {
			value = "others"
		}
		c.out.Others[value]++
	}
}

func (c *logCounter) result(met api.Extent) LogCount {
	out := c.out
	out.Candidate, out.Stable, out.Untracked = trackOf(c.candidate), trackOf(c.stable), trackOf(c.untracked)
	out.Lines, out.Malformed, out.Problem, out.Cut = met.Lines, met.Malformed, met.Problem, met.Cut
	return out
}

func trackOf(s *api.Stats) gate.Track {
	p95, _ := s.Percentile(950) // 0 without durations
	return gate.Track{Requests: s.Requests, Errors: s.Errors, Timed: s.Timed, P95: p95, Abandoned: s.Abandoned}
}
