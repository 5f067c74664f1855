package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// pinned checks that a configuration survives its JSON, to the byte.
func pinned(t *testing.T, c Config) {
	t.Helper()
	first, err := c.Pin()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Unpin(first)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(c, back); d != "" || !reflect.DeepEqual(c, back) {
		t.Fatalf("another configuration came back (-want +got):\n%s", d)
	}
	second, err := back.Pin()
	if err != nil || !bytes.Equal(first, second) {
		t.Fatalf("pinned twice (%v):\n%s\n%s", err, first, second)
	}
	var plain Config // as the engine reads it
	if err := json.Unmarshal(first, &plain); err != nil || !reflect.DeepEqual(c, plain) {
		t.Fatalf("json.Unmarshal gives another configuration: %v", err)
	}
}

func TestPinOfFiles(t *testing.T) {
	for _, file := range filesIn(t, "testdata/valid/*.yml") {
		c, _ := load(t, file)
		pinned(t, c)
	}
}

func TestPinOfRandomConfigurations(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var c Config
		random(r, reflect.ValueOf(&c).Elem())
		pinned(t, c)
	}
}

// random fills a value with anything that reading a file could give.
func random(r *rand.Rand, v reflect.Value) {
	switch t := v.Type(); {
	case isDuration(t) || isPercent(t) || isTime(t):
		randomWord(r, v)
	case isSettings(t):
		v.Set(reflect.ValueOf(Settings{word26(r): randomAny(r, 3)}))
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			random(r, v.Field(i))
		}
	case t.Kind() == reflect.Pointer && r.IntN(2) == 0:
		v.Set(reflect.New(t.Elem()))
		random(r, v.Elem())
	case t.Kind() == reflect.Slice && r.IntN(3) > 0:
		v.Set(reflect.MakeSlice(t, 2, 2))
		random(r, v.Index(0))
		random(r, v.Index(1))
	case t.Kind() == reflect.Map && r.IntN(3) > 0:
		item := reflect.New(t.Elem()).Elem()
		random(r, item)
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(reflect.ValueOf(word26(r)), item)
	default:
		randomPlain(r, v)
	}
}

func randomWord(r *rand.Rand, v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *Duration:
		*x = Duration(r.Int64N(int64(longestDuration)))
	case *Percent:
		_ = x.UnmarshalText(fmt.Appendf(nil, "%.4g%%", 0.001+r.Float64()*99))
	case *time.Time:
		*x = time.Unix(r.Int64N(4e9), 0).UTC()
	}
}

func randomPlain(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int:
		v.SetInt(r.Int64N(1 << 40))
	case reflect.Float64:
		v.SetFloat(r.NormFloat64() * 1e3)
	case reflect.String:
		v.SetString(word26(r))
	}
}

func word26(r *rand.Rand) string {
	return []string{"", "a", "<&>", "ü ", "line\nbreak", "\"quoted\"", "x{track}"}[r.IntN(7)] + string(rune('a'+r.IntN(26)))
}

func randomAny(r *rand.Rand, depth int) any {
	switch n := r.IntN(8); {
	case n == 0 && depth > 0:
		return []any{randomAny(r, depth-1), "x"}
	case n == 1 && depth > 0:
		return map[string]any{word26(r): randomAny(r, depth-1)}
	case n == 2:
		return r.IntN(2) == 0
	case n == 3:
		return int(r.Int64())
	case n == 4:
		return plainFloat(r.NormFloat64())
	case n == 5:
		return plainFloat(r.NormFloat64() * 1e30)
	}
	return word26(r)
}

func TestSettingsKeepTheirTypes(t *testing.T) {
	c := must(t, `
plugin:
  name: kubernetes
  settings: {text: "1", whole: 1000000, same: 1.0, part: 0.25, huge: 1.0e+30, on: true, stamp: 2026-12-24, list: [1, a, [2]], map: {5: x}, empty: {}, none: []}
rollout: {traffic: {steps: [100]}}`)
	want := Settings{
		"text": "1", "whole": 1000000, "same": 1, "part": 0.25, "huge": 1e30, "on": true, "stamp": "2026-12-24",
		"list": []any{1, "a", []any{2}}, "map": map[string]any{"5": "x"}, "empty": map[string]any{}, "none": []any{},
	}
	if d := cmp.Diff(want, c.Plugin.Settings); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	pinned(t, c)
}

func TestPinHoldsNoSecret(t *testing.T) {
	c, _ := load(t, "testdata/valid/canary.yml")
	data, err := c.Pin()
	if err != nil || !strings.Contains(string(data), `"token_secret":"prometheus-token"`) {
		t.Errorf("pinned: %s, %v", data, err)
	}
}

func TestUnpinRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, text := range []string{`{"projcet":"x"}`, `{"rollout":{"bake":"1m"}}`, `{"rollout":{"approvalTimeout":"soon"}}`, `[]`, `{`} {
		if c, err := Unpin([]byte(text)); err == nil {
			t.Errorf("Unpin(%s) = %+v, expected an error", text, c)
		}
	}
}

func TestDiffNamesChangedKeys(t *testing.T) {
	old, _ := load(t, "testdata/valid/canary.yml")
	changed, _ := load(t, "testdata/valid/canary.yml")
	if got := Diff(old, changed); len(got) > 0 {
		t.Errorf("the same file differs in %v", got)
	}
	changed.Rollout.Traffic.Bake = minutes(20)
	changed.Rollout.Traffic.Steps = []float64{5, 100}
	changed.Rollout.Health.Metrics[0].MaxRatio = ptr(2.0)
	changed.Traffic.Router.Settings["slot_a"] = "10.0.1.11:8080"
	changed.Rollout.Traffic.Testers = nil
	changed.Secrets = nil
	want := []string{
		"rollout.health.metrics[0].maxRatio", "rollout.traffic.bake", "rollout.traffic.steps", "rollout.traffic.testers",
		"secrets", "traffic.router.settings.slot_a",
	}
	if d := cmp.Diff(want, Diff(old, changed)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
