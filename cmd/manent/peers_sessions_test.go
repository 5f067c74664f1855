//go:build peers

package main

import (
	"sync/atomic"
	"testing"

	"github.com/manent/action/state"
)

// TestPeersNoSessionInTheReturn: the sessions end when the return has asked
// the router, and there is no new one to write down what became of it. The
// next call waits until no call of the first can be under way any more, which
// makes this test slow.
func TestPeersNoSessionInTheReturn(t *testing.T) {
	t.Parallel()
	withoutSession(t, state.Returning, func(c *cloud) {
		var failed atomic.Bool
		c.gate = red(func() bool { return c.writes.Load() > 0 }, func() { failed.Store(true) })
		c.asked = func() {
			if failed.CompareAndSwap(true, false) {
				c.down()
			}
		}
	})
}
