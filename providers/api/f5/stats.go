package f5

import (
	"encoding/json"
	"sort"
	"strconv"
)

// node is one node of an answer of statistics: a leaf with a value or a
// description, or more of them below entries. Names of the nodes between are
// URLs that differ from version to version, and some versions have fewer
// levels, so that leaves are looked for by their own name at any depth.
type node struct {
	Value       json.RawMessage `json:"value"`
	Description string          `json:"description"`
	Entries     map[string]node `json:"entries"`
	Nested      *node           `json:"nestedStats"`
}

// below are the children, those of the nested level included.
func (n node) below() map[string]node {
	if n.Nested == nil {
		return n.Entries
	}
	out := map[string]node{}
	for _, entries := range []map[string]node{n.Entries, n.Nested.below()} {
		for name, child := range entries {
			out[name] = child
		}
	}
	return out
}

// find calls yield for every leaf with this name, in order of the path.
func (n node) find(name string, yield func(node)) {
	children := n.below()
	names := make([]string, 0, len(children))
	for child := range children {
		names = append(names, child)
	}
	sort.Strings(names)
	for _, child := range names {
		c := children[child]
		if child == name && len(c.below()) == 0 {
			yield(c)
			continue
		}
		c.find(name, yield)
	}
}

// first is the first leaf with this name.
func (n node) first(name string) (leaf node) {
	found := false
	n.find(name, func(l node) {
		if !found {
			leaf, found = l, true
		}
	})
	return leaf
}

func (n node) text(name string) string { return n.first(name).Description }

func (n node) number(name string) (int64, bool) {
	v, err := strconv.ParseInt(string(n.first(name).Value), 10, 64)
	return v, err == nil
}

// any is a leaf as text, whichever way it is given.
func (n node) any(name string) string {
	if v, ok := n.number(name); ok {
		return strconv.FormatInt(v, 10)
	}
	return n.text(name)
}

// all are the descriptions of all leaves with this name.
func (n node) all(name string) []string {
	var out []string
	n.find(name, func(l node) { out = append(out, l.Description) })
	return out
}
