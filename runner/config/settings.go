package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Settings are a provider's settings: text, whole numbers (int), other numbers
// (float64), true and false, lists and maps of these. Reading them back from
// JSON gives the same types, so that a pinned configuration is the same one.
type Settings map[string]any

// UnmarshalJSON implements json.Unmarshaler.
func (s *Settings) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var raw map[string]any
	if err := d.Decode(&raw); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	if raw == nil {
		*s = nil
		return nil
	}
	out := make(Settings, len(raw))
	for key, value := range raw {
		out[key] = plainNumbers(value)
	}
	*s = out
	return nil
}

func plainNumbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		if n, err := strconv.Atoi(v.String()); err == nil {
			return n
		}
		f, _ := v.Float64()
		return plainFloat(f)
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = plainNumbers(v[key])
		}
	}
	return value
}

// plainFloat is the one form of a number: an int where it is whole and fits,
// since JSON does not tell 1.0 from 1.
func plainFloat(f float64) any {
	if f == math.Trunc(f) && math.Abs(f) < math.MaxInt64 {
		return int(f)
	}
	return f
}
