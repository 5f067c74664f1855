package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/manent/action/state"
)

// migration turns a document of one schema into the next, as plain JSON: it
// must go on working when the types have moved on. Numbers are json.Number.
type migration func(doc map[string]any) error

// migrations holds at index n the step from schema n to n+1. A build that
// raises state.Schema adds one line; a test holds the two together.
func migrations() [state.Schema]migration {
	return [...]migration{
		onePassToPasses, // 0 → 1
	}
}

// migrate brings a document to this build's schema.
func migrate(data []byte, from int) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var doc map[string]any
	if err := decoder.Decode(&doc); err != nil {
		return data, err
	}
	steps := migrations()
	for n := from; n < len(steps); n++ {
		if err := steps[n](doc); err != nil {
			return data, fmt.Errorf("schema %d: %w", n, err)
		}
		doc["schema"] = n + 1
	}
	out, err := json.Marshal(doc)
	if err != nil {
		return data, err
	}
	return out, nil
}

// onePassToPasses: schema 0, of the first drafts, knew one router only. It
// had "serial" for seq, and "serving" {slot, version} in place of passes.
func onePassToPasses(doc map[string]any) error {
	doc["seq"] = doc["serial"]
	delete(doc, "serial")
	serving, given := doc["serving"]
	delete(doc, "serving")
	if !given {
		return nil
	}
	fields, ok := serving.(map[string]any)
	if !ok {
		return errors.New("serving is not an object")
	}
	slot, ok := fields["slot"].(string)
	if !ok {
		return errors.New("serving has no slot")
	}
	doc["passes"] = []any{map[string]any{
		"name": "", "serving": slot, "share": 0,
		"slots": map[string]any{slot: map[string]any{"version": fields["version"]}},
	}}
	return nil
}
