// Package external is the metric system that is a program of its own, written
// by anybody in any language: it is started for each reading and speaks the
// protocol of providers/api/external, its request query. It must not know what
// the numbers are for.
package external

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/external"
	"github.com/manent/action/providers/metric"
)

var _ metric.System = (*System)(nil)

const name = "external"

// tries is how often a call is made whose answer is that the system behind the
// program does not serve it.
const tries = 2

// Settings of the system, rollout.providers.external in a configuration.
type Settings struct {
	Command   []string                       `name:"command" required:"true" help:"the program and its arguments, [./metrics.py]; started without a shell, once for each reading, in the workspace; it has to describe itself as capable of metrics"`
	Settings  map[string]string              `name:"settings" help:"handed to the program in each request, as it is"`
	Env       map[string]string              `name:"env" help:"variables for the program; beside these it gets PATH, HOME, TMPDIR, LANG and MANENT_… and nothing else"`
	Inherit   []string                       `name:"inherit" help:"names of variables that it gets from manent's own environment if they are set"`
	Secrets   map[string]providers.SecretRef `name:"secrets" help:"NAME: name of a secret of the configuration; its value never is on a command line"`
	SecretsIn string                         `name:"secrets_in" default:"environment" enum:"environment,request" help:"where the program finds them: variables NAME, or secrets.NAME of the request"`
	Timeout   time.Duration                  `name:"timeout" default:"8s" help:"longest wait for one answer, 100ms to 2m; a reading waits for two at most, and the engine for 20s"`
}

// Spec describes the system. A query's text is the program's own language: a
// placeholder's value is put into it as it is.
func Spec() metric.Spec {
	return metric.Spec{
		Spec: providers.Define(name, "a program of your own that answers queries, see external.md", New),
		Traits: metric.Traits{
			Language: "the program's own", OwnTracks: true, Escape: func(value string) string { return value },
		},
	}
}

// System asks one program.
type System struct {
	program *api.Program
	ask     func(ctx context.Context, queries []api.Query) ([]api.Answered, error)
	pause   time.Duration // between two tries, unless the program asks for more
}

// New checks the settings. It starts nothing.
func New(env providers.Env, s Settings) (metric.System, error) {
	v := api.Variables{Set: s.Env, Inherit: s.Inherit}
	if s.SecretsIn == "environment" {
		v.Secrets = slices.Collect(maps.Keys(s.Secrets))
	}
	err := v.Check()
	switch {
	case len(s.Command) == 0 || s.Command[0] == "" || strings.Contains(strings.Join(s.Command, ""), "\x00"):
		err = fmt.Errorf("command is %q, expected a program and its arguments", s.Command)
	case s.Timeout < 100*time.Millisecond || s.Timeout > 2*time.Minute:
		err = fmt.Errorf("timeout is %v, expected 100ms to 2m", s.Timeout)
	}
	if err != nil {
		return nil, &providers.Fault{Provider: name, Op: "settings", Kind: providers.Invalid, Err: err}
	}
	client := api.New(api.Options{
		Provider: name, Command: s.Command, Dir: env.Dir, Env: v.Environ(env.Getenv), Settings: s.Settings,
		Redactor: env.Redactor, Secrets: api.Secrets(env, s.Secrets, s.SecretsIn == "request"),
	})
	p := &api.Program{Client: client, Capabilities: []string{api.Metrics}, Timeout: s.Timeout}
	if env.Log != nil {
		p.Log = func(line string) { env.Log("%s", line) }
	}
	return &System{program: p, pause: time.Second, ask: func(ctx context.Context, queries []api.Query) ([]api.Answered, error) {
		if err := p.Check(ctx); err != nil {
			return nil, err
		}
		return p.Query(ctx, p.Call(api.Queries, api.QueryParams{Queries: queries}))
	}}, nil
}

