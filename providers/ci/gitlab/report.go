package gitlab

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/gitlab"
	"github.com/manent/action/providers/api/handoff"
)

// prefix begins the names of outputs. They become environment variables of
// all later jobs: a bare "status" would replace one of theirs, and "result"
// with MANENT_ alone one that manent reads.
const prefix = "MANENT_OUT_"

// Variable is the name under which later jobs find an output:
// MANENT_OUT_RESUME_AT for "resume-at".
func Variable(output string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(output, "-", "_"))
}

// Output implements ci.Platform: all values of a call, as variables of later
// jobs named by Variable. In place of one that GitLab would not hand on as it
// is there is an empty one, and an error: without it later jobs would have the
// value of an earlier job.
func (p *platform) Output(values map[string]string) error {
	if len(values) == 0 {
		return nil
	}
	path := p.path(Result, DefaultResult)
	before, err := handoff.Read(path, 2*api.DotenvSize) // so much of a report that is too long that it is seen to be
	if err != nil {
		return p.fault("output", providers.Unavailable, err)
	}
	variables, refused, err := p.variables(values)
	if err != nil {
		return p.fault("output", providers.Invalid, err)
	}
	after, err := api.Dotenv(before, variables)
	if err != nil {
		return p.fault("output", providers.Invalid, err)
	}
	if err := handoff.Replace(path, after); err != nil {
		return p.fault("output", providers.Unavailable, err)
	}
	if refused != nil {
		return p.fault("output", providers.Invalid, refused)
	}
	return nil
}

var outputKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)

// variables are what a report may hold of the values, with what it may not.
func (p *platform) variables(values map[string]string) (out map[string]string, refused, err error) {
	out = make(map[string]string, len(values))
	for output, value := range values {
		key := Variable(output)
		if _, twice := out[key]; twice || !outputKey.MatchString(output) {
			return nil, nil, fmt.Errorf("output %.40q, expected a letter, then letters, digits, _ and -, and no other that is %.80q too", output, key)
		}
		out[key] = p.masks.Clean(value)
		if err := api.CheckVariable(key, out[key]); err != nil {
			out[key], refused = "", errors.Join(refused, fmt.Errorf("%w; it is handed on as empty", err))
		}
	}
	return out, refused, nil
}

// Summary implements ci.Platform. GitLab shows no Markdown with a job: the
// text goes to a file, for the job's artifacts, and into a section of the log
// that folds, https://docs.gitlab.com/ci/jobs/job_logs/.
func (p *platform) Summary(markdown string) error {
	text := p.masks.Clean(markdown)
	if err := handoff.Replace(p.path(Summary, DefaultSummary), text); err != nil {
		return p.fault("summary", providers.Unavailable, err)
	}
	began := p.now().Unix()
	section := fmt.Sprintf("manent_summary_%d", began) // letters, digits, _, . and - only
	p.say("\x1b[0Ksection_start:%d:%s\r\x1b[0KSummary", began, section)
	for line := range strings.Lines(text) {
		p.say("%s", api.Printable(line))
	}
	p.say("\x1b[0Ksection_end:%d:%s\r\x1b[0K", p.now().Unix(), section)
	return nil
}

// Annotate implements ci.Platform: a coloured line of the log. The report
// named annotations is no place for messages, it takes nothing but links.
func (p *platform) Annotate(level, message string) error {
	colour, known := map[string]string{"error": "\x1b[31;1m", "warning": "\x1b[33;1m", "notice": "\x1b[36m"}[level]
	if !known {
		return p.fault("annotate", providers.Invalid, fmt.Errorf("level %q, expected error, warning or notice", level))
	}
	p.say("%s%s: %s\x1b[0;m", colour, strings.ToUpper(level), api.Printable(p.masks.Clean(message)))
	return nil
}

// Mask implements ci.Platform. A job cannot tell GitLab of a secret: the value
// is kept out of what this platform prints and writes, and out of nothing
// else. In the whole log only variables that are set as masked are hidden.
func (p *platform) Mask(secret providers.Secret) error {
	p.masks.Add(secret)
	return nil
}

func (p *platform) say(format string, args ...any) {
	if p.env.Log != nil {
		p.env.Log(format, args...)
	}
}

// path is the file that a variable names, in the workspace unless absolute.
func (p *platform) path(variable, fallback string) string {
	path := cmp.Or(p.env.Getenv(variable), fallback)
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.env.Dir, path)
	}
	return path
}
