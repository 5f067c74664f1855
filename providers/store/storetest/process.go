package storetest

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
)

// racerVariable makes the test binary a racer: it holds the address, and the
// racer's number after a space.
const racerVariable = "MANENT_STORETEST_RACER"

// Main runs a package's tests, or one racer of RaceProcesses when the binary
// was started as such. TestMain calls it.
func Main(m *testing.M, spec store.Spec) int {
	number, address, ok := strings.Cut(os.Getenv(racerVariable), " ")
	if !ok {
		return m.Run()
	}
	if err := runRacer(spec, number, address); err != nil {
		say("error: " + err.Error())
		return 1
	}
	return 0
}

// runRacer reads, says so, waits for the start and writes.
func runRacer(spec store.Spec, number, address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := spec.Open(providers.Env{Getenv: os.Getenv}, address)
	if err != nil {
		return err
	}
	defer closeStore(s)
	_, revision, err := s.Get(ctx, Key)
	if err != nil {
		return err
	}
	say("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	_, err = s.Put(ctx, Key, store.Change{Data: []byte("racer " + number + rand.Text()), Note: "racer " + number}, revision)
	switch {
	case err == nil:
		say("won")
	case providers.IsConflict(err):
		say("lost")
	default:
		return err
	}
	return nil
}

// say tells the test one line.
func say(line string) { _, _ = os.Stdout.WriteString(line + "\n") }

func closeStore(s store.Store) {
	if c, ok := s.(interface{ Close() error }); ok {
		_ = c.Close()
	}
}

// RaceProcesses starts eight processes of the test binary that write at once,
// first a new key and then over it. Exactly one may win each time.
func RaceProcesses(t *testing.T, address string) {
	t.Helper()
	for round := range 2 {
		outcomes := make([]string, racers)
		commands := make([]*racer, racers)
		for i := range racers {
			commands[i] = startRacer(t, i, address)
		}
		for _, r := range commands {
			r.expect(t, "ready")
		}
		for _, r := range commands {
			if _, err := r.in.Write([]byte("go\n")); err != nil {
				t.Fatal(err)
			}
		}
		won := 0
		for i, r := range commands {
			outcomes[i] = r.line(t)
			if outcomes[i] == "won" {
				won++
			} else if outcomes[i] != "lost" {
				t.Errorf("round %d: racer %d says %q, expected won or lost", round, i, outcomes[i])
			}
		}
		if won != 1 {
			t.Fatalf("round %d: %d racers won: %q", round, won, outcomes)
		}
	}
}

type racer struct {
	in  io.Writer
	out *bufio.Reader
}

func startRacer(t *testing.T, number int, address string) *racer {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), binary)
	command.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", racerVariable, number, address))
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Wait() })
	return &racer{in: in, out: bufio.NewReader(out)}
}

func (r *racer) line(t *testing.T) string {
	t.Helper()
	line, err := r.out.ReadString('\n')
	if err != nil {
		t.Fatalf("a racer ended: %v", err)
	}
	return strings.TrimSpace(line)
}

func (r *racer) expect(t *testing.T, want string) {
	t.Helper()
	if got := r.line(t); got != want {
		t.Fatalf("a racer says %q, expected %q", got, want)
	}
}
