//go:build peers

package nginx

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/host/sshdtest"
	"github.com/manent/action/providers/api/nginx/split"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

// What NGINX refuses is not left in place, and the reason is told.
func TestPeersRefusedIsRestored(t *testing.T) {
	p := newPeer(t, split.Hashed, 1)
	before := p.Read("manent/split.conf")
	p.Write("conf.d/other.conf", "server { listen 127.0.0.1:1; no_such_directive on; }\n")
	r, slots := p.router(t), randomRollout(t)
	seen, err := r.Read(t.Context(), slots)
	if err != nil {
		t.Fatal(err)
	}
	want, _, _ := r.Plan(state.SlotB, 25, 0, seen)
	_, err = r.Write(t.Context(), slots, want, seen)
	if providers.KindOf(err) != providers.Invalid || !strings.Contains(err.Error(), `unknown directive "no_such_directive"`) {
		t.Errorf("error %v of kind %v, want Invalid with the words of NGINX", err, providers.KindOf(err))
	}
	if got := p.Read("manent/split.conf"); got != before {
		t.Errorf("the file became\n%s", got)
	}
	if err := os.Remove(p.Path("conf.d/other.conf")); err != nil {
		t.Fatal(err)
	}
	p.move(t, slots, 25)
}

// The connection is cut while nginx -t runs, which then refuses: the old file
// comes back all the same.
func TestPeersCutInTheMiddle(t *testing.T) {
	tests := []struct {
		name    string
		refuses bool
	}{{"refused", true}, {"accepted", false}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPeer(t, split.Hashed, 1)
			daemon := sshdtest.Start(t)
			before := p.Read("manent/split.conf")
			there, goOn := p.Path("there"), p.Path("go-on")
			for _, fifo := range []string{there, goOn} {
				if err := syscall.Mkfifo(fifo, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p.Write("slow-nginx", `#!/bin/sh
for arg; do
	if [ "$arg" = -t ]; then echo >`+there+`; read -r x <`+goOn+`; fi
done
exec `+host.Quote(p.Command...)+` "$@"
`)
			p.settings["nginx_command"] = []string{"sh", p.Path("slow-nginx")}
			r, slots := p.router(t), randomRollout(t)
			r.open = func(ctx context.Context, _ string) (host.Host, error) { return open(ctx, daemon) }
			seen, err := r.Read(t.Context(), slots)
			if err = errors.Join(err, seen.Err()); err != nil {
				t.Fatal(err)
			}
			want, _, _ := r.Plan(state.SlotB, 25, 0, seen)
			if tt.refuses {
				p.Write("conf.d/other.conf", "no_such_directive on;\n")
			}
			done := make(chan error, 1)
			go func() {
				_, err := r.Write(t.Context(), slots, want, seen)
				done <- err
			}()
			if _, err := os.ReadFile(there); err != nil { // nginx -t has begun
				t.Fatal(err)
			}
			daemon.Cut()
			if err := <-done; providers.KindOf(err) != providers.Unknown || !strings.Contains(err.Error(), "lost") {
				t.Errorf("error %v of kind %v, want Unknown", err, providers.KindOf(err))
			}
			if got := p.Read("manent/split.conf"); got == before {
				t.Error("the new file was not in place while it was tested")
			}
			if err := os.WriteFile(goOn, []byte("\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			// Read waits for the lock, and so for the end of what goes on alone.
			again := p.router(t)
			seen, err = again.Read(t.Context(), slots)
			if err = errors.Join(err, seen.Err()); err != nil {
				t.Fatal(err)
			}
			if got := p.Read("manent/split.conf"); (got == before) != tt.refuses {
				t.Errorf("refused %v, the file is\n%s", tt.refuses, got)
			}
			if seen.Parts[0].Pending {
				t.Error("the write is unfinished")
			}
			if !tt.refuses {
				p.settled(t, want, nil)
			}
		})
	}
}

// Accepted is not in force: without a reload the workers serve the old file.
func TestPeersProof(t *testing.T) {
	p := newPeer(t, split.Hashed, 2)
	p.settings["reload_command"] = "true"
	r, slots := p.router(t), randomRollout(t)
	seen, err := r.Read(t.Context(), slots)
	if err != nil {
		t.Fatal(err)
	}
	want, _, _ := r.Plan(state.SlotB, 100, 0, seen)
	receipt, err := r.Write(t.Context(), slots, want, seen)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := r.Settled(t.Context(), want, receipt); ok || err != nil {
		t.Errorf("settled without a reload: %v, %v", ok, err)
	}
	p.Run("-s", "reload")
	p.settled(t, want, receipt)
	if got := p.serve(t, 50); got[state.SlotB] != 50 {
		t.Errorf("settled at 100 %%, yet %v of 50", got)
	}
}

// Right after the proof no request meets an old worker.
func TestPeersNothingOldAfterProof(t *testing.T) {
	p := newPeer(t, split.Hashed, 4)
	slots := randomRollout(t)
	for range 10 {
		for share, slot := range map[float64]state.Slot{100: state.SlotB, 0: state.SlotA} {
			p.move(t, slots, share)
			if got := p.serve(t, 40); got[slot] != 40 {
				t.Errorf("settled at %v %%, yet %v of 40", share, got)
			}
		}
	}
}

func TestPeersDriftByHand(t *testing.T) {
	p := newPeer(t, split.Hashed, 1)
	slots := randomRollout(t)
	p.move(t, slots, 5)
	r := p.router(t)
	before, err := r.Read(t.Context(), slots)
	if err != nil {
		t.Fatal(err)
	}
	p.edit(func(s string) string { return strings.Replace(s, "5.00%", "50%", 1) })
	seen, err := r.Read(t.Context(), slots)
	if err = errors.Join(err, seen.Err()); err != nil {
		t.Fatal(err)
	}
	if got := seen.Parts[0].Weights; !router.Same(got, map[string]float64{"a": 50, "b": 50}) {
		t.Errorf("weights %v, want 50 and 50", got)
	}
	want, _, _ := r.Plan(state.SlotB, 25, 0, before)
	_, err = r.Write(t.Context(), slots, want, before)
	if !providers.IsConflict(err) {
		t.Errorf("error %v, want a conflict", err)
	}
	if _, err = r.Write(t.Context(), slots, want, seen); err != nil {
		t.Errorf("a write that knows of the drift: %v", err)
	}
}

// A file that somebody filled with something else, which NGINX serves, is
// replaced by a return; what was in it goes.
func TestPeersReturnOverWhatMeansNothing(t *testing.T) {
	p, slots := newPeer(t, split.Hashed, 2), randomRollout(t)
	p.move(t, slots, 50)
	p.edit(func(s string) string { return s + "gzip on;\n" })
	r := p.router(t)
	seen, err := r.Read(t.Context(), slots)
	if err != nil || seen.Err() != nil || seen.Parts[0].Unfit == nil || seen.Parts[0].Weights != nil {
		t.Fatalf("%+v, %v, want it unfit without weights", seen, err)
	}
	want, _, err := r.Plan(state.SlotB, 0, 0, seen)
	if err != nil {
		t.Fatal(err)
	}
	receipt, err := r.Write(t.Context(), slots, want, seen)
	if err != nil {
		t.Fatal(err)
	}
	p.settled(t, want, receipt)
	if got := p.serve(t, 100); got[state.SlotA] != 100 || strings.Contains(p.Read("manent/split.conf"), "gzip") {
		t.Errorf("requests %v after the return, file\n%s", got, p.Read("manent/split.conf"))
	}
}
