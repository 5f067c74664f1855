package proxy

import (
	"sync"
	"time"
)

// pinCount counts the pins given out within the last TTL, in buckets of an
// eighth of it: a count is at most that much too old.
type pinCount struct {
	ttl     time.Duration
	mu      sync.Mutex
	buckets [2]map[int64]int // by start, in units of ttl/8
}

func (c *pinCount) bucket(at time.Time) int64 { return at.UnixNano() / max(int64(c.ttl/8), 1) }

func (c *pinCount) add(slot int, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.bucket(at)
	if c.buckets[slot] == nil {
		c.buckets[slot] = map[int64]int{}
	}
	if c.buckets[slot][now]++; c.buckets[slot][now] > 1 {
		return
	}
	for b := range c.buckets[slot] {
		if b < now-8 {
			delete(c.buckets[slot], b)
		}
	}
}

// count returns a slot's pins younger than the TTL and not older than since.
func (c *pinCount) count(slot int, at, since time.Time) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	oldest, n := max(c.bucket(at)-8, c.bucket(since)), 0
	for b, pins := range c.buckets[slot] {
		if b >= oldest {
			n += pins
		}
	}
	return n
}
