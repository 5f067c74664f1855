package nginx

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/nginx/split"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

var filePath = regexp.MustCompile(`^/[A-Za-z0-9._/@+-]+$`)

func build(env providers.Env, s Settings) (router.Router, error) {
	err := s.fromTargets(env.Targets)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return nil, &providers.Fault{Provider: name, Op: "settings", Kind: providers.Invalid, Err: err}
	}
	r := &Router{settings: s, nonce: rand.Text, log: router.NewLog(name, env)}
	r.open = func(ctx context.Context, name string) (host.Host, error) {
		return host.Open(ctx, env, s.access(), name)
	}
	return r, nil
}

func (s Settings) access() host.Access {
	return host.Access{User: s.User, Port: s.Port, Key: s.KeySecret, Password: s.Password, KnownHosts: s.KnownHosts}
}

// parts are the names of the instances: hosts, or the router's own name.
func (s Settings) parts() []string {
	if len(s.Hosts) == 0 {
		return []string{s.Name}
	}
	return s.Hosts
}

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
	if s.SlotA != nil || s.SlotB != nil {
		if err := s.setup().Check(); err != nil {
			return err
		}
	}
	return s.checkReach()
}

// fromTargets makes the targets of each slot its servers, unless the settings
// name them. Neither is known while settings are checked by themselves.
func (s *Settings) fromTargets(targets []providers.Target) error {
	given := s.SlotA != nil || s.SlotB != nil
	slotted := slices.ContainsFunc(targets, func(t providers.Target) bool { return t.Labels["slot"] != "" })
	switch {
	case given && slotted:
		return errors.New("slot_a and slot_b are there, and targets have a label slot: leave one of both out")
	case given || len(targets) == 0:
		return nil
	}
	members, err := router.Members(s.Member, targets)
	for _, m := range members {
		if m.Slot == state.SlotA {
			s.SlotA = append(s.SlotA, m.Name)
		} else {
			s.SlotB = append(s.SlotB, m.Name)
		}
	}
	return err
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
	if err := host.CheckNames("lb_hosts", s.Hosts); err != nil {
		return err
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
