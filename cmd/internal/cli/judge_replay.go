package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/providers/store"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/gate"
	"github.com/manent/action/state"
)

// replayedJSON is one reading that was judged again.
type replayedJSON struct {
	Stage    string       `json:"stage"`    // its name, such as 25%
	N        int          `json:"n"`        // number of the reading, from 1
	At       time.Time    `json:"at"`       // when it was taken
	Stored   string       `json:"stored"`   // green, red, thin, error, void or ungated, as it was judged then
	Replayed string       `json:"replayed"` // and from the same figures now
	Same     bool         `json:"same"`     // verdict and the result of every metric
	Score    *float64     `json:"score"`    // now
	Reason   string       `json:"reason"`   // now
	Metrics  []judgedJSON `json:"metrics"`  // now
}

// stored is a reading with where it is from, for messages.
type stored struct {
	where string
	gate.Record
}

// judgeReplay judges stored readings again.
func (a *app) judgeReplay(ctx context.Context, f judgeFlags, args []string) (view, error) {
	var readings []stored
	var err error
	switch {
	case len(args) > 1:
		return view{}, usage("", "%d files are named, expected one reading", len(args))
	case len(args) == 1 && (a.file != "" || a.state != "" || f.stage != "" || f.reading != 0):
		return view{}, usage("leave the flags out", "the reading is the one in %s: -c, --state, --stage and --reading have no effect", args[0])
	case len(args) == 1:
		readings, err = a.readingFile(args[0])
	default:
		readings, err = a.readings(ctx, f)
	}
	if err != nil {
		return view{}, err
	}
	return replayed(readings), nil
}

