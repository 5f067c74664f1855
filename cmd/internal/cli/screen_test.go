package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
)

// shown is a screen with a clock of the test's own.
func shown(terminal bool) (*screen, *bytes.Buffer, *time.Time) {
	var out bytes.Buffer
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	redactor := &providers.Redactor{}
	redactor.Add(providers.NewSecret("hunter22"))
	return &screen{out: &out, terminal: terminal, redactor: redactor, now: func() time.Time { return now }}, &out, &now
}

// A log gets one line a minute while there is a wait, whatever else is said
// in between starts the minute anew.
func TestHeartbeat(t *testing.T) {
	s, out, now := shown(false)
	s.say("traffic@5: share 5 % in force")
	s.begin("gate@traffic@5: next reading", now.Add(10*time.Minute))
	for range 150 {
		s.waiting()
		*now = now.Add(time.Second)
	}
	s.say("gate@traffic@5: reading 1 is green")
	s.begin("deploy", time.Time{})
	for range 61 {
		s.waiting()
		*now = now.Add(time.Second)
	}
	want := `traffic@5: share 5 % in force
still at gate@traffic@5: next reading (9m0s left)
still at gate@traffic@5: next reading (8m0s left)
gate@traffic@5: reading 1 is green
still at deploy (for 1m0s)
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// A wait that nobody has announced is one for what was said last, and begins
// when it does: no empty step, no time since the beginning of all time.
func TestHeartbeatUnannounced(t *testing.T) {
	for said, want := range map[string]string{
		"could not tell: 503; asking again": "could not tell: 503; asking again\nstill at could not tell: 503; asking again (for 1m0s)\n",
		"":                                  "still at the first step (for 1m0s)\n",
	} {
		s, out, now := shown(false)
		if said != "" {
			s.say(said)
		}
		for range 61 {
			s.waiting()
			*now = now.Add(time.Second)
		}
		if got := out.String(); got != want {
			t.Errorf("got %q, expected %q", got, want)
		}
	}
}

// A terminal gets one line that is drawn over, and taken away before the next.
func TestLiveLine(t *testing.T) {
	s, out, now := shown(true)
	s.say("config: all is there")
	s.begin("gate@traffic@5: next reading", now.Add(3*time.Second))
	for range 3 {
		*now = now.Add(time.Second)
		s.waiting()
	}
	s.say("gate@traffic@5: reading 1 is green")
	s.done()
	const erase = "\r\x1b[K"
	want := "config: all is there\n" +
		erase + "gate@traffic@5: next reading (2s left)" +
		erase + "gate@traffic@5: next reading (1s left)" +
		erase + "gate@traffic@5: next reading (for 3s)" +
		erase + "gate@traffic@5: reading 1 is green\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("terminal (-want +got):\n%s", diff)
	}
}

func TestScreenRepeatsAndSecrets(t *testing.T) {
	s, out, _ := shown(false)
	s.say("the word is hunter22")
	s.say("the word is hunter22")
	s.begin("login hunter22", time.Time{})
	if got := out.String(); got != "the word is [redacted]\n" {
		t.Errorf("got %q, expected one line without the secret", got)
	}
	if strings.Contains(s.doing, "hunter22") {
		t.Errorf("what is done holds the secret: %q", s.doing)
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	s, _, _ := shown(false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, expected that the wait ends with its context", err)
	}
	if err := s.sleep(t.Context(), 0); err != nil {
		t.Errorf("got %v, expected no wait", err)
	}
}

func TestCutTo(t *testing.T) {
	for text, want := range map[string]string{
		"short": "short", "ten letters": "ten lette…", "two\nlines": "two lines", "ääääääääääää": "äääääääää…",
	} {
		if got := cutTo(text, 10); got != want {
			t.Errorf("got %q for %q, expected %q", got, text, want)
		}
	}
}
