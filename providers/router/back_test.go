package router

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/manent/action/state"
)

// A return makes its changes at once where that leaves somebody in service.
func TestBack(t *testing.T) {
	servers := func(a1, a2, b1, b2 int) []Server {
		return []Server{
			{ID: "a1", Slot: state.SlotA, Weight: a1, Up: true}, {ID: "a2", Slot: state.SlotA, Weight: a2, Up: true},
			{ID: "b1", Slot: state.SlotB, Weight: b1, Up: true}, {ID: "b2", Slot: state.SlotB, Weight: b2, Up: true},
		}
	}
	down := func(n int, all []Server) []Server {
		for i := range n {
			all[i].Up = false
		}
		return all
	}
	for name, tt := range map[string]struct {
		servers []Server
		fails   string // servers whose change fails
		turns   string // what is done at the same time
		problem string
	}{
		"stable serves":                {servers(95, 95, 5, 5), "", "a1=100 a2=100 b1=0 b2=0", ""},
		"candidate serves alone":       {servers(0, 0, 100, 100), "", "a1=100 a2=100, b1=0 b2=0", ""},
		"one of stable fails":          {servers(0, 0, 100, 100), "a1", "a1=100 a2=100, b1=0 b2=0", "a1"},
		"all of stable fail":           {servers(0, 0, 100, 100), "a1 a2", "a1=100 a2=100", "a1; a2"},
		"all fail, it serves":          {servers(50, 50, 100, 0), "a1 a2 b1", "a1=100 a2=100 b1=0", "b1; a1; a2"},
		"too much before":              {servers(200, 100, 100, 0), "", "b1=0, a1=100", ""},
		"the one with weight down":     {down(1, servers(100, 0, 100, 100)), "", "a2=100, b1=0 b2=0", ""},
		"only one that is down got it": {down(1, servers(0, 0, 100, 100)), "a2", "a1=100 a2=100", "a2"},
		"the one up got it":            {down(1, servers(0, 0, 100, 100)), "a1", "a1=100 a2=100, b1=0 b2=0", "a1"},
		"all down":                     {down(2, servers(100, 0, 100, 100)), "", "a2=100, b1=0 b2=0", ""},
		"nothing to do":                {servers(100, 100, 0, 0), "", "", ""},
		"candidate's is left":          {servers(100, 100, 0, 7), "b2", "b2=0", "b2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				want := map[string]int{"a1": 100, "a2": 100, "b1": 0, "b2": 0}
				turns, began := map[time.Duration][]string{}, time.Now()
				var mu sync.Mutex
				err := Back(tt.servers, state.SlotB, want, func(c Change) error {
					mu.Lock()
					turns[time.Since(began)] = append(turns[time.Since(began)], fmt.Sprintf("%s=%d", c.ID, c.To))
					mu.Unlock()
					<-time.After(time.Second)
					if strings.Contains(tt.fails, c.ID) {
						return errors.New(c.ID)
					}
					return nil
				})
				var got []string
				for _, at := range slices.Sorted(maps.Keys(turns)) {
					got = append(got, strings.Join(slices.Sorted(slices.Values(turns[at])), " "))
				}
				if strings.Join(got, ", ") != tt.turns {
					t.Errorf("did %q, expected %q", got, tt.turns)
				}
				if (err == nil) != (tt.problem == "") || err != nil && err.Error() != tt.problem {
					t.Errorf("error %v, expected %q", err, tt.problem)
				}
			})
		})
	}
}
