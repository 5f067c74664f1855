// Package split is the content of the one file of NGINX's configuration that
// splits traffic between two slots: as data, as text, and back. It does no I/O
// and must not know how the file gets to a host, nor any contract.
//
// Writing and reading are inverse, and reading is strict: what the data cannot
// hold is an error with its line, so that nothing in the file goes unseen. What
// the directives say counts, not the comment above them. The directives are
// those of NGINX 1.22 (ngx_http_split_clients_module, ngx_http_map_module,
// ngx_http_upstream_module), sticky that of 1.29.6.
package split

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"github.com/manent/action/state"
)

// Modes.
const (
	Hashed   = "split_clients" // by user: a user stays in a slot
	Weighted = "weight"        // by turns: exact, but a user changes slots
)

// Setup is what stays the same from one write to the next.
type Setup struct {
	Prefix    string                  // of variables and upstreams
	Mode      string                  // Hashed or Weighted
	Key       string                  // variables that name the user
	Addresses map[state.Slot][]string // servers of the slots; in a file only in mode Weighted
	Cookie    string                  // mode Weighted: keeps a client at its server; "" for none
	Expires   string                  // of the cookie, "3600s"
}

// File is the managed file as data. The zero value is a file that is not there.
type File struct {
	Setup
	Generation string   // new with every write; the workers' proof
	Salt       string   // mode Hashed: other users with each rollout
	Lines      []Line   // mode Hashed, in the order of the file
	Servers    []Server // mode Weighted, in the order of the file
	Testers    Testers
}

// Line gives hundredths of a percent of the users to a slot; the last one may
// have the rest.
type Line struct {
	Hundredths int // 1–10000; -1 = the rest
	Slot       string
}

// Server is one of the weighted servers.
type Server struct {
	Address string
	Weight  int // 1 and up
	Down    bool
	Route   string // in the cookie, "" without one
}

// Share is hundredths of a percent for each slot: 10000 together. The zero
// value is the share before the first release: no slot gets anything.
type Share struct{ A, B int }

// ShareOf reads weights in percent, keyed "a" and "b".
func ShareOf(weights map[string]float64) (Share, error) {
	var got [2]int
	for i, slot := range []string{"a", "b"} {
		h := weights[slot] * 100
		got[i] = int(math.Round(h))
		if h < 0 || h > 10000 || math.Abs(h-math.Round(h)) > 1e-6 {
			return Share{}, fmt.Errorf("weight %v of slot %s, expected a multiple of 0.01 from 0 to 100", weights[slot], slot)
		}
	}
	for unit := range weights {
		if unit != "a" && unit != "b" {
			return Share{}, fmt.Errorf("weight of %q, expected a and b only", unit)
		}
	}
	if got[0]+got[1] != 10000 {
		return Share{}, fmt.Errorf("weights %v and %v, expected 100 together", weights["a"], weights["b"])
	}
	return Share{got[0], got[1]}, nil
}

func (s Share) of(slot state.Slot) int {
	if slot == state.SlotB {
		return s.B
	}
	return s.A
}

// Next is the file that follows f with another share: the same testers, the
// same salt unless slots have a candidate, no generation yet.
func (f File) Next(setup Setup, slots state.Slots, share Share) File {
	next := File{Setup: setup, Testers: f.Testers}
	if setup.Mode == Hashed {
		next.Addresses = nil
		next.Lines = linesOf(share, firstSlot(share, f.Lines, slots.Candidate))
		if len(next.Lines) > 0 {
			next.Salt = salt(slots, f.Salt)
		}
		return next
	}
	next.Servers = serversOf(share, setup.Addresses, setup.Cookie != "")
	return next
}

// salt is constant within a rollout and alike on every instance. It is a
// digest, since it stands within quotes. Without a rollout what is there stays.
func salt(slots state.Slots, old string) string {
	id := slots.Get(slots.Candidate).Ref[state.RefRollout]
	if slots.Candidate == "" || id == "" {
		if old != "" {
			return old
		}
		id = "first"
	}
	return digest(id)[:16]
}

