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
// alone keeps its servers while no other one could be given any.
func Back(servers []Server, slot state.Slot, want map[string]int, change func(Change) error) error {
	slots, serves := map[string]state.Slot{}, false
	for _, s := range servers {
		slots[s.ID] = s.Slot
		serves = serves || s.Slot != slot && s.Weight > 0
	}
	var first, rest []Change
	for _, c := range Changes(servers, slot, want) {
		if ours := slots[c.ID] == slot; ours && serves || !ours && c.To > c.From {
			first = append(first, c)
		} else {
			rest = append(rest, c)
		}
	}
	problems := together(first, change)
	if serves || len(first) == 0 || len(problems) < len(first) {
		problems = append(problems, together(rest, change)...)
	}
	return Join(problems)
}

// together returns what went wrong.
func together(changes []Change, change func(Change) error) []error {
	problems := make([]error, len(changes))
	for done := 0; done < len(changes); done += atOnce {
		var all sync.WaitGroup
		for i := done; i < min(done+atOnce, len(changes)); i++ {
			all.Go(func() { problems[i] = change(changes[i]) })
		}
		all.Wait()
	}
	return slices.DeleteFunc(problems, func(err error) bool { return err == nil })
}
