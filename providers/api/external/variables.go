package external

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Variables is where the environment of a program comes from, besides the
// variables MANENT_… of a call.
type Variables struct {
	Set     map[string]string // with their values
	Inherit []string          // names of manent's own
	Secrets []string          // names of those that get a secret for each call
}

// Check refuses a name that is none, one of manent's own, and one that is
// there twice. MANENT_RUN_… may be inherited.
func (v Variables) Check() error {
	names := slices.Concat(slices.Collect(maps.Keys(v.Set)), v.Inherit, v.Secrets)
	slices.Sort(names)
	for i, name := range names {
		inherited := slices.Contains(v.Inherit, name) && strings.HasPrefix(name, "MANENT_RUN_")
		switch {
		case !variable.MatchString(name) || strings.HasPrefix(name, "MANENT_") && !inherited:
			return fmt.Errorf("variable %q, expected letters, digits and _, and none of manent's own", name)
		case i > 0 && names[i-1] == name:
			return fmt.Errorf("variable %s is given twice", name)
		case strings.Contains(v.Set[name], "\x00"):
			return fmt.Errorf("the value of variable %s has a zero byte", name)
		}
	}
	return nil
}

// Environ is what a program gets of manent's environment, and what is set;
// getenv may be nil.
func (v Variables) Environ(getenv func(string) string) []string {
	out := []string{}
	for _, name := range slices.Concat([]string{"PATH", "HOME", "TMPDIR", "LANG", "SystemRoot", "TEMP"}, v.Inherit) {
		if _, own := v.Set[name]; own || getenv == nil {
			continue
		}
		if value := getenv(name); value != "" {
			out = append(out, name+"="+value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.Set)) {
		out = append(out, name+"="+v.Set[name])
	}
	return out
}
