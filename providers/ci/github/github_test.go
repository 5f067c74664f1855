package github

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/github/githubtest"
	"github.com/manent/action/providers/ci"
	"github.com/manent/action/providers/ci/citest"
	"github.com/manent/action/state"
)

func TestConformance(t *testing.T) {
	citest.Test(t, citest.Harness{Spec: Spec(), Job: func(t *testing.T, run citest.Run) citest.Job {
		order := run.ID
		if run.Order != "" {
			order = run.Order
		}
		r := newRunner(t, map[string]string{"GITHUB_RUN_ID": order, "GITHUB_RUN_ATTEMPT": strconv.Itoa(run.Attempt)})
		return citest.Job{
			Env:         r.env(),
			Outputs:     func(t *testing.T) map[string]string { return r.outputs(t) },
			Summary:     func(t *testing.T) string { return r.mask(r.read(t, "GITHUB_STEP_SUMMARY")) },
			Annotations: func(*testing.T) []string { return r.annotations },
			Printed: func(t *testing.T) string {
				return r.mask(strings.Join(r.log, "\n") + r.read(t, "GITHUB_OUTPUT") + r.read(t, "GITHUB_STEP_SUMMARY"))
			},
		}
	}})
}

// runner does with a step's lines and files what GitHub's does.
type runner struct {
	vars        map[string]string
	told        []string // lines as they came
	log         []string // what is shown of them
	masks       []string
	annotations []string // "level: message"
}

func newRunner(t *testing.T, vars map[string]string) *runner {
	t.Helper()
	dir := t.TempDir()
	r := &runner{vars: map[string]string{
		"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": api.Repo, "GITHUB_RUN_ID": "17", "GITHUB_RUN_NUMBER": "3", "GITHUB_ACTOR": "ada",
		"GITHUB_OUTPUT": filepath.Join(dir, "output"), "GITHUB_STEP_SUMMARY": filepath.Join(dir, "summary"),
	}}
	maps.Copy(r.vars, vars)
	return r
}

func (r *runner) env() providers.Env {
	return providers.Env{
		Getenv: func(name string) string { return r.vars[name] },
		Log:    func(format string, args ...any) { r.hear(fmt.Sprintf(format, args...)) },
		Tell:   func(line string) error { r.told = append(r.told, line); r.hear(line); return nil },
	}
}

func (r *runner) open(t *testing.T) *platform {
	t.Helper()
	p, err := New(r.env())
	if err != nil {
		t.Fatal(err)
	}
	return p.(*platform)
}

// hear reads lines as ActionCommand.cs does: a command begins a line with
// ::name::, or is ##[name] anywhere in it.
func (r *runner) hear(text string) {
	for line := range strings.SplitSeq(text, "\n") {
		command, data, found := strings.Cut(strings.TrimPrefix(strings.TrimLeft(line, " \t\r"), "::"), "::")
		if found = found && strings.HasPrefix(strings.TrimLeft(line, " \t\r"), "::"); !found {
			_, rest, old := strings.Cut(line, "##[")
			command, data, found = strings.Cut(rest, "]")
			found = found && old
		}
		command, _, _ = strings.Cut(command, " ")
		data = strings.NewReplacer("%0D", "\r", "%0A", "\n", "%25", "%").Replace(data)
		switch {
		case found && command == "add-mask":
			r.masks = append(r.masks, data)
		case found && (command == "error" || command == "warning" || command == "notice"):
			r.annotations = append(r.annotations, command+": "+data)
			r.log = append(r.log, data)
		default:
			r.log = append(r.log, line)
		}
	}
}

func (r *runner) mask(text string) string {
	for _, m := range r.masks {
		text = strings.ReplaceAll(text, m, "***")
	}
	return text
}

func (r *runner) read(t *testing.T, variable string) string {
	t.Helper()
	data, err := os.ReadFile(r.vars[variable])
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(data)
}

// outputs reads the file as FileCommandManager.cs does.
func (r *runner) outputs(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for rest := r.read(t, "GITHUB_OUTPUT"); rest != ""; {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		equals, heredoc := strings.Index(line, "="), strings.Index(line, "<<")
		switch {
		case line == "":
		case equals >= 0 && (heredoc < 0 || equals < heredoc):
			out[line[:equals]] = line[equals+1:]
		case heredoc > 0 && heredoc+2 < len(line):
			value, after, found := strings.Cut("\n"+rest, "\n"+line[heredoc+2:]+"\n")
			if !found {
				t.Fatalf("output %q has no end", line)
			}
			out[line[:heredoc]], rest = strings.TrimPrefix(value, "\n"), after
		default:
			t.Fatalf("output file has the line %q", line)
		}
	}
	return out
}

