package host

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/manent/action/providers"
)

func managedFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "split.conf")
	if content != "" {
		write(t, path, content)
	}
	return path
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o640); err != nil {
		t.Fatal(err)
	}
}

// holds checks content, and that nothing else is left in the directory.
func holds(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if want == "" {
		if !os.IsNotExist(err) {
			t.Errorf("%s exists, expected no file: %q, %v", path, got, err)
		}
	} else if err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v, want %q", path, got, err, want)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != filepath.Base(path) {
			t.Errorf("%s was left behind", e.Name())
		}
	}
}

func kind(t *testing.T, err error, want providers.Kind, text string) {
	t.Helper()
	if err == nil || providers.KindOf(err) != want || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v of kind %v, want kind %v with %q", err, providers.KindOf(err), want, text)
	}
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("the error has several lines: %q", err)
	}
}

func TestReplaceFile(t *testing.T) {
	tests := []struct {
		name   string
		before string // "" = no file
		change Change
		kind   providers.Kind
		text   string
		after  string
	}{
		{"first", "", Change{Expect: Absent}, 0, "", "new"},
		{"as expected", "old", Change{Expect: Digest([]byte("old"))}, 0, "", "new"},
		{"whatever is there", "old", Change{Expect: Any}, 0, "", "new"},
		{"another content", "other", Change{Expect: Digest([]byte("old"))}, providers.Conflict, "not what was read", "other"},
		{"gone", "", Change{Expect: Digest([]byte("old"))}, providers.Conflict, "not what was read", ""},
		{"there although expected absent", "old", Change{Expect: Absent}, providers.Conflict, "not what was read", "old"},
		{"check sees the new content", "old", Change{Expect: Any, Check: `grep -q new "$F"`}, 0, "", "new"},
		{"check refuses", "old", Change{Expect: Any, Check: `echo line one; echo "bad things" >&2; false`}, providers.Invalid, "check refused it, the old content is back: line one; bad things", "old"},
		{"check refuses the first", "", Change{Expect: Any, Check: `false`}, providers.Invalid, "check refused", ""},
		{"apply fails", "old", Change{Expect: Any, Check: `true`, Apply: `echo no master; false`}, providers.Invalid, "could not be applied, the old content is back: no master", "old"},
		{"apply sees the new content", "old", Change{Expect: Any, Apply: `grep -q new "$F"`}, 0, "", "new"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := managedFile(t, tt.before)
			tt.change.Path, tt.change.Data = path, []byte("new")
			tt.change.Check = strings.ReplaceAll(tt.change.Check, `"$F"`, Quote(path))
			tt.change.Apply = strings.ReplaceAll(tt.change.Apply, `"$F"`, Quote(path))
			err := ReplaceFile(t.Context(), Local{}, tt.change)
			if tt.text == "" && err != nil {
				t.Errorf("error %v", err)
			} else if tt.text != "" {
				kind(t, err, tt.kind, tt.text)
			}
			holds(t, path, tt.after)
		})
	}
}

func TestReplaceFileAppliesTheOldAgain(t *testing.T) {
	path := managedFile(t, "old")
	log := filepath.Join(t.TempDir(), "log")
	apply := "cat " + Quote(path) + " >>" + Quote(log) + "; grep -q old " + Quote(path)
	err := ReplaceFile(t.Context(), Local{}, Change{Path: path, Expect: Any, Data: []byte("new"), Apply: apply})
	kind(t, err, providers.Invalid, "could not be applied")
	holds(t, path, "old")
	if got, _ := os.ReadFile(log); string(got) != "newold" {
		t.Errorf("applied %q, want the new content and then the old", got)
	}
}

func TestReplaceFileKeepsModeOwnerAndLink(t *testing.T) {
	path := managedFile(t, "old")
	if err := os.Chmod(path, 0o604); err != nil {
		t.Fatal(err)
	}
	uid := os.Getuid()
	if uid == 0 { // only root may give files away
		uid = 65534
		if err := os.Chown(path, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	err := ReplaceFile(t.Context(), Local{}, Change{Path: link, Expect: Digest([]byte("old")), Data: []byte("new")})
	if err != nil {
		t.Fatal(err)
	}
	holds(t, path, "new")
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Sys().(*syscall.Stat_t).Uid; info.Mode() != 0o604 || int(got) != uid {
		t.Errorf("mode %v, owner %d, want 0604 and %d", info.Mode(), got, uid)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link became %v, %v", info, err)
	}
}

func TestReplaceFileNewMode(t *testing.T) {
	path := managedFile(t, "")
	if err := ReplaceFile(t.Context(), Local{}, Change{Path: path, Expect: Absent, Data: []byte("new"), Check: `test "$(umask)" != 0077`}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o644 {
		t.Errorf("mode %v, %v, want 0644", info.Mode(), err)
	}
}

// Of several writers that saw the same content one wins, and check and apply
// never run side by side.
func TestReplaceFileWriters(t *testing.T) {
	path := managedFile(t, "old")
	busy := filepath.Join(t.TempDir(), "busy")
	alone := "mkdir " + Quote(busy) + " && rmdir " + Quote(busy)
	var wg sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		wg.Go(func() {
			errs[i] = ReplaceFile(t.Context(), Local{}, Change{
				Path: path, Expect: Digest([]byte("old")), Data: fmt.Appendf(nil, "new %d", i), Check: alone, Apply: alone,
			})
		})
	}
	wg.Wait()
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won < 0:
			won = i
		case err == nil:
			t.Error("two writers won")
		default:
			kind(t, err, providers.Conflict, "not what was read")
		}
	}
	holds(t, path, fmt.Sprintf("new %d", won))
}

