// Package github is the platform GitHub Actions, of github.com and of GitHub
// Enterprise Server: which run this is, what its job shows, who approved in
// it, and the deployment that stands for a rollout. It must not know what a
// rollout does, nor what a workflow looks like.
package github

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	actions "github.com/sethvargo/go-githubactions"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/github"
	"github.com/manent/action/providers/api/handoff"
	"github.com/manent/action/providers/ci"
	"github.com/manent/action/state"
)

var (
	_ ci.Platform    = (*platform)(nil)
	_ ci.Reviews     = (*platform)(nil)
	_ ci.Deployments = (*platform)(nil)
	_ ci.Hands       = (*platform)(nil)
)

const name = "github"

// Limits of a step.
// https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
const (
	maxSummary     = 1 << 20 // bytes of the file; more, and none of it is shown
	maxAnnotations = 10      // per level; more are in the log only
	maxMessage     = 4096    // characters of an annotation
	minMasked      = 4       // characters; a shorter piece would blank ordinary words
)

// Spec describes the platform.
func Spec() ci.Spec {
	return ci.Spec{
		Name: name, Summary: "GitHub Actions, on github.com or a GitHub Enterprise Server.",
		Detect: func(env providers.Env) bool { return env.Getenv("GITHUB_ACTIONS") == "true" },
		New:    New,
	}
}

// New makes the platform.
func New(env providers.Env) (ci.Platform, error) {
	p := &platform{
		env: env, shown: map[string]int{}, told: map[string]bool{}, token: providers.NewSecret(env.Getenv("GITHUB_TOKEN")),
		action: actions.New(actions.WithGetenv(env.Getenv), actions.WithWriter(teller{env.Tell})),
	}
	p.masks.Add(p.token)
	if env.Redactor != nil {
		env.Redactor.Add(p.token)
	}
	return p, nil
}

type platform struct {
	env    providers.Env
	action *actions.Action
	token  providers.Secret // the runner knows it already
	masks  providers.Redactor

	mu    sync.Mutex
	shown map[string]int  // annotations of this step by level
	told  map[string]bool // lines that the runner hides by now
}

// Identity implements ci.Platform. The order is the run id, which grows over
// all workflows of a repository; the run number counts each of them for itself.
func (p *platform) Identity(context.Context) (state.RunRef, error) {
	repo, err := p.repo()
	if err != nil {
		return state.RunRef{}, err
	}
	id, err := p.number("GITHUB_RUN_ID", "", 64)
	if err != nil {
		return state.RunRef{}, err
	}
	attempt, err := p.number("GITHUB_RUN_ATTEMPT", "1", 32)
	if err != nil {
		return state.RunRef{}, err
	}
	server, err := providers.CheckURL(p.getenv("GITHUB_SERVER_URL", "https://github.com"), true)
	if err != nil {
		return state.RunRef{}, p.fault("identity", providers.Invalid, fmt.Errorf("GITHUB_SERVER_URL: %w", err))
	}
	run := strconv.FormatInt(id, 10)
	workflow, _, _ := strings.Cut(p.env.Getenv("GITHUB_WORKFLOW_REF"), "@") // of any branch
	var number int64
	if workflow != "" && p.env.Getenv("GITHUB_RUN_NUMBER") != "" {
		if number, err = p.number("GITHUB_RUN_NUMBER", "", 64); err != nil {
			return state.RunRef{}, err
		}
	}
	return state.RunRef{
		Workflow: strings.TrimPrefix(workflow, repo.String()+"/"), Number: number,
		Platform: name, Repository: repo.String(), Run: run, Order: id, Attempt: int(attempt),
		URL:   server.JoinPath(repo.Owner, repo.Name, "actions", "runs", run).String(),
		Actor: p.getenv("GITHUB_TRIGGERING_ACTOR", p.env.Getenv("GITHUB_ACTOR")), // who ran this attempt
	}, nil
}

func (p *platform) repo() (github.Repo, error) {
	repo, err := github.ParseRepo(p.env.Getenv("GITHUB_REPOSITORY"))
	if err != nil {
		return repo, p.fault("identity", providers.Invalid, fmt.Errorf("GITHUB_REPOSITORY: %w", err))
	}
	return repo, nil
}

// number reads a number from 1 on.
func (p *platform) number(variable, fallback string, bits int) (int64, error) {
	text := p.getenv(variable, fallback)
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil || n < 1 {
		return 0, p.fault("identity", providers.Invalid, fmt.Errorf("%s is %.40q, expected a number from 1 on", variable, text))
	}
	return n, nil
}

