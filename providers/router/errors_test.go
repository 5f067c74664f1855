package router

import (
	"errors"
	"testing"
	"time"

	"github.com/manent/action/providers"
)

func TestNamedAndJoined(t *testing.T) {
	if Named("x", "read", nil) != nil || Join(nil) != nil {
		t.Error("an error of nothing")
	}
	first := Named("x", "write on lb1", &providers.Fault{Kind: providers.Denied, Err: errors.New("no"), Hint: "ask"})
	all := Join([]error{first, Named("x", "write on lb2", errors.New("lost"))})
	if got, want := all.Error(), "x: write on lb1: no; x: write on lb2: lost"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := Named("x", "write on lb1", first).Error(), "x: write on lb1: write on lb1: no"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	busy := Named("x", "read", &providers.Fault{Kind: providers.Throttled, After: time.Minute})
	if f, ok := errors.AsType[*providers.Fault](busy); !ok || f.After != time.Minute {
		t.Errorf("%v does not say when to come back", busy)
	}
	if providers.KindOf(all) != providers.Denied || providers.HintOf(first) != "ask" {
		t.Errorf("kind %v, hint %q", providers.KindOf(all), providers.HintOf(first))
	}
}
