//go:build peers

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/nginx/nginxtest"
)

const killNGINXConfig = `
rollout:
  traffic: {steps: [50, 100], bake: 1s, maxBake: 1m, finalBake: 1s}
  providers:
    accesslog: {files: [$LOG], format: json}
  health:
    interval: 200ms
    metrics:
      - {name: errors, provider: accesslog, query: error_rate, max: 0.2, samplesQuery: requests, minSamples: 5, delay: 50ms}
`

// The process is killed while NGINX tests or loads a new split, on the way up
// and on the way back. What runs on the other side of the connection ends by
// itself, and the same command again ends where an undisturbed rollout ends.
func TestPeersKilledWhileNGINXReloads(t *testing.T) {
	t.Parallel()
	for _, rollout := range []struct {
		name  string
		every int64 // the last but one of so many of the candidate's requests fails
		code  int
	}{{"on the way up", 0, 0}, {"on the way back", 2, 1}} {
		t.Run(rollout.name, func(t *testing.T) {
			t.Parallel()
			undisturbed := newSlowNGINX(t)
			undisturbed.b.every.Store(rollout.every)
			undisturbed.exits(rollout.code, "run", "--version", "2.0")
			want := undisturbed.ending()
			for _, call := range []string{"-t", "reload"} {
				t.Run("at "+call, func(t *testing.T) {
					t.Parallel()
					s := newSlowNGINX(t)
					if rollout.every == 0 {
						s.stopAt(call)
					}
					run := s.start("run", "--version", "2.0")
					if rollout.every > 0 {
						run.prints("share 50 % in force")
						s.stopAt(call)
						s.b.every.Store(rollout.every)
					}
					run.reaches(s.stopped())
					run.signal(syscall.SIGKILL)
					if code := run.wait(); code != -1 {
						t.Fatalf("was not killed but ended with %d\n%s\n%s", code, &run.out, &run.err)
					}
					s.goOn()
					s.exits(rollout.code, "run", "--version", "2.0")
					if diff := cmp.Diff(want, s.ending()); diff != "" {
						t.Errorf("ended in another place than an undisturbed rollout (-undisturbed +killed):\n%s", diff)
					}
				})
			}
		})
	}
}

// slowNGINX is a shop whose NGINX can be stopped in the middle of a call.
type slowNGINX struct {
	*shop
	n *nginxtest.Nginx
}

func newSlowNGINX(t *testing.T) slowNGINX {
	s := slowNGINX{shop: newShop(t)}
	s.n = s.nginx("split_clients")
	for _, fifo := range []string{"there", "go-on"} {
		if err := syscall.Mkfifo(s.n.Path(fifo), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.n.Write("slow-nginx", `#!/bin/sh
for arg; do
	if [ -e "`+s.n.Path("stop-at")+`$arg" ]; then
		rm "`+s.n.Path("stop-at")+`$arg"
		echo >`+s.n.Path("there")+`
		read -r x <`+s.n.Path("go-on")+`
	fi
done
exec `+host.Quote(s.n.Command...)+` "$@"
`)
	s.vars["NGINX"] = `[sh, "` + s.n.Path("slow-nginx") + `"]`
	s.vars["STATE"] = "file:state"
	s.configure(head + killNGINXConfig + localNGINX)
	s.serve(s.n)
	s.crowd(40)
	return s
}

// stopAt makes the next call with this argument wait.
func (s slowNGINX) stopAt(arg string) { s.n.Write("stop-at"+arg, "") }

// stopped is closed when a call waits.
func (s slowNGINX) stopped() <-chan struct{} {
	there := make(chan struct{})
	go func() {
		_, err := os.ReadFile(s.n.Path("there"))
		if err == nil {
			close(there)
		}
	}()
	return there
}

// goOn lets the call that waits go on, if it is still there.
func (s slowNGINX) goOn() {
	s.t.Helper()
	fifo, err := os.OpenFile(s.n.Path("go-on"), os.O_RDWR, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = fifo.Close() })
	if _, err := fifo.WriteString("\n"); err != nil {
		s.t.Fatal(err)
	}
}

func (s slowNGINX) ending() ending {
	s.t.Helper()
	split := s.n.Read("manent/split.conf")
	from, to := strings.Index(split, "split_clients \""), strings.Index(split, "map $manent_route")
	lines := strings.SplitN(split[from:to], "\n", 2)[1] // the first has a salt
	return s.endingAt(lines)
}
