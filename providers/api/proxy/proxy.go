// Package proxy is manent's own weighted reverse proxy, as a library: the
// data plane (Handler), the admin interface that moves its weights (Admin)
// and a client of that interface (Client). It must not know the router's
// contract or what a rollout is.
//
// A request goes, in this order, where the testers' header says (only while
// the testers' entry is on), where the client is pinned to (only with
// stickiness, and only to a slot that has weight), or where the split says,
// which deals exactly.
package proxy

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Options configure a Proxy.
type Options struct {
	Slots   map[string]*url.URL // of a and of b: http or https, a path is put in front; required
	Weights map[string]float64  // percent at the first start; default all to a
	Testers Testers             // at the first start; default off
	Sticky  Sticky              // default none

	// StateFile keeps weights and testers over a restart; "" for none.
	StateFile string

	// Log gets the access log, one JSON object a line (see Line). LogFile is
	// a file to append it to instead, which Reopen opens again.
	Log     io.Writer
	LogFile string
	// LogBuffer is how many lines may wait to be written; a line beyond it is
	// dropped and counted. Default 8192.
	LogBuffer int

	// TrustForwarded keeps the X-Forwarded headers of the client and adds to
	// them; for a proxy that only another proxy can reach.
	TrustForwarded bool

	// HeaderTimeout is how long a slot may take to begin its answer; default
	// 60 s, then the client gets 504. Bodies have no limit.
	HeaderTimeout time.Duration

	// Now is the clock of pins and of the log; default time.Now.
	Now func() time.Time
}

// Proxy is a running proxy. Close it.
type Proxy struct {
	opts    Options
	now     func() time.Time
	boot    string // random, so that a revision of another process never fits
	slots   [2]*backend
	table   atomic.Pointer[table]
	pins    pinCount
	log     *accessLog
	metrics *metrics

	patience time.Duration // with an admin request's body

	mu      sync.Mutex // of changes
	changes uint64     // effective ones, over all restarts with the same state file
}

// backend is one slot's way out.
type backend struct {
	url       *url.URL
	transport *http.Transport
	proxy     *httputil.ReverseProxy
}

// New returns a proxy that is ready to serve. It reads the state file and
// opens the log file, and starts one goroutine, for the log.
func New(opts Options) (*Proxy, error) {
	p := &Proxy{opts: opts, now: opts.Now, boot: rand.Text()[:8], pins: pinCount{ttl: opts.Sticky.TTL}, patience: adminRead}
	if p.now == nil {
		p.now = time.Now
	}
	if err := checkOptions(opts); err != nil {
		return nil, err
	}
	kept, err := p.initial()
	if err != nil {
		return nil, err
	}
	p.metrics = newMetrics()
	for slot := range p.slots {
		p.slots[slot] = p.newBackend(opts.Slots[slotName(slot)], slot)
	}
	p.publish(kept)
	if p.log, err = newAccessLog(opts, p.metrics.dropped); err != nil {
		return nil, err
	}
	return p, nil
}

func checkOptions(opts Options) error {
	for _, slot := range []string{SlotA, SlotB} {
		u := opts.Slots[slot]
		if u == nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil || u.RawQuery != "" {
			return fmt.Errorf("proxy: slot %s needs a URL such as http://127.0.0.1:8081, without credentials and query", slot)
		}
	}
	if len(opts.Slots) != 2 {
		return fmt.Errorf("proxy: %d slots, expected a and b", len(opts.Slots))
	}
	if s := opts.Sticky; s.Cookie != "" && (!token(s.Cookie) || s.TTL < time.Second || s.TTL > 30*24*time.Hour) {
		return fmt.Errorf("proxy: sticky cookie %q for %v, expected a plain name and 1s to 720h", s.Cookie, s.TTL)
	}
	return nil
}

// kept is what a change makes and the state file keeps.
type kept struct {
	Changes uint64             `json:"changes"`
	Weights map[string]float64 `json:"weights"`
	Since   [2]int64           `json:"since"`
	Testers Testers            `json:"testers"`
}

