package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Pin is the canonical JSON of a configuration: the same bytes for the same
// configuration, and Unpin gives back an equal one. It holds secrets by name
// only, as the configuration does.
func (c Config) Pin() (json.RawMessage, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("pin the configuration: %w", err)
	}
	return data, nil
}

// Unpin reads what Pin wrote. Keys that this build does not know are refused:
// a rollout is not to go on with half of its rules.
func Unpin(data json.RawMessage) (Config, error) {
	var c Config
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return Config{}, fmt.Errorf("read the pinned configuration: %w", err)
	}
	return c, nil
}

// Diff names the keys in which two configurations differ, in order of their
// names. A list of another length is named as a whole.
func Diff(a, b Config) []string {
	var changed []string
	diff("", tree(a), tree(b), &changed)
	slices.Sort(changed)
	return changed
}

func tree(c Config) any {
	var out any
	if data, err := c.Pin(); err == nil {
		_ = json.Unmarshal(data, &out)
	}
	return out
}

func diff(path string, a, b any, changed *[]string) {
	if reflect.DeepEqual(a, b) {
		return
	}
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			diffMaps(path, x, y, changed)
			return
		}
	case []any:
		if y, ok := b.([]any); ok && len(x) == len(y) {
			for i := range x {
				diff(fmt.Sprintf("%s[%d]", path, i), x[i], y[i], changed)
			}
			return
		}
	}
	*changed = append(*changed, path)
}

func diffMaps(path string, a, b map[string]any, changed *[]string) {
	both := maps.Clone(a)
	maps.Copy(both, b)
	for key := range both {
		diff(join(path, key), a[key], b[key], changed)
	}
}
