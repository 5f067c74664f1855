package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
)

var update = flag.Bool("update", false, "write the golden files")

// testCatalog is what the first build has, with the traits of its providers
// as this package's tests need them.
func testCatalog() Catalog {
	c := Known()
	c.Plugins = Put(c.Plugins, PluginEntry{Entry: Entry{
		Name: "exec", Summary: "runs commands", InBuild: true,
		Fields: []providers.Field{
			{Name: "deploy", Type: "string", Required: true, Help: "command"},
			{Name: "retries", Type: "integer", Default: "3", Help: "tries"},
		},
	}})
	c.Routers = Put(c.Routers, RouterEntry{
		Entry: Entry{Name: "proxy", Summary: "the built-in proxy", InBuild: true, Fields: []providers.Field{
			{Name: "admin", Type: "list", Required: true, Help: "admin addresses, with commas"},
			{Name: "member", Type: "string", Default: "{host}", Help: "name of a target's member"},
		}},
		RouterTraits: RouterTraits{Step: 0.01, Conditional: true, Testers: "header"},
	})
	c.Routers = Put(c.Routers, RouterEntry{
		Entry: Entry{Name: "nginx", Summary: "NGINX over SSH", InBuild: true, Fields: []providers.Field{
			{Name: "include_file", Type: "string", Required: true, Help: "absolute path"},
			{Name: "slot_a", Type: "list", Required: true, Help: "servers of slot a"},
			{Name: "slot_b", Type: "list", Required: true, Help: "servers of slot b"},
			{Name: "mode", Type: "string", Default: "split_clients", Enum: []string{"split_clients", "weight"}, Help: "how"},
			{Name: "cookie", Type: "string", Help: "name of the cookie"},
			{Name: "cookie_expires", Type: "duration", Default: "1h", Help: "how long the cookie lasts"},
		}, Check: absolute},
		RouterTraits: RouterTraits{Step: 1, Testers: "header", Pinned: stickiness},
	})
	c.Metrics = Put(c.Metrics, MetricEntry{Entry: Entry{
		Name: "prometheus", Summary: "Prometheus", InBuild: true, Fields: []providers.Field{
			{Name: "url", Type: "string", Required: true, Help: "address"},
			{Name: "token_secret", Type: "secret", Help: "bearer token"},
		},
	}, Delay: 30 * time.Second, Window: promWindow})
	c.Metrics = Put(c.Metrics, MetricEntry{Entry: Entry{
		Name: "accesslog", Summary: "access logs", InBuild: true, Fields: []providers.Field{
			{Name: "files", Type: "list", Help: "paths"}, {Name: "format", Type: "string", Help: "form of a line"},
		},
	}, OwnTracks: true})
	for _, name := range []string{"env", "file"} {
		c.Secrets = Put(c.Secrets, Entry{Name: name, InBuild: true})
	}
	for _, name := range []string{"git", "s3", "file"} {
		c.Stores = Put(c.Stores, Entry{Name: name, InBuild: true})
	}
	return c
}

func stickiness(s map[string]any) time.Duration {
	d, _ := time.ParseDuration(fmt.Sprint(s["cookie_expires"]))
	return d
}

// absolute stands for what only an implementation can tell of its settings.
func absolute(s map[string]any) error {
	if file := fmt.Sprint(s["include_file"]); !strings.HasPrefix(file, "/") {
		return &providers.Fault{Provider: "nginx", Op: "settings", Kind: providers.Invalid, Err: fmt.Errorf("include_file is %q, expected an absolute path", file), Hint: "begin it with /"}
	}
	return nil
}

var promRange = regexp.MustCompile(`\[([0-9]+[smh])\]`)

func promWindow(query string) time.Duration {
	var longest time.Duration
	for _, m := range promRange.FindAllStringSubmatch(query, -1) {
		d, _ := time.ParseDuration(m[1])
		longest = max(longest, d)
	}
	return longest
}

// load parses a file of testdata, with the descriptor of the same name where
// there is one.
func load(t *testing.T, file string) (Config, Problems) {
	t.Helper()
	o := Options{File: file, Catalog: testCatalog()}
	if d := strings.TrimSuffix(file, ".yml") + ".manent.yml"; exists(d) {
		o.Descriptor = d
	}
	return Load(o)
}

func exists(file string) bool { _, err := os.Stat(file); return err == nil }

// golden compares with a file, or writes it with -update.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s is not what came out (-want +got):\n%s", file, d)
	}
}

func filesIn(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	return files
}

func listing(problems Problems) string {
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&b, "%s\n", p)
		if p.Severity == Absent {
			fmt.Fprintf(&b, "  severity: %s\n", p.Severity)
		}
		if p.Hint != "" {
			fmt.Fprintf(&b, "  hint: %s\n", p.Hint)
		}
	}
	return b.String()
}

func TestValidFilesHaveNoErrors(t *testing.T) {
	for _, file := range filesIn(t, "testdata/valid/*.yml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			_, problems := load(t, file)
			if bad := problems.Of(Error); len(bad) > 0 {
				t.Errorf("errors in a valid file:\n%s", listing(bad))
			}
			golden(t, strings.TrimSuffix(file, ".yml")+".out", listing(problems))
		})
	}
}

// Each wrong file has beside it what validate says about it: every problem at
// once, in the order of their places.
func TestWrongFiles(t *testing.T) {
	for _, file := range filesIn(t, "testdata/wrong/*.yml") {
		if strings.HasSuffix(file, ".manent.yml") {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			_, problems := load(t, file)
			if len(problems.Of(Error)) == 0 || problems.Err() == nil {
				t.Error("a wrong file has no errors")
			}
			text := listing(problems)
			if strings.Contains(text, "hunter2") {
				t.Errorf("a secret is shown:\n%s", text)
			}
			golden(t, strings.TrimSuffix(file, ".yml")+".out", text)
		})
	}
}

func globbed(f *testing.F, pattern string) []string {
	f.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		f.Fatalf("no files %s: %v", pattern, err)
	}
	return files
}
