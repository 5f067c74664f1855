package action

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// stub stands for the binary: it prints how it was called.
const stub = "#!/bin/sh\necho \"pid=$$\"\nprintf 'arg=%s\\n' \"$@\"\nenv | grep -E '^(INPUT_|GITHUB_TOKEN|GIT_CONFIG)' | sort\n"

const release = "v0.9.1"

// releases is a server with one release.
type releases struct {
	*httptest.Server
	plain *httptest.Server // the same without TLS
	mu    sync.Mutex
	files map[string]string // by path
	asked []string
	hold  chan struct{} // closed when a request has come, which then stays open
}

func newReleases(t *testing.T) *releases {
	t.Helper()
	s := &releases{files: map[string]string{}}
	s.put("manent-linux-amd64", stub)
	s.put("manent-windows-arm64.exe", stub)
	s.put("checksums.txt", sum(stub)+"  manent-linux-amd64\n"+sum(stub)+" *manent-windows-arm64.exe\n"+sum("other")+"  manent-linux-amd64.cdx.json\n")
	s.Server = httptest.NewTLSServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	s.plain = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.plain.Close)
	return s
}

func (s *releases) put(name, text string) { s.files["/"+release+"/"+name] = text }

func sum(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

func (s *releases) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.URL.Path)
	text, there := s.files[r.URL.Path]
	s.mu.Unlock()
	switch {
	case r.Header.Get("Authorization") != "":
		http.Error(w, "a token is no business of a download", http.StatusBadRequest)
	case s.hold != nil:
		close(s.hold)
		<-r.Context().Done()
	case !there:
		http.NotFound(w, r)
	case strings.HasPrefix(text, "https://"), strings.HasPrefix(text, "http://"):
		http.Redirect(w, r, text, http.StatusFound)
	default:
		_, _ = w.Write([]byte(text))
	}
}

// job is one runner: what is kept between steps is in its folders.
type job struct {
	builds bool // from source, which takes as long as it takes
	dir    string
	env    map[string]string
}

