package haproxy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/haproxy"
	"github.com/manent/action/providers/httpx"
	"github.com/manent/action/providers/router"
)

func build(env providers.Env, s Settings) (router.Router, error) {
	r := &Router{env: env, settings: s, log: router.NewLog(name, env)}
	err := s.check()
	if err == nil && len(env.Targets) > 0 { // none where only the settings are looked at
		r.members, err = router.Members(s.Member, env.Targets)
	}
	if err == nil {
		err = r.connect(httpx.Options{Timeout: s.Timeout, Deadline: s.Timeout})
	}
	if err != nil {
		return nil, &providers.Fault{Provider: name, Op: "settings", Kind: providers.Invalid, Err: err}
	}
	return r, nil
}

// connect makes the clients, without I/O.
func (r *Router) connect(options httpx.Options) (err error) {
	s := r.settings
	options.CAFile = s.common().CAPath(r.env.Dir)
	if r.instances, err = haproxy.Connect(options, s.URLs, s.AllowHTTP, s.Version, s.Backend); err != nil {
		return fmt.Errorf("dataplane_urls: %w", err)
	}
	return nil
}

func (s Settings) check() error {
	switch {
	case s.Backend == "" || strings.ContainsAny(s.Backend, " \t\r\n"):
		return fmt.Errorf("backend %q, expected the name of one", s.Backend)
	case s.Credentials == "":
		return errors.New("credentials_secret is empty")
	}
	return s.common().Check()
}

func (s Settings) common() router.API {
	return router.API{CAFile: s.CAFile, PinnedFor: s.PinnedFor, Timeout: s.Timeout}
}
