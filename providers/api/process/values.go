package process

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/manent/action/providers"
)

// Limits of the file MANENT_OUTPUT, since the values go into the state.
const (
	MaxValues      = 32       // keys
	MaxValue       = 1 << 10  // bytes of a value
	maxValuesBytes = 64 << 10 // bytes of the file
)

var (
	varName  = regexp.MustCompile(`^MANENT_[A-Z0-9_]+$`)
	valueKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)
)

// environment is what a command gets: what this process has, without the
// MANENT_* variables of another command around it, then its own.
func environment(inherited []string, vars map[string]string, file string) ([]string, error) {
	var out []string
	for _, entry := range inherited {
		if !strings.HasPrefix(entry, "MANENT_") || strings.HasPrefix(entry, "MANENT_RUN_") {
			out = append(out, entry)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if !varName.MatchString(name) || name == "MANENT_OUTPUT" {
			return nil, fmt.Errorf("variable %q, expected MANENT_ and capitals, digits or _, and not MANENT_OUTPUT", name)
		}
		if strings.ContainsRune(vars[name], 0) {
			return nil, fmt.Errorf("the value of variable %s has a zero byte", name)
		}
		out = append(out, name+"="+vars[name])
	}
	return append(out, "MANENT_OUTPUT="+file), nil
}

func newValuesFile(dir string) (string, error) {
	path := filepath.Join(dir, "output")
	return path, os.WriteFile(path, nil, 0o600)
}

// readValues reads what a command wrote to its file.
func readValues(path string, secrets *providers.Redactor) (map[string]string, error) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("MANENT_OUTPUT is no longer the file it was")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxValuesBytes+1))
	if err != nil {
		return nil, err
	}
	return parseValues(data, secrets)
}

// parseValues reads lines "key=value"; empty lines are nothing, and of a key
// that is there twice the last counts. No error text holds a value.
func parseValues(data []byte, secrets *providers.Redactor) (map[string]string, error) {
	if len(data) > maxValuesBytes {
		return nil, fmt.Errorf("MANENT_OUTPUT has more than %d bytes", maxValuesBytes)
	}
	values := map[string]string{}
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			continue
		}
		key, value, found := strings.Cut(line, "=")
		if !found || !valueKey.MatchString(key) {
			return nil, fmt.Errorf("MANENT_OUTPUT line %d has no valid key, expected key=value with a key of letters, digits, _ . -", i+1)
		}
		if err := checkValue(value, secrets); err != nil {
			return nil, fmt.Errorf("MANENT_OUTPUT line %d: the value of %s %w", i+1, key, err)
		}
		values[key] = value
	}
	if len(values) > MaxValues {
		return nil, fmt.Errorf("MANENT_OUTPUT has %d keys, expected at most %d", len(values), MaxValues)
	}
	return values, nil
}

func checkValue(value string, secrets *providers.Redactor) error {
	switch {
	case len(value) > MaxValue:
		return fmt.Errorf("has %d bytes, expected at most %d", len(value), MaxValue)
	case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
		return fmt.Errorf("is not plain text in UTF-8")
	case secrets != nil && secrets.Clean(value) != value:
		return fmt.Errorf("holds a secret, which must not go into the state")
	}
	return nil
}
