package generate

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cronField is one of the five of a schedule.
type cronField struct {
	name        string
	least, most int
	words       []string // for least, and so on
}

func cronFields() []cronField {
	return []cronField{
		{"minute", 0, 59, nil},
		{"hour", 0, 23, nil},
		{"day of the month", 1, 31, nil},
		{"month", 1, 12, []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}},
		{"day of the week", 0, 6, []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}},
	}
}

// oddCron says what keeps a text from being a schedule of GitHub, POSIX cron
// with five fields and neither seconds nor @daily.
// https://docs.github.com/actions/reference/workflows-and-actions/events-that-trigger-workflows#schedule
func oddCron(text string) string {
	given, fields := strings.Fields(text), cronFields()
	if len(given) != len(fields) {
		return fmt.Sprintf("has %d fields, expected minute, hour, day of the month, month and day of the week", len(given))
	}
	for i, f := range fields {
		for item := range strings.SplitSeq(given[i], ",") {
			if !f.takes(item) {
				return fmt.Sprintf("has %q as %s, expected *, or numbers from %d to %d with , - and /", item, f.name, f.least, f.most)
			}
		}
	}
	return ""
}

// takes reports whether one item of a list is *, N or N-M, each with or
// without a step.
func (f cronField) takes(item string) bool {
	span, step, stepped := strings.Cut(item, "/")
	if n, err := strconv.Atoi(step); stepped && (err != nil || n < 1 || step[0] == '+') {
		return false
	}
	if span == "*" {
		return true
	}
	first, last, ranged := strings.Cut(span, "-")
	from, ok := f.value(first)
	if !ranged {
		return ok
	}
	to, also := f.value(last)
	return ok && also && from <= to
}

func (f cronField) value(text string) (int, bool) {
	if i := slices.Index(f.words, strings.ToUpper(text)); i >= 0 {
		return f.least + i, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && regexp.MustCompile(`^[0-9]{1,2}$`).MatchString(text) && f.least <= n && n <= f.most
}

// Limits of a job: https://docs.github.com/actions/reference/limits
const (
	hostedLimit = 6 * time.Hour
	ownLimit    = 5 * 24 * time.Hour
)

// oddTime says what keeps a call of run from lasting as long as that on the
// runner of a label.
func oddTime(most time.Duration, label string) (string, string) {
	if most < 10*time.Minute {
		return "expected at least 10m", ""
	}
	limit, whose, hint := ownLimit, "a job", ""
	if regexp.MustCompile(`^(ubuntu|windows|macos)-`).MatchString(label) {
		limit, whose, hint = hostedLimit, "a job on "+label, "; runners of your own (--runs-on) have 5 days"
	}
	if longest := limit - spare; most > longest {
		return fmt.Sprintf("is too long: GitHub ends %s after %s, and that counts as cancelled", whose, hours(limit)),
			fmt.Sprintf("at most --max-time %s, a stage that could last longer is split%s", hours(longest), hint)
	}
	return "", ""
}

// hours writes whole minutes as the command line takes them.
func hours(d time.Duration) string {
	text := strings.TrimSuffix(d.String(), "0s")
	if d%time.Hour == 0 {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
