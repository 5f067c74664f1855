//go:build unix

package external

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/external"
	"github.com/manent/action/providers/metric"
	"github.com/manent/action/providers/metric/metrictest"
	"github.com/manent/action/state"
)

const secret = "hunter2hunter2"

func env(dir string) providers.Env {
	redactor := &providers.Redactor{}
	redactor.Add(providers.NewSecret(secret))
	return providers.Env{Dir: dir, Redactor: redactor, Getenv: os.Getenv, Secret: func(context.Context, string) (providers.Secret, error) {
		return providers.NewSecret(secret), nil
	}}
}

func open(t *testing.T, dir string, other map[string]any) *System {
	t.Helper()
	settings := map[string]any{"command": []any{"./metrics"}, "secrets": map[string]any{"TOKEN": "token"}}
	for key, value := range other {
		settings[key] = value
	}
	sys, err := Spec().Build(env(dir), settings)
	if err != nil {
		t.Fatal(err)
	}
	return sys.(*System)
}

// TestConformance asks a stand-in for the program: what becomes of processes
// is proven with the protocol.
func TestConformance(t *testing.T) {
	metrictest.Run(t, metrictest.Suite{
		Without: map[metrictest.Feature]string{metrictest.NaN: "JSON has no word for it"},
		Setup: func(t *testing.T, scene metrictest.Scene) metrictest.Subject {
			s := open(t, t.TempDir(), nil)
			s.pause = time.Millisecond
			s.ask = func(ctx context.Context, queries []api.Query) ([]api.Answered, error) {
				return standIn(ctx, scene, queries)
			}
			return metrictest.Subject{System: s, Text: func(state.Slot) string { return "latency" }, Bad: "no such figure", Secret: secret}
		},
	})
}

func standIn(ctx context.Context, scene metrictest.Scene, queries []api.Query) ([]api.Answered, error) {
	if ctx.Err() != nil {
		return nil, &providers.Fault{Provider: name, Kind: providers.Unknown, Err: context.Cause(ctx)}
	}
	if f := scene.Failure; f != nil && f.Meet() {
		kind, err := f.Kind, errors.New(f.Name)
		if f.Hang {
			kind = providers.Unknown
			select {
			case <-ctx.Done():
				err = context.Cause(ctx)
			case <-time.After(200 * time.Millisecond):
			}
		}
		return nil, &providers.Fault{Provider: name, Kind: kind, Err: err}
	}
	var out []api.Answered
	for _, q := range queries {
		out = append(out, api.Answered{QueryAnswer: answer(scene, q)})
	}
	return out, nil
}

func answer(scene metrictest.Scene, q api.Query) api.QueryAnswer {
	a := api.QueryAnswer{ID: q.ID}
	held := scene.Series[state.Slot(q.Track)]
	if scene.Partial {
		a.Partial, a.Warnings = true, []string{"a shard is down"}
	}
	switch {
	case q.Text != "latency":
		a.Error = &api.Error{Kind: "invalid", Message: "there is no such figure"}
	case len(held) > 1:
		a.Several = true
		for _, series := range held {
			a.Warnings = append(a.Warnings, fmt.Sprint(series.Labels))
		}
	case len(held) == 1:
		for _, p := range held[0].Points {
			if q.Step != "" || p.At.Equal(q.To) {
				a.Points = append(a.Points, api.Point{At: p.At, Value: p.Value})
			}
		}
	}
	a.NoData = len(a.Points) == 0 && !a.Several && a.Error == nil
	return a
}

// TestAnswersThatMakeNoSense are errors of their query alone.
func TestAnswersThatMakeNoSense(t *testing.T) {
	at := func(minute int, value float64) api.Point {
		return api.Point{At: metrictest.Start().Add(time.Duration(minute) * time.Minute), Value: value}
	}
	cases := map[string]struct {
		give   api.QueryAnswer
		series bool
		says   string
	}{
		"nothing":       {api.QueryAnswer{}, false, "one of points, noData"},
		"both":          {api.QueryAnswer{NoData: true, Points: []api.Point{at(1, 1)}}, false, "one of points, noData"},
		"two values":    {api.QueryAnswer{Points: []api.Point{at(1, 1), at(2, 2)}}, false, "2 points, expected one value"},
		"before":        {api.QueryAnswer{Points: []api.Point{at(-1, 1)}}, false, "a point at 2026-11-30T11:59:00Z"},
		"after":         {api.QueryAnswer{Points: []api.Point{at(11, 1)}}, true, "a point at 2026-11-30T12:11:00Z"},
		"not in order":  {api.QueryAnswer{Points: []api.Point{at(2, 1), at(1, 1)}}, true, "not in order"},
		"twice":         {api.QueryAnswer{Points: []api.Point{at(2, 1), at(2, 1)}}, true, "not in order"},
		"between steps": {api.QueryAnswer{Points: []api.Point{{At: metrictest.Start().Add(90 * time.Second)}}}, true, "expected one each 1m0s"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir(), nil)
			s.ask = func(_ context.Context, queries []api.Query) ([]api.Answered, error) {
				tc.give.ID = queries[0].ID
				fine := api.QueryAnswer{ID: queries[1].ID, Points: []api.Point{at(10, 3)}}
				return []api.Answered{{QueryAnswer: tc.give}, {QueryAnswer: fine}}, nil
			}
			q := metric.Query{ID: "odd", Text: "latency", Track: state.SlotA, From: metrictest.Start(), To: metrictest.End()}
			fine := q
			if fine.ID = "fine"; tc.series {
				q.Step = time.Minute
			}
			got, err := s.Query(t.Context(), []metric.Query{q, fine})
			if err != nil || len(got) != 2 || got[1].Err != nil || got[1].Points[0].Value != 3 {
				t.Fatalf("answers %+v, error %v", got, err)
			}
			if odd := got[0]; odd.Err == nil || providers.KindOf(odd.Err) != providers.Unknown || !strings.Contains(odd.Err.Error(), tc.says) || len(odd.Points) != 0 {
				t.Errorf("answer %+v, expected an error that says %q", odd, tc.says)
			}
		})
	}
	s := open(t, t.TempDir(), nil)
	s.ask = func(context.Context, []api.Query) ([]api.Answered, error) {
		return []api.Answered{{QueryAnswer: api.QueryAnswer{ID: "another", NoData: true}}}, nil
	}
	q := metric.Query{ID: "q", Text: "latency", From: metrictest.Start(), To: metrictest.End()}
	if got, err := s.Query(t.Context(), []metric.Query{q}); err == nil || providers.KindOf(err) != providers.Unknown || got != nil && got[0].Points != nil {
		t.Errorf("answers %+v, error %v to another query's answer", got, err)
	}
}

