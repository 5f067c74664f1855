package generate

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/plan"
)

var update = flag.Bool("update", false, "write the golden files of testdata/")

const commit = "0123456789abcdef0123456789abcdef01234567"

// read loads a configuration of testdata and plans it.
func read(t testing.TB, name string, change func(*config.Config)) Environment {
	t.Helper()
	cfg, problems := config.Load(config.Options{File: "testdata/" + name + ".yml", Anonymous: true, Catalog: config.Known()})
	if bad := problems.Of(config.Error); len(bad) > 0 {
		t.Fatalf("%s: %v", name, bad)
	}
	if change != nil {
		change(&cfg)
	}
	file := "envconfig/" + cfg.Key() + ".yml"
	return Environment{File: file, Config: cfg, Plan: plan.Build(cfg, config.Known())}
}

func githubOptions(change func(*GitHubOptions)) GitHubOptions {
	o := GitHubOptions{
		Mode: Environments, Granularity: PerStage, Queue: "latest", MaxTime: 330 * time.Minute, RunsOn: "ubuntu-24.04",
		Action: "manent/action@" + commit, Release: "v1.0.0", Schedule: "4-59/15 * * * *", Call: "manent generate github -c FILE --out .",
	}
	if change != nil {
		change(&o)
	}
	return o
}

func long(c *config.Config) {
	c.Rollout.Traffic.Bake = config.Duration(7 * time.Hour)
	c.Rollout.Traffic.MaxBake = c.Rollout.Traffic.Bake
}

// inCloud keeps the state in S3, and secrets in a cloud and in Vault.
func inCloud(c *config.Config) {
	c.State = "s3://state/manent?region=eu-central-1"
	c.Secrets = append(c.Secrets, config.Secret{Name: "haproxy", Ref: "aws-sm:shop/haproxy#password"}, config.Secret{Name: "hook", Ref: "vault:secret/data/shop#hook"})
}

// elsewhere keeps the state in a repository of its own.
func elsewhere(c *config.Config) { c.State = "git:https://git.example.test/ops/state.git" }

func byResume(c *config.Config) { c.Rollout.Wait = "resume" }

// cases are the pipelines whose files are kept in testdata.
func cases(t testing.TB) map[string][]File {
	t.Helper()
	canary, blueGreen, waves, pool := read(t, "canary", nil), read(t, "bluegreen", nil), read(t, "waves", nil), read(t, "pool", nil)
	all := map[string][]File{}
	github := func(name string, change func(*GitHubOptions), envs ...Environment) {
		files, err := GitHub(envs, githubOptions(change))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all["github-"+name] = files
	}
	github("canary", nil, canary)
	github("bluegreen", func(o *GitHubOptions) { o.Tags, o.IDToken = "v*", true }, blueGreen)
	github("waves", nil, waves)
	github("inplace", func(o *GitHubOptions) { o.RunsOn, o.BinaryPath = "self-hosted", "/opt/manent/manent" }, pool)
	github("segment", func(o *GitHubOptions) { o.Granularity = PerSegment }, canary)
	github("step", func(o *GitHubOptions) { o.Granularity = PerStep }, canary)
	github("queue", func(o *GitHubOptions) { o.Queue, o.Release = "max", "" }, canary)
	github("long", nil, read(t, "canary", long))
	github("cloud", nil, read(t, "canary", inCloud))
	github("elsewhere", nil, read(t, "canary", elsewhere))
	github("dispatch", func(o *GitHubOptions) { o.Mode, o.Schedule = Dispatch, "*/5 * * * *" }, read(t, "canary", byResume), read(t, "bluegreen", byResume))
	gitlab := func(name string, change func(*GitLabOptions), envs ...Environment) {
		files, err := GitLab(envs, gitlabOptions(change))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all["gitlab-"+name] = files
	}
	gitlab("canary", func(o *GitLabOptions) {
		o.Image, o.Tags = "example.test/ops/manent:1.0.0", []string{"shop", "in the rack"}
	}, canary)
	gitlab("bluegreen", nil, blueGreen)
	gitlab("waves", nil, waves)
	gitlab("inplace", nil, pool)
	gitlab("segment", func(o *GitLabOptions) { o.Granularity = PerSegment }, canary)
	gitlab("step", func(o *GitLabOptions) { o.Granularity = PerStep }, canary)
	gitlab("cloud", nil, read(t, "canary", inCloud))
	gitlab("elsewhere", nil, read(t, "canary", elsewhere))
	gitlab("long", nil, read(t, "canary", long))
	return all
}

func gitlabOptions(change func(*GitLabOptions)) GitLabOptions {
	o := GitLabOptions{Granularity: PerStage, MaxTime: 150 * time.Minute, Call: "manent generate gitlab -c FILE --out ."}
	if change != nil {
		change(&o)
	}
	return o
}

// TestGolden compares every file of every pipeline with testdata.
func TestGolden(t *testing.T) {
	for name, files := range cases(t) {
		t.Run(name, func(t *testing.T) {
			for _, f := range files {
				golden(t, filepath.Join("testdata", name, f.Path), f.Text)
			}
		})
	}
}

// TestGeneratedComponent keeps the repository's CI/CD component fresh.
func TestGeneratedComponent(t *testing.T) {
	f, err := Component()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("../..", f.Path), f.Text)
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		at, wantLines := 0, strings.Split(string(want), "\n")
		for i, line := range strings.Split(got, "\n") {
			if i >= len(wantLines) || wantLines[i] != line {
				at = i
				break
			}
		}
		t.Errorf("%s differs from line %d on; look at it with -update and git diff", path, at+1)
	}
}

// TestConfigurations: the head of each file says which it is about, and of no
// other file anything is believed.
func TestConfigurations(t *testing.T) {
	for name, files := range cases(t) {
		for _, f := range files {
			want := 1
			if name == "github-dispatch" {
				want = 2
			}
			if got := Configurations(f.Text); len(got) != want || !strings.HasPrefix(got[0], "envconfig/shop/") {
				t.Errorf("%s of %s is about %q, expected %d", f.Path, name, got, want)
			}
		}
	}
	odd := []string{"a,b/prod.yml", "c,", " d.yml", "e.yml ", ",f", "g ,h "}
	var envs []Environment
	for i, file := range odd {
		envs = append(envs, at(read(t, "canary", named("shop", fmt.Sprintf("e%d", i))), file))
	}
	files, err := GitHub(envs, githubOptions(nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, ends := range []string{"\n", "\r\n"} {
		if diff := cmp.Diff(odd, Configurations(strings.ReplaceAll(files[0].Text, "\n", ends))); diff != "" {
			t.Error(diff)
		}
	}
	for _, text := range []string{"", mark, mark + "\nname: x\n# Configuration: a.yml\n", "# Configuration: a.yml\n"} {
		if got := Configurations(text); got != nil {
			t.Errorf("%q is about %q", text, got)
		}
	}
}
