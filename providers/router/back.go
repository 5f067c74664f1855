package router

import (
	"slices"
	"sync"

	"github.com/manent/action/state"
)

// atOnce is how many servers of one instance Back writes at the same time.
const atOnce = 8

// Back makes the changes of a return, in which the share of slot only falls,
// and makes several at once: one after the other, a slow API would not let
// them end in the time of a call. What other servers get more comes before
// what those of slot lose, unless others serve already: there is always one in
// service then. A change that fails keeps no other one, but a slot that serves
// alone keeps its servers while no other one that is up could be given any.
func Back(servers []Server, slot state.Slot, want map[string]int, change func(Change) error) error {
	byID := map[string]Server{}
	for _, s := range servers {
		byID[s.ID] = s
	}
	serves := slices.ContainsFunc(servers, func(s Server) bool { return s.Slot != slot && s.serves() })
	var first, rest []Change
	for _, c := range Changes(servers, slot, want) {
		if ours := byID[c.ID].Slot == slot; ours && serves || !ours && byID[c.ID].rises(c.To) {
			first = append(first, c)
		} else {
			rest = append(rest, c)
		}
	}
	problems := together(first, change)
	if serves || taken(first, problems, byID) {
		problems = append(problems, together(rest, change)...)
	}
	return Join(problems)
}

// taken reports whether one of the servers that are up has got its weight or,
// where none of them is up, one of all. What nobody was to be given keeps
// nothing.
func taken(changes []Change, problems []error, byID map[string]Server) bool {
	anyUp := slices.ContainsFunc(changes, func(c Change) bool { return byID[c.ID].Up })
	for i, c := range changes {
		if problems[i] == nil && (byID[c.ID].Up || !anyUp) {
			return true
		}
	}
	return len(changes) == 0
}

// together returns what went wrong with each.
func together(changes []Change, change func(Change) error) []error {
	problems := make([]error, len(changes))
	for done := 0; done < len(changes); done += atOnce {
		var all sync.WaitGroup
		for i := done; i < min(done+atOnce, len(changes)); i++ {
			all.Go(func() { problems[i] = change(changes[i]) })
		}
		all.Wait()
	}
	return problems
}
