// Package fleet does the same on several machines: those that one slot's
// targets name, in order, at most so many at a time. It must not know what is
// done there, nor any contract.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
)

// SSHLabel is the label of a target that SSH reaches by another name than the
// target's host.
const SSHLabel = "ssh"

// Machine is one target.
type Machine struct {
	providers.Target
	Address string // for SSH: a host, or host:port
}

// Slot is what the target's label says, a or b.
func (m Machine) Slot() string { return m.Labels["slot"] }

// Machines are the targets in their order. It refuses one without a slot, a
// slot without any, an address that SSH cannot have, and two targets of a slot
// with the same.
func Machines(targets []providers.Target) ([]Machine, error) {
	out := make([]Machine, 0, len(targets))
	names := map[string][]string{}
	for _, t := range targets {
		m := Machine{Target: t, Address: t.Host}
		if name := t.Labels[SSHLabel]; name != "" {
			m.Address = name
		}
		if m.Slot() != "a" && m.Slot() != "b" {
			return nil, fmt.Errorf("target %s has the label slot: %q, expected a or b", t.Host, m.Slot())
		}
		names[m.Slot()] = append(names[m.Slot()], m.Address)
		out = append(out, m)
	}
	for _, slot := range []string{"a", "b"} {
		if len(names[slot]) == 0 {
			return nil, fmt.Errorf("no target has the label slot: %s", slot)
		}
		if err := host.CheckNames("targets of slot "+slot, names[slot]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// In returns the machines of a slot.
func In(slot string, machines []Machine) []Machine {
	var out []Machine
	for _, m := range machines {
		if m.Slot() == slot {
			out = append(out, m)
		}
	}
	return out
}

// Fleet says how machines are reached.
type Fleet struct {
	Open    func(ctx context.Context, address string) (host.Host, error)
	AtOnce  int           // 1 or more
	Timeout time.Duration // for one machine, connecting included
}

// Each does something on every machine. After a failure it begins with no
// other one and waits for those that are at work. The error names the machine
// and, of several, which are done, failed and not begun; it is of the first
// failure's kind.
func (f Fleet) Each(ctx context.Context, machines []Machine, do func(context.Context, host.Host, Machine) error) error {
	if err := ctx.Err(); err != nil {
		return &providers.Fault{Kind: providers.Unknown, Err: context.Cause(ctx)}
	}
	if len(machines) == 0 {
		return &providers.Fault{Kind: providers.Invalid, Err: errors.New("the slot has no targets"), Hint: "give some the label slot"}
	}
	results := make([]error, len(machines))
	var mu sync.Mutex
	begun, stop := 0, false
	next := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if stop || begun == len(machines) {
			return 0, false
		}
		begun++
		return begun - 1, true
	}
	var workers sync.WaitGroup
	for range min(f.AtOnce, len(machines)) {
		workers.Go(func() {
			for i, ok := next(); ok; i, ok = next() {
				err := f.on(ctx, machines[i], do)
				mu.Lock()
				results[i], stop = err, stop || err != nil
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return summary(machines, results, begun)
}

// on does it on one machine, within the time there is for it.
func (f Fleet) on(ctx context.Context, m Machine, do func(context.Context, host.Host, Machine) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, f.Timeout, fmt.Errorf("it took longer than %v", f.Timeout))
	defer cancel()
	h, err := f.Open(ctx, m.Address)
	if err != nil {
		return err
	}
	defer func() { _ = h.Close() }()
	return do(ctx, h, m)
}

// summary makes one error of all.
func summary(machines []Machine, results []error, begun int) error {
	var done, left []string
	var failed error
	kind, hint := providers.Unknown, ""
	for i, m := range machines {
		switch err := results[i]; {
		case i >= begun:
			left = append(left, m.Host)
		case err == nil:
			done = append(done, m.Host)
		case failed == nil:
			failed, kind, hint = fmt.Errorf("on %s: %w", m.Host, err), providers.KindOf(err), providers.HintOf(err)
		default:
			failed = fmt.Errorf("%w; on %s: %w", failed, m.Host, err)
		}
	}
	if failed == nil {
		return nil
	}
	if len(machines) > 1 {
		failed = fmt.Errorf("%w (done: %s; not begun: %s)", failed, list(done), list(left))
	}
	return &providers.Fault{Kind: kind, Err: failed, Hint: hint}
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
