package plan

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/runner/config"
)

var update = flag.Bool("update", false, "write the golden files")

func testCatalog() config.Catalog {
	c := config.Known()
	c.Routers = config.Put(c.Routers, config.RouterEntry{
		Entry:        config.Entry{Name: "proxy", InBuild: true},
		RouterTraits: config.RouterTraits{Step: 0.01, Conditional: true, Testers: "header"},
	})
	c.Routers = config.Put(c.Routers, config.RouterEntry{
		Entry: config.Entry{Name: "nginx"},
		RouterTraits: config.RouterTraits{Testers: "header", Pinned: func(s map[string]any) time.Duration {
			d, _ := time.ParseDuration(fmt.Sprint(s["cookie_expires"]))
			return d
		}},
	})
	c.Metrics = config.Put(c.Metrics, config.MetricEntry{Entry: config.Entry{Name: "prometheus"}, Delay: 30 * time.Second})
	return c
}

// build plans a file. What a build cannot do yet is no reason not to plan it.
func build(t *testing.T, file string) Plan {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return buildText(t, string(data))
}

func buildText(t *testing.T, text string) Plan {
	t.Helper()
	cfg, problems := config.Parse(config.Source{Name: "p.yml", Data: []byte(text)}, nil, config.Options{Anonymous: true, Catalog: catalogInBuild()})
	if err := problems.Of(config.Error).Err(); err != nil {
		t.Fatal(err)
	}
	return Warned(cfg, testCatalog())
}

// catalogInBuild knows no settings, so that files with any are planned.
func catalogInBuild() config.Catalog { return config.Known() }

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

func table(p Plan) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, s := range p.Steps {
		marks := []string{}
		for mark, on := range map[string]bool{"approval": s.Approval, "ungated": s.Ungated} {
			if on {
				marks = append(marks, mark)
			}
		}
		if len(s.Hosts) > 0 {
			marks = append(marks, "hosts "+strings.Join(s.Hosts, ","))
		}
		if s.Command != "" {
			marks = append(marks, "runs "+s.Command)
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%v%%\twait %s\tlongest %s\t%s\tundo: %s\n",
			s.Name, s.Kind, or(s.Pass), or(s.Stage), s.Share, s.Wait, s.Longest, or(strings.Join(marks, " ")), or(s.Undo))
	}
	_ = w.Flush()
	fmt.Fprintf(&b, "\nwatch %s, longest %s\n", p.Watch, p.Longest)
	for _, warning := range p.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", warning)
	}
	return b.String()
}

func or(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func TestGoldenPlans(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			golden(t, strings.TrimSuffix(file, ".yml")+".out", table(build(t, file)))
		})
	}
}

// The JSON is what `plan --json` prints.
func TestJSON(t *testing.T) {
	data, err := json.MarshalIndent(build(t, "testdata/bluegreen.yml"), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/bluegreen.json", string(data)+"\n")
	empty, err := json.Marshal(Warned(config.Config{}, config.Catalog{}))
	if err != nil || !strings.Contains(string(empty), `"passes":[{`) || strings.Contains(string(empty), "null") {
		t.Errorf("empty plan: %s, %v", empty, err)
	}
}

// Every name of a plan is unique and survives parsing, with its parts.
func TestNamesOfPlans(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		p := build(t, file)
		seen := map[string]bool{}
		for _, s := range p.Steps {
			n, err := ParseName(s.Name)
			if err != nil || seen[s.Name] {
				t.Errorf("%s: step %s: %v, seen before: %v", file, s.Name, err, seen[s.Name])
			}
			seen[s.Name] = true
			if n.Kind != s.Kind || n.Pass != s.Pass || n.Batch != s.Batch {
				t.Errorf("%s: step %+v parsed as %+v", file, s, n)
			}
			if got, ok := p.Find(s.Name); !ok || got.Name != s.Name {
				t.Errorf("%s: Find(%s) = %v, %v", file, s.Name, got, ok)
			}
		}
		if _, ok := p.Find("nothing"); ok || !seen["config"] || !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Kind == Deploy }) {
			t.Errorf("%s: a plan needs config and deploy, and nothing else than its own", file)
		}
	}
}

const router = `
traffic: {router: {provider: proxy, settings: {admin: "http://127.0.0.1:9901"}}}
`

