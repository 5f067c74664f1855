package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
)

// commands are the lines of a text that GitHub's runner obeys, as its source
// reads them (ActionCommand.TryParseV2 and TryParse).
func commands(text string) []string {
	var out []string
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		blank := func(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' }
		if strings.HasPrefix(strings.TrimLeftFunc(line, blank), "::") || strings.Contains(line, "##[") {
			out = append(out, line)
		}
	}
	return out
}

func TestHarmless(t *testing.T) {
	for text, want := range map[string]string{
		"plain: text":                "plain: text",
		"a std::string, 10::1":       "a std::string, 10::1",
		"::stop-commands::x":         ": :stop-commands::x",
		" \t::add-mask::x":           " \t: :add-mask::x",
		"a\n::error::x\r\n::error::": "a\n: :error::x\r\n: :error::",
		"progress\r::error::x":       "progress\r: :error::x",
		"\n\n\u00a0\u2003::debug::":  "\n\n\u00a0\u2003: :debug::",
		"\ufeff::debug::":            "\ufeff: :debug::",
		":::error::x":                ": ::error::x",
		"x ##[error]y":               "x # #[error]y",
		"####[group]":                "### #[group]",
	} {
		if got := harmless(text); got != want {
			t.Errorf("got %q for %q, expected %q", got, text, want)
		}
	}
}

func FuzzHarmless(f *testing.F) {
	for _, text := range []string{"::a::", "##[a]", "\r ::a::", ": :", "####[[", "\x85::"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := harmless(text)
		if left := commands(got); left != nil {
			t.Errorf("%q became %q, of which a runner obeys %q", text, got, left)
		}
		if len(commands(text)) == 0 && got != text && strings.ToValidUTF8(text, "") == text && !strings.Contains(text, "::") {
			t.Errorf("%q became %q, without need", text, got)
		}
	})
}

// Whatever way a text from outside gets onto a stream, no runner obeys it;
// what the platform itself has to say gets through, and a document says what
// it said.
func TestNothingPrintedIsACommand(t *testing.T) {
	a := testApp(t)
	const bad = "::stop-commands::x\n ::add-mask::y ##[error]z"
	a.screen.say(bad)
	a.screen.begin(bad, time.Time{})
	later := a.now().Add(2 * heartbeat)
	a.screen.waiting()
	a.screen.now = func() time.Time { return later }
	a.screen.waiting()
	a.print(bad)
	a.complain(bad, bad)
	stdout, stderr := a.stdout.(*bytes.Buffer), a.stderr.(*bytes.Buffer)
	if got := commands(stdout.String() + stderr.String()); got != nil {
		t.Errorf("a runner obeys %q", got)
	}
	for _, want := range []string{"still at : :stop", "z"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("%q is not in what was printed:\n%s", want, stdout)
		}
	}
	stdout.Reset()
	a.json = true
	a.show("run", view{JSON: map[string]string{"reason": bad}}, nil)
	var doc map[string]string
	if err := json.Unmarshal(stdout.Bytes(), &doc); err != nil || doc["reason"] != bad || commands(stdout.String()) != nil {
		t.Errorf("%v: %q", err, stdout)
	}
	if err := a.tell("::add-mask::secret"); err != nil || !strings.HasSuffix(stderr.String(), "\n::add-mask::secret\n") {
		t.Errorf("%v: the platform is not heard: %q", err, stderr)
	}
}
