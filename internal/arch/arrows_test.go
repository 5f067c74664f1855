package arch

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// part is what a folder is in the layout.
type part string

const (
	data       part = "data"           // state, analysis, the root of providers
	checkpoint part = "checkpoint"     // below state
	contract   part = "contract"       // providers/<kind>
	shared     part = "shared"         // providers/httpx
	client     part = "client"         // providers/api/<system>
	provider   part = "implementation" // providers/<kind>/<name>
	helper     part = "test helper"    // conformance suites, implementations in memory
	engine     part = "runner"         // runner and below
	wire       part = "wire"           // cmd/internal/wire
	command    part = "cmd"            // the rest of cmd
	tool       part = "internal"       // tests and tools of the project itself
)

func partOf(dir string) part {
	seg := strings.Split(dir, "/")
	base := seg[len(seg)-1]
	switch {
	case len(seg) > 1 && (strings.HasSuffix(base, "test") || base == "memory"):
		return helper
	case dir == "cmd/internal/wire":
		return wire
	case seg[0] == "cmd":
		return command
	case seg[0] == "runner":
		return engine
	case seg[0] == "analysis", dir == "state", dir == "providers":
		return data
	case seg[0] == "state":
		return checkpoint
	case dir == "providers/httpx":
		return shared
	case strings.HasPrefix(dir, "providers/api/"):
		return client
	case seg[0] == "providers" && len(seg) == 2:
		return contract
	case seg[0] == "providers":
		return provider
	}
	return tool
}

// arrow is what the code of a part may import of the module, besides its own
// folder and what is below it, and why not more.
type arrow struct {
	may []part
	why string
}

func arrows() map[part]arrow {
	return map[part]arrow{
		data:       {nil, "it is the vocabulary of all others and imports the standard library only"},
		checkpoint: {[]part{data, contract}, "it keeps documents in any store and must not know a particular one"},
		contract:   {[]part{data, contract}, "a contract must not know who implements or uses it"},
		shared:     {[]part{data}, "it serves every provider and must not know any"},
		client:     {[]part{data, shared, client}, "it is a client of one system, without any contract, so that several contracts can share it"},
		provider:   {[]part{data, contract, shared, client}, "a provider must be readable and removable by itself: never the runner, never another provider's folder"},
		helper:     {[]part{data, contract, shared, client, helper}, "a test helper serves the tests of all implementations and must not know one"},
		engine:     {[]part{data, checkpoint, contract, engine}, "the engine knows no provider by name; it gets them from cmd"},
		command:    {[]part{data, checkpoint, contract, shared, engine, command, wire}, "only cmd/internal/wire imports implementations, so that one list shows what is in the binary"},
		wire:       {[]part{data, checkpoint, contract, shared, client, provider, engine}, "it lists implementations, and test helpers do not belong into the binary"},
		tool:       {[]part{data, contract, tool}, "tools of the project stand beside it"},
	}
}

// testsMayAlso is what tests may import beyond their code.
func testsMayAlso(p part) []part {
	also := []part{data, checkpoint, contract, shared, client, helper}
	switch p {
	case command, wire:
		also = append(also, provider, engine, command, wire)
	case engine, tool, checkpoint, helper:
		also = append(also, engine)
	}
	return also
}

func badArrows(project tree) []string {
	var out []string
	rules := arrows()
	for _, f := range project.files {
		from := partOf(f.dir)
		rule := rules[from]
		may := rule.may
		if f.test {
			may = append(slices.Clone(may), testsMayAlso(from)...)
		}
		for _, target := range f.imports() {
			dir, inside := folder(target)
			switch {
			case !inside && from == data && !f.test && !standard(target):
				out = append(out, fmt.Sprintf("%s imports %s; %s (%s): %s", f.path, target, f.dir, from, rule.why))
			case inside && !own(f.dir, dir) && !slices.Contains(may, partOf(dir)):
				out = append(out, fmt.Sprintf("%s imports %s (%s); of %s: %s", f.path, dir, partOf(dir), from, rule.why))
			}
		}
	}
	return out
}

// own reports whether two folders are one, or one below the other inside the
// same provider, analysis or engine.
func own(a, b string) bool {
	if partOf(b) == helper {
		return a == b
	}
	return a == b || (partOf(a) == partOf(b) && (strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")))
}

func TestArrows(t *testing.T) { check(t, badArrows(here(t))) }

func badDocs(project tree) []string {
	var out []string
	for _, dir := range project.dirs() {
		doc, name := "", ""
		for _, f := range project.in(dir) {
			if !f.test {
				doc, name = doc+f.syntax.Doc.Text(), f.syntax.Name.Name
			}
		}
		first := "Package " + name + " "
		if name == "main" {
			first = "Command " + path.Base(dir) + " "
		}
		if !strings.HasPrefix(doc, first) || len(doc) < len(first)+40 {
			out = append(out, fmt.Sprintf("%s has the package comment %.60q; expected one that begins with %q and says what it is for and what it must not know", dir, doc, first))
		}
	}
	return out
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) { check(t, badDocs(here(t))) }