func TestOrderWithEverything(t *testing.T) {
	p := buildText(t, `
steps:
  - {name: last, at: final, run: x}
  - {name: warm, at: activation, run: x}
  - {name: smoke, at: post-test, run: x}
  - {name: copy, at: deploy, run: x, timeout: 1m}
  - {name: start, at: deploy, run: x, timeout: 2m}
  - {name: fetch, run: x}
rollout:
  traffic: {steps: [10, 100], bake: 1m, testers: {header: "x-canary: always"}}
  approvalsBetween: ["0", "10"]
  health: {probes: [{name: home, url: "https://shop.internal/"}]}
`+router)
	var names []string
	for _, s := range p.Steps {
		names = append(names, s.Name)
	}
	want := "config secrets fetch traffic:prepare deploy smoke traffic:testers gate@traffic@0 approval@0 " +
		"traffic@10 gate@traffic@10 approval@10 traffic@100 gate@traffic@100 traffic:promote warm last"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	deploy, _ := p.Find("deploy")
	if deploy.Command != "copy, start" || deploy.Longest.String() != "3m" {
		t.Errorf("deploy: %+v", deploy)
	}
}

func TestGateDurations(t *testing.T) {
	p := buildText(t, `
rollout:
  traffic: {steps: [5, 100], bake: 10m, maxBake: 1h, finalBake: 5m}
  health:
    interval: 30s
    grace: 3m
    metrics:
      - {name: compared, query: 'a{track="{track}"}', compare: stable, maxRatio: 2, delay: 4m}
      - {name: alone, query: b, max: 1}
`+router)
	for name, want := range map[string][2]string{
		"gate@traffic@5":   {"10m", "1h7m30s"}, // maxBake + the larger delay + grace + interval
		"gate@traffic@100": {"5m", "9m"},       // finalBake + prometheus' delay + grace + interval
	} {
		s, ok := p.Find(name)
		if !ok || s.Wait.String() != want[0] || s.Longest.String() != want[1] || s.Ungated {
			t.Errorf("%s: wait %s, longest %s, want %v", name, s.Wait, s.Longest, want)
		}
	}
}

func TestUngatedGates(t *testing.T) {
	for _, tt := range []struct {
		name, health string
		want         map[string]bool
	}{
		{"nothing", "", map[string]bool{"gate@traffic@5": true, "gate@traffic@100": true}},
		{"compared", `metrics: [{name: a, query: 'a{track="{track}"}', compare: stable, maxRatio: 2}]`, map[string]bool{"gate@traffic@5": false, "gate@traffic@100": true}},
		{"absolute", `metrics: [{name: a, query: a, max: 2}]`, map[string]bool{"gate@traffic@5": false, "gate@traffic@100": false}},
		{"probe", `probes: [{name: a, url: "https://shop.internal"}]`, map[string]bool{"gate@traffic@0": false, "gate@traffic@5": false, "gate@traffic@100": false}},
		{"alarm", `alarms: [{name: a, provider: cloudwatch, alarm: b}]`, map[string]bool{"gate@traffic@5": false, "gate@traffic@100": false}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := buildText(t, "rollout: {traffic: {steps: [5, 100], bake: 10m, finalBake: 1m}, health: {"+tt.health+"}}"+router)
			got := map[string]bool{}
			for _, s := range p.Steps {
				if s.Kind == Gate {
					got[s.Name] = s.Ungated
				}
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			warned := strings.Contains(strings.Join(p.Warnings, "\n"), "ungated")
			if warned != (tt.name == "nothing" || tt.name == "compared") {
				t.Errorf("warnings %q", p.Warnings)
			}
		})
	}
}

func TestBatches(t *testing.T) {
	p := Pass{}
	for i := range 5 {
		p.Targets = append(p.Targets, config.Target{Host: fmt.Sprintf("h%d", i)})
	}
	for amount, want := range map[string]int{"1": 5, "2": 3, "5": 1, "50%": 3, "100%": 1, "9": 1, "10%": 5, "nonsense": 5} {
		batches := p.Batches(amount)
		if len(batches) != want || len(slices.Concat(batches...)) != 5 {
			t.Errorf("%s: %v, want %d batches", amount, batches, want)
		}
	}
	if got := (Pass{}).Batches("1"); len(got) != 1 {
		t.Errorf("without targets: %v, want one batch", got)
	}
}
