package gitlab

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of a dotenv report, https://docs.gitlab.com/ci/variables/dotenv_variables/.
// A GitLab may be set to allow more.
const (
	DotenvSize      = 5<<10 - 1 // bytes; the file has to be smaller than 5 KiB
	DotenvVariables = 20
)

var (
	variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// reference is what GitLab or its runner may replace by the value of a
	// variable, which may be a secret. There is no escape that all versions know.
	reference = regexp.MustCompile(`\$|%[A-Za-z_][A-Za-z0-9_]{2,}%`)
)

// Dotenv adds variables to the text of a report, in place of earlier values;
// lines of others stay. It refuses what would not arrive as it is.
func Dotenv(text string, values map[string]string) (string, error) {
	var out strings.Builder
	count := len(values)
	for line := range strings.Lines(text) {
		key, _, _ := strings.Cut(line, "=")
		if _, replaced := values[strings.TrimSpace(key)]; replaced || strings.TrimSpace(line) == "" {
			continue
		}
		out.WriteString(strings.TrimSuffix(line, "\n") + "\n")
		count++
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if err := CheckVariable(key, values[key]); err != nil {
			return "", err
		}
		out.WriteString(key + "=" + values[key] + "\n")
	}
	switch {
	case out.Len() > DotenvSize:
		return "", fmt.Errorf("the report would have %d bytes, expected at most %d", out.Len(), DotenvSize)
	case count > DotenvVariables:
		return "", fmt.Errorf("the report would have %d variables, expected at most %d", count, DotenvVariables)
	}
	return out.String(), nil
}

// CheckVariable refuses what no report can hold. It knows that GitLab splits
// the file at line ends, takes space off both ends of a value and has no
// quotes. Nothing behind the "=" is an empty value, as GitLab's own tests of
// its parser (ParseDotenvArtifactService) have it.
func CheckVariable(key, value string) error {
	switch {
	case len(key)+len("=\n")+len(value) > DotenvSize:
		return fmt.Errorf("%.80s and its value have %d bytes, expected at most %d", key, len(key)+2+len(value), DotenvSize)
	case !variable.MatchString(key):
		return fmt.Errorf("variable %.80q, expected letters, digits and _", key)
	case !utf8.ValidString(value):
		return fmt.Errorf("the value of %s is not UTF-8", key)
	case strings.ContainsFunc(value, BreaksLines):
		return fmt.Errorf("the value of %s has a line end or another control character", key)
	case strings.TrimSpace(value) != value:
		return fmt.Errorf("the value of %s begins or ends with space, which GitLab takes off", key)
	case reference.MatchString(value):
		return fmt.Errorf("the value of %s holds %q, which GitLab may take for a variable", key, reference.FindString(value))
	}
	return nil
}

// BreaksLines reports whether a character may end a line, or do more to a
// terminal or a job's log than show.
func BreaksLines(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }

// Printable makes one line of a text, without the characters that colour a
// job's log, open its sections or begin another line.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if BreaksLines(r) {
			return ' '
		}
		return r
	}, strings.TrimRight(text, "\r\n"))
}
