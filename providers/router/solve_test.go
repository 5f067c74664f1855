package router

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/state"
)

// slots makes servers, those beyond the first up ones down.
func slots(a, upA, b, upB int) []Server {
	var out []Server
	for i := range a {
		out = append(out, Server{ID: "a" + string(rune('0'+i)), Slot: state.SlotA, Up: i < upA})
	}
	for i := range b {
		out = append(out, Server{ID: "b" + string(rune('0'+i)), Slot: state.SlotB, Up: i < upB})
	}
	return out
}

func TestSolve(t *testing.T) {
	haproxy, f5 := Units{1, 256}, Units{1, 100}
	tests := []struct {
		name             string
		servers          []Server
		share, tolerance float64
		units            Units
		a, b             int
		got              float64
		refused          string
	}{
		{name: "alike slots", servers: slots(2, 2, 2, 2), share: 5, tolerance: .5, units: haproxy, a: 95, b: 5, got: 5},
		{name: "1 %", servers: slots(2, 2, 2, 2), share: 1, tolerance: .5, units: haproxy, a: 99, b: 1, got: 1},
		{name: "half", servers: slots(3, 3, 3, 3), share: 50, tolerance: 5, units: f5, a: 100, b: 100, got: 50},
		{name: "all", servers: slots(1, 1, 2, 2), share: 100, units: f5, a: 0, b: 100, got: 100},
		{name: "nothing", servers: slots(1, 1, 2, 2), share: 0, units: f5, a: 100, b: 0, got: 0},
		{name: "more candidates", servers: slots(1, 1, 3, 3), share: 10, tolerance: 1, units: haproxy, a: 81, b: 3, got: 10},
		{name: "one of two stable servers down", servers: slots(2, 1, 1, 1), share: 20, tolerance: 2, units: haproxy, a: 100, b: 25, got: 20},
		{name: "a down candidate gets the weight of its slot", servers: slots(1, 1, 2, 1), share: 20, tolerance: 2, units: haproxy, a: 100, b: 25, got: 20},
		{name: "large weights stay", servers: slots(1, 1, 1, 1), share: 0.5, tolerance: .1, units: haproxy, a: 199, b: 1, got: 0.5},
		{name: "few weights", servers: slots(1, 1, 1, 1), share: 50, tolerance: .1, units: Units{1, 10}, a: 10, b: 10, got: 50},
		{name: "out of reach", servers: slots(1, 1, 10, 10), share: 5, tolerance: .5, units: f5, refused: "smallest share here is 9.091 %"},
		{name: "1 % of alike slots with few weights", servers: slots(1, 1, 1, 1), share: 1, tolerance: 5, units: Units{1, 10}, refused: "smallest share here is 9.091 %"},
		{name: "candidate down", servers: slots(1, 1, 1, 0), share: 5, tolerance: .5, units: f5, refused: "bring one of its servers up"},
		{name: "return without a stable server", servers: slots(1, 0, 1, 1), share: 0, units: f5, refused: "bring one of its servers up"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			weights, got, err := Solve(tt.servers, state.SlotB, tt.share, tt.tolerance, tt.units)
			if tt.refused != "" {
				if providers.KindOf(err) != providers.Invalid || !strings.Contains(providers.HintOf(err), tt.refused) {
					t.Fatalf("got %v, hint %q; expected a refusal with %q", err, providers.HintOf(err), tt.refused)
				}
				return
			}
			if err != nil || math.Abs(got-tt.got) > 1e-9 {
				t.Fatalf("got %v, %v; expected %v", got, err, tt.got)
			}
			for _, s := range tt.servers {
				want := tt.a
				if s.Slot == state.SlotB {
					want = tt.b
				}
				if weights[s.ID] != want {
					t.Errorf("%s has %d, expected %d", s.ID, weights[s.ID], want)
				}
			}
		})
	}
}

