package f5

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/manent/action/providers"
)

// Look is a pool with what decides whether its ratios are in force.
type Look struct {
	Pool   Pool
	Group  string // device group asked for, "" for none
	device Device
	unseen error // why the failover state is not known
	sync   Sync
	unsync error // why the group's state is not known

	// Asked for on demand.
	statuses  map[string]Status
	uncounted error // why there are no statistics
	Virtuals  []Virtual
	Unlisted  error // why the virtual servers are not known
	ReadOnly  error // why the user may not write
	Untold    error // why it is not known which transactions are open
}

// Look reads a pool and, at the same time, the device's place in its cluster;
// with all also what is needed to raise a share. It fails only where the pool
// cannot be read.
func (s *Session) Look(ctx context.Context, pool, group string, all bool) (Look, error) {
	l := Look{Group: group}
	beside, stop := context.WithCancel(ctx)
	defer stop()
	var asked sync.WaitGroup
	asked.Go(func() { l.device, l.unseen = s.Device(beside) })
	if group != "" {
		asked.Go(func() { l.sync, l.unsync = s.Status(beside, group) })
	}
	if all {
		asked.Go(func() { l.statuses, l.uncounted = s.Statuses(beside, pool) })
		asked.Go(func() { l.Virtuals, l.Unlisted = s.Virtuals(beside, pool) })
		asked.Go(func() { l.ReadOnly = s.Writable(beside, pool) })
		asked.Go(func() { _, l.Untold = s.open(beside) })
	}
	found, err := s.Pool(ctx, pool)
	if err != nil {
		stop()
	}
	asked.Wait()
	l.Pool = found
	return l, err
}

// Standby says why what is written here may not be in force, nil on a device
// that deals the traffic.
func (l Look) Standby() error {
	if l.unseen != nil || l.device.Active() {
		return l.unseen
	}
	return l.device.Standby()
}

// Behind says why the group may not have what this device has, nil without a
// group.
func (l Look) Behind() error {
	if l.Group == "" || l.unsync != nil {
		return l.unsync
	}
	return l.sync.Synced()
}

// Passing reports whether the group is behind only until a sync is done.
func (l Look) Passing() bool { return l.unsync == nil && l.sync.Pending() }

// Uncounted says of which member the statistics say nothing, so that it may be
// up or not.
func (l Look) Uncounted() error {
	if l.uncounted != nil {
		return l.uncounted
	}
	for _, m := range l.Pool.Members {
		if _, ok := l.statuses[m.Name]; !ok {
			return &providers.Fault{Kind: providers.Unknown, Err: fmt.Errorf("unexpected answer: no statistics of member %s", m.Name)}
		}
	}
	return nil
}

// Up reports whether a member gets connections: its monitor, if any, lets it,
// and nobody took it or its node out by hand. Whether somebody took the node
// out, the statistics alone say.
func (l Look) Up(m Member) bool {
	return m.Up() && l.statuses[m.Name].Enabled != "disabled-by-parent"
}

// Takes reports whether a member may get connections: it has weight, and
// nothing says that it is out. What is being checked, or in a state that is not
// known here, may.
func (l Look) Takes(m Member) bool {
	return m.Weight() > 0 && m.State != "down" && !m.ForcedDown() && l.statuses[m.Name].Enabled != "disabled-by-parent"
}

// Pinned says which virtual servers keep clients at their member.
func (l Look) Pinned() []string {
	var out []string
	for _, vs := range l.Virtuals {
		if len(vs.Persistence) > 0 {
			out = append(out, fmt.Sprintf("virtual server %s has persistence %s", vs.FullPath, strings.Join(vs.Persistence, ", ")))
		}
	}
	return out
}