// Query implements metric.System. The program gets all queries in one request,
// but for those with a window that is none. What makes no sense in one answer
// is that answer's error.
func (s *System) Query(ctx context.Context, queries []metric.Query) ([]metric.Answer, error) {
	answers := make([]metric.Answer, len(queries))
	var asked []api.Query
	var at []int
	for i, q := range queries {
		from, to, err := metric.Align(q)
		answers[i] = metric.Answer{ID: q.ID, From: from, To: to, Step: q.Step, Resolved: q.Text}
		if err != nil {
			answers[i].Err = &providers.Fault{Provider: name, Op: "query " + q.ID, Kind: providers.Invalid, Err: err}
			continue
		}
		one := api.Query{ID: fmt.Sprint(i), Text: q.Text, Track: string(q.Track), From: from, To: to}
		if q.Step > 0 {
			one.Step = q.Step.String()
		}
		asked, at = append(asked, one), append(at, i)
	}
	if len(asked) == 0 {
		return answers, nil
	}
	got, err := s.answers(ctx, asked)
	if err != nil {
		return nil, err
	}
	for n, i := range at {
		s.take(&answers[i], got[n])
	}
	return answers, nil
}

// answers asks, and once more if the system behind the program did not serve
// the call or asks to come back.
func (s *System) answers(ctx context.Context, asked []api.Query) ([]api.Answered, error) {
	for try := 1; ; try++ {
		got, err := s.ask(ctx, asked)
		kind := providers.KindOf(err)
		if err == nil {
			return got, s.check(asked, got)
		}
		if try == tries || kind != providers.Throttled && kind != providers.Unavailable {
			return nil, err
		}
		fault, _ := errors.AsType[*providers.Fault](err)
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(min(cmp.Or(fault.After, s.pause), 3*time.Second)):
		}
	}
}

// check refuses answers that are not to these queries. One that makes no sense
// and has no id is known by its place.
func (s *System) check(asked []api.Query, answers []api.Answered) error {
	if !slices.EqualFunc(asked, answers, func(q api.Query, a api.Answered) bool { return q.ID == a.ID || a.Err != nil && a.ID == "" }) {
		return s.program.Doubt(api.Queries, fmt.Errorf("%d answers to %d queries, expected one for each, in order and with its id", len(answers), len(asked)))
	}
	return nil
}

// take makes an answer of what the program gave.
func (s *System) take(to *metric.Answer, a api.Answered) {
	to.Warnings, to.Partial = a.Warnings, a.Partial
	ways := 0
	for _, way := range []bool{len(a.Points) > 0, a.NoData, a.Several, a.Error != nil} {
		if way {
			ways++
		}
	}
	switch {
	case a.Err != nil:
		to.Err = s.doubt(to, a.Err)
	case ways != 1:
		to.Err = s.doubt(to, errors.New("it needs one of points, noData, several and error"))
	case a.Error != nil:
		to.Err = fmt.Errorf("query %q: %w", to.Resolved, s.program.Refused(api.Queries, *a.Error))
	case a.NoData:
		to.Err = metric.ErrNoData
	case a.Several:
		to.Err = fmt.Errorf("%w: %s", metric.ErrSeveral, strings.Join(a.Warnings, "; "))
	default:
		if err := points(to, a.Points); err != nil {
			to.Points, to.Err = nil, s.doubt(to, err)
		}
	}
}

func (s *System) doubt(to *metric.Answer, err error) error {
	return s.program.Doubt(api.Queries, fmt.Errorf("query %q: %w", to.Resolved, err))
}

// points are those of the window, in order, at ends of steps.
func points(to *metric.Answer, given []api.Point) error {
	if to.Step == 0 && len(given) != 1 {
		return fmt.Errorf("it has %d points, expected one value", len(given))
	}
	for i, p := range given {
		at := p.At.UTC()
		switch {
		case at.Before(to.From) || at.After(to.To):
			return fmt.Errorf("it has a point at %s, expected %s to %s", at.Format(time.RFC3339), to.From.Format(time.RFC3339), to.To.Format(time.RFC3339))
		case i > 0 && !at.After(given[i-1].At):
			return errors.New("its points are not in order, oldest first")
		case to.Step > 0 && at.Sub(to.From)%to.Step != 0:
			return fmt.Errorf("it has a point at %s, expected one each %v from %s", at.Format(time.RFC3339), to.Step, to.From.Format(time.RFC3339))
		}
		to.Points = append(to.Points, metric.Point{At: at, Value: p.Value})
	}
	return nil
}
