package gitcli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	outLimit  = 8 << 20         // bytes kept of what git writes
	textLimit = 64 << 10        // bytes kept of what git says
	shown     = 400             // bytes of it in a message
	stopDelay = 2 * time.Second // to clean up after the context has ended
)

// passed are the variables a git process gets, besides those that
// MANENT_GIT_ENV names: what it needs to run, to find its helpers, and what
// those of the common hosts read. Nothing else of the pipeline's environment.
const passed = "PATH HOME USER LOGNAME LANG TMPDIR XDG_CONFIG_HOME XDG_RUNTIME_DIR " +
	"SSH_AUTH_SOCK GIT_SSH GIT_SSH_COMMAND GIT_SSH_VARIANT GIT_ASKPASS GIT_SSL_CAINFO GIT_SSL_CAPATH GIT_EXEC_PATH " +
	"SSL_CERT_FILE SSL_CERT_DIR HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY http_proxy https_proxy no_proxy all_proxy " +
	"GITHUB_TOKEN GH_TOKEN GH_HOST GITLAB_TOKEN CI_JOB_TOKEN CI_SERVER_URL SYSTEM_ACCESSTOKEN " +
	"AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_PROFILE AWS_REGION AWS_CONFIG_FILE AWS_ROLE_ARN AWS_WEB_IDENTITY_TOKEN_FILE " +
	"SystemRoot USERPROFILE APPDATA LOCALAPPDATA ProgramData ProgramFiles ComSpec PATHEXT TEMP TMP"

// environ is what every git process gets: English messages, no questions, no
// transport but these.
func (c *Client) environ() []string {
	env := []string{"LC_ALL=C", "LANGUAGE=", "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=file:http:https:ssh"}
	extra := strings.ReplaceAll(c.env.Getenv("MANENT_GIT_ENV"), ",", " ")
	for _, name := range strings.Fields(passed + " " + extra) {
		if value := c.env.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// configEnviron is environ with where this process was told to take git's
// configuration from.
func (c *Client) configEnviron() []string {
	env := c.environ()
	names := []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT"}
	count, _ := strconv.Atoi(c.env.Getenv("GIT_CONFIG_COUNT")) // git itself complains of what is no number
	for i := range count {
		names = append(names, fmt.Sprintf("GIT_CONFIG_KEY_%d", i), fmt.Sprintf("GIT_CONFIG_VALUE_%d", i))
	}
	for _, name := range names {
		if value := c.env.Getenv(name); value != "" || strings.HasPrefix(name, "GIT_CONFIG_VALUE_") {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// scratchEnviron is the environment in the scratch repository: environ, the
// settings that count, no configuration files.
func (c *Client) scratchEnviron(dir string) []string {
	env := append(c.environ(), "GIT_DIR="+dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+filepath.Join(dir, trustFile),
		fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(c.remote.settings)))
	for i, a := range c.remote.settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, a.key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, a.value))
	}
	return env
}

// trustFile holds the one kind of setting that git takes from a file only: a
// local remote's other half, which gets no GIT_CONFIG_COUNT, asks for the
// directories of others that the user trusts.
const trustFile = "manent-trust"

func (r *remote) trust(dir string) error {
	var text strings.Builder
	for _, d := range r.safe {
		fmt.Fprintf(&text, "[safe]\n\tdirectory = \"%s\"\n", strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(d))
	}
	return os.WriteFile(filepath.Join(dir, trustFile), []byte(text.String()), 0o600)
}

// Run runs one git process in a scratch repository to its end, in is its
// standard input. When the context ends, git and its children are asked to
// stop, which makes them remove their lock files, and killed soon after; then
// the lock files are removed.
func (c *Client) Run(ctx context.Context, dir string, in []byte, args ...string) Result {
	r := c.run(ctx, command{dir: dir, in: in, args: args, env: c.scratchEnviron(dir)})
	if ctx.Err() != nil {
		removeLocks(dir)
	}
	return r
}

type command struct {
	dir  string
	args []string
	env  []string
	in   []byte
}

// Result is what became of a process.
type Result struct {
	Out  []byte // its standard output, its first 8 MiB
	Code int    // exit code, -1 when it was killed or never ran

	said string // on its standard error
	text string // the same in one line, with a push's rejection, without secrets
	err  error  // nil for exit code 0
}

func (c *Client) run(ctx context.Context, cmd command) Result {
	if err := ctx.Err(); err != nil {
		return Result{Code: -1, err: err}
	}
	out, said := &bounded{max: outLimit}, &bounded{max: textLimit}
	p := exec.CommandContext(ctx, "git", cmd.args...)
	p.Dir, p.Env, p.Stdin, p.Stdout, p.Stderr = cmd.dir, cmd.env, bytes.NewReader(cmd.in), out, said
	p.WaitDelay = stopDelay
	ownGroup(p)
	err := p.Run()
	if ctx.Err() != nil {
		killGroup(p)
		err = ctx.Err()
	}
	if errors.Is(err, exec.ErrWaitDelay) && p.ProcessState.Success() {
		err = nil // a daemon that a credential helper left behind holds the pipe
	}
	r := Result{Out: out.Bytes(), Code: -1, said: said.String(), err: err}
	if p.ProcessState != nil {
		r.Code = p.ProcessState.ExitCode()
	}
	r.text = c.oneLine(rejection(r.Out) + "\n" + r.said)
	return r
}

// rejection is what push --porcelain says on its standard output of a ref that
// the remote refused: "!\t<from>:<to>\t<summary>".
func rejection(out []byte) string {
	for line := range bytes.Lines(out) {
		if fields := bytes.SplitN(line, []byte("\t"), 3); len(fields) == 3 && string(fields[0]) == "!" {
			return string(fields[2])
		}
	}
	return ""
}

// oneLine makes one clean line of what git said.
func (c *Client) oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.Join(strings.Fields(line), " "); line != "" && !strings.Contains(line, " pkt-line.c:") { // a trace
			lines = append(lines, strings.TrimSuffix(line, "."))
		}
	}
	text = RedactURL(strings.ToValidUTF8(strings.Join(lines, "; "), "?"))
	if c.remote != nil {
		text = c.remote.secrets.Clean(text)
	}
	if len(text) > shown {
		text = strings.ToValidUTF8(text[:shown], "") + "…"
	}
	return text
}

// bounded keeps the first max bytes.
type bounded struct {
	bytes.Buffer
	max int
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := b.max - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// removeLocks removes what a killed git leaves in a scratch repository that
// no process works in any more.
func removeLocks(dir string) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer func() { _ = root.Close() }()
	_ = fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".lock") {
			_ = root.Remove(name)
		}
		return nil
	})
}
