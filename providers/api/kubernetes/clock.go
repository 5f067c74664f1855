package kubernetes

import (
	"net/http"
	"time"
)

// inaccurate is how far apart two clocks may seem without being so: an answer
// has its time in whole seconds, and takes a while.
const inaccurate = 2 * time.Second

// Ahead is how far the API server's clock was ahead of now at its last answer,
// by the header Date; 0 when it was not, or did not say.
func (c *Client) Ahead(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if by := c.date.Sub(now); !c.date.IsZero() && by > inaccurate {
		return by
	}
	return 0
}

// dated keeps the time of an answer.
func (c *Client) dated(resp *http.Response) {
	when, err := http.ParseTime(resp.Header.Get("Date"))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.date = when; err != nil {
		c.date = time.Time{}
	}
}
