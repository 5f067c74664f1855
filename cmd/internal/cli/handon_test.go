package cli

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/manent/action/providers/api/gitlab"
	"github.com/manent/action/state"
)

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"ratio 2 > 1.5":                "ratio 2 > 1.5",
		" two\nlines ":                 "two lines",
		"\u2028a\u2029b\u0085c\rd\x1b": "a b c d",
		"no \xff text":                 "no \ufffd text",
		"costs $HOME and %PATH%":       "costs  HOME and  PATH",
		strings.Repeat("é", 600):       strings.Repeat("é", 500),
		strings.Repeat("a", 999) + "é": strings.Repeat("a", 999),
	} {
		got := plain(text, gitlab)
		if got != want {
			t.Errorf("%.40q became %.40q, expected %.40q", text, got, want)
		}
		if _, err := api.Dotenv("", map[string]string{"REASON": got}); err != nil {
			t.Errorf("GitLab is not given %.40q: %v", text, err)
		}
	}
	const share = "25% of $HOME"
	for platform, want := range map[string]string{github: share, gitlab: "25  of  HOME", shell: "25  of  HOME", "": "25  of  HOME"} {
		if got := plain(share, platform); got != want {
			t.Errorf("on %q it became %q, expected %q", platform, got, want)
		}
	}
}

func TestProgress(t *testing.T) {
	score := 95.5
	stages := []state.Stage{
		{Name: "5%", Achieved: 5, InForce: time.Unix(1, 0), Score: &score},
		{Name: "25%", Achieved: 25.5, InForce: time.Unix(2, 0)},
		{Name: "100%", Share: 100},
	}
	for _, tt := range []struct {
		rollout      *state.Rollout
		share, score string
	}{
		{nil, "", ""},
		{&state.Rollout{}, "", ""},
		{&state.Rollout{Status: state.Running, Stages: stages}, "25.5", "95.5"},
		{&state.Rollout{Status: state.Returned, Stages: stages}, "0", "95.5"},
		{&state.Rollout{Status: state.Returning, Stages: stages}, "25.5", "95.5"},
	} {
		if share, score := progress(tt.rollout); share != tt.share || score != tt.score {
			t.Errorf("%+v: share %q and score %q, expected %q and %q", tt.rollout, share, score, tt.share, tt.score)
		}
	}
}

// keeper is a platform that keeps what it is to hand on.
type keeper struct {
	page
	values []map[string]string
}

func (k *keeper) Output(values map[string]string) error {
	k.values = append(k.values, values)
	return nil
}

// Every call that acts hands on every key, however it ends: a later job must
// not take an older job's values for this one's.
func TestHandOnAllKeys(t *testing.T) {
	keys := []string{"exit", "reason", "result", "rollout", "score", "share", "status", "step", "until", "version"}
	for _, row := range []struct {
		name string
		args []string
		want map[string]string
	}{
		{"waits", []string{"run", "-c", "prod.yml", "--version", "2.0", "--no-wait"}, map[string]string{"exit": "2", "step": "approval@10", "status": "waiting-approval", "share": "", "score": ""}},
		{"held", []string{"run", "-c", "prod.yml", "--version", "3.0", "--no-wait"}, map[string]string{"exit": "4", "step": "", "until": ""}},
		{"no such file", []string{"run", "-c", "none.yml", "--version", "2.0"}, map[string]string{"exit": "64", "version": "", "status": ""}},
		{"all environments", []string{"resume", "--state", "file:state"}, map[string]string{"exit": "0", "step": "", "until": ""}},
	} {
		t.Run(row.name, func(t *testing.T) {
			k := &keeper{}
			a := informed(t, &k.page)
			a.pipeline = k
			called(t, a, row.args...)
			if len(k.values) != 1 {
				t.Fatalf("handed on %d times, expected once: %v", len(k.values), k.values)
			}
			if got := slices.Sorted(maps.Keys(k.values[0])); !slices.Equal(got, keys) {
				t.Errorf("keys %q, expected %q", got, keys)
			}
			for key, want := range row.want {
				if got := k.values[0][key]; got != want {
					t.Errorf("%s is %q, expected %q", key, got, want)
				}
			}
		})
	}
	k := &keeper{}
	a := informed(t, &k.page)
	a.pipeline = k
	if called(t, a, "status", "-c", "prod.yml"); len(k.values) != 0 {
		t.Errorf("a look handed on %v", k.values)
	}
}