func (p *platform) getenv(variable, fallback string) string {
	if value := p.env.Getenv(variable); value != "" {
		return value
	}
	return fallback
}

var outputKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// Output implements ci.Platform: all values of a call, in one write, or none.
// A value may hold anything. What would end it early is a line that nobody can
// guess; the one of go-githubactions' SetOutput is the same everywhere.
func (p *platform) Output(values map[string]string) error {
	if _, err := p.file("GITHUB_OUTPUT", "output"); err != nil || len(values) == 0 {
		return err
	}
	end := "end-" + rand.Text()
	blocks := make([]string, 0, len(values))
	for key, value := range values {
		if !outputKey.MatchString(key) {
			return p.fault("output", providers.Invalid, fmt.Errorf("key %.40q, expected letters, digits, _ and -", key))
		}
		blocks = append(blocks, key+"<<"+end+"\n"+p.masks.Clean(value)+"\n"+end)
	}
	slices.Sort(blocks)
	return p.try("output", func() {
		p.action.IssueFileCommand(&actions.Command{Name: "output", Message: strings.Join(blocks, "\n")})
	})
}

// Summary implements ci.Platform: it appends to what the step shows already,
// up to GitHub's limit.
func (p *platform) Summary(markdown string) error {
	path, err := p.file("GITHUB_STEP_SUMMARY", "summary")
	if err != nil {
		return err
	}
	room := maxSummary - len(actions.EOF)
	if info, err := os.Stat(path); err == nil {
		room -= int(min(info.Size(), maxSummary))
	}
	text, fits := cutLines(p.masks.Clean(markdown), room)
	if !fits {
		return p.fault("summary", providers.Invalid, fmt.Errorf("the summary of this step has %d bytes left of %d", max(room, 0), maxSummary))
	}
	return p.try("summary", func() { p.action.AddStepSummary(text) })
}

// Annotate implements ci.Platform. The log shows every message; the run's page
// shows the first ones of each level, and the last of those says so.
func (p *platform) Annotate(level, message string) error {
	show, known := map[string]func(string, ...any){
		"error": p.action.Errorf, "warning": p.action.Warningf, "notice": p.action.Noticef,
	}[level]
	if !known {
		return p.fault("annotate", providers.Invalid, fmt.Errorf("level %q, expected error, warning or notice", level))
	}
	p.mu.Lock()
	p.shown[level]++
	more := ""
	if p.shown[level] == maxAnnotations {
		more = "\nFurther ones of this level are in the log only."
	}
	p.mu.Unlock()
	text := cut(p.masks.Clean(message), maxMessage-len(more)) + more
	return p.try("annotate", func() { show("%s", text) })
}

// Mask implements ci.Platform. The runner hides line by line what it is told
// of, so it is told of each line, once.
func (p *platform) Mask(secret providers.Secret) error {
	p.masks.Add(secret)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.try("mask", func() {
		for line := range strings.Lines(secret.Reveal()) {
			if line = strings.TrimSpace(line); len(line) >= minMasked && !p.told[line] {
				p.action.AddMask(line)
				p.told[line] = true
			}
		}
	})
}

// file is the path of the file that the runner reads after the step.
func (p *platform) file(variable, op string) (string, error) {
	path := p.env.Getenv(variable)
	if !filepath.IsAbs(path) {
		return "", &providers.Fault{
			Provider: name, Op: op, Kind: providers.Invalid,
			Err:  fmt.Errorf("%s is %.100q, expected the path of the runner's file", variable, path),
			Hint: "the runner sets it for each step; pass it on to a container that the step starts",
		}
	}
	if err := handoff.Check(path); err != nil {
		return "", p.fault(op, providers.Unavailable, fmt.Errorf("%s: %w", variable, err))
	}
	return path, nil
}

// try makes a call of go-githubactions, which panics when it cannot write.
func (p *platform) try(op string, call func()) (err error) {
	defer func() {
		switch thrown := recover().(type) {
		case nil:
		case runtime.Error:
			panic(thrown)
		case error:
			err = p.fault(op, providers.Unavailable, thrown)
		default:
			panic(thrown)
		}
	}()
	call()
	return nil
}

// teller is the writer through which the runner hears of commands.
type teller struct{ tell func(line string) error }

// Write implements io.Writer.
func (t teller) Write(line []byte) (int, error) {
	if t.tell == nil {
		return 0, errors.New("nothing is heard by the runner here")
	}
	return len(line), t.tell(strings.TrimRight(string(line), "\r\n"))
}

func (p *platform) fault(op string, kind providers.Kind, err error) error {
	return &providers.Fault{Provider: name, Op: op, Kind: kind, Err: err}
}