// readingFile is the one reading of a file, as it lies beside a state.
func (a *app) readingFile(file string) ([]stored, error) {
	r, name, err := a.input(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	data, err := io.ReadAll(io.LimitReader(r, store.MaxDocument+1))
	if err != nil {
		return nil, unreadable(name, err)
	}
	rec, err := recordOf(data)
	if err != nil {
		return nil, usage("expected a reading as it is stored beside the state, readings/…/3.json", "%s: %v", name, err)
	}
	return []stored{{name, rec}}, nil
}

func recordOf(data []byte) (gate.Record, error) {
	var rec gate.Record
	if len(data) > store.MaxDocument {
		return rec, fmt.Errorf("larger than %d bytes, which no reading is", store.MaxDocument)
	}
	if err := json.Unmarshal(data, &rec); err != nil {
		return rec, fmt.Errorf("no reading: %w", err)
	}
	if rec.Verdict == "" || rec.At.IsZero() {
		return rec, errors.New("no reading: it has no verdict or no time")
	}
	return rec, plausible(rec)
}

// What a reading may have at most: no rollout takes longer, and no
// configuration is larger.
const (
	mostMetrics   = 1000
	longestWindow = 400 * 24 * time.Hour
)

// plausible refuses figures that no reading has, before somebody computes with
// them.
func plausible(rec gate.Record) error {
	if n := max(len(rec.Metrics), len(rec.Health.Metrics)); n > mostMetrics {
		return fmt.Errorf("no reading: it has %d metrics, expected at most %d", n, mostMetrics)
	}
	for _, m := range rec.Metrics {
		sides := []*gate.Side{m.Candidate, m.Stable}
		if m.Samples != nil {
			sides = append(sides, m.Samples.Candidate, m.Samples.Stable)
		}
		for _, s := range sides {
			if err := plausibleSide(s); err != nil {
				return fmt.Errorf("no reading: metric %.60q: %w", m.Name, err)
			}
		}
	}
	return nil
}

// plausibleSide looks at the window from where the earlier one begins, as asked
// for or as evaluated, to where the later one ends.
func plausibleSide(s *gate.Side) error {
	if s == nil {
		return nil
	}
	from, to, step := s.From, s.To, s.Step
	if w := s.Seen; w != nil {
		step = min(step, w.Step)
		if w.From.Before(from) {
			from = w.From
		}
		if w.To.After(to) {
			to = w.To
		}
	}
	if step < 0 {
		return fmt.Errorf("step is %s, expected 0 or more", step)
	}
	if to.Sub(from) > longestWindow {
		return fmt.Errorf("the window from %s to %s is longer than 400 days", from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
	}
	return nil
}

// readings are those of the last rollout that the flags name, in the order of
// time.
func (a *app) readings(ctx context.Context, f judgeFlags) ([]stored, error) {
	p, err := a.place(ctx)
	if err != nil {
		return nil, err
	}
	doc, err := a.document(ctx, p)
	if err != nil {
		return nil, err
	}
	if doc.Rollout == nil {
		return nil, usage("", "%s has no rollout", p.key)
	}
	var out []stored
	for _, stage := range doc.Rollout.Stages {
		if f.stage != "" && stage.Name != f.stage && strings.TrimSuffix(stage.Name, "%") != f.stage {
			continue
		}
		for _, r := range stage.Readings {
			if f.reading != 0 && r.N != f.reading {
				continue
			}
			one, err := fetchReading(ctx, p, stage.Name, r)
			if err != nil {
				return nil, &runner.UnsureError{Step: "state", Err: err}
			}
			out = append(out, one)
		}
	}
	if len(out) == 0 {
		return nil, usage("`manent status` shows the stages and their readings", "%s", noReading(doc, f))
	}
	slices.SortStableFunc(out, func(a, b stored) int { return a.At.Compare(b.At) })
	return out, nil
}

func noReading(doc *state.Document, f judgeFlags) string {
	what := "no reading"
	if f.stage != "" || f.reading != 0 {
		what = "no such reading"
	}
	return fmt.Sprintf("rollout %s of version %s has %s", doc.Rollout.ID, doc.Rollout.Version, what)
}

// fetchReading gets what is stored of a reading, and makes sure that it is
// what was stored then. Of a void one there is nothing but its summary.
func fetchReading(ctx context.Context, p place, stage string, r state.Reading) (stored, error) {
	where := fmt.Sprintf("%s reading %d", stage, r.N)
	if r.Object == "" {
		return stored{where, gate.Record{Stage: stage, N: r.N, At: r.At, Verdict: gate.Void, Reason: r.Reason}}, nil
	}
	ctx, cancel := limited(ctx)
	defer cancel()
	data, err := p.store.Object(ctx, p.key, r.Object)
	if err != nil {
		return stored{}, fmt.Errorf("%s: %w", where, err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != r.Digest {
		return stored{}, fmt.Errorf("%s: %s is not what was stored: its digest differs from the document's", where, r.Object)
	}
	rec, err := recordOf(data)
	if err != nil {
		return stored{}, fmt.Errorf("%s: %s: %w", where, r.Object, err)
	}
	if string(rec.Verdict) != r.Verdict {
		return stored{}, fmt.Errorf("%s: %s is %s, the document says %s", where, r.Object, rec.Verdict, r.Verdict)
	}
	return stored{where, rec}, nil
}

// replayed judges again, and ends as the last reading does that evaluated
// something, unless one came to another verdict than then.
func replayed(readings []stored) view {
	var doc judgeJSON
	var text strings.Builder
	var differ []string
	last := gate.Record{Verdict: gate.Ungated, Reason: "nothing was evaluated"}
	for _, r := range readings {
		again := gate.Replay(r.Record)
		if again.Verdict != gate.Ungated && again.Verdict != gate.Void {
			last = again
		}
		one := replayedJSON{
			Stage: r.Stage, N: r.N, At: r.At, Stored: string(r.Verdict), Replayed: string(again.Verdict), Same: sameVerdict(r.Record, again),
			Score: again.Score, Reason: again.Reason, Metrics: judgedOf(again.Metrics),
		}
		doc.Readings = append(doc.Readings, one)
		fmt.Fprintf(&text, "%s at %s: stored %s, replayed %s\n", r.where, r.At.UTC().Format(time.RFC3339), r.Verdict, again.Verdict)
		for _, m := range again.Metrics {
			fmt.Fprintf(&text, "  %-12s  %s\n", m.Result, m.Reason)
		}
		if !one.Same {
			differ = append(differ, fmt.Sprintf("%s is %s, stored was %s", r.where, differing(again), differing(r.Record)))
		}
	}
	doc.Verdict, doc.Score, doc.Metrics = verdictWord(last.Verdict), last.Score, judgedOf(last.Metrics)
	v := view{Outcome: verdictOutcome(last.Verdict, last.Reason)}
	if len(differ) > 0 {
		doc.Verdict = "error"
		v.Outcome = &runner.Outcome{
			Result: runner.Unsure, Message: "the same figures give another verdict: " + few(differ, "; "),
			Remedy: "another version of manent judged it, or the reading was changed: `manent version` says which this one is",
		}
	}
	fmt.Fprintf(&text, "verdict: %s", doc.Verdict)
	v.JSON, v.Text = doc, text.String()
	return v
}

// sameVerdict compares what was decided, not how it was put.
func sameVerdict(then, now gate.Record) bool {
	return then.Verdict == now.Verdict && slices.EqualFunc(then.Metrics, now.Metrics, func(a, b gate.MetricResult) bool {
		return a.Name == b.Name && a.Result == b.Result
	})
}

func differing(r gate.Record) string {
	parts := []string{string(r.Verdict)}
	for _, m := range r.Metrics {
		parts = append(parts, fmt.Sprintf("%s %s", m.Name, m.Result))
	}
	return few(parts, ", ")
}