func TestDetect(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "": false, "false": false} {
		if got := Spec().Detect(newRunner(t, map[string]string{"GITHUB_ACTIONS": value}).env()); got != want {
			t.Errorf("GITHUB_ACTIONS=%s: %v", value, got)
		}
	}
}

func TestIdentity(t *testing.T) {
	whole := state.RunRef{
		Platform: "github", Repository: "shop/web", Run: "17", Order: 17, Attempt: 1, Actor: "ada",
		URL: "https://github.com/shop/web/actions/runs/17",
	}
	with := func(change func(*state.RunRef)) state.RunRef { ref := whole; change(&ref); return ref }
	cases := map[string]struct {
		vars map[string]string
		want state.RunRef
		says string
	}{
		"as it is": {nil, whole, ""},
		"run again by somebody else": {
			map[string]string{"GITHUB_RUN_ATTEMPT": "2", "GITHUB_TRIGGERING_ACTOR": "bob"},
			with(func(r *state.RunRef) { r.Attempt, r.Actor = 2, "bob" }), "",
		},
		"a number beyond 32 bits": {
			map[string]string{"GITHUB_RUN_ID": "98765432101"},
			with(func(r *state.RunRef) {
				r.Run, r.Order, r.URL = "98765432101", 98765432101, "https://github.com/shop/web/actions/runs/98765432101"
			}), "",
		},
		"enterprise": {
			map[string]string{"GITHUB_SERVER_URL": "https://git.example"},
			with(func(r *state.RunRef) { r.URL = "https://git.example/shop/web/actions/runs/17" }), "",
		},
		"which of its workflow's runs": {
			map[string]string{"GITHUB_WORKFLOW_REF": "shop/web/.github/workflows/x.yml@refs/heads/main"},
			with(func(r *state.RunRef) { r.Workflow, r.Number = ".github/workflows/x.yml", 3 }), "",
		},
		"run number": {
			map[string]string{"GITHUB_WORKFLOW_REF": "shop/web/.github/workflows/x.yml@refs/heads/main", "GITHUB_RUN_NUMBER": "three"},
			state.RunRef{}, "GITHUB_RUN_NUMBER",
		},
		"no repository":      {map[string]string{"GITHUB_REPOSITORY": ""}, state.RunRef{}, "GITHUB_REPOSITORY: repository \"\", expected owner/name"},
		"path as repository": {map[string]string{"GITHUB_REPOSITORY": "../../x"}, state.RunRef{}, "expected owner/name"},
		"no run":             {map[string]string{"GITHUB_RUN_ID": ""}, state.RunRef{}, `GITHUB_RUN_ID is "", expected a number from 1 on`},
		"run zero":           {map[string]string{"GITHUB_RUN_ID": "0"}, state.RunRef{}, "GITHUB_RUN_ID"},
		"attempt":            {map[string]string{"GITHUB_RUN_ATTEMPT": "99999999999"}, state.RunRef{}, "GITHUB_RUN_ATTEMPT"},
		"server":             {map[string]string{"GITHUB_SERVER_URL": "javascript:alert(1)"}, state.RunRef{}, "GITHUB_SERVER_URL"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := newRunner(t, tc.vars).open(t).Identity(t.Context())
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if (err != nil) != (tc.says != "") || (err != nil && (!strings.Contains(err.Error(), tc.says) || providers.KindOf(err) != providers.Invalid)) {
				t.Errorf("error %v, expected %q", err, tc.says)
			}
		})
	}
}