// A replacement that is killed in the middle leaves the last good content; the
// next one knows, and falls back on that content and not on the unproven one.
func TestReplaceFileKilled(t *testing.T) {
	path := managedFile(t, "old")
	there, never := fifo(t), fifo(t)
	check := "echo >" + Quote(there) + "; read -r x <" + Quote(never)
	data := []byte("unproven")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", replaceScript, "manent-replace", path, Any, Digest(data), check, "")
	cmd.Stdin = strings.NewReader(string(data))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, there)
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()

	seen, err := ReadFile(t.Context(), Local{}, path)
	if err != nil || string(seen.Data) != "unproven" || !seen.Unfinished {
		t.Fatalf("read %q, unfinished %v, %v", seen.Data, seen.Unfinished, err)
	}
	err = ReplaceFile(t.Context(), Local{}, Change{Path: path, Expect: seen.Digest, Data: []byte("bad"), Check: "false"})
	kind(t, err, providers.Invalid, "check refused")
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("the file holds %q, want the last good content", got)
	}
	if seen, err = ReadFile(t.Context(), Local{}, path); err != nil || seen.Unfinished {
		t.Errorf("unfinished %v, %v after the old content is back", seen.Unfinished, err)
	}
}

// A signal in the middle is noted: the old content comes back before the
// script ends.
func TestReplaceFileSignalled(t *testing.T) {
	path := managedFile(t, "old")
	there, goOn := fifo(t), fifo(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- ReplaceFile(ctx, Local{}, Change{
			Path: path, Expect: Any, Data: []byte("new"),
			Check: "echo >" + Quote(there) + "; read -r x <" + Quote(goOn) + "; false",
		})
	}()
	await(t, there)
	cancel() // SIGTERM to the script
	if err := os.WriteFile(goOn, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	kind(t, <-done, providers.Unknown, "context canceled")
	holds(t, path, "old")
}

// fifo makes a named pipe; who opens it waits for the other side.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// await reads what a program writes to a pipe, as a sign of how far it is.
func await(t *testing.T, pipe string) string {
	t.Helper()
	said := make(chan string, 1)
	go func() {
		text, _ := os.ReadFile(pipe)
		said <- string(text)
	}()
	select {
	case text := <-said:
		return text
	case <-time.After(20 * time.Second):
		t.Fatal("no sign within 20 s")
		return ""
	}
}

func TestReplaceFileCutShort(t *testing.T) {
	path := managedFile(t, "old")
	res, err := Local{}.Run(t.Context(), Command{Stdin: []byte("ne"), Args: []string{
		"sh", "-c", replaceScript, "manent-replace", path, Any, Digest([]byte("new")), "", "",
	}})
	if err != nil || res.Exit != 23 {
		t.Errorf("exit %d, %v, want 23", res.Exit, err)
	}
	kind(t, exitFault("write", res), providers.Unknown, "incomplete")
	holds(t, path, "old")
}

func TestFileRefused(t *testing.T) {
	_, err := ReadFile(t.Context(), Local{}, "/no/such/directory/file")
	kind(t, err, providers.NotFound, "no such directory")
	err = ReplaceFile(t.Context(), Local{}, Change{Path: "/no/such/directory/file", Expect: Any})
	kind(t, err, providers.NotFound, "no such directory")
	_, err = ReadFile(t.Context(), Local{}, "file")
	kind(t, err, providers.Invalid, "not absolute")
	err = ReplaceFile(t.Context(), Local{}, Change{Path: "file", Expect: Any})
	kind(t, err, providers.Invalid, "not absolute")
	kind(t, exitFault("write", Result{Exit: 21, Stderr: []byte("sh: 1: cannot create x: Permission denied")}), providers.Denied, "Permission denied")
	kind(t, exitFault("write", Result{Exit: 22, Stderr: []byte("somebody")}), providers.Unavailable, "somebody")
	kind(t, exitFault("write", Result{Exit: 28, Stderr: []byte("could not be put back")}), providers.Unknown, "put back")
}

func TestReadFile(t *testing.T) {
	path := managedFile(t, "")
	seen, err := ReadFile(t.Context(), Local{}, path)
	if err != nil || seen.Digest != Absent || seen.Unfinished || len(seen.Data) != 0 {
		t.Errorf("read %+v, %v, want an absent file", seen, err)
	}
	content := "a line\n\nmore, without an end"
	write(t, path, content)
	seen, err = ReadFile(t.Context(), Local{}, path)
	if err != nil || string(seen.Data) != content || seen.Digest != Digest([]byte(content)) || seen.Unfinished {
		t.Errorf("read %+v, %v", seen, err)
	}
	write(t, path, strings.Repeat("x", MaxOutput+1))
	_, err = ReadFile(t.Context(), Local{}, path)
	kind(t, err, providers.Invalid, "printed more than")
}

// A reader waits for a writer, and neither waits for ever.
func TestFileLocked(t *testing.T) {
	path := managedFile(t, "old")
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := ReadFile(t.Context(), Local{}, path)
		read <- err
	}()
	select {
	case err := <-read:
		t.Fatalf("read without the lock: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil {
		t.Errorf("read after the lock was free: %v", err)
	}
}

func TestTail(t *testing.T) {
	long := strings.Repeat("ä", 2000)
	for in, want := range map[string]string{
		"":                      "",
		" one\n":                "one",
		"a\nb\tc\x1b[31m\xff\n": "a; b c [31m?",
		"1\n2\n3\n4\n5\n6\n7\n": "2; 3; 4; 5; 6; 7",
	} {
		if got := Tail([]byte(in)); got != want {
			t.Errorf("Tail(%q) = %q, want %q", in, got, want)
		}
	}
	if got := Tail([]byte(long)); len(got) > 1010 || !strings.HasPrefix(got, "…ä") {
		t.Errorf("Tail of a long text has %d bytes and begins %q", len(got), got[:8])
	}
}
