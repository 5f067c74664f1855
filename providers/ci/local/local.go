// Package local is the platform of a shell, or of a pipeline that manent has
// no platform for: what such a platform would say comes from MANENT_RUN_*
// variables, what it would show goes to files. It must not know any pipeline.
package local

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/handoff"
	"github.com/manent/action/providers/ci"
	"github.com/manent/action/state"
)

var _ ci.Platform = (*platform)(nil)

const name = "local"

// Variables that this platform reads.
const (
	RunID      = "MANENT_RUN_ID"      // the same for all attempts; "<user>@<host>" without it
	RunOrder   = "MANENT_RUN_ORDER"   // grows with each run; the run id if that is a number, else unordered
	RunAttempt = "MANENT_RUN_ATTEMPT" // 1 without it
	RunURL     = "MANENT_RUN_URL"     // shown to people who ask which run holds an environment
	Result     = "MANENT_RESULT"      // file to which outputs are appended, a line key=value each
	Summary    = "MANENT_SUMMARY"     // file that holds the newest summary, Markdown
)

// Spec describes the platform. Detect is always true: it is asked last.
func Spec() ci.Spec {
	return ci.Spec{
		Name: name, Summary: "A shell, or any pipeline: the run is named by MANENT_RUN_ID.",
		Detect: func(providers.Env) bool { return true },
		New:    New,
	}
}

// New makes the platform.
func New(env providers.Env) (ci.Platform, error) { return &platform{env: env}, nil }

type platform struct {
	env   providers.Env
	masks providers.Redactor
}

// Identity implements ci.Platform. The repository is the remote origin
// without protocol and credentials, or the name of the directory.
func (p *platform) Identity(ctx context.Context) (state.RunRef, error) {
	ref := state.RunRef{Platform: name, Run: p.env.Getenv(RunID), Actor: p.actor(), URL: p.env.Getenv(RunURL)}
	if strings.ContainsFunc(ref.Run, unicode.IsControl) || len(ref.Run) > 200 {
		return state.RunRef{}, p.fault("identity", providers.Invalid, fmt.Errorf("%s is %.40q, expected at most 200 printable characters", RunID, ref.Run))
	}
	if ref.URL != "" {
		if _, err := providers.CheckURL(ref.URL, true); err != nil {
			return state.RunRef{}, p.fault("identity", providers.Invalid, fmt.Errorf("%s: %w", RunURL, err))
		}
	}
	attempt, err := p.number(RunAttempt)
	if err != nil {
		return state.RunRef{}, err
	}
	ref.Attempt = int(max(1, attempt))
	if ref.Order, err = p.number(RunOrder); err != nil {
		return state.RunRef{}, err
	}
	if id, err := strconv.ParseInt(ref.Run, 10, 64); err == nil && ref.Order == 0 && id > 0 {
		ref.Order = id
	}
	if ref.Run == "" {
		host, err := os.Hostname()
		if err != nil {
			return state.RunRef{}, p.fault("identity", providers.Unavailable, err)
		}
		ref.Run = ref.Actor + "@" + host
	}
	if ref.Repository, err = repository(ctx, p.env.Dir); err != nil {
		return state.RunRef{}, p.fault("identity", providers.Unknown, err)
	}
	return ref, nil
}

// number reads a positive number; 0 is one that is not given.
func (p *platform) number(variable string) (int64, error) {
	text := p.env.Getenv(variable)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, p.fault("identity", providers.Invalid, fmt.Errorf("%s is %.40q, expected a number from 1 on", variable, text))
	}
	return n, nil
}

// actor is who runs this process.
func (p *platform) actor() string {
	for _, variable := range []string{"USER", "LOGNAME", "USERNAME"} {
		if who := p.env.Getenv(variable); who != "" {
			return who
		}
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

var outputKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// Output implements ci.Platform: all lines of a call or none.
func (p *platform) Output(values map[string]string) error {
	lines := make([]string, 0, len(values))
	for key, value := range values {
		if !outputKey.MatchString(key) {
			return p.fault("output", providers.Invalid, fmt.Errorf("key %.40q, expected letters, digits, _ and -", key))
		}
		if strings.ContainsFunc(value, unicode.IsControl) {
			return p.fault("output", providers.Invalid, fmt.Errorf("the value of %s has a line end or another control character", key))
		}
		lines = append(lines, key+"="+p.masks.Clean(value)+"\n")
	}
	slices.Sort(lines)
	path := p.path(Result)
	if path == "" || len(lines) == 0 {
		return nil
	}
	if err := handoff.Append(path, strings.Join(lines, "")); err != nil {
		return p.fault("output", providers.Unavailable, err)
	}
	return nil
}

// Summary implements ci.Platform. The file is replaced as a whole.
func (p *platform) Summary(markdown string) error {
	path := p.path(Summary)
	if path == "" {
		return nil
	}
	if err := handoff.Replace(path, p.masks.Clean(markdown)); err != nil {
		return p.fault("summary", providers.Unavailable, err)
	}
	return nil
}

// Annotate implements ci.Platform: one line of progress. What is not
// printable becomes a space, so that one message stays one line.
func (p *platform) Annotate(level, message string) error {
	if !slices.Contains([]string{"error", "warning", "notice"}, level) {
		return p.fault("annotate", providers.Invalid, fmt.Errorf("level %q, expected error, warning or notice", level))
	}
	line := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, p.masks.Clean(message))
	if p.env.Log != nil {
		p.env.Log("%s: %s", level, line)
	}
	return nil
}

// Mask implements ci.Platform. There is nobody else to tell.
func (p *platform) Mask(secret providers.Secret) error {
	p.masks.Add(secret)
	return nil
}

// path is the file that a variable names, "" for none.
func (p *platform) path(variable string) string {
	path := p.env.Getenv(variable)
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(p.env.Dir, path)
}

func (p *platform) fault(op string, kind providers.Kind, err error) error {
	return &providers.Fault{Provider: name, Op: op, Kind: kind, Err: err}
}
