package proxy

import (
	"errors"
	"fmt"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/proxy"
	"github.com/manent/action/providers/httpx"
)

type part struct {
	id    string
	admin *api.Client
}

// New returns a router; of the options only timeouts and retries matter.
func New(s Settings, opts httpx.Options) (*Router, error) {
	opts.Provider = name
	r := &Router{settings: s}
	seen := map[string]bool{}
	for _, raw := range s.Admin {
		u, err := providers.CheckURL(raw, false)
		if err == nil && seen[u.Host] {
			err = fmt.Errorf("%s is given twice", u.Host)
		}
		if err != nil {
			return nil, &providers.Fault{Provider: name, Op: "setting admin", Kind: providers.Invalid, Err: err}
		}
		seen[u.Host] = true
		r.parts = append(r.parts, part{id: u.Host, admin: api.NewClient(opts, httpx.CleanURL(raw))})
	}
	if len(r.parts) == 0 {
		return nil, &providers.Fault{Provider: name, Op: "setting admin", Kind: providers.Invalid, Err: errors.New("no address, expected at least one")}
	}
	return r, nil
}