// TestOutputEnds: what ends a value is not what ends it in another call, or
// what a library says.
func TestOutputEnds(t *testing.T) {
	r := newRunner(t, nil)
	p := r.open(t)
	value := "x\n_GitHubActionsFileCommandDelimeter_\nstatus=completed"
	for range 2 {
		if err := p.Output(map[string]string{"reason": value}); err != nil {
			t.Fatal(err)
		}
		text := r.read(t, "GITHUB_OUTPUT")
		_, end, _ := strings.Cut(strings.SplitN(text, "\n", 2)[0], "<<")
		value += "\n" + end + "\nstatus=completed"
		if err := os.Truncate(r.vars["GITHUB_OUTPUT"], 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Output(map[string]string{"reason": value}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"reason": value}, r.outputs(t)); diff != "" {
		t.Error(diff)
	}
}

func TestSummaryLimit(t *testing.T) {
	line := strings.Repeat("x", 99) + "\n"
	cases := map[string]struct {
		before, text string
		cut, fails   bool
	}{
		"just fits":         {"", strings.Repeat("y", maxSummary-1), false, false},
		"one byte more":     {"", strings.Repeat(line, maxSummary/100) + strings.Repeat("y", maxSummary%100), true, false},
		"one line":          {"", strings.Repeat("y", 2*maxSummary), true, false},
		"after others":      {strings.Repeat("b", maxSummary-5000), strings.Repeat(line, 100), true, false},
		"fits after others": {strings.Repeat("b", maxSummary-5000), line, false, false},
		"no room":           {strings.Repeat("b", maxSummary-20), line, false, true},
		"full":              {strings.Repeat("b", maxSummary+20), line, false, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRunner(t, nil)
			if err := os.WriteFile(r.vars["GITHUB_STEP_SUMMARY"], []byte(tc.before), 0o600); err != nil {
				t.Fatal(err)
			}
			err := r.open(t).Summary(tc.text)
			if tc.fails != (providers.KindOf(err) == providers.Invalid && err != nil) || (err != nil && !tc.fails) {
				t.Fatalf("error %v, expected one: %v", err, tc.fails)
			}
			got, kept := strings.CutPrefix(r.read(t, "GITHUB_STEP_SUMMARY"), tc.before)
			shown, notice, _ := strings.Cut(got, "\n*Cut here: ")
			if !kept || len(tc.before)+len(got) > max(maxSummary, len(tc.before)) || !strings.HasPrefix(tc.text, strings.TrimSuffix(shown, "\n")) {
				t.Errorf("kept what was there: %v; it is %d bytes and begins with the text", kept, len(tc.before)+len(got))
			}
			if tc.cut != (notice != "") || (tc.cut && shown != "" && !strings.HasSuffix(shown, line)) {
				t.Errorf("ends with %.80q and notice %q, expected a cut: %v", shown[max(0, len(shown)-80):], notice, tc.cut)
			}
		})
	}
}