// TestSolveIsTheBest tries every pair of weights.
func TestSolveIsTheBest(t *testing.T) {
	cases := 0
	for _, most := range []int{1, 2, 7, 16} {
		for ours := 1; ours <= 4; ours++ {
			for others := 1; others <= 4; others++ {
				for _, share := range []float64{0.5, 1, 3, 5, 10, 25, 33, 50, 66.6, 90, 99} {
					cases++
					servers := slots(others, others, ours, ours)
					best := math.Inf(1)
					for w := 1; w <= most; w++ {
						for o := 1; o <= most; o++ {
							best = min(best, math.Abs(100*float64(w*ours)/float64(w*ours+o*others)-share))
						}
					}
					weights, got, err := Solve(servers, state.SlotB, share, 1000, Units{1, most})
					if err != nil {
						t.Fatalf("%d and %d servers, share %v: %v", ours, others, share, err)
					}
					for i := range servers {
						servers[i].Weight = weights[servers[i].ID]
					}
					if off := math.Abs(got - share); off > best+1e-9 || math.Abs(ShareOf(servers, state.SlotB)-got) > 1e-9 {
						t.Errorf("%d and %d servers up to %d, share %v: got %v by %v, the best is %v off", ours, others, most, share, got, weights, best)
					}
				}
			}
		}
	}
	t.Logf("%d cases compared with all pairs of weights", cases)
}

// TestChanges holds, for random weights before and after, set or running, and
// servers that are down, that between two writes the share never exceeds both
// ends and somebody serves.
func TestChanges(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 1))
	for n := range 20_000 {
		servers := slots(1+random.IntN(3), random.IntN(4), 1+random.IntN(3), random.IntN(4))
		want := map[string]int{}
		beforeA, beforeB := random.IntN(5), random.IntN(5)
		afterA, afterB := random.IntN(5), random.IntN(5)
		for i, s := range servers {
			servers[i].Weight, want[s.ID] = beforeA, afterA
			if s.Slot == state.SlotB {
				servers[i].Weight, want[s.ID] = beforeB, afterB
			}
			if random.IntN(6) == 0 { // a hand at the socket, or a write that was cut off
				servers[i].Weight = random.IntN(5)
			}
		}
		world := slices.Clone(servers)
		for i := range servers {
			if random.IntN(6) == 0 { // what is stored is wanted, and something else runs
				servers[i].Weight, servers[i].Runs = want[servers[i].ID], new(world[i].Weight)
			}
		}
		holdChanges(t, n, servers, world, want)
	}
}

// holdChanges follows the changes in a world of the weights in force.
func holdChanges(t *testing.T, n int, servers, world []Server, want map[string]int) {
	t.Helper()
	serving := func() bool { return slices.ContainsFunc(world, Server.serves) }
	served, before := serving(), ShareOf(world, state.SlotB)
	var during []float64
	dark := false
	for _, c := range Changes(servers, state.SlotB, want) {
		for i := range world {
			if world[i].ID == c.ID {
				world[i].Weight = c.To
			}
		}
		dark = dark || !serving()
		during = append(during, ShareOf(world, state.SlotB))
	}
	for _, s := range world {
		if s.Weight != want[s.ID] {
			t.Fatalf("round %d: %s ends with %d, expected %d", n, s.ID, s.Weight, want[s.ID])
		}
	}
	if dark && served && serving() {
		t.Fatalf("round %d: nobody serves on the way of %v to %v", n, servers, want)
	}
	if most := max(before, ShareOf(world, state.SlotB)); len(during) > 0 && slices.Max(during) > most+1e-9 {
		t.Fatalf("round %d: share %v on the way, at most %v before and after %v to %v", n, slices.Max(during), most, servers, want)
	}
}

// A return that is cut off after its first write has taken traffic away from
// the candidate already, unless nothing else would serve.
func TestChangesOfAReturn(t *testing.T) {
	for _, tt := range []struct {
		a, b int
		want string
	}{{95, 5, "b0 b1 a0 a1"}, {0, 100, "a0 a1 b0 b1"}} {
		servers, want := slots(2, 2, 2, 2), map[string]int{"a0": 100, "a1": 100, "b0": 0, "b1": 0}
		for i := range servers {
			servers[i].Weight = map[state.Slot]int{state.SlotA: tt.a, state.SlotB: tt.b}[servers[i].Slot]
		}
		var got []string
		for _, c := range Changes(servers, state.SlotB, want) {
			got = append(got, c.ID)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("from %d and %d: %v, want %s", tt.a, tt.b, got, tt.want)
		}
	}
}
