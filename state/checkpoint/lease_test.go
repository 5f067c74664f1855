package checkpoint_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/state"
	"github.com/manent/action/state/checkpoint"
)

func lease(id, run string, attempt int, host string) state.Lease {
	return state.Lease{ID: id, Owner: state.RunRef{Platform: "github", Repository: "o/r", Run: run, Attempt: attempt}, Host: host, PID: 7}
}

func TestHeld(t *testing.T) {
	theirs := lease("theirs", "100", 1, "h1")
	alive, dead := func(int) bool { return true }, func(int) bool { return false }
	never := func(int) bool { panic("a process of another host was asked for") }
	tests := []struct {
		name  string
		found *state.Lease
		me    state.Lease
		after time.Duration // since the record was first seen
		alive func(int) bool
		held  bool
	}{
		{"free", nil, lease("me", "200", 1, "h2"), 0, never, false},
		{"mine", &theirs, lease("theirs", "100", 1, "h1"), 0, never, false},
		{"another run, just seen", &theirs, lease("me", "200", 1, "h2"), 0, never, true},
		{"another run, 29 s", &theirs, lease("me", "200", 1, "h2"), 29 * time.Second, never, true},
		{"another run, 30 s", &theirs, lease("me", "200", 1, "h2"), 30 * time.Second, never, false},
		{"clock went back", &theirs, lease("me", "200", 1, "h2"), -time.Hour, never, true},
		{"same run, later attempt", &theirs, lease("me", "100", 2, "h2"), 0, never, false},
		{"same run, same attempt", &theirs, lease("me", "100", 1, "h2"), 0, never, true},
		{"same run, earlier attempt", &theirs, lease("me", "100", 0, "h2"), 0, never, true},
		{"same host, process dead", &theirs, lease("me", "200", 1, "h1"), 0, dead, false},
		{"same host, process alive", &theirs, lease("me", "200", 1, "h1"), 0, alive, true},
		{"no run at all, later attempt", &state.Lease{ID: "theirs", Host: "h1"}, state.Lease{ID: "me", Host: "h2", Owner: state.RunRef{Attempt: 2}}, 0, never, true},
		{"no host at all", &state.Lease{ID: "theirs"}, state.Lease{ID: "me"}, 0, never, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			by, until := checkpoint.Held(&state.Document{Lease: test.found}, test.me, start, start.Add(test.after), test.alive)
			if (by != nil) != test.held {
				t.Fatalf("held by %+v, expected held: %v", by, test.held)
			}
			if test.held && (by.ID != "theirs" || !until.Equal(start.Add(checkpoint.Patience))) {
				t.Errorf("held by %s until %v", by.ID, until)
			}
			if !test.held && !until.IsZero() {
				t.Errorf("free until %v", until)
			}
		})
	}
}

// TestWatch: the clock starts anew with everything that shows life.
func TestWatch(t *testing.T) {
	doc := &state.Document{Seq: 5}
	theirs := lease("theirs", "100", 1, "h1")
	doc.Lease = &theirs
	var watch checkpoint.Watch
	see := func(after, want time.Duration) {
		t.Helper()
		if since := watch.See(doc, start.Add(after)); !since.Equal(start.Add(want)) {
			t.Fatalf("seen at %v: still since %v, expected %v", after, since.Sub(start), want)
		}
	}
	see(1*time.Second, 1*time.Second)
	see(20*time.Second, 1*time.Second)
	theirs.Beat++
	see(25*time.Second, 25*time.Second)
	see(40*time.Second, 25*time.Second)
	doc.Seq++
	see(41*time.Second, 41*time.Second)
	theirs.ID = "third"
	see(42*time.Second, 42*time.Second)
	doc.Lease = nil
	see(43*time.Second, 43*time.Second)
}

func TestTakeAndGive(t *testing.T) {
	doc := &state.Document{}
	me := lease("me", "100", 1, "h1")
	me.Beat = 9
	checkpoint.Take(doc, me, start)
	if doc.Lease.ID != "me" || doc.Lease.Beat != 0 || !doc.Lease.Since.Equal(start) {
		t.Fatalf("taken: %+v", doc.Lease)
	}
	if checkpoint.Give(doc, "other") || doc.Lease == nil {
		t.Fatal("another's lease was given back")
	}
	if !checkpoint.Give(doc, "me") || doc.Lease != nil {
		t.Fatalf("not given back: %+v", doc.Lease)
	}
	if checkpoint.Give(doc, "me") {
		t.Fatal("no lease was given back")
	}
}

func TestHostAndAlive(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if host := checkpoint.Host(); !strings.HasPrefix(host, name+"/") {
		t.Errorf("host %q, expected it to begin with %q", host, name)
	}
	if !checkpoint.Alive(os.Getpid()) || !checkpoint.Alive(0) {
		t.Error("this process is said to be dead")
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	one, two := checkpoint.Host(), checkpoint.Host()
	if checkpoint.Alive(child.Process.Pid) && one == two {
		t.Error("a process that has ended is said to be alive")
	}
}