func TestAnnotationLimits(t *testing.T) {
	r := newRunner(t, nil)
	p := r.open(t)
	for i := range 12 {
		for _, level := range []string{"error", "notice"} {
			if err := p.Annotate(level, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(r.annotations) != 24 {
		t.Fatalf("%d annotations, expected 24: the log shows all", len(r.annotations))
	}
	for i, a := range r.annotations {
		if strings.Contains(a, "in the log only") != (i/2 == maxAnnotations-1) {
			t.Errorf("annotation %d: %q", i, a)
		}
	}
	for text, most := range map[string]int{strings.Repeat("x", 5000): 4096, strings.Repeat("\U0001F680", 3000): 2048} {
		r := newRunner(t, nil)
		if err := r.open(t).Annotate("warning", text); err != nil {
			t.Fatal(err)
		}
		got := strings.TrimPrefix(r.annotations[0], "warning: ")
		if n := len([]rune(got)); n > most || n < most-1 || !strings.HasSuffix(got, "…") {
			t.Errorf("%d characters of %.10q are left, expected %d with the mark of a cut", n, text, most)
		}
	}
}

// TestMaskLines: the runner compares line by line, so one mask for all lines
// would hide none of them.
func TestMaskLines(t *testing.T) {
	r := newRunner(t, nil)
	p := r.open(t)
	for range 2 {
		if err := p.Mask(providers.NewSecret("-----BEGIN KEY-----\r\n  MIIEow==  \n{\n\nabc\n100%::x\n-----END KEY-----")); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"-----BEGIN KEY-----", "MIIEow==", "100%::x", "-----END KEY-----"}, r.masks); diff != "" {
		t.Error(diff)
	}
	if len(r.log) != 0 {
		t.Errorf("the log shows %q", r.log)
	}
}

// TestMaskedValuesStayHere: what is masked does not even reach the runner, as
// a job's output that holds it would be left out as a whole.
func TestMaskedValuesStayHere(t *testing.T) {
	const secret = "hunter2hunter2"
	r := newRunner(t, nil)
	p := r.open(t)
	for _, err := range []error{
		p.Mask(providers.NewSecret(secret)), p.Annotate("notice", "with "+secret), p.Summary("with " + secret),
		p.Output(map[string]string{"reason": "with " + secret}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for what, text := range map[string]string{
		"annotation": strings.Join(r.told[1:], "\n"), "summary": r.read(t, "GITHUB_STEP_SUMMARY"), "output": r.read(t, "GITHUB_OUTPUT"),
	} {
		if strings.Contains(text, secret) || !strings.Contains(text, "with [redacted]") {
			t.Errorf("%s: %q", what, text)
		}
	}
}

// TestNothingBrokenIsSilent: a step whose runner cannot be told or whose files
// cannot be written hears of it.
func TestNothingBrokenIsSilent(t *testing.T) {
	deaf := func(env providers.Env) providers.Env {
		env.Tell = func(string) error { return errors.New("closed pipe") }
		return env
	}
	mute := func(env providers.Env) providers.Env { env.Tell = nil; return env }
	same := func(env providers.Env) providers.Env { return env }
	cases := map[string]struct {
		vars map[string]string
		env  func(providers.Env) providers.Env
		call func(ci.Platform) error
		kind providers.Kind
		says string
	}{
		"annotate to nobody": {nil, mute, func(p ci.Platform) error { return p.Annotate("error", "x") }, providers.Unavailable, "github: annotate: "},
		"annotate":           {nil, deaf, func(p ci.Platform) error { return p.Annotate("error", "x") }, providers.Unavailable, "closed pipe"},
		"mask":               {nil, deaf, func(p ci.Platform) error { return p.Mask(providers.NewSecret("hunter2")) }, providers.Unavailable, "github: mask: "},
		"output without a file": {
			map[string]string{"GITHUB_OUTPUT": ""}, same, func(p ci.Platform) error { return p.Output(map[string]string{"a": "b"}) }, providers.Invalid, "GITHUB_OUTPUT is \"\"",
		},
		"output of another directory": {
			map[string]string{"GITHUB_OUTPUT": "output"}, same, func(p ci.Platform) error { return p.Output(map[string]string{"a": "b"}) }, providers.Invalid, "GITHUB_OUTPUT is \"output\"",
		},
		"output to a directory": {
			map[string]string{"GITHUB_OUTPUT": t.TempDir()}, same, func(p ci.Platform) error { return p.Output(map[string]string{"a": "b"}) }, providers.Unavailable, "github: output: ",
		},
		"output to a device": {
			map[string]string{"GITHUB_OUTPUT": os.DevNull}, same, func(p ci.Platform) error { return p.Output(map[string]string{"a": "b"}) }, providers.Unavailable, "expected a regular file",
		},
		"summary to a device": {
			map[string]string{"GITHUB_STEP_SUMMARY": os.DevNull}, same, func(p ci.Platform) error { return p.Summary("x") }, providers.Unavailable, "expected a regular file",
		},
		"summary without a file": {map[string]string{"GITHUB_STEP_SUMMARY": ""}, same, func(p ci.Platform) error { return p.Summary("x") }, providers.Invalid, "GITHUB_STEP_SUMMARY"},
		"summary in no directory": {
			map[string]string{"GITHUB_STEP_SUMMARY": filepath.Join(t.TempDir(), "none", "x")}, same, func(p ci.Platform) error { return p.Summary("x") }, providers.Unavailable, "github: summary: ",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p, err := New(tc.env(newRunner(t, tc.vars).env()))
			if err != nil {
				t.Fatal(err)
			}
			if err := tc.call(p); err == nil || providers.KindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error %v (%v), expected %v and %q", err, providers.KindOf(err), tc.kind, tc.says)
			}
		})
	}
}

// FuzzOutput: whatever a value holds, it arrives whole and alone.
func FuzzOutput(f *testing.F) {
	for _, seed := range []string{"", "x", "x\nstatus=completed", "x\r\n<<\n", "a<<b\nc\nb", "\n\n", "=\n"} {
		f.Add("reason", seed)
		f.Add(seed, "x")
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		r := newRunner(t, nil)
		err := r.open(t).Output(map[string]string{key: value, "status": "paused"})
		got := r.outputs(t)
		switch {
		case err != nil:
			if len(got) != 0 || outputKey.MatchString(key) {
				t.Errorf("%q: error %v, outputs %q", key, err, got)
			}
		case key != "status" && (len(got) != 2 || got[key] != value || got["status"] != "paused"):
			t.Errorf("%q is %q became %q", key, value, got)
		}
	})
}

// FuzzAnnotate: whatever a message holds, it is one annotation and no other
// command.
func FuzzAnnotate(f *testing.F) {
	for _, seed := range []string{"", "x", "x\n::error::y", "::add-mask::x", "##[error]x", "\r\n##[add-mask]x", "%0A::error::x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, message string) {
		r := newRunner(t, nil)
		if err := r.open(t).Annotate("notice", message); err != nil {
			t.Fatal(err)
		}
		if want := "notice: " + cut(message, maxMessage); len(r.annotations) != 1 || r.annotations[0] != want || len(r.masks) != 0 || len(r.told) != 1 {
			t.Errorf("%q became %q, masks %q", message, r.annotations, r.masks)
		}
	})
}
