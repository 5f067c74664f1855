package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/runner"
	"github.com/manent/action/state"
)

// testApp is a command line whose world is a test's.
func testApp(t *testing.T) *app {
	t.Helper()
	a := newApp("test", func(string) string { return "" }, t.TempDir())
	a.stdin, a.stdout, a.stderr = strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}
	a.screen = a.newScreen(a.stdout)
	return a
}

// called runs one call and returns its code and what it printed.
func called(t *testing.T, a *app, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	code = a.execute(t.Context(), args)
	return code, a.stdout.(*bytes.Buffer).String(), a.stderr.(*bytes.Buffer).String()
}

// With --json stdout is one JSON document, also when the call is wrong: a
// program never has to guess.
func TestEveryVerbPrintsOneDocument(t *testing.T) {
	for _, cmd := range leaves(testApp(t).root()) {
		name := strings.Fields(cmd.CommandPath())[1:]
		if cmd.Name() == "demo" {
			name = append(name, "--rate", "0") // a whole rollout is a script's
		}
		for _, args := range [][]string{name, append(name, "--nonsense"), append(name, "too", "many")} {
			args = append([]string{"--json"}, args...)
			t.Run(strings.Join(args, " "), func(t *testing.T) {
				code, stdout, stderr := called(t, testApp(t), args...)
				d := json.NewDecoder(strings.NewReader(stdout))
				var doc map[string]any
				if err := d.Decode(&doc); err != nil {
					t.Fatalf("stdout is no JSON document: %v\n%s", err, stdout)
				}
				if _, err := d.Token(); err != io.EOF {
					t.Errorf("there is more than one document: %s", stdout)
				}
				if code != 0 && (doc["exit"] != float64(code) || doc["message"] == "") {
					t.Errorf("ended with %d, the document says %v", code, doc)
				}
				if code != 0 && !strings.HasPrefix(stderr, "manent: "+word(code)+": ") {
					t.Errorf("stderr is %q, expected the word of code %d", stderr, code)
				}
			})
		}
	}
}

// Every verb says what it is for, how it is called and shows it once.
func TestEveryVerbIsDescribed(t *testing.T) {
	for _, cmd := range leaves(testApp(t).root()) {
		if cmd.Short == "" || cmd.Example == "" || strings.HasSuffix(cmd.Short, ".") || cmd.Short != strings.ToLower(cmd.Short[:1])+cmd.Short[1:] {
			t.Errorf("%s: short %q, example %q", cmd.CommandPath(), cmd.Short, cmd.Example)
		}
	}
}

func TestPanicIsInternal(t *testing.T) {
	a := testApp(t)
	code := a.guarded(func() int { panic("out of cheese") })
	if stderr := a.stderr.(*bytes.Buffer).String(); code != exitInternal || !strings.Contains(stderr, "manent: internal: panic: out of cheese") {
		t.Errorf("got %d and %q, expected an internal error", code, stderr)
	}
}

func TestWhich(t *testing.T) {
	doc := &state.Document{Key: "shop/web/prod", Rollout: &state.Rollout{
		ID: "r1", Version: "2.0", Attempt: 2, Status: state.Running, Owner: state.RunRef{Platform: "local", Run: "7"},
	}}
	me := state.RunRef{Platform: "local", Run: "7", Attempt: 3}
	for _, tc := range []struct {
		name string
		w    which
		me   state.RunRef
		doc  *state.Document
		code int
	}{
		{"by version", which{version: "2.0"}, me, doc, 0},
		{"by id", which{rollout: "r1"}, me, doc, 0},
		{"by run", which{owner: "7"}, me, doc, 0},
		{"by this run", which{owner: "self"}, me, doc, 0},
		{"by all", which{version: "2.0", rollout: "r1", owner: "self", attempt: 2}, me, doc, 0},
		{"by nothing", which{}, me, doc, exitUsage},
		{"none there", which{version: "2.0"}, me, &state.Document{}, exitUsage},
		{"another version", which{version: "3.0"}, me, doc, exitConflict},
		{"another id", which{rollout: "r2"}, me, doc, exitConflict},
		{"another run", which{owner: "8"}, me, doc, exitConflict},
		{"this is another run", which{owner: "self"}, state.RunRef{Platform: "local", Run: "8"}, doc, exitConflict},
		{"another attempt", which{version: "2.0", attempt: 1}, me, doc, exitConflict},
		{"one of two is another", which{version: "2.0", rollout: "r2"}, me, doc, exitConflict},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := tc.w.find(tc.doc, tc.me)
			code := 0
			if err != nil {
				code = endingOfError(err).Code
			}
			if code != tc.code || (r == nil) != (err != nil) {
				t.Errorf("got %v, %v, expected code %d", r, err, tc.code)
			}
		})
	}
}

