package wire

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/manent/action/providers"
	"github.com/manent/action/runner/gate"
)

func TestCountLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access.log")
	lines := []string{
		"1800000003 200 canary 0.003", "1800000001 503 canary 0.001", "1800000002 404 canary 0.002", "1800000002 499 canary 9",
		"1800000003 200 stable 0.004", "1800000003 200 next 0.004",
		"1800000004 500 - 0.001", "1800000004 000 - -", "unreadable",
		"1800000005 200 c 1", "1800000005 200 d 1", "1800000005 200 e 1", "1800000005 200 f 1", "1800000005 200 g 1", "1800000005 200 h 1",
		"1800000006 200 cana", // still being written
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := CountLog(t.Context(), AccessLog{
		File: file, Format: "$msec $status $backend $request_time", Unit: "s", Candidate: []string{"canary", "next"}, Stable: []string{"stable"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := LogCount{
		Candidate: gate.Track{Requests: 4, Errors: 1, Timed: 4, P95: 0.003, Abandoned: 1},
		Stable:    gate.Track{Requests: 1, Timed: 1, P95: 0.004},
		Untracked: gate.Track{Requests: 1, Errors: 1, Timed: 1, P95: 0.001, Abandoned: 1},
		Requests:  14, Strays: 6, Others: map[string]int{"c": 1, "d": 1, "e": 1, "f": 1, "g": 1, "others": 1},
		Lines: 15, Malformed: 1, Size: int64(len(strings.Join(lines, "\n"))),
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(LogCount{}, "Problem", "Others")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Problem == nil || len(got.Others) != maxOthers+1 || got.Others["others"] != 1 {
		t.Errorf("got problem %v, others %v", got.Problem, got.Others)
	}
}

// What is wrong with the call is told from a log that could not be read.
func TestCountLogRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "access.log")
	broken := filepath.Join(dir, "access.log.gz")
	for _, name := range []string{file, broken} {
		if err := os.WriteFile(name, []byte("1800000003 200 canary 0.003\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	const format = "$msec $status $backend $request_time"
	for _, tc := range []struct {
		name string
		ctx  context.Context
		log  AccessLog
		kind providers.Kind
	}{
		{"no such file", t.Context(), AccessLog{File: filepath.Join(dir, "none"), Format: format}, providers.Invalid},
		{"a directory", t.Context(), AccessLog{File: dir, Format: format}, providers.Invalid},
		{"no format", t.Context(), AccessLog{File: file}, providers.Invalid},
		{"no track", t.Context(), AccessLog{File: file, Format: "$msec $status"}, providers.Invalid},
		{"no such field", t.Context(), AccessLog{File: file, Format: format, Status: "code"}, providers.Invalid},
		{"not compressed", t.Context(), AccessLog{File: broken, Format: format}, providers.Unknown},
		{"interrupted", ended, AccessLog{File: file, Format: format}, providers.Unknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := CountLog(tc.ctx, tc.log)
			if err == nil || providers.KindOf(err) != tc.kind {
				t.Errorf("got %+v, %v, expected an error of kind %v", got, err, tc.kind)
			}
		})
	}
}
