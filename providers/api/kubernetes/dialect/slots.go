package dialect

import (
	"fmt"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/state"
)

// InUse refuses a slot that any rule of the route sends to, or a copy of its
// requests, whoever manages it.
func (r Route) InUse(slot state.Slot) error {
	uses := r.Split.Sends(slot)
	if len(uses) == 0 {
		return nil
	}
	return &providers.Fault{Kind: providers.Conflict,
		Err:  fmt.Errorf("it is in use: %s", strings.Join(uses, ", ")),
		Hint: "let these rules send to the slot that serves, or take them out; it is scaled down when none is left"}
}

// Free refuses a slot that a version is to be put into while rules beside the
// managed ones send to it: they would give it traffic before its first share.
// A slot that has the managed rules' traffic is for a first release.
func (r Route) Free(slot state.Slot) error {
	uses := r.Split.Strays(slot)
	if len(uses) == 0 || r.Split.Shares("")[slot] > 0 {
		return nil
	}
	return &providers.Fault{Kind: providers.Invalid,
		Err:  fmt.Errorf("slot %s is not free: %s, whatever the share is", slot, strings.Join(uses, ", ")),
		Hint: fmt.Sprintf("let it send to slot %s, which serves, or to both with the weights of the managed rules, and name it in the setting rules", slot.Other())}
}

// Managers are the field managers that hold the route's rules.
func (r Route) Managers() []string {
	var out []string
	for _, c := range r.Split.Holders() {
		out = append(out, c.Manager)
	}
	return out
}