// The open pause is answered without naming it only by a person who has seen
// it, and a drift only with the weights.
func TestQuestion(t *testing.T) {
	planned := &state.Rollout{Version: "2.0", Pause: &state.Pause{ID: "approval@25.1", Step: "approval@25", Kind: state.PauseApproval, Reason: "asked for"}}
	drifted := &state.Rollout{Version: "2.0", Pause: &state.Pause{ID: "traffic@25.1", Step: "traffic@25", Kind: state.PauseDrift, Seen: "0f3a", Reason: "drift"}}
	for _, tc := range []struct {
		name    string
		rollout *state.Rollout
		word    runner.Word
		asks    bool
		says    string
		want    string // pause that is answered
		refused bool
	}{
		{"no pause: the engine says so", &state.Rollout{}, runner.Word{}, true, "", "", false},
		{"by id", planned, runner.Word{Pause: "approval@25.1"}, false, "", "approval@25.1", false},
		{"by its step", planned, runner.Word{Pause: "approval@25"}, false, "", "approval@25.1", false},
		{"a drift is not planned", drifted, runner.Word{Pause: "traffic@25"}, false, "", "traffic@25", false},
		{"a pipeline", planned, runner.Word{}, false, "y\n", "", true},
		{"a person: yes", planned, runner.Word{}, true, "y\n", "approval@25.1", false},
		{"a person: Yes", planned, runner.Word{}, true, " YES\n", "approval@25.1", false},
		{"a person: no", planned, runner.Word{}, true, "n\n", "", true},
		{"a person: nothing", planned, runner.Word{}, true, "", "", true},
		{"a drift, unseen", drifted, runner.Word{}, true, "y\n", "", true},
		{"a drift, seen", drifted, runner.Word{Seen: "0f3a"}, true, "y\n", "traffic@25.1", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := testApp(t)
			a.asks, a.stdin = tc.asks, strings.NewReader(tc.says)
			w := tc.word
			err := a.question(&w, tc.rollout)
			if (err != nil) != tc.refused || w.Pause != tc.want {
				t.Errorf("got pause %q and %v, expected %q, refused %v", w.Pause, err, tc.want, tc.refused)
			}
		})
	}
}

// A round of resume ends by the worst that needs somebody, and waits are none.
func TestSweep(t *testing.T) {
	all := map[runner.Result]runner.Outcome{}
	for _, r := range []runner.Result{runner.NotYet, runner.Approval, runner.PausedNow, runner.Progress, runner.Complete, runner.Failure, runner.Unsure, runner.Unfinished} {
		all[r] = runner.Outcome{Result: r, Message: string(r)}
	}
	waits := []runner.Outcome{all[runner.NotYet], all[runner.Approval], all[runner.PausedNow], all[runner.Progress], all[runner.Complete]}
	var got []int
	got = append(got, endingOf(sweep(nil, nil)).Code, endingOf(sweep(waits, nil)).Code)
	for _, r := range []runner.Result{runner.Failure, runner.Unsure, runner.Unfinished} {
		waits = append(waits, all[r])
		got = append(got, endingOf(sweep(waits, nil)).Code)
	}
	got = append(got, endingOf(sweep(waits[:6], io.ErrUnexpectedEOF)).Code)
	if diff := cmp.Diff([]int{0, 0, 1, 5, 6, 5}, got); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
}