func (p *Proxy) initial() (kept, error) {
	now := p.now().UnixMilli()
	k := kept{Weights: p.opts.Weights, Testers: p.opts.Testers, Since: [2]int64{now, now}}
	if k.Weights == nil {
		k.Weights = percent(0)
	}
	if p.opts.StateFile != "" {
		if err := load(p.opts.StateFile, &k); err != nil {
			return k, fmt.Errorf("proxy: state file: %w", err)
		}
	}
	_, err := hundredths(k.Weights)
	if err == nil {
		k.Testers, err = k.Testers.check()
	}
	if err != nil {
		return k, fmt.Errorf("proxy: %w", err)
	}
	return k, nil
}

// publish makes the data plane use k. A split whose weights stay goes on
// where it is.
func (p *Proxy) publish(k kept) {
	b, _ := hundredths(k.Weights) // checked before
	t := &table{testers: k.Testers, header: textproto.CanonicalMIMEHeaderKey(k.Testers.Header)}
	if old := p.table.Load(); old != nil && old.b == b {
		t.split = old.split
	} else {
		t.split = &split{b: b, since: k.Since}
	}
	p.changes = k.Changes
	t.revision = fmt.Sprintf("%s-%d", p.boot, k.Changes)
	p.table.Store(t)
	for slot := range p.slots {
		p.metrics.weight[slot].Set(float64(t.weight(slot)) / 100)
	}
}

// errStale: the state is not at the revision that the caller expects.
var errStale = errors.New("the revision has changed")

// change applies f to what is kept if the revision still is expect. What the
// state file could not keep does not come into force.
func (p *Proxy) change(expect string, f func(*kept) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.table.Load()
	if t.revision != expect {
		return fmt.Errorf("%w: it is %s, expected %s", errStale, t.revision, expect)
	}
	k := kept{Changes: p.changes, Weights: percent(t.b), Since: t.since, Testers: t.testers}
	if err := f(&k); err != nil {
		return err
	}
	b, err := hundredths(k.Weights)
	if err != nil {
		return err
	}
	if b == t.b && k.Testers == t.testers {
		return nil
	}
	next := split{b: b}
	for slot := range k.Since {
		if t.weight(slot) == 0 && next.weight(slot) > 0 {
			k.Since[slot] = p.now().UnixMilli()
		}
	}
	k.Changes++
	if p.opts.StateFile != "" {
		if err := save(p.opts.StateFile, k); err != nil {
			return fmt.Errorf("%w: %w", errKeep, err)
		}
	}
	p.publish(k)
	return nil
}

// Reopen opens the log file again, after it was moved away. Without a LogFile
// it only flushes.
func (p *Proxy) Reopen() error { return p.log.reopen() }

// Close writes the rest of the log and closes idle connections. Call it when
// the servers of Handler have shut down.
func (p *Proxy) Close() error {
	for _, b := range p.slots {
		b.transport.CloseIdleConnections()
	}
	return p.log.close()
}

// grace is how long Serve lets requests finish.
const grace = 30 * time.Second

// Serve runs both interfaces until ctx ends, lets the requests in flight
// finish, and closes the proxy. The admin listener must be on loopback.
func (p *Proxy) Serve(ctx context.Context, data, admin net.Listener) error {
	if addr, ok := admin.Addr().(*net.TCPAddr); !ok || !addr.IP.IsLoopback() {
		return errors.Join(fmt.Errorf("proxy: admin on %v, expected a loopback address", admin.Addr()), p.Close())
	}
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // what goes wrong is in the access log and the metrics
	servers := []*http.Server{
		{Handler: p.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: quiet},
		{Handler: p.Admin(), ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10, ErrorLog: quiet},
	}
	failed := make(chan error, len(servers))
	go func() { failed <- servers[0].Serve(data) }()
	go func() { failed <- servers[1].Serve(admin) }()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	for _, s := range servers {
		if down := s.Shutdown(stop); down != nil {
			err = errors.Join(err, down, s.Close())
		}
	}
	return errors.Join(err, p.Close())
}
