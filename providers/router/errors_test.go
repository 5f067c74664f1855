package router

import (
	"errors"
	"testing"

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
	if providers.KindOf(all) != providers.Denied || providers.HintOf(first) != "ask" {
		t.Errorf("kind %v, hint %q", providers.KindOf(all), providers.HintOf(first))
	}
}