func newJob(t *testing.T, s *releases) *job {
	t.Helper()
	j := &job{dir: t.TempDir()}
	action, err := filepath.Abs(top)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"workspace", "temp", "tools"} {
		if err := os.Mkdir(filepath.Join(j.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	j.env = map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": j.dir, "RUNNER_OS": "Linux", "RUNNER_ARCH": "X64",
		"RUNNER_TEMP": filepath.Join(j.dir, "temp"), "RUNNER_TOOL_CACHE": filepath.Join(j.dir, "tools"),
		"GITHUB_WORKSPACE": filepath.Join(j.dir, "workspace"), "GITHUB_ACTION_PATH": action, "GITHUB_SERVER_URL": "https://github.example.test",
		"INPUT_COMMAND": "run", "INPUT_TOKEN": "t0ken", "INPUT_MANENT_VERSION": release,
	}
	if s != nil {
		ca := filepath.Join(j.dir, "ca.pem")
		block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
		if err := os.WriteFile(ca, block, 0o644); err != nil {
			t.Fatal(err)
		}
		j.env["CURL_CA_BUNDLE"], j.env["MANENT_RELEASES"] = ca, s.URL
	}
	return j
}

// command is the step of action.yml, called as the runner does.
func (j *job) command(ctx context.Context, t *testing.T) *exec.Cmd {
	t.Helper()
	var m metadata
	read(t, "action.yml", &m)
	script := filepath.Join(j.dir, "step.sh")
	if err := os.WriteFile(script, []byte(m.Runs.Steps[0].Run), 0o644); err != nil {
		t.Fatal(err)
	}
	limit := 20 * time.Second // a signal that is lost would be waited for
	if j.builds {
		limit = 5 * time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", "-e", "-o", "pipefail", script)
	cmd.WaitDelay = time.Second
	cmd.Dir = filepath.Join(j.dir, "workspace")
	cmd.Env = []string{}
	for key, value := range j.env {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	return cmd
}

// file makes a program of the job's own.
func (j *job) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(j.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// tools is a PATH that has these programs only.
func (j *job) tools(t *testing.T, names ...string) string {
	t.Helper()
	dir := filepath.Join(j.dir, "bin")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, "bash") {
		tool, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(tool, filepath.Join(dir, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// run runs the step to its end.
func (j *job) run(t *testing.T) (out, messages string, code int) {
	t.Helper()
	cmd := j.command(t.Context(), t)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return stdout.String(), stderr.String(), exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), 0
}

// called is the arguments that the stub has printed.
func called(out string) []string {
	var args []string
	for line := range strings.Lines(out) {
		if arg, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "arg="); ok {
			args = append(args, arg)
		}
	}
	return args
}

// TestNothingIsBrought: whatever is wrong with a release, nothing is run and
// the message says what to do.
func TestNothingIsBrought(t *testing.T) {
	const list, asset = "checksums.txt", "manent-linux-amd64"
	cases := map[string]struct {
		change func(*releases, *job)
		code   int
		want   string
	}{
		"other bytes":     {func(s *releases, _ *job) { s.put(asset, stub+"#") }, 5, "expected " + sum(stub)},
		"cut short":       {func(s *releases, _ *job) { s.put(asset, stub[:40]) }, 5, "do not use it"},
		"not listed":      {func(s *releases, _ *job) { s.put(list, sum(stub)+"  manent-linux-arm64\n") }, 5, "do not list " + asset},
		"no digest":       {func(s *releases, _ *job) { s.put(list, "abc  "+asset+"\n") }, 5, "do not list " + asset},
		"an error page":   {func(s *releases, _ *job) { s.put(list, "<html>"+asset+"</html>\n") }, 5, "do not list " + asset},
		"no such release": {func(_ *releases, j *job) { j.env["INPUT_MANENT_VERSION"] = "v7.7.7" }, 5, "v7.7.7/checksums.txt could not be downloaded"},
		"no asset":        {func(s *releases, _ *job) { delete(s.files, "/"+release+"/"+asset) }, 5, asset + " could not be downloaded"},
		"not trusted":     {func(_ *releases, j *job) { delete(j.env, "CURL_CA_BUNDLE") }, 5, "could not be downloaded"},
		"not https":       {func(s *releases, j *job) { j.env["MANENT_RELEASES"] = s.plain.URL }, 5, "could not be downloaded"},
		"https to http": {func(s *releases, _ *job) {
			s.put("moved", stub)
			s.put(asset, s.plain.URL+"/"+release+"/moved")
		}, 5, "could not be downloaded"},
		"no release's name":      {func(_ *releases, j *job) { j.env["INPUT_MANENT_VERSION"] = "v1/../../x\n::error::x" }, 64, "expected a release such as"},
		"another system":         {func(_ *releases, j *job) { j.env["RUNNER_ARCH"] = "ARM" }, 64, "expected X64 or ARM64"},
		"no binary-path":         {func(_ *releases, j *job) { j.env["INPUT_BINARY_PATH"] = "nowhere" }, 64, "is no program"},
		"no verb":                {func(_ *releases, j *job) { j.env["INPUT_COMMAND"] = "run; id" }, 64, "expected a verb"},
		"a path":                 {func(_ *releases, j *job) { j.env["INPUT_CONFIG"], j.env["INPUT_ENVIRONMENT"] = "e", "../x" }, 64, "expected a name"},
		"no digits":              {func(s *releases, _ *job) { s.put(list, strings.Repeat("g", 64)+"  "+asset+"\n") }, 5, "do not list " + asset},
		"a cache that is a file": {func(_ *releases, j *job) { j.env["RUNNER_TOOL_CACHE"] = j.file(t, "f", "") }, 5, "nothing can be written to "},
		"no cache at all":        {func(_ *releases, j *job) { delete(j.env, "RUNNER_TOOL_CACHE"); delete(j.env, "RUNNER_TEMP") }, 5, "has failed"},
		"no workspace":           {func(_ *releases, j *job) { j.env["GITHUB_WORKSPACE"] += "/none" }, 5, "cannot be entered"},
		"a folder in its place": {func(_ *releases, j *job) {
			if err := os.MkdirAll(filepath.Join(j.dir, "tools/manent", release, "linux-amd64/manent"), 0o755); err != nil {
				t.Error(err)
			}
		}, 5, "is a folder"},
		"no digest tool": {func(_ *releases, j *job) { j.env["PATH"] = j.tools(t, "curl", "mktemp", "mkdir", "tr", "rm") }, 5, "has failed"},
		"no mktemp":      {func(_ *releases, j *job) { j.env["PATH"] = j.tools(t, "curl", "mkdir", "tr", "rm") }, 5, "nothing can be written to "},
		"a binary of nobody": {func(_ *releases, j *job) {
			j.env["INPUT_BINARY_PATH"], j.env["INPUT_TOKEN"] = j.file(t, "b", "#!/nowhere/sh\n"), ""
		}, 5, "could not be begun"},
		"octal":         {func(_ *releases, j *job) { j.env["GIT_CONFIG_COUNT"] = "08" }, 64, "from 0 to 9999"},
		"a huge number": {func(_ *releases, j *job) { j.env["GIT_CONFIG_COUNT"] = "99999999999999999999" }, 64, "from 0 to 9999"},
		"no folder":     {func(_ *releases, j *job) { j.env["INPUT_ENVIRONMENT"] = "prod" }, 64, "without config"},
		"not attested":  {func(_ *releases, j *job) { j.env["MANENT_ATTESTATION"] = "require"; j.env["PATH"] = "/usr/bin:/bin" }, 5, "could not be verified"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newReleases(t)
			j := newJob(t, s)
			tc.change(s, j)
			out, messages, code := j.run(t)
			if code != tc.code || !strings.Contains(messages, tc.want) || !strings.Contains(messages, "\nhint: ") {
				t.Errorf("ended with %d, expected %d, %q and a hint:\n%s", code, tc.code, tc.want, messages)
			}
			if strings.Contains(out, "pid=") {
				t.Errorf("something was run: %s%s", out, messages)
			}
			annotated(t, out+messages)
			j.clean(t)
		})
	}
}

// annotated demands that the failure, with its hint, is the only thing that the
// runner is told.
func annotated(t *testing.T, printed string) {
	t.Helper()
	var told []string
	for line := range strings.Lines("\n" + printed) {
		if strings.HasPrefix(strings.TrimSpace(line), "::") {
			told = append(told, line)
		}
	}
	if len(told) != 1 {
		t.Fatalf("the runner is told %q, expected one annotation", told)
	}
	text, ok := strings.CutPrefix(told[0], "::error::")
	text = strings.NewReplacer("%0A", "\n", "%0D", "\r", "%25", "%").Replace(text)
	if !ok || !strings.Contains(text, "\nhint: ") || !strings.Contains(printed, "manent: "+text) {
		t.Errorf("the annotation is %q, expected the message and its hint:\n%s", told[0], printed)
	}
}

// TestAnnotationIsEscaped: what somebody has typed begins no command of the
// runner, and is shown as it is.
func TestAnnotationIsEscaped(t *testing.T) {
	j := newJob(t, nil)
	j.env["INPUT_COMMAND"] = "run"
	j.env["RUNNER_OS"] = "100%\r\n::add-mask::x%0A"
	out, messages, code := j.run(t)
	const want = "::error::usage: RUNNER_OS is \"100%25%0D%0A::add-mask::x%250A\", expected Linux, macOS or Windows%0Ahint: "
	if code != 64 || !strings.Contains("\n"+messages, "\n"+want) {
		t.Errorf("ended with %d, expected %q:\n%s%s", code, want, out, messages)
	}
}

// TestArguments: values become arguments, word for word, and nothing else.
func TestArguments(t *testing.T) {
	j := newJob(t, nil)
	binary := filepath.Join(j.dir, "workspace/my manent")
	if err := os.WriteFile(binary, []byte(stub), 0o755); err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join(j.dir, "mark")
	for key, value := range map[string]string{
		"BINARY_PATH": "my manent", "COMMAND": "approve", "CONFIG": "envconfig/shop/web", "ENVIRONMENT": "prod",
		"VERSION": "$(touch " + mark + ")'\"; touch " + mark + "\n--x", "UNTIL": "25%", "STATE": "git",
		"ARGS": " --owner self\n--pause\tapproval@25 *\r\n$(touch " + mark + ") `id` \\ 'a b'\n",
	} {
		j.env["INPUT_"+key] = value
	}
	j.env["GIT_CONFIG_COUNT"], j.env["GIT_CONFIG_KEY_0"], j.env["GIT_CONFIG_VALUE_0"] = "1", "a.b", "c"
	out, messages, code := j.run(t)
	want := []string{
		"approve", "--config=envconfig/shop/web/prod.yml", "--version=$(touch " + mark + ")'\"; touch " + mark, "--until=25%", "--state=git",
		"--owner", "self", "--pause", "approval@25", "*", "$(touch", mark + ")", "`id`", `\`, "'a", "b'",
	}
	if got := called(out); code != 0 || !slices.Equal(got, want) {
		t.Errorf("ended with %d, called with %q, expected %q\n%s", code, got, want, messages)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a value was run")
	}
	basic := base64.StdEncoding.EncodeToString([]byte("x-access-token:t0ken"))
	for _, line := range []string{
		"::add-mask::" + basic, "GITHUB_TOKEN=t0ken", "GIT_CONFIG_COUNT=3", "GIT_CONFIG_KEY_0=a.b", "GIT_CONFIG_VALUE_1=",
		"GIT_CONFIG_KEY_2=http.https://github.example.test/.extraheader", "GIT_CONFIG_VALUE_2=Authorization: Basic " + basic,
	} {
		if !strings.Contains("\n"+out, "\n"+line+"\n") {
			t.Errorf("no line %q in\n%s", line, out)
		}
	}
	if strings.Contains(out, "INPUT_") {
		t.Errorf("inputs are handed on:\n%s", out)
	}
}

// TestTokensOfTheUser: what the env of the step has goes first, and then Git
// gets nothing else.
func TestTokensOfTheUser(t *testing.T) {
	j := newJob(t, newReleases(t))
	j.env["GITHUB_TOKEN"], j.env["MANENT_GIT_TOKEN"] = "mine", "u:p"
	out, messages, code := j.run(t)
	if code != 0 || !strings.Contains(out, "\nGITHUB_TOKEN=mine\n") || strings.Contains(out, "GIT_CONFIG") {
		t.Errorf("ended with %d\n%s\n%s", code, out, messages)
	}
}

// TestGitSendsOneHeader: real Git sends the job's token to the job's server
// once, whatever a checkout has left, and to no other server.
func TestGitSendsOneHeader(t *testing.T) {
	var mu sync.Mutex
	var got [][]string
	hear := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Header.Values("Authorization"))
		http.NotFound(w, r)
	})
	own, other := httptest.NewServer(hear), httptest.NewServer(hear)
	defer own.Close()
	defer other.Close()
	j := newJob(t, nil)
	binary := filepath.Join(j.dir, "manent")
	text := fmt.Sprintf("#!/bin/sh\ngit -c http.%s/.extraheader='Authorization: Basic old' -c a.b=c version\ngit ls-remote %s/a\ngit ls-remote %s/a\ntrue\n", own.URL, own.URL, other.URL)
	if err := os.WriteFile(binary, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	left := fmt.Sprintf("[http \"%s/\"]\n\textraheader = Authorization: Basic old\n", own.URL)
	if err := os.WriteFile(filepath.Join(j.dir, ".gitconfig"), []byte(left), 0o644); err != nil {
		t.Fatal(err)
	}
	j.env["INPUT_BINARY_PATH"], j.env["GITHUB_SERVER_URL"] = binary, own.URL
	if _, messages, code := j.run(t); code != 0 {
		t.Fatalf("ended with %d\n%s", code, messages)
	}
	header := "Basic " + base64.StdEncoding.EncodeToString([]byte("x-access-token:t0ken"))
	if len(got) != 2 || !slices.Equal(got[0], []string{header}) || len(got[1]) != 0 {
		t.Errorf("headers %q, expected the token once, and none for the other server", got)
	}
}

// TestSignal: the step's process is manent's own, so that a cancel reaches it.
func TestSignal(t *testing.T) {
	j := newJob(t, nil)
	binary := filepath.Join(j.dir, "manent")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\ntrap 'echo caught; exit 2' INT\necho ready\nwhile :; do read -r line; done\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	j.env["INPUT_BINARY_PATH"] = binary
	cmd := j.command(t.Context(), t)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out := newWatch("ready\n")
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-out.seen
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 2 || !strings.Contains(out.String(), "caught") {
		t.Errorf("ended with %v, printed %q: expected the binary's own answer", err, out.String())
	}
}

// TestCancelledWhileDownloading: the binary is not begun after a cancel.
func TestCancelledWhileDownloading(t *testing.T) {
	s := newReleases(t)
	s.hold = make(chan struct{})
	j := newJob(t, s)
	cmd := j.command(t.Context(), t)
	out := newWatch("")
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-s.hold
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	s.CloseClientConnections()
	err := cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 2 || !strings.Contains(out.String(), "cancelled before manent began") {
		t.Errorf("ended with %v\n%s", err, out.String())
	}
	j.clean(t)
}

// watch is output that says when a text has come.
type watch struct {
	mu   sync.Mutex
	text bytes.Buffer
	wait string
	seen chan struct{}
}

func newWatch(wait string) *watch { return &watch{wait: wait, seen: make(chan struct{})} }

// Write implements io.Writer.
func (w *watch) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := strings.Contains(w.text.String(), w.wait)
	n, err := w.text.Write(p)
	if !before && strings.Contains(w.text.String(), w.wait) {
		close(w.seen)
	}
	return n, err
}

func (w *watch) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}
