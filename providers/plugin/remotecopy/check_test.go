//go:build unix

package remotecopy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/host/hosttest"
	"github.com/manent/action/providers/plugin/plugintest"
)

func TestWhatIsThereBeforeARollout(t *testing.T) {
	const fine = providers.Kind(99) // no error
	for name, tc := range map[string]struct {
		change func(w *world)
		kind   providers.Kind
		says   string
	}{
		"all of it": {func(*world) {}, fine, "logged in as deploy; /srv/shop can be written"},
		"not up yet": {func(w *world) { w.machines["b1"].Listens("127.0.0.1:8080", false) }, fine,
			"/srv/shop can be written; nothing accepts connections at 127.0.0.1:8080"},
		"no destination yet":                    {func(w *world) { w.settings["destination"] = dest + "/deep/er" }, fine, "/srv/shop/deep/er can be made in "},
		"a restart that comes with the release": {func(w *world) { w.settings["restart"] = []any{"{destination}/current/up"} }, fine, "can be written"},
		"a restart that is not there":           {func(w *world) { w.says(28, "the program that restarts, up, is not found") }, providers.Invalid, "its whole path"},
		"no flock":                              {func(w *world) { w.says(127, "not found: flock") }, providers.Invalid, "not found: flock"},
		"not allowed":                           {func(w *world) { w.says(21, "/srv: Permission denied") }, providers.Denied, "allowed to write /srv/shop"},
		"a file in its place":                   {func(w *world) { w.put("releases") }, providers.Invalid, "releases is there and no folder"},
		"current is a file":                     {func(w *world) { w.put("current") }, providers.Invalid, "current is there and no symbolic link"},
		"down":                                  {func(w *world) { w.machines["b1"].Fate = func(hosttest.Call) hosttest.Fate { return hosttest.Down } }, providers.Unavailable, "connection refused"},
		"something else answers":                {func(w *world) { w.says(0, "") }, providers.Unknown, "login scripts"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tc.change(w)
			bundle := w.open()
			found, err := plugintest.Examined(t, bundle)
			if tc.kind == fine {
				if err != nil || found.Err != nil || !strings.Contains(found.Text, tc.says) {
					t.Errorf("found %+v, error %v, expected %q", found, err, tc.says)
				}
				return
			}
			expectError(t, found.Err, tc.kind, tc.says)
			expectError(t, err, tc.kind, "on b1: ", tc.says)
		})
	}
}

// says lets b1 answer like the script.
func (w *world) says(exit int, said string) {
	w.machines["b1"].Answer = func(hosttest.Call) (host.Result, bool) {
		return host.Result{Exit: exit, Stderr: []byte(said)}, true
	}
}

// put makes an empty file in the destination of b1.
func (w *world) put(name string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.machines["b1"].Root, name), nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// TestLookingChangesNothing: the script itself, with programs that are not
// there.
func TestLookingChangesNothing(t *testing.T) {
	root, bin := t.TempDir(), t.TempDir()
	if err := os.Symlink("/bin/sh", filepath.Join(bin, "sh")); err != nil {
		t.Fatal(err)
	}
	m := &hosttest.Shell{Root: root, Prefix: dest, Env: []string{"PATH=" + bin}}
	look := func(restart string) error {
		_, err := target{Host: m, job: job{dest: dest}}.script(t.Context(), "check", checkScript, nil, dest+"/x", restart)
		return err
	}
	expectError(t, look(""), providers.Invalid, "not found: cat cmp find flock", "the target needs sh, tar")
	m.Env = nil
	expectError(t, look("no-such-program"), providers.Invalid, "no-such-program, is not found")
	if err := look("sh"); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
		t.Errorf("it left %v, error %v", left, err)
	}
}

// TestALoginThatFails is said of each machine: no secret is in it.
func TestALoginThatFails(t *testing.T) {
	w := newWorld(t)
	bundle := w.open()
	inner := bundle.Deployer.(*copier).open
	bundle.Deployer.(*copier).open = func(ctx context.Context, address string) (host.Host, error) {
		if address == "b1" {
			return nil, &providers.Fault{Kind: providers.Denied, Op: "ssh to b1:22", Err: errors.New("nobody2 with " + secret), Hint: "allow it"}
		}
		return inner(ctx, address)
	}
	found, err := plugintest.Examined(t, bundle)
	expectError(t, found.Err, providers.Denied, "remote-copy: look: ssh to b1:22: nobody2 with [redacted]", "allow it")
	expectError(t, err, providers.Denied, "on b1: ssh to b1:22: nobody2 with [redacted]")
}
