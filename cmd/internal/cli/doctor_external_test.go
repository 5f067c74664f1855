package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers/store"
	"github.com/manent/action/providers/store/memory"
	"github.com/manent/action/state"
	"github.com/manent/action/state/checkpoint"
)

const exercised = `
project: shop
application: web
environment: prod
state: file:state
plugin: {name: external, settings: {command: [./gateway], capabilities: [deploy, slots, traffic_router]}}
rollout: {traffic: {steps: [10, 100]}}
`

// TestExerciseTakesTheLock: while another process is at work the program is
// asked for nothing that changes anything, and who is at work is named; else
// it is asked under the lease, which is free afterwards.
func TestExerciseTakesTheLock(t *testing.T) {
	for name, held := range map[string]bool{"held": true, "free": false} {
		t.Run(name, func(t *testing.T) {
			a, dir, shared := testApp(t), t.TempDir(), memory.New()
			a.dir, a.host.Dir = dir, dir
			a.getenv, a.host.Getenv = os.Getenv, os.Getenv
			a.stores = func(string) (store.Store, error) { return shared.Again(), nil }
			clock := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
			a.now = func() time.Time { return clock }
			other := checkpoint.Open(shared.Again(), "shop/web/prod", a.now, checkpoint.Nonce)
			doc, err := other.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			beat := func() {
				doc.Lease.Beat++
				if err := other.Save(t.Context(), doc, "still at deploy", nil, nil); err != nil {
					t.Error(err)
				}
			}
			if held {
				doc.Lease = &state.Lease{ID: "other", Host: "elsewhere", PID: 7, Step: "deploy"}
				beat()
			}
			a.sleep = func(ctx context.Context, d time.Duration) error {
				if held {
					clock = clock.Add(d)
					beat()
					return ctx.Err()
				}
				<-ctx.Done() // no renewal is due
				return ctx.Err()
			}
			// It says in a file what it was asked for, and under whose lease that was is in the store.
			script := "#!/bin/sh\nprintf '%s\\n' \"$MANENT_REQUEST\" >>asked\nexit 1\n"
			for file, text := range map[string]string{"gateway": script, "prod.yml": exercised} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			code, stdout, _ := called(t, a, "doctor", "-c", filepath.Join(dir, "prod.yml"), "--exercise")
			const locked = "the plugin was not exercised to the end: process 7 on elsewhere is at work on shop/web/prod (deploy)"
			if code != exitFailed || strings.Contains(stdout, locked) != held || strings.Contains(stdout, "wait for it; if it is dead") != held {
				t.Errorf("code %d:\n%s", code, stdout)
			}
			after, err := checkpoint.Open(shared.Again(), "shop/web/prod", a.now, checkpoint.Nonce).Load(t.Context())
			if err != nil || (after.Lease != nil) != held || held && after.Lease.ID != "other" || !held && !strings.Contains(after.Note, exercise) {
				t.Errorf("lease %+v, note %q, error %v", after.Lease, after.Note, err)
			}
			asked, err := os.ReadFile(filepath.Join(dir, "asked"))
			if err != nil || bytes.Contains(asked, []byte("write")) || bytes.Contains(asked, []byte("deploy")) {
				t.Errorf("asked for %q, error %v", asked, err)
			}
		})
	}
}

// TestWayBack: nothing is overwritten that `manent revert` could still need.
func TestWayBack(t *testing.T) {
	pass := func(change func(*state.Pass)) state.Pass {
		p := state.Pass{Serving: state.SlotB, Promoted: true, Slots: state.Slots{A: state.Release{Version: "1.4"}, B: state.Release{Version: "1.5"}}}
		change(&p)
		return p
	}
	as := func(*state.Pass) {}
	for name, tc := range map[string]struct {
		rollout *state.Rollout
		pass    state.Pass
		says    string // "" for nothing to lose
	}{
		"no rollout":           {nil, pass(as), ""},
		"completed":            {&state.Rollout{Status: state.Completed}, pass(as), "slot a holds version 1.4"},
		"completed, unmarked":  {&state.Rollout{Status: state.Completed}, pass(func(p *state.Pass) { p.Promoted = false }), "slot a holds version 1.4"},
		"replaced the unknown": {&state.Rollout{Status: state.Completed}, pass(func(p *state.Pass) { p.Slots.A.Version = "" }), "what served before manent"},
		"retired":              {&state.Rollout{Status: state.Completed}, pass(func(p *state.Pass) { p.Retired = true }), ""},
		"first":                {&state.Rollout{Status: state.Completed, First: true}, pass(as), ""},
		"returned":             {&state.Rollout{Status: state.Returned}, pass(func(p *state.Pass) { p.Serving = state.SlotA }), ""},
		"stopped":              {&state.Rollout{ID: "r7", Version: "1.5", Status: state.Stopped}, pass(func(p *state.Pass) { p.Serving, p.Promoted = state.SlotA, false }), "rollout r7 of version 1.5 is stopped"},
		"stopped, first":       {&state.Rollout{Status: state.Stopped, First: true}, pass(as), ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := wayBack(&state.Document{Rollout: tc.rollout, Passes: []state.Pass{tc.pass}})
			if (err != nil) != (tc.says != "") || err != nil && (!strings.Contains(err.Error(), tc.says) || err.Hint == "") {
				t.Errorf("error %v, expected %q", err, tc.says)
			}
		})
	}
}
