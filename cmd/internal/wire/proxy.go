package wire

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/manent/action/providers/api/proxy"
)

// ProxyOptions are those of manent proxy.
type ProxyOptions struct {
	Listen, Admin  string            // addresses
	Slots          map[string]string // URLs of a and b
	Log            string            // file, "" for none
	Keep           string            // file of the weights, "" for none
	Cookie         string            // "" for none
	CookieTTL      time.Duration
	HeaderTimeout  time.Duration
	TrustForwarded bool
}

// Proxy serves until ctx ends. started is told the addresses that it listens
// on.
func Proxy(ctx context.Context, o ProxyOptions, started func(listen, admin string)) error {
	opts := proxy.Options{
		Slots: map[string]*url.URL{}, LogFile: o.Log, StateFile: o.Keep, Sticky: proxy.Sticky{Cookie: o.Cookie, TTL: o.CookieTTL},
		HeaderTimeout: o.HeaderTimeout, TrustForwarded: o.TrustForwarded,
	}
	for slot, address := range o.Slots {
		u, err := url.Parse(address)
		if err != nil {
			return err
		}
		opts.Slots[slot] = u
	}
	p, err := proxy.New(opts)
	if err != nil {
		return err
	}
	var listener net.ListenConfig
	data, err := listener.Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return errors.Join(err, p.Close())
	}
	admin, err := listener.Listen(ctx, "tcp", o.Admin)
	if err != nil {
		return errors.Join(err, data.Close(), p.Close())
	}
	defer reopenOnHangup(p)()
	started(data.Addr().String(), admin.Addr().String())
	return p.Serve(ctx, data, admin)
}

// reopenOnHangup opens the log again at SIGHUP, as log rotation expects.
func reopenOnHangup(p *proxy.Proxy) (stop func()) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-hangup:
				_ = p.Reopen() // what cannot be written is counted as dropped
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(hangup)
		close(done)
	}
}
