package config

import (
	"fmt"
	"reflect"
)

// fill sets every default: the literal ones from the tags, then those that
// depend on something. given tells a value of the file from one that is zero
// because nobody gave it.
func fill(cfg *Config, given func(path string) bool) {
	literals(reflect.ValueOf(cfg).Elem(), "", given)
	r := &cfg.Rollout
	if !given("rollout.strategy") {
		r.Strategy = "waves"
		if given("rollout.traffic") {
			r.Strategy = "traffic"
		}
	}
	if !given("rollout.traffic.maxBake") {
		r.Traffic.MaxBake = r.Traffic.Bake
	}
	if !given("rollout.onFailure") {
		r.OnFailure = defaultOnFailure(*cfg)
	}
	for i := range r.Health.Metrics {
		ratios(&r.Health.Metrics[i])
	}
}

func defaultOnFailure(cfg Config) string {
	switch {
	case cfg.Rollout.Strategy == "traffic":
		return "rollback-all"
	case cfg.Rollback.Enabled:
		return "rollback-wave"
	}
	return "stop"
}

// ratios are the tolerated ratios of means that a statistical comparison has
// anyhow.
func ratios(m *Metric) {
	if m.Analysis == "" {
		return
	}
	for _, p := range []**float64{&m.MaxRatio, &m.MinRatio} {
		if *p == nil {
			one := 1.0
			*p = &one
		}
	}
}

// literals sets the defaults that the tags spell out. A section that is absent
// as a whole (nil) stays absent.
func literals(v reflect.Value, path string, given func(string) bool) {
	for _, f := range fieldsOf(v.Type()) {
		child, fv := join(path, f.Key), v.Field(f.Index)
		switch {
		case f.Default != "" && !given(child):
			setLiteral(fv, f.Default)
		case isSection(f.Type):
			literals(fv, child, given)
		case f.Type.Kind() == reflect.Pointer && isSection(f.Type.Elem()) && !fv.IsNil():
			literals(fv.Elem(), child, given)
		case f.Type.Kind() == reflect.Slice && isSection(f.Type.Elem()):
			for i := range fv.Len() {
				literals(fv.Index(i), fmt.Sprintf("%s[%d]", child, i), given)
			}
		}
	}
}

// setLiteral panics on a default that its type does not understand: a mistake
// in a tag, which any test that loads a file finds.
func setLiteral(v reflect.Value, text string) {
	d := decoder{problems: &Problems{}}
	if !d.literal(v, text) {
		panic(fmt.Sprintf("config: default %q is no %s", text, word(v.Type())))
	}
}
