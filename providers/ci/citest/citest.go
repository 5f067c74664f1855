// Package citest is the conformance suite of the contract ci: every platform
// passes it in its own tests. It must not know any of them.
package citest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/ci"
	"github.com/manent/action/state"
)

// Run is one pipeline run, as the harness is to pretend it.
type Run struct {
	ID      string // "" for one that names no id, where the platform allows it
	Attempt int    // 1 and up
	Order   string // as the environment has it, which may be wrong; "" to follow ID
}

// Job is one job of a run, in an environment of its own.
type Job struct {
	Env providers.Env
	// What a person, or a later job, sees of it afterwards.
	Outputs     func(t *testing.T) map[string]string
	Summary     func(t *testing.T) string
	Annotations func(t *testing.T) []string // "level: message", oldest first
	Printed     func(t *testing.T) string   // everything that the platform shows of the job
}

// Harness makes jobs.
type Harness struct {
	Spec ci.Spec
	// Job begins a job; all jobs of one harness are in one repository.
	Job func(t *testing.T, run Run) Job
}

// Test runs the suite.
func Test(t *testing.T, h Harness) {
	tests := []struct {
		name string
		test func(*testing.T, Harness)
	}{
		{"the platform is detected", detected},
		{"attempts of a run are the same run", attempts},
		{"a later run is newer", order},
		{"wrong numbers are refused", wrongNumbers},
		{"outputs arrive as they are", outputs},
		{"an output cannot bring another one", forgedOutput},
		{"a summary is shown", summary},
		{"annotations are shown with their level", annotations},
		{"a message cannot bring another annotation", forgedAnnotation},
		{"an unknown level is refused", unknownLevel},
		{"a masked value is not shown", mask},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) { tc.test(t, h) })
	}
}

func (h Harness) open(t *testing.T, run Run) (ci.Platform, Job) {
	t.Helper()
	job := h.Job(t, run)
	platform, err := h.Spec.New(job.Env)
	if err != nil {
		t.Fatalf("new platform: %v", err)
	}
	return platform, job
}

func (h Harness) identity(t *testing.T, run Run) state.RunRef {
	t.Helper()
	platform, _ := h.open(t, run)
	ref, err := platform.Identity(t.Context())
	if err != nil {
		t.Fatalf("identity of %+v: %v", run, err)
	}
	return ref
}

func detected(t *testing.T, h Harness) {
	if !h.Spec.Detect(h.Job(t, Run{ID: "17", Attempt: 1}).Env) {
		t.Errorf("a job of %s is not detected as one", h.Spec.Name)
	}
}

func attempts(t *testing.T, h Harness) {
	first, second := h.identity(t, Run{ID: "17", Attempt: 1}), h.identity(t, Run{ID: "17", Attempt: 2})
	if first.Platform != h.Spec.Name || first.Repository == "" || first.Run == "" {
		t.Errorf("identity %+v, expected platform %s, a repository and a run", first, h.Spec.Name)
	}
	if !first.Same(second) || first.Attempt != 1 || second.Attempt != 2 {
		t.Errorf("identities %+v and %+v, expected attempts 1 and 2 of one run", first, second)
	}
	if first.OlderThan(second) || second.OlderThan(first) {
		t.Error("of two attempts of a run, one is older")
	}
}

func order(t *testing.T, h Harness) {
	older, newer := h.identity(t, Run{ID: "9", Attempt: 3}), h.identity(t, Run{ID: "17", Attempt: 1})
	if older.Same(newer) || !older.OlderThan(newer) || newer.OlderThan(older) {
		t.Errorf("runs 9 and 17 are %+v and %+v, expected the first to be older", older, newer)
	}
}

func wrongNumbers(t *testing.T, h Harness) {
	for _, run := range []Run{{ID: "17", Attempt: -1}, {ID: "17", Attempt: 1, Order: "seven"}, {ID: "17", Attempt: 1, Order: "-7"}} {
		platform, _ := h.open(t, run)
		if ref, err := platform.Identity(t.Context()); providers.KindOf(err) != providers.Invalid || err == nil {
			t.Errorf("%+v: identity %+v, error %v, expected it to be refused", run, ref, err)
		}
	}
}

