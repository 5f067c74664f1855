//go:build !race

package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers/api/host/hosttest"
)

// TestQuickstart types docs/quickstart.md word for word: every block of shell
// after "Your own", in order, in one bash that stops at the first failure.
// Only the port numbers are others, since those may be taken here. Under the
// race detector the scripts do the same.
func TestQuickstart(t *testing.T) {
	page, err := os.ReadFile("../../docs/quickstart.md")
	if err != nil {
		t.Fatal(err)
	}
	_, own, found := strings.Cut(string(page), "## Your own")
	if !found {
		t.Fatal(`no part "Your own"`)
	}
	dir := t.TempDir()
	for _, port := range []string{"8080", "8081", "8082", "9901"} {
		own = strings.ReplaceAll(own, port, freePort(t))
	}
	var script strings.Builder
	script.WriteString("set -e\ntrap 'kill $(jobs -p)' EXIT\n")
	for _, block := range regexp.MustCompile("(?s)```(sh|yaml)\n(.*?)```").FindAllStringSubmatch(own, -1) {
		if block[1] == "yaml" {
			if err := os.WriteFile(filepath.Join(dir, "prod.yml"), []byte(block[2]), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		script.WriteString(block[2])
		if strings.Contains(block[2], "manent proxy") { // a person takes a moment to write the file
			script.WriteString("for i in $(seq 100); do curl -fs -o /dev/null http://" + proxyIn(block[2]) + "/ && break; sleep 0.1; done\n")
		}
	}
	bash := exec.CommandContext(t.Context(), "bash", "-c", script.String())
	bash.Dir, bash.WaitDelay = dir, 5*time.Second
	bash.Env = append(os.Environ(), "USER=alice", "NO_PROXY=*", "GORACE=atexit_sleep_ms=0")
	out, err := bash.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"approval approval@10 is asked for", "this is version 2\n", "version 2 serves with all traffic",
		"all traffic is at slot a", "this is version 1\n",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the quickstart does not show %q\n%s", want, out)
		}
	}
}

func proxyIn(block string) string {
	return regexp.MustCompile(`--listen (\S+)`).FindStringSubmatch(block)[1]
}

func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(hosttest.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}
