//go:build peers

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// BenchmarkFigures measures what the design sets a goal for, on the binary as
// it is released, and prints a table. `make bench` runs it once; it fails
// only when something does not work.
func BenchmarkFigures(b *testing.B) {
	binary := filepath.Join(b.TempDir(), "manent")
	cmd := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	table := figures{b: b}
	for _, measure := range []func(binary string){table.size, table.start, table.memory, table.steps, table.returns} {
		measure(binary)
	}
	table.print()
}

// figures is the table.
type figures struct {
	b    *testing.B
	rows []string
}

// add adds a row. goal is what the figure should be at most, 0 for no goal.
func (f *figures) add(name string, figure, goal float64, unit, beside string) {
	says := ""
	if goal > 0 {
		says = fmt.Sprintf("≤ %.4g %s", goal, unit)
		if figure > goal {
			beside = strings.TrimPrefix(beside+", missed", ", ")
		}
	}
	f.rows = append(f.rows, fmt.Sprintf("%s\t%s\t%.4g %s\t%s", name, says, figure, unit, beside))
}

func (f *figures) print() {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "FIGURE\tGOAL\tREACHED\t")
	for _, row := range f.rows {
		_, _ = fmt.Fprintln(w, row)
	}
	_ = w.Flush()
	_, _ = fmt.Fprint(os.Stdout, "\n"+b.String())
}

func (f *figures) size(binary string) {
	info, err := os.Stat(binary)
	if err != nil {
		f.b.Fatal(err)
	}
	f.add("binary, stripped", float64(info.Size())/1e6, 40, "MB", "")
}

// start runs manent version and git --version in turns.
func (f *figures) start(binary string) {
	const runs = 60
	var ours, theirs []time.Duration
	for range runs {
		ours = append(ours, f.run(binary, "version"))
		theirs = append(theirs, f.run("git", "--version"))
	}
	git := percentile(theirs, 50)
	f.add("start, median", milliseconds(percentile(ours, 50)), 25, "ms",
		fmt.Sprintf("git --version %.3g ms: %.3g times that; p95 %.3g ms", milliseconds(git),
			float64(percentile(ours, 50))/float64(git), milliseconds(percentile(ours, 95))))
}

// run runs a program that has to succeed, and returns how long it took.
func (f *figures) run(name string, args ...string) time.Duration {
	f.b.Helper()
	began := time.Now()
	if out, err := exec.CommandContext(f.b.Context(), name, args...).CombinedOutput(); err != nil {
		f.b.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return time.Since(began)
}

// memory measures the most that manent version, git --version and a step that
// asks NGINX, Prometheus and a repository had in memory.
func (f *figures) memory(binary string) {
	git := f.resident(exec.CommandContext(f.b.Context(), "git", "--version"))
	f.add("resident memory of manent version", f.resident(exec.CommandContext(f.b.Context(), binary, "version")), 40, "MB",
		fmt.Sprintf("git --version %.3g MB", git))
	s := newShop(f.b)
	s.binary = binary
	s.settle(settings()[0])
	s.crowd(50)
	s.exits(0, "run", "--version", "2.0", "--until", "gate@traffic@5")
	f.add("resident memory of a step", f.resident(s.command(f.b.Context(), "step", "--json", "-c", s.config, "--version", "2.0")), 40, "MB",
		"NGINX, Prometheus, state in Git")
}

// resident runs a program until it prints its result into a pipe that is full,
// and reads the most memory that it had. (What the system counts for a child
// that has ended includes what its parent had when it was made.)
func (f *figures) resident(cmd *exec.Cmd) float64 {
	f.b.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		f.b.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if _, err := w.Write(make([]byte, 64<<10)); err != nil {
		f.b.Fatal(err)
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		f.b.Fatal(err)
	}
	_ = w.Close()
	var most float64
	for since := time.Now(); time.Since(since) < time.Second; pause(f.b.Context(), 20*time.Millisecond) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		if err != nil {
			f.b.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "VmHWM:")
		var kilobytes float64
		if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
			f.b.Fatalf("%s is gone before its result was read: %v", cmd, err)
		}
		if now := kilobytes * 1024 / 1e6; now > most {
			most, since = now, time.Now()
		}
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	_ = cmd.Wait() // its exit code is not what is measured
	return most
}

// percentile is the smallest value that so many percent do not exceed.
func percentile(all []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[(len(sorted)*percent+99)/100-1]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// returns measures the time from the reading that decides to all traffic
// back: as the router confirms it, and as the candidate sees its last request.
func (f *figures) returns(binary string) {
	for _, router := range []struct {
		name  string
		build func(*shop)
	}{
		{"proxy", func(s *shop) {
			s.vars["LOG"], s.vars["FORMAT"] = filepath.Join(s.dir, "access.log"), "proxy"
			s.proxy()
			s.configure(head + returnsSoon + throughProxy)
		}},
		{"nginx", func(s *shop) {
			n := s.nginx("split_clients")
			s.vars["FORMAT"] = "json"
			s.configure(head + returnsSoon + localNGINX)
			s.serve(n)
		}},
	} {
		s := newShop(f.b)
		s.binary = binary
		s.repository()
		router.build(s)
		s.b.every.Store(2)
		visitors := s.crowd(200)
		var confirmed, unused []time.Duration
		for n := range 21 {
			s.exits(1, "run", "--version", fmt.Sprintf("2.0.%d", n))
			doc, _ := s.status()
			stage, step := doc.Rollout.Stage("50%"), doc.Rollout.Step("traffic:revert")
			decided := stage.Readings[len(stage.Readings)-1].At
			confirmed = append(confirmed, step.Ended.Sub(decided))
			unused = append(unused, time.Unix(0, s.b.last.Load()).Sub(decided))
		}
		visitors.stop()
		beside := fmt.Sprintf("p50 %.3g s; the candidate's last request: p50 %.3g s, p95 %.3g s; %d returns, state in Git", percentile(confirmed, 50).Seconds(),
			percentile(unused, 50).Seconds(), percentile(unused, 95).Seconds(), len(confirmed))
		f.add("from the deciding reading to weights restored, "+router.name+", p95", percentile(confirmed, 95).Seconds(), 1, "s", beside)
	}
}

const returnsSoon = `
rollout:
  traffic: {steps: [50, 100], bake: 1m, finalBake: 1m}
  providers:
    accesslog: {files: [$LOG], format: $FORMAT}
  health:
    interval: 250ms
    metrics:
      - {name: errors, provider: accesslog, query: error_rate, max: 0.2, delay: 1ms}
`
