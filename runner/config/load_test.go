package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func merged(t *testing.T, descriptor, env string) (Config, Problems) {
	t.Helper()
	return Parse(Source{"prod.yml", []byte(env)}, &Source{"manent.yml", []byte(descriptor)}, Options{Anonymous: true, Catalog: testCatalog()})
}

func TestEnvironmentOverridesDescriptorFieldByField(t *testing.T) {
	c, problems := merged(t, `
rollout:
  traffic: {steps: [5, 25, 100], bake: 10m, testers: {header: "x: 1", tag: t}}
  approvalsBetween: ["5", "25"]
  providers: {prometheus: {url: "https://a.internal", token_secret: a}}
  health:
    failureLimit: 3
    metrics:
      - {name: one, query: 'x{track="{track}"}', compare: stable, maxRatio: 2, weight: 3}
      - {name: two, query: 'y{track="{track}"}', compare: stable, maxRatio: 2}
`, `
secrets: [{name: a, ref: "env:A"}]
rollout:
  traffic: {bake: 20m, testers: {header: "x: 2"}}
  approvalsBetween: []
  providers: {prometheus: {url: "https://b.internal"}, accesslog: {}}
  health:
    interval: 30s
    metrics:
      - {name: one, query: 'z{track="{track}"}', compare: stable, maxRatio: 3}
`+router)
	if bad := problems.Of(Error, Absent); len(bad) > 0 {
		t.Fatalf("%s", listing(bad))
	}
	r := c.Rollout
	for _, tt := range []struct {
		name      string
		got, want any
	}{
		{"list of the descriptor", r.Traffic.Steps, []float64{5, 25, 100}},
		{"field of the environment", r.Traffic.Bake, minutes(20)},
		{"maxBake follows the environment's bake", r.Traffic.MaxBake, minutes(20)},
		{"section field by field", r.Traffic.Testers, &Testers{Header: "x: 2", Tag: "t"}},
		{"an empty list replaces", r.ApprovalsBetween, []string(nil)},
		{"settings key by key", r.Providers["prometheus"], Settings{"url": "https://b.internal", "token_secret": "a"}},
		{"descriptor's number", r.Health.FailureLimit, 3},
		{"lists are whole", len(r.Health.Metrics), 1},
		{"nothing of a replaced list stays", r.Health.Metrics[0].Weight, 1.0},
		{"strategy", r.Strategy, "traffic"},
	} {
		if d := cmp.Diff(tt.want, tt.got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}

func TestProblemsNameTheFileTheyAreIn(t *testing.T) {
	_, problems := merged(t, "rollout:\n  traffic: {steps: [5, 4]}\n", "rollout:\n  traffic:\n    bake: soon\n"+router)
	var got []string
	for _, p := range problems {
		got = append(got, strings.SplitN(p.String(), " ", 2)[0])
	}
	want := []string{"manent.yml:2:24:", "prod.yml:3:11:"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestPathGivesTheIdentity(t *testing.T) {
	text := "rollout: {traffic: {steps: [100]}}" + router
	tests := []struct {
		name, file, more, want, problem string
	}{
		{"from the path", "envconfig/shop/web/prod.yml", "", "shop/web/prod", ""},
		{"somewhere below", "/w/ops/envconfig/shop/web/prod.yaml", "", "shop/web/prod", ""},
		{"said twice", "envconfig/shop/web/prod.yml", "project: shop\n", "shop/web/prod", ""},
		{"said otherwise", "envconfig/shop/web/prod.yml", "project: cart\n", "", `found "cart", but the file's path says "shop"`},
		{"elsewhere", "prod.yml", "project: a\napplication: b\nenvironment: c\n", "a/b/c", ""},
		{"elsewhere without names", "prod.yml", "", "", "project is missing"},
		{"too short", "envconfig/web/prod.yml", "", "", "project is missing"},
		{"a name that is no ref", "envconfig/shop/we b/prod.yml", "", "", "is not a name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, problems := Parse(Source{tt.file, []byte(tt.more + text)}, nil, Options{Catalog: testCatalog()})
			switch err := problems.Err(); {
			case tt.problem == "" && (err != nil || c.Key() != tt.want):
				t.Errorf("key %s, problems %v", c.Key(), err)
			case tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem)):
				t.Errorf("problems %v, want %q", err, tt.problem)
			}
		})
	}
}

func TestStateWins(t *testing.T) {
	text := "state: s3://bucket\nrollout: {traffic: {steps: [100]}}" + router
	for _, tt := range []struct{ state, want, problem string }{
		{"", "s3://bucket", ""},
		{"file:/var/manent", "file:/var/manent", ""},
		{"git", "git", ""},
		{"git:git@host.internal:ops/state.git", "git:git@host.internal:ops/state.git", ""},
		{"git:ssh://git@host.internal/ops/state.git", "git:ssh://git@host.internal/ops/state.git", ""},
		{"git:", "", "--state: state: the address names no remote"},
		{"file:", "", "--state: state: the address names no directory"},
		{"git:https://me:word@host.internal/x.git", "", "--state: state: the address carries credentials"},
		{"s3://key@bucket", "", "--state: state: the address carries credentials"},
		{"redis:x", "", "--state: state: the address begins with no known store"},
	} {
		t.Run(tt.state, func(t *testing.T) {
			c, problems := Parse(Source{"p.yml", []byte(text)}, nil, Options{State: tt.state, Anonymous: true, Catalog: testCatalog()})
			switch err := problems.Err(); {
			case tt.problem == "" && (err != nil || c.State != tt.want):
				t.Errorf("state %s, problems %v", c.State, err)
			case tt.problem != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.problem) || strings.Contains(err.Error(), "word")):
				t.Errorf("problems %v, want %q", err, tt.problem)
			}
		})
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	big := filepath.Join(dir, "big.yml")
	if err := os.WriteFile(big, []byte(strings.Repeat("# \n", MaxSize/3+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, file, descriptor, want string }{
		{"missing", filepath.Join(dir, "none.yml"), "", "none.yml: cannot be opened: no such file or directory"},
		{"missing descriptor", "testdata/valid/canary.yml", filepath.Join(dir, "manent.yml"), "manent.yml: cannot be opened"},
		{"a folder", dir, "", "cannot be read: not a regular file (d"},
		{"too large", big, "", "has more than 1048576 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, problems := Load(Options{File: tt.file, Descriptor: tt.descriptor, Catalog: testCatalog()})
			if len(problems) != 1 || !strings.Contains(problems[0].String(), tt.want) {
				t.Errorf("problems %v, want one with %q", problems, tt.want)
			}
		})
	}
}

func TestDeepAndWideFilesAreBounded(t *testing.T) {
	deep := "plugin: {name: exec, settings: " + strings.Repeat("{a: ", 50) + "1" + strings.Repeat("}", 50) + "}"
	_, problems := parse(t, deep)
	if err := problems.Err(); err == nil || !strings.Contains(err.Error(), "nested more than 32 deep") {
		t.Errorf("depth 50: %v", err)
	}
	var wide strings.Builder
	for i := range 20_000 {
		wide.WriteString("key" + ShareText(float64(i)) + ": 1\n")
	}
	_, problems = parse(t, wide.String())
	if n := len(problems.Of(Error)); n != mostProblems {
		t.Errorf("%d problems, expected the first %d", n, mostProblems)
	}
}

func TestUnusedButKnownIsNoProblem(t *testing.T) {
	c, problems := parse(t, "callbacks: []\nrollout: {traffic: {steps: [100]}, waves: [], health: {alarms: []}}"+router)
	if len(problems) > 0 || c.Callbacks != nil || c.Rollout.Waves != nil {
		t.Errorf("problems:\n%s", listing(problems))
	}
}

func TestErrListsErrorsWithTheirHints(t *testing.T) {
	all := Problems{
		{File: "a.yml", Line: 1, Col: 2, Path: "x", Message: "wrong", Hint: "right", Severity: Error},
		{File: "a.yml", Line: 2, Col: 2, Path: "y", Message: "odd", Severity: Warning},
		{File: "a.yml", Line: 3, Col: 1, Path: "z", Message: "not in this build", Severity: Absent},
	}
	want := "a.yml:1:2: x: wrong\n  hint: right\na.yml:3:1: z: not in this build"
	if got := all.Err().Error(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := all.Of(Warning).Err(); err != nil {
		t.Errorf("warnings alone are an error: %v", err)
	}
}
