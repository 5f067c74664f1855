package nginx

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/nginx/split"
	"github.com/manent/action/state"
)

var (
	filePath = regexp.MustCompile(`^/[A-Za-z0-9._/@+-]+$`)
	hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
)

// check refuses settings that cannot work, before anything is done.
func (s Settings) check() error {
	switch {
	case !filePath.MatchString(s.IncludeFile) || path.Clean(s.IncludeFile) != s.IncludeFile:
		return fmt.Errorf("include_file %q, expected an absolute path of letters, digits and ._@+-", s.IncludeFile)
	case s.Name == "":
		return errors.New("name is empty")
	case s.Timeout <= 0:
		return fmt.Errorf("timeout %v, expected more than 0", s.Timeout)
	case s.CookieExpires < time.Second || s.CookieExpires%time.Second != 0:
		return fmt.Errorf("cookie_expires %v, expected whole seconds", s.CookieExpires)
	}
	if err := (split.Testers{Header: s.Header, Value: "always"}).Check(); err != nil {
		return err
	}
	if err := s.setup().Check(); err != nil {
		return err
	}
	return s.checkReach()
}

// checkReach checks how the instances are reached.
func (s Settings) checkReach() error {
	if u, err := providers.CheckURL(s.StatusURL, false); err != nil {
		return fmt.Errorf("status_url: %w", err)
	} else if u.RawQuery != "" || !filePath.MatchString(u.Path) {
		return fmt.Errorf("status_url %q, expected a plain path", s.StatusURL)
	}
	if len(s.Command) == 0 || strings.ContainsAny(s.Command[0], " \t") {
		return fmt.Errorf("nginx_command %q, expected a list: [program, argument, …]", s.Command)
	}
	if len(s.Hosts) == 0 {
		return nil
	}
	for i, name := range s.Hosts {
		bare := name
		if h, _, err := net.SplitHostPort(name); err == nil {
			bare = h
		}
		if _, err := netip.ParseAddr(bare); err != nil && !hostName.MatchString(bare) {
			return fmt.Errorf("lb_hosts: %q, expected a host, or host:port", name)
		}
		if slices.Contains(s.Hosts[:i], name) {
			return fmt.Errorf("lb_hosts: %q is there twice", name)
		}
	}
	return s.access().Check()
}

// setup is what the managed file says besides the share.
func (s Settings) setup() split.Setup {
	setup := split.Setup{
		Prefix: s.Prefix, Mode: s.Mode, Key: s.Key,
		Addresses: map[state.Slot][]string{state.SlotA: s.SlotA, state.SlotB: s.SlotB},
	}
	if s.Cookie != "" {
		setup.Cookie, setup.Expires = s.Cookie, fmt.Sprintf("%ds", int(s.CookieExpires.Seconds()))
	}
	return setup
}
