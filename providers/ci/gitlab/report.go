package gitlab

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/gitlab"
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

// Output implements ci.Platform: all values of a call or none, as variables
// of later jobs named by Variable.
func (p *platform) Output(values map[string]string) error {
	if len(values) == 0 {
		return nil
	}
	path := p.path(Result, DefaultResult)
	before, err := readReport(path)
	if err != nil {
		return p.fault("output", providers.Unavailable, err)
	}
	variables, err := p.variables(values)
	if err != nil {
		return p.fault("output", providers.Invalid, err)
	}
	after, err := api.Dotenv(before, variables)
	if err != nil {
		return p.fault("output", providers.Invalid, err)
	}
	if err := replace(path, after); err != nil {
		return p.fault("output", providers.Unavailable, err)
	}
	return nil
}

var outputKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)

func (p *platform) variables(values map[string]string) (map[string]string, error) {
	out := make(map[string]string, len(values))
	for output, value := range values {
		key := Variable(output)
		if _, twice := out[key]; twice || !outputKey.MatchString(output) {
			return nil, fmt.Errorf("output %.40q, expected a letter, then letters, digits, _ and -, and no other that is %.80q too", output, key)
		}
		out[key] = p.masks.Clean(value)
	}
	return out, nil
}

// Summary implements ci.Platform. GitLab shows no Markdown with a job: the
// text goes to a file, for the job's artifacts, and into a section of the log
// that folds, https://docs.gitlab.com/ci/jobs/job_logs/.
func (p *platform) Summary(markdown string) error {
	text := p.masks.Clean(markdown)
	if err := replace(p.path(Summary, DefaultSummary), text); err != nil {
		return p.fault("summary", providers.Unavailable, err)
	}
	began := p.now().Unix()
	section := fmt.Sprintf("manent_summary_%d", began) // letters, digits, _, . and - only
	p.say("\x1b[0Ksection_start:%d:%s\r\x1b[0KSummary", began, section)
	for line := range strings.Lines(text) {
		p.say("%s", printable(line))
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
	p.say("%s%s: %s\x1b[0;m", colour, strings.ToUpper(level), printable(p.masks.Clean(message)))
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

// printable makes one line of a text, without the characters that colour a
// log, open its sections or begin another line.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if api.BreaksLines(r) {
			return ' '
		}
		return r
	}, strings.TrimRight(text, "\r\n"))
}

// path is the file that a variable names, in the workspace unless absolute.
func (p *platform) path(variable, fallback string) string {
	path := cmp.Or(p.env.Getenv(variable), fallback)
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.env.Dir, path)
	}
	return path
}

// readReport reads what was handed on before, "" when nothing was. A file
// too long for a report is read so far that it is seen to be.
func readReport(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(f, 2*api.DotenvSize))
	return string(text), err
}

// replace writes a file so that a reader sees the old one or the new one.
func replace(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".manent-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone after the rename
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