// firstSlot is the slot whose users are the lowest of all hashes. It has to be
// the candidate: as its line grows it takes users over and gives none back.
// Without a candidate the order of the file stays.
func firstSlot(share Share, old []Line, candidate state.Slot) state.Slot {
	switch {
	case candidate != "":
		return candidate
	case len(old) > 1:
		return state.Slot(old[0].Slot)
	case share.A < share.B:
		return state.SlotA
	}
	return state.SlotB
}

// linesOf leaves a slot of 0 % out, which split_clients refuses.
func linesOf(share Share, first state.Slot) []Line {
	switch part := share.of(first); {
	case share == (Share{}):
		return nil
	case part == 10000:
		return []Line{{-1, string(first)}}
	case part == 0:
		return []Line{{-1, string(first.Other())}}
	default:
		return []Line{{part, string(first)}, {-1, string(first.Other())}}
	}
}

// serversOf gives each server of a slot the same weight, so that the slots'
// sums are exactly as shared. A slot of 0 % is left out: weight=0 is refused,
// and a server that is marked down makes the other one subject to max_fails.
func serversOf(share Share, addresses map[state.Slot][]string, sticky bool) []Server {
	a, b := addresses[state.SlotA], addresses[state.SlotB]
	weights := map[state.Slot]int{state.SlotA: share.A * len(b), state.SlotB: share.B * len(a)}
	divisor := gcd(weights[state.SlotA], weights[state.SlotB])
	var all []Server
	for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
		for i, address := range addresses[slot] {
			if weights[slot] == 0 {
				continue
			}
			s := Server{Address: address, Weight: weights[slot] / divisor}
			if sticky {
				s.Route = fmt.Sprintf("%s%d", slot, i+1)
			}
			all = append(all, s)
		}
	}
	return all
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// held is what each name in the directives gets, in percent.
func (f File) held() map[string]float64 {
	if f.Mode == Weighted {
		return f.heldByServers()
	}
	held, rest := map[string]float64{}, 10000
	for _, l := range f.Lines {
		part := l.Hundredths
		if part < 0 {
			part = rest
		}
		rest -= part
		held[l.Slot] += float64(part)
	}
	if len(f.Lines) > 0 && rest > 0 {
		held["nothing"] = float64(rest)
	}
	for name, hundredths := range held {
		held[name] = hundredths / 100
	}
	return held
}

func (f File) heldByServers() map[string]float64 {
	held, sum := map[string]float64{}, 0.0
	for _, s := range f.Servers {
		if !s.Down {
			held[f.slotOf(s.Address)] += float64(s.Weight)
			sum += float64(s.Weight)
		}
	}
	for name, weight := range held {
		held[name] = math.Round(weight/sum*1e8) / 1e6
	}
	return held
}

// slotOf is the slot of a server, or the server itself if it is in none.
func (f File) slotOf(address string) string {
	for slot, all := range f.Addresses {
		if slices.Contains(all, address) {
			return string(slot)
		}
	}
	return address
}

// Weights are the slots' in percent; nil when there is no file.
func (f File) Weights() map[string]float64 {
	if f.Mode == "" {
		return nil
	}
	held := f.held()
	return map[string]float64{"a": held["a"], "b": held["b"]}
}

// Shares are the weights, by slot.
func (f File) Shares() map[state.Slot]float64 {
	w := f.Weights()
	return map[state.Slot]float64{state.SlotA: w["a"], state.SlotB: w["b"]}
}

// Foreign is what others than the slots get.
func (f File) Foreign() map[string]float64 {
	others := f.held()
	delete(others, "a")
	delete(others, "b")
	if len(others) == 0 {
		return nil
	}
	return others
}

// digest is SHA-256 in hex.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
