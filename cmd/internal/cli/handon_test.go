package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/manent/action/state"
)

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"ratio 2 > 1.5":                "ratio 2 > 1.5",
		" two\nlines ":                 "two lines",
		"costs $HOME and %PATH%":       "costs  HOME and  PATH",
		strings.Repeat("é", 600):       strings.Repeat("é", 500),
		strings.Repeat("a", 999) + "é": strings.Repeat("a", 999),
	} {
		if got := plain(text); got != want {
			t.Errorf("%.40q became %.40q, expected %.40q", text, got, want)
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