// TestThroughAProgram: a real process gets the secret and the whole request,
// and what it answers is read.
func TestThroughAProgram(t *testing.T) {
	const script = `#!/bin/sh
read -r q
id=${q#*'"id":"'}; id=${id%%'"'*}
printf '%s' "$q" >"$MANENT_REQUEST"
[ "$TOKEN" = hunter2hunter2 ] || exit 1
if [ "$MANENT_REQUEST" = describe ]; then
	result='{"name":"metrics","protocols":[1],"capabilities":["deploy","metrics"],"traits":{}}'
else
	result='{"answers":[{"id":"0","points":[{"at":"2026-11-30T12:10:00Z","value":0.25}]},{"id":"1","points":[{"at":"2026-11-30T12:10:00Z","value":NaN}]}]}'
fi
printf '{"protocol":1,"id":"%s","result":%s}' "$id" "$result"
`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "metrics"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, map[string]any{"command": []any{"sh", "metrics"}, "settings": map[string]any{"region": "eu"}, "timeout": "2m"})
	q := metric.Query{ID: "m/a", Text: "latency", Track: state.SlotA, From: metrictest.Start(), To: metrictest.End()}
	got, err := s.Query(t.Context(), []metric.Query{q, q})
	if err != nil || len(got) != 2 || got[0].Err != nil || got[0].Points[0].Value != 0.25 {
		t.Fatalf("answers %+v, error %v: the NaN of one voids the other", got, err)
	}
	if odd := got[1]; providers.KindOf(odd.Err) != providers.Unknown || odd.Err == nil || !strings.Contains(odd.Err.Error(), `"null", expected a number`) || odd.Points != nil {
		t.Errorf("answer %+v of a NaN, expected that it makes no sense", odd)
	}
	request, err := os.ReadFile(filepath.Join(dir, "query"))
	if err != nil || !strings.Contains(string(request), `"settings":{"region":"eu"}`) || !strings.Contains(string(request), `{"id":"0","text":"latency","track":"a","from":"2026-11-30T12:00:00Z","to":"2026-11-30T12:10:00Z"}`) {
		t.Errorf("request %s, error %v", request, err)
	}
	want := []metric.Answer{{
		ID: "m/a", From: metrictest.Start(), To: metrictest.End(), Resolved: "latency", Points: []metric.Point{{At: metrictest.End(), Value: 0.25}},
	}}
	if diff := cmp.Diff(want, got[:1]); diff != "" || err != nil {
		t.Errorf("error %v:\n%s", err, diff)
	}
}

// TestAProgramWithoutMetrics is asked for nothing.
func TestAProgramWithoutMetrics(t *testing.T) {
	dir := t.TempDir()
	const script = `read -r q; id=${q#*\"id\":\"}; id=${id%%\"*}; echo "$MANENT_REQUEST" >>asked
printf '{"protocol":1,"id":"%s","result":{"name":"x","protocols":[1],"capabilities":["deploy"],"traits":{}}}' "$id"`
	s := open(t, dir, map[string]any{"command": []any{"sh", "-c", script}, "timeout": "2m"})
	_, err := s.Query(t.Context(), []metric.Query{{ID: "q", Text: "x", From: metrictest.Start(), To: metrictest.End()}})
	asked, _ := os.ReadFile(filepath.Join(dir, "asked"))
	if providers.KindOf(err) != providers.Invalid || err == nil || !strings.Contains(err.Error(), "not capable of metrics") || string(asked) != "describe\n" {
		t.Errorf("error %v, asked for %q", err, asked)
	}
}

func TestSettingsAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		other map[string]any
		says  string
	}{
		"no command":   {map[string]any{"command": []any{""}}, "expected a program"},
		"zero byte":    {map[string]any{"command": []any{"a\x00"}}, "expected a program"},
		"timeout":      {map[string]any{"timeout": "1ms"}, "timeout is 1ms"},
		"long timeout": {map[string]any{"timeout": "1h"}, "timeout is 1h"},
		"variable":     {map[string]any{"env": map[string]any{"MANENT_X": "1"}}, `variable "MANENT_X"`},
		"given twice":  {map[string]any{"env": map[string]any{"TOKEN": "1"}}, "TOKEN is given twice"},
	} {
		t.Run(name, func(t *testing.T) {
			settings := map[string]any{"command": []any{"./metrics"}, "secrets": map[string]any{"TOKEN": "token"}}
			for key, value := range tc.other {
				settings[key] = value
			}
			if _, err := Spec().Build(env(t.TempDir()), settings); providers.KindOf(err) != providers.Invalid || err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, expected it to say %q", err, tc.says)
			}
		})
	}
}
