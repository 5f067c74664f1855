package storetest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
)

// racers is how many write at once from one revision.
const racers = 8

func racingCreators(t *testing.T, s *suite) {
	s.race(t, "", func(int) store.Store { return s.Open(t) })
}

func racingWriters(t *testing.T, s *suite) {
	revision := s.put(t, Key, "one", "")
	s.race(t, revision, func(int) store.Store { return s.Open(t) })
}

func racingInside(t *testing.T, s *suite) {
	revision := s.put(t, Key, "one", "")
	s.race(t, revision, func(int) store.Store { return s.store })
}

// race lets all write different bodies from one revision. Exactly one may
// win, every other must be told by the store that it lost.
func (s *suite) race(t *testing.T, expect store.Revision, open func(i int) store.Store) {
	t.Helper()
	type outcome struct {
		revision store.Revision
		err      error
	}
	outcomes := make([]outcome, racers)
	stores := make([]store.Store, racers)
	for i := range racers {
		stores[i] = open(i)
	}
	start := make(chan struct{})
	var wait sync.WaitGroup
	for i := range racers {
		wait.Go(func() {
			<-start
			change := store.Change{Data: []byte(fmt.Sprint("racer ", i)), Note: fmt.Sprint("racer ", i)}
			outcomes[i].revision, outcomes[i].err = stores[i].Put(t.Context(), Key, change, expect)
		})
	}
	close(start)
	wait.Wait()
	winner := -1
	for i, o := range outcomes {
		switch {
		case o.err != nil:
			s.fault(t, o.err, providers.Conflict)
		case winner >= 0:
			t.Fatalf("racers %d and %d both won", winner, i)
		default:
			winner = i
		}
	}
	if winner < 0 {
		t.Fatal("no racer won")
	}
	s.holds(t, Key, fmt.Sprint("racer ", winner), outcomes[winner].revision)
}
