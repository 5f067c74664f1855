package gitlab

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
)

func TestVariable(t *testing.T) {
	for output, want := range map[string]string{"status": "MANENT_OUT_STATUS", "resume-at": "MANENT_OUT_RESUME_AT"} {
		if got := Variable(output); got != want {
			t.Errorf("%s: %s, expected %s", output, got, want)
		}
	}
}

func TestFilesThatAreNamed(t *testing.T) {
	j := newJob(t, map[string]string{Result: "out/x.env", Summary: ""})
	j.vars[Summary] = filepath.Join(t.TempDir(), "s.md")
	if err := os.Mkdir(filepath.Join(j.dir, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := j.platform(t)
	for _, err := range []error{p.Output(map[string]string{"a": "1"}), p.Output(nil), p.Summary("## x\n")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got := []string{read(t, filepath.Join(j.dir, "out", "x.env")), read(t, j.vars[Summary])}
	if diff := cmp.Diff([]string{"MANENT_OUT_A=1\n", "## x\n"}, got); diff != "" {
		t.Error(diff)
	}
	if left, err := filepath.Glob(filepath.Join(j.dir, "out", ".manent-*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %q, error %v", left, err)
	}
}

func TestFilesThatCannotBeWritten(t *testing.T) {
	for _, vars := range []map[string]string{{Result: "none/x.env", Summary: "none/s.md"}, {Result: os.DevNull, Summary: os.DevNull}} {
		p := newJob(t, vars).platform(t)
		for what, err := range map[string]error{"output": p.Output(map[string]string{"a": "b"}), "summary": p.Summary("x")} {
			if err == nil || providers.KindOf(err) != providers.Unavailable || !strings.HasPrefix(err.Error(), "gitlab: "+what+": ") {
				t.Errorf("%s: error %v", what, err)
			}
		}
	}
}

func TestOutputsThatAreRefused(t *testing.T) {
	p := newJob(t, nil).platform(t)
	for name, values := range map[string]map[string]string{
		"two of one name": {"a-b": "1", "a_b": "2"}, "another case": {"a": "1", "A": "2"}, "a letter of no use": {"ß": "1"},
		"no name": {"": ""}, "a digit first": {"1": "1"}, "a secret by name": {"reason": "is ${CI_JOB_TOKEN}"},
	} {
		if err := p.Output(values); err == nil || providers.KindOf(err) != providers.Invalid {
			t.Errorf("%s: error %v, expected kind invalid", name, err)
		}
	}
}

// TestRefusedOutput: what an earlier job has said does not stay in place of a
// value that is refused, nor keeps it the others from later jobs.
func TestRefusedOutput(t *testing.T) {
	for name, value := range map[string]string{
		"a line end": "a\nb", "a line separator": "a\u2028b", "a paragraph separator": "a\u2029b", "a variable": "is ${CI_JOB_TOKEN}",
		"no text": "a\xff", "space": " a", "too long": strings.Repeat("a", 6000),
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t, nil)
			p := j.platform(t)
			if err := p.Output(map[string]string{"status": "running", "reason": "before"}); err != nil {
				t.Fatal(err)
			}
			err := p.Output(map[string]string{"status": "done", "reason": value})
			if err == nil || providers.KindOf(err) != providers.Invalid || !strings.Contains(err.Error(), "handed on as empty") {
				t.Errorf("error %v, expected kind invalid and what is done", err)
			}
			if got := read(t, filepath.Join(j.dir, DefaultResult)); got != "MANENT_OUT_REASON=\nMANENT_OUT_STATUS=done\n" {
				t.Errorf("the file became %q", got)
			}
		})
	}
}

var marker = regexp.MustCompile("^\x1b\\[0Ksection_(start|end):\\d+:([A-Za-z0-9_.-]+)\r\x1b\\[0K(.*)$")

// TestSection checks the one section of a summary, whose text tries to end
// it, to begin another and to annotate.
func TestSection(t *testing.T) {
	j := newJob(t, nil)
	evil := "| a |\n\x1b[0Ksection_end:1:x\r\x1b[0K\n\x1b[31;1mERROR: forged\x1b[0;m\nend\r\n"
	if err := j.platform(t).Summary(evil); err != nil {
		t.Fatal(err)
	}
	first, last := marker.FindStringSubmatch(j.log[0]), marker.FindStringSubmatch(j.log[len(j.log)-1])
	if first == nil || last == nil || first[1] != "start" || first[3] != "Summary" || last[1] != "end" || first[2] != last[2] {
		t.Fatalf("log %q, expected a section", j.log)
	}
	inside := j.log[1 : len(j.log)-1]
	if len(inside) != 4 || strings.ContainsAny(strings.Join(inside, ""), "\x1b\r\n") || len(j.annotations()) != 0 {
		t.Errorf("the section holds %q", inside)
	}
}

func TestAnnotationIsOneLine(t *testing.T) {
	j := newJob(t, nil)
	if err := j.platform(t).Annotate("notice", "100 %d\r\n\x1b[0Ksection_start:1:x\r\u2028end\n"); err != nil {
		t.Fatal(err)
	}
	want := []string{"\x1b[36mNOTICE: 100 %d   [0Ksection_start:1:x  end\x1b[0;m"}
	if diff := cmp.Diff(want, j.log); diff != "" {
		t.Error(diff)
	}
}
