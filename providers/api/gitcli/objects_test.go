package gitcli

import (
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func repository(t *testing.T) (dir string, git func(args ...string) string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "r.git")
	git = func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Env = []string{
			"PATH=" + os.Getenv("PATH"), "GIT_DIR=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
			"GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x@localhost", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@localhost",
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "--quiet", "--bare", dir)
	return dir, git
}

// TestObjectsAreGits: git finds what was written right, and lists it as meant.
func TestObjectsAreGits(t *testing.T) {
	dir, git := repository(t)
	blob := func(text string) string {
		id, err := WriteObject(dir, "blob", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	if got, want := blob("hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a"; got != want {
		t.Fatalf("the blob of hello is %s, expected %s", got, want)
	}
	blob("hello\n") // again
	f := Folders{Top: nil, "a": nil, "a.b": nil, "a/x": nil, "a/y": nil, "gone": nil}
	for _, p := range []string{"a/x/1", "a/y/2", "a.b/3", "a0", "a-", "gone/4", "state.json"} {
		f.Set(p, FileMode, blob("at "+p))
	}
	f.Set("a/x/1", FileMode, blob("anew"))
	f.Remove("gone/4")
	f.Remove("a/y")
	tree, err := f.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	git("fsck", "--strict", "--no-dangling")
	want := "a-\na.b/3\na/x/1\na0\nstate.json"
	if got := git("ls-tree", "-r", "--name-only", tree); got != want {
		t.Errorf("git lists %q, expected %q", got, want)
	}
	if got := git("cat-file", "blob", tree+":a/x/1"); got != "anew" {
		t.Errorf("a/x/1 holds %q", got)
	}
	objects, err := client(dir, nil).showIn(t, dir, tree, tree+":a/x/1", "none", tree+":state.json")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := ParseTree(objects[0].Data)
	if err != nil || !cmp.Equal(sorted(entries), sorted(f[Top])) {
		t.Errorf("%v, %v (-written +read):\n%s", entries, err, cmp.Diff(sorted(f[Top]), sorted(entries)))
	}
	git("update-ref", "refs/heads/x/y", git("commit-tree", "-m", "x", tree))
	if got, want := RefIn(dir, "refs/heads/x/y"), git("rev-parse", "refs/heads/x/y"); got != want || RefIn(dir, "refs/heads/x") != "" {
		t.Errorf("the ref is at %q, expected %q", got, want)
	}
	if string(objects[1].Data) != "anew" || objects[2].Kind != "" || string(objects[3].Data) != "at state.json" {
		t.Errorf("objects %+v", objects[1:])
	}
}

// showIn is Show without a remote.
func (c *Client) showIn(t *testing.T, dir string, names ...string) ([]Object, error) {
	t.Helper()
	c.remote = &remote{}
	return c.Show(t.Context(), dir, names...)
}

func sorted(entries []Entry) map[string]Entry {
	out := map[string]Entry{}
	for _, e := range entries {
		out[e.Name] = e
	}
	return out
}

func TestAnswersOfCatFile(t *testing.T) {
	tests := []struct {
		name, out string
		n         int
		want      []Object
		fails     bool
	}{
		{"two", "1 blob 3\nabc\n2 tree 0\n\n", 2, []Object{{"1", "blob", 3, []byte("abc")}, {"2", "tree", 0, []byte{}}}, false},
		{"missing", "x:y missing\n2 blob 1\n\n\n", 2, []Object{{}, {"2", "blob", 1, []byte("\n")}}, false},
		{"cut off in the data", "1 blob 3\nab", 1, []Object{{"1", "blob", 3, nil}}, true},
		{"cut off in the line", "1 blob", 1, []Object{{}}, true},
		{"nothing", "", 1, []Object{{}}, true},
		{"nonsense", "1 blob x\n", 1, []Object{{}}, true},
		{"negative", "1 blob -1\n\n", 1, []Object{{}}, true},
		{"ambiguous", "1 ambiguous\n", 1, []Object{{}}, true},
	}
	for _, test := range tests {
		got, err := parseObjects([]byte(test.out), test.n)
		if test.fails != (err != nil) || !cmp.Equal(test.want, got) {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, cmp.Diff(test.want, got))
		}
	}
}

func FuzzAnswersOfCatFile(f *testing.F) {
	f.Add([]byte("1 blob 3\nabc\n2 tree 0\n\n"))
	f.Add([]byte("x missing\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		objects, err := parseObjects(out, 3)
		for _, o := range objects {
			if o.Data != nil && len(o.Data) != o.Size || err == nil && o.Kind != "" && o.Data == nil {
				t.Fatalf("object %+v, %v", o, err)
			}
		}
	})
}

func FuzzTree(f *testing.F) {
	f.Add([]byte("100644 a\x00aaaaaaaaaaaaaaaaaaaa40000 b\x00bbbbbbbbbbbbbbbbbbbb"))
	f.Add([]byte("100644 a\x00short"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := ParseTree(data)
		var again []byte
		for _, e := range entries {
			id, idErr := hex.DecodeString(e.ID)
			if idErr != nil {
				t.Fatal(idErr)
			}
			again = append(append(again, e.Mode+" "+e.Name+"\x00"...), id...)
		}
		if err == nil && string(again) != string(data) {
			t.Fatalf("%q became %q", data, again)
		}
	})
}
