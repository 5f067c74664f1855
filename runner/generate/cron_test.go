package generate

import (
	"strings"
	"testing"
	"time"
)

// TestCron: what GitHub takes is taken, and nothing else.
func TestCron(t *testing.T) {
	for _, text := range []string{
		"*/5 * * * *", "4-59/15 * * * *", "0 0 1 1 0", "59 23 31 12 6", "30 5,17 * * *", "0 8 * * MON-FRI", "1,2,10-20/3 * * jan,Feb SUN", "  0  4 * * * ", "0/15 * * * *",
	} {
		if why := oddCron(text); why != "" {
			t.Errorf("%q %s", text, why)
		}
	}
	for text, want := range map[string]string{
		"": "has 0 fields", "foo": "has 1 fields", "@daily": "has 1 fields", "0 * * * * *": "has 6 fields", "* * * *": "has 4 fields",
		"60 * * * *": `has "60" as minute`, "* 24 * * *": `"24" as hour`, "* * 0 * *": `"0" as day of the month`, "* * * 13 *": "as month", "* * * * 7": "as day of the week",
		"*/0 * * * *": `"*/0"`, "*/x * * * *": `"*/x"`, "*/ * * * *": `"*/"`, "20-10 * * * *": `"20-10"`, "1- * * * *": `"1-"`, "-1 * * * *": `"-1"`, "1,,2 * * * *": `""`,
		"MON * * * *": `"MON"`, "* * * * MONDAY": `"MONDAY"`, "+1 * * * *": `"+1"`, "*/+1 * * * *": `"*/+1"`, "H * * * *": `"H"`, "* * ? * *": `"?"`, "*5 * * * *": `"*5"`,
	} {
		if why := oddCron(text); !strings.Contains(why, want) {
			t.Errorf("%q %q, expected %q", text, why, want)
		}
	}
}

// TestMaxTime: no job is asked to last longer than its platform lets it.
func TestMaxTime(t *testing.T) {
	for _, row := range []struct {
		most         time.Duration
		label, want  string
		hint, noHint string
	}{
		{330 * time.Minute, "ubuntu-24.04", "", "", ""},
		{7 * time.Hour, "ubuntu-24.04", "is too long: GitHub ends a job on ubuntu-24.04 after 6h", "at most --max-time 5h30m", ""},
		{331 * time.Minute, "windows-latest", "is too long", "runners of your own", ""},
		{6 * time.Hour, "macos-15", "is too long", "--runs-on", ""},
		{7 * time.Hour, "self-hosted", "", "", ""},
		{119*time.Hour + 30*time.Minute, "big", "", "", ""},
		{120 * time.Hour, "big", "GitHub ends a job after 120h", "at most --max-time 119h30m", "--runs-on"},
		{9 * time.Minute, "big", "expected at least 10m", "", ""},
	} {
		why, hint := oddTime(row.most, row.label)
		if (why == "") != (row.want == "") || !strings.Contains(why, row.want) || !strings.Contains(hint, row.hint) || row.noHint != "" && strings.Contains(hint, row.noHint) {
			t.Errorf("%s on %s: %q, hint %q; expected %q, %q", row.most, row.label, why, hint, row.want, row.hint)
		}
		if why == "" && time.Duration(limit(row.most))*time.Minute > ownLimit {
			t.Errorf("%s on %s: the job's own limit is %d minutes", row.most, row.label, limit(row.most))
		}
	}
}
