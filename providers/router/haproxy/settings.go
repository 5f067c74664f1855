package haproxy

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/haproxy"
	"github.com/manent/action/providers/httpx"
	"github.com/manent/action/providers/router"
)

func build(env providers.Env, s Settings) (router.Router, error) {
	r := &Router{env: env, settings: s, warned: map[string]bool{}}
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
	if options.CAFile = s.CAFile; s.CAFile != "" && !filepath.IsAbs(s.CAFile) {
		options.CAFile = filepath.Join(r.env.Dir, s.CAFile)
	}
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
	case s.CAFile != "" && !filepath.IsAbs(s.CAFile) && !filepath.IsLocal(s.CAFile):
		return fmt.Errorf("ca_file: %q, expected a path inside the workspace or an absolute one", s.CAFile)
	case s.PinnedFor < 0:
		return fmt.Errorf("pinned_for: %v, expected 0 or more", s.PinnedFor)
	case s.Timeout < time.Second || s.Timeout > 15*time.Second:
		return fmt.Errorf("timeout: %v, expected 1s to 15s", s.Timeout)
	}
	return nil
}