func outputs(t *testing.T, h Harness) {
	platform, job := h.open(t, Run{ID: "17", Attempt: 1})
	want := map[string]string{"status": "completed", "share": "12.5", "url": "https://h/?a=b&c=100%", "reason": "più «lento» than v1: 5 > 3"}
	if err := platform.Output(map[string]string{"status": want["status"], "share": "5"}); err != nil {
		t.Fatal(err)
	}
	delete(want, "status")
	if err := platform.Output(want); err != nil {
		t.Fatal(err)
	}
	want["status"] = "completed"
	if diff := cmp.Diff(want, job.Outputs(t)); diff != "" {
		t.Errorf("outputs after two calls:\n%s", diff)
	}
}

// forgedOutput hands over text from outside, which must arrive whole or not
// at all: an empty value may stand in its place.
func forgedOutput(t *testing.T, h Harness) {
	for _, values := range []map[string]string{
		{"reason": "x\nstatus=completed"}, {"reason": "x\r\nstatus=completed"}, {"reason\nstatus": "completed"}, {"status=completed\nx": "y"}, {"": "completed"},
	} {
		platform, job := h.open(t, Run{ID: "17", Attempt: 1})
		err := platform.Output(values)
		got := job.Outputs(t)
		if err == nil && !cmp.Equal(values, got) {
			t.Errorf("%q became %q", values, got)
		}
		for key, value := range got {
			if _, its := values[key]; its && value == "" {
				delete(got, key)
			}
		}
		if err != nil && (providers.KindOf(err) != providers.Invalid || len(got) != 0) {
			t.Errorf("%q: error %v and outputs %q, expected Invalid and none", values, err, got)
		}
	}
}

func summary(t *testing.T, h Harness) {
	platform, job := h.open(t, Run{ID: "17", Attempt: 1})
	text := "## shop\n\n| stage | share |\n|---|---|\n| 5% | 5 |\n"
	if err := platform.Summary(text); err != nil {
		t.Fatal(err)
	}
	if got := job.Summary(t); !strings.Contains(got, text) {
		t.Errorf("summary %q, expected %q", got, text)
	}
}

func annotations(t *testing.T, h Harness) {
	platform, job := h.open(t, Run{ID: "17", Attempt: 1})
	want := []string{"notice: share 5 %", "warning: thin data", "error: gate: p=0.01 < 0.05"}
	for _, a := range want {
		level, message, _ := strings.Cut(a, ": ")
		if err := platform.Annotate(level, message); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, job.Annotations(t)); diff != "" {
		t.Error(diff)
	}
}

func forgedAnnotation(t *testing.T, h Harness) {
	platform, job := h.open(t, Run{ID: "17", Attempt: 1})
	for _, message := range []string{"x\nerror: forged", "x\r::error::forged", "x\n::error::forged"} {
		if err := platform.Annotate("notice", message); err != nil && providers.KindOf(err) != providers.Invalid {
			t.Fatal(err)
		}
	}
	if got := job.Annotations(t); slices.ContainsFunc(got, func(a string) bool { return strings.HasPrefix(a, "error: ") }) {
		t.Errorf("annotations %q, expected no error among them", got)
	}
}

func unknownLevel(t *testing.T, h Harness) {
	platform, job := h.open(t, Run{ID: "17", Attempt: 1})
	if err := platform.Annotate("fatal", "x"); providers.KindOf(err) != providers.Invalid || err == nil {
		t.Errorf("error %v, expected level fatal to be refused", err)
	}
	if got := job.Annotations(t); len(got) != 0 {
		t.Errorf("annotations %q, expected none", got)
	}
}

func mask(t *testing.T, h Harness) {
	platform, job := h.open(t, Run{ID: "17", Attempt: 1})
	const secret = "hunter2hunter2"
	steps := []error{
		platform.Mask(providers.NewSecret(secret)),
		platform.Annotate("warning", "token "+secret+" was refused"),
		platform.Summary("token " + secret),
		platform.Output(map[string]string{"reason": "token " + secret}),
	}
	for i, err := range steps {
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("error of call %d holds the secret", i)
		}
	}
	if steps[0] != nil || steps[1] != nil {
		t.Errorf("mask: %v, annotate: %v", steps[0], steps[1])
	}
	if got := job.Printed(t); strings.Contains(got, secret) || !strings.Contains(got, "was refused") {
		t.Errorf("the job shows %q", got)
	}
}
