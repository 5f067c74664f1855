// Package patch writes JSON patches (RFC 6902) whose tests are the condition
// under which the rest is done: the API server applies all of it or nothing.
// It must not know what is patched, nor who sends it.
package patch

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Op is one operation.
type Op struct {
	Op    string // test, add or remove
	Path  string // JSON pointer (RFC 6901)
	Value any    // not of a remove
}

// MarshalJSON implements json.Marshaler: a remove has no value, a test may
// have the value null.
func (o Op) MarshalJSON() ([]byte, error) {
	if o.Op == "remove" {
		return json.Marshal(map[string]any{"op": o.Op, "path": o.Path})
	}
	return json.Marshal(map[string]any{"op": o.Op, "path": o.Path, "value": o.Value})
}

// Test makes the patch depend on a value.
func Test(value any, path ...any) Op { return Op{Op: "test", Path: Pointer(path...), Value: value} }

// Add sets a member of an object, whether it is there or not, or inserts into
// a list before an index ("-" for its end).
func Add(value any, path ...any) Op { return Op{Op: "add", Path: Pointer(path...), Value: value} }

// Remove takes a member or an element away.
func Remove(path ...any) Op { return Op{Op: "remove", Path: Pointer(path...)} }

// Pointer joins names and indexes into a JSON pointer.
func Pointer(path ...any) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var out strings.Builder
	for _, p := range path {
		out.WriteString("/" + escape.Replace(fmt.Sprint(p)))
	}
	return out.String()
}
