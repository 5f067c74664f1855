package router

import (
	"slices"
	"strings"

	"github.com/manent/action/providers"
)

// Traits say what a router can do, for plan, validate and documentation.
type Traits struct {
	Unit        string  // what is written: "percent", "weight 0–256"
	Step        float64 // smallest difference of share in percentage points; 0 = depends on the servers
	Conditional bool    // the system itself refuses a stale write; else a race window is left
	Testers     string  // "header", "tag" or ""
	OnTargets   bool    // the slots are groups of the environment's targets

	// Instead are settings that say where the slots are instead: with one of
	// them the slots are not groups of targets.
	Instead []string

	Notes Notes
}

// Notes are what a person has to know of a router, in short. docs/routers.md
// and doctor are made of them; the long form is in the router's own page.
type Notes struct {
	Page        string   // of the long form, in docs/: "haproxy.md"
	Resolution  string   // the smallest share, and what a share is one of
	Condition   string   // what refuses a stale write, or what is done instead
	Testers     string   // how the testers' requests get to a slot, "" when they cannot
	Sticky      string   // what keeps a client at its slot
	Permissions string   // the least
	Limits      []string // known, each a short sentence
	Others      []Other  // who else may write the weights
	Seen        string   // what shows who wrote them
}

// Other is a tool that may write the weights too.
type Other struct {
	Tool     string   // "Terraform, bigip_ltm_pool_attachment"
	Remedy   string   // what to tell it, so that it leaves them alone
	Managers []string // what its name has in it where the system names who wrote, in lower case
}

// Writer is the tool that a name belongs to where the system says who wrote.
func (n Notes) Writer(by string) (Other, bool) {
	by = strings.ToLower(by)
	i := slices.IndexFunc(n.Others, func(o Other) bool {
		return slices.ContainsFunc(o.Managers, func(m string) bool { return strings.Contains(by, m) })
	})
	if i < 0 {
		return Other{}, false
	}
	return n.Others[i], true
}

// Spec describes one router.
type Spec struct {
	providers.Spec[Router]
	Traits Traits
}

// Entry is a router of this build as documentation lists it: one that stands
// for itself, or one that a plugin brings.
type Entry struct {
	Name     string // "haproxy", "kubernetes with http_route"
	Unproven string // what no test ran against, "" for nothing
	Traits   Traits
}
