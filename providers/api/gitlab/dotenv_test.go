package gitlab

import (
	"strings"
	"testing"
)

func TestDotenv(t *testing.T) {
	long := strings.Repeat("x", DotenvSize)
	full := map[string]string{}
	for _, c := range "abcdefghijklmnopqrst" {
		full[string(c)] = "1"
	}
	cases := map[string]struct {
		before string
		values map[string]string
		want   string
		says   string
	}{
		"first":                     {"", map[string]string{"STATUS": "running", "RESUME": "now"}, "RESUME=now\nSTATUS=running\n", ""},
		"in place of earlier":       {"STATUS=running\nURL=u\n", map[string]string{"STATUS": "done"}, "URL=u\nSTATUS=done\n", ""},
		"others without a line end": {"URL=a=b", map[string]string{"STATUS": "done"}, "URL=a=b\nSTATUS=done\n", ""},
		"empty lines go":            {"URL=u\n\n", map[string]string{"A": ""}, "URL=u\nA=\n", ""},
		"nothing in place of it":    {"STATUS=running\n", map[string]string{"STATUS": ""}, "STATUS=\n", ""},
		"quotes stay":               {"", map[string]string{"A": `"x" 'y' # z`}, "A=\"x\" 'y' # z\n", ""},
		"percent of a URL":          {"", map[string]string{"A": "%C3%A9%20x=5%"}, "A=%C3%A9%20x=5%\n", ""},
		"as many as there may be":   {"", full, "", ""},
		"one too many":              {"URL=u\n", full, "", "21 variables, expected at most 20"},
		"too long":                  {"", map[string]string{"A": long}, "", "bytes, expected at most 5119"},
		"too long with others":      {"URL=" + long[100:] + "\n", map[string]string{"A": long[:100]}, "", "expected at most 5119"},
		"a secret by name":          {"", map[string]string{"A": "is $CI_JOB_TOKEN"}, "", "may take for a variable"},
		"by name in braces":         {"", map[string]string{"A": "${CI_JOB_TOKEN}"}, "", "may take for a variable"},
		"by name as on Windows":     {"", map[string]string{"A": "%CI_JOB_TOKEN%"}, "", "may take for a variable"},
		"space in front":            {"", map[string]string{"A": " x"}, "", "begins or ends with space"},
		"no UTF-8":                  {"", map[string]string{"A": "\xff"}, "", "not UTF-8"},
		"line end":                  {"", map[string]string{"A": "x\nSTATUS=done"}, "", "line end"},
		"line separator":            {"", map[string]string{"A": "x\u2028y"}, "", "line end"},
		"key":                       {"", map[string]string{"ä": "x"}, "", "expected letters, digits and _"},
		"key from a digit on":       {"", map[string]string{"1a": "x"}, "", "expected letters, digits and _"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Dotenv(tc.before, tc.values)
			if (err != nil) != (tc.says != "") || (err != nil && (!strings.Contains(err.Error(), tc.says) || got != "")) {
				t.Fatalf("%q, error %v, expected %q", got, err, tc.says)
			}
			if tc.want != "" && got != tc.want {
				t.Errorf("%q, expected %q", got, tc.want)
			}
		})
	}
}

// FuzzDotenv checks that whatever is written is read back, and nothing more.
func FuzzDotenv(f *testing.F) {
	f.Add("STATUS", "done", "STATUS=running\n")
	f.Add("A_B", "x=1 %A%", "A=1")
	f.Add("A", "$x", "")
	f.Fuzz(func(t *testing.T, key, value, before string) {
		text, err := Dotenv(before, map[string]string{key: value})
		if err != nil {
			return
		}
		if len(text) > DotenvSize {
			t.Errorf("%d bytes", len(text))
		}
		last, found := "", 0
		for line := range strings.Lines(text) {
			if name, rest, _ := strings.Cut(line, "="); strings.TrimSpace(name) == key {
				last, found = strings.TrimSpace(rest), found+1
			}
		}
		if found != 1 || last != value {
			t.Errorf("%q is there %d times, and %q in the end", value, found, last)
		}
	})
}
