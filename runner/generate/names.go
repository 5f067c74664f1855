package generate

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// quote writes a text as a YAML scalar: plain where nothing could take it for
// anything else, else in double quotes.
func quote(text string) string {
	plain := regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._/-]*$`)
	words := []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
	if plain.MatchString(text) && !slices.Contains(words, strings.ToLower(text)) {
		return text
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil {
		return strconv.Quote(text)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// shell writes a text as one word of a POSIX shell.
func shell(text string) string {
	if regexp.MustCompile(`^[A-Za-z0-9._/@%:=+-]+$`).MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// odd says what keeps a text out of any generated file: it is also written
// into comments, which a line break would end.
func odd(text string) string {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "has characters that cannot be printed"
	}
	return ""
}

// oddOnGitHub: an expression is evaluated wherever it stands.
func oddOnGitHub(text string) string {
	if strings.Contains(text, "${{") {
		return "has ${{, which GitHub would evaluate"
	}
	return odd(text)
}

// oddOnGitLab: variables and inputs are expanded wherever they stand.
func oddOnGitLab(text string) string {
	if strings.Contains(text, "$") {
		return "has a dollar sign, which GitLab would expand"
	}
	return odd(text)
}

// secretNames refuses variables that GitHub takes no secret for.
func secretNames(v view) error {
	for _, name := range v.Secrets {
		if !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(name) || strings.HasPrefix(strings.ToUpper(name), "GITHUB_") {
			return &Error{Reason: fmt.Sprintf("%s: env:%s: GitHub has no secret of that name", v.File, name),
				Hint: "letters, digits and underscores, no digit first and no GITHUB_; name another variable in secrets"}
		}
	}
	return nil
}

// slug makes a text the name of a file or a job: letters, digits, dashes and
// underscores, a letter or underscore first.
func slug(text string) string {
	text = regexp.MustCompile(`[^A-Za-z0-9_]+`).ReplaceAllString(text, "-")
	text = strings.Trim(text, "-")
	if text == "" || text[0] >= '0' && text[0] <= '9' {
		text = "_" + text
	}
	return text
}

// unique numbers the jobs whose names differ in nothing that is left.
func unique(jobs []Job) {
	seen := map[string]bool{"return": true}
	for i := range jobs {
		id := jobs[i].ID
		for n := 2; seen[strings.ToLower(id)]; n++ {
			id = fmt.Sprintf("%s-%d", jobs[i].ID, n)
		}
		jobs[i].ID = id
		seen[strings.ToLower(id)] = true
	}
}
