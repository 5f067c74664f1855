package external

import (
	"reflect"

	"github.com/manent/action/providers"
)

// Method is one request of the protocol.
type Method struct {
	Name       string
	Capability string // that has to be declared for it, "" for all programs
	Trait      string // that has to be declared too, "" for none
	Changes    bool   // it changes the world; it may come again after a crash
	Unused     string // why this build does not send it, "" for used
	Does       string
	Params     reflect.Type
	Result     reflect.Type
}

// Names of the requests.
const (
	Describe = "describe"
	Deploy   = "deploy"
	Ready    = "ready"
	Scale    = "scale"
	Retire   = "retire"
	Read     = "read"
	Write    = "write"
	Settled  = "settled"
	Plan     = "plan"
	Testers  = "target"
	Queries  = "query"
)

// Methods are the requests of the protocol, in the order of the documentation.
func Methods() []Method {
	return []Method{
		{Name: Describe, Does: "says what the program is and can do; it looks at nothing outside", Params: typ[None](), Result: typ[Description]()},
		{Name: Deploy, Capability: Deploys, Changes: true, Does: "puts the release into the slot, with capacity for all the traffic unless `gradual`, also after a retirement; again with the same step it ends in the same place", Params: typ[SlotParams](), Result: typ[DeployResult]()},
		{Name: Ready, Capability: Slots, Does: "one look: has the slot capacity for the share? One that was retired has none", Params: typ[ShareParams](), Result: typ[ReadyResult]()},
		{Name: Scale, Capability: Scales, Changes: true, Does: "gives the slot capacity for at least the share, one that has more keeps it; asked for a candidate with `gradual`, and for the slot that a return goes back to; need not wait for it", Params: typ[ShareParams](), Result: typ[None]()},
		{Name: Retire, Capability: Scales, Changes: true, Does: "scales the slot down to nothing", Params: typ[SlotParams](), Result: typ[None]()},
		{Name: Read, Capability: Routes, Does: "the weights as the router itself has them; changes nothing", Params: typ[ReadParams](), Result: typ[ReadResult]()},
		{Name: Write, Capability: Routes, Changes: true, Does: "sets the weights of the parts in want; a part that has them already is left alone", Params: typ[WriteParams](), Result: typ[WriteResult]()},
		{Name: Settled, Capability: Routes, Does: "one look: are these weights in force, not just accepted?", Params: typ[SettledParams](), Result: typ[SettledResult]()},
		{Name: Plan, Capability: Routes, Trait: "plans", Does: "the weights for a share; refuses with `invalid` one that it cannot reach, and names the smallest that it can", Params: typ[PlanParams](), Result: typ[PlanResult]()},
		{Name: Testers, Capability: Routes, Trait: "testers", Changes: true, Does: "sends testers to a slot, or no longer; moves no other traffic", Params: typ[TargetParams](), Result: typ[TargetResult]()},
		{Name: Queries, Capability: Metrics, Does: "answers queries of a gate, all of one reading; both sides of a comparison are among them", Params: typ[QueryParams](), Result: typ[QueryResult]()},
		{Name: "members", Capability: Pools, Unused: notUsed, Does: "all members of the pool", Params: typ[None](), Result: typ[MembersResult]()},
		{Name: "drain", Capability: Pools, Unused: notUsed, Changes: true, Does: "takes a member out of service; need not wait for its connections", Params: typ[MemberParams](), Result: typ[None]()},
		{Name: "restore", Capability: Pools, Unused: notUsed, Changes: true, Does: "brings a member back into service", Params: typ[MemberParams](), Result: typ[None]()},
	}
}

const notUsed = "for the pools of strategy `waves`, which this build does not have"

func typ[T any]() reflect.Type { return reflect.TypeFor[T]() }

// Kinds are the kinds of errors, with what manent makes of each.
func Kinds() []KindText {
	return []KindText{
		{providers.Unknown, "nobody can say whether it was done", "asks again; moves nothing because of it"},
		{providers.Unavailable, "the system behind it did not serve the call; nothing was done", "asks again"},
		{providers.Throttled, "the system asks to come back later; nothing was done", "asks again, not before `retryAfter`"},
		{providers.Denied, "the credentials are missing or insufficient", "fails the step"},
		{providers.NotFound, "what the request names does not exist", "fails the step"},
		{providers.Invalid, "the request was understood and is refused as wrong", "fails the step"},
		{providers.Conflict, "what is there is not what was expected; for write, `drift` says what is", "takes it for a foreign hand and pauses"},
	}
}

// KindText describes one kind.
type KindText struct {
	Kind    providers.Kind
	Meaning string
	Then    string // what manent does
}

func kindOf(name string) (providers.Kind, bool) {
	for _, k := range Kinds() {
		if k.Kind.String() == name {
			return k.Kind, true
		}
	}
	return providers.Unknown, false
}

// enums are the closed lists that fields name.
func enums(name string) []string {
	switch name {
	case "slot":
		return []string{"a", "b"}
	case "capability":
		return Capabilities()
	case "testers":
		return []string{"header", "tag"}
	case "kind":
		var out []string
		for _, k := range Kinds() {
			out = append(out, k.Kind.String())
		}
		return out
	}
	return nil
}
