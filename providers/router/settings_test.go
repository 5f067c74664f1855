package router

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
)

func TestAPI(t *testing.T) {
	for want, api := range map[string]API{
		"":                                 {Timeout: time.Second},
		`ca_file: "../ca.pem"`:             {Timeout: time.Second, CAFile: "../ca.pem"},
		"pinned_for: -1s":                  {Timeout: time.Second, PinnedFor: -time.Second},
		"timeout: 16s, expected 1s to 15s": {Timeout: 16 * time.Second},
	} {
		if err := api.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for file, want := range map[string]string{"": "", "ca.pem": "/w/ca.pem", "/etc/ca.pem": "/etc/ca.pem"} {
		if got := (API{CAFile: file}).CAPath("/w"); got != want {
			t.Errorf("%q is at %q, want %q", file, got, want)
		}
	}
}

func TestHasTargets(t *testing.T) {
	if err := HasTargets([]Member{{}}); err != nil {
		t.Error(err)
	}
	if err := HasTargets(nil); providers.KindOf(err) != providers.Invalid || !strings.Contains(providers.HintOf(err), "slot: a") {
		t.Errorf("%v, hint %q", err, providers.HintOf(err))
	}
}

func TestLogSaysEachLineOnce(t *testing.T) {
	var said []string
	l := NewLog("x", providers.Env{Log: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }})
	for _, n := range []int{1, 2, 1} {
		l.Once("line %d of 100%%", n)
	}
	if got := strings.Join(said, "; "); got != "x: line 1 of 100%; x: line 2 of 100%" {
		t.Errorf("said %q", got)
	}
	NewLog("x", providers.Env{}).Once("nobody listens")
}
