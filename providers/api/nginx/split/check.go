package split

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/manent/action/state"
)

// Everything that stands in the file is one of these, so that nothing in it
// needs an escape.
var (
	word        = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)
	variables   = regexp.MustCompile(`^(\$[a-z0-9_]+|\$\{[a-z0-9_]+\})+$`)
	hostPort    = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?):([0-9]{1,5})$`)
	headerName  = regexp.MustCompile(`^[a-z][a-z0-9-]{0,63}$`)
	headerValue = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
)

// Check refuses a setup that cannot be written, naming the setting.
func (s Setup) Check() error {
	switch {
	case !word.MatchString(s.Prefix):
		return fmt.Errorf("prefix %q, expected up to 32 of a–z, 0–9 and _, a letter first", s.Prefix)
	case !variables.MatchString(s.Key):
		return fmt.Errorf("key %q, expected variables only, such as $cookie_uid", s.Key)
	case s.Cookie != "" && s.Mode != Weighted:
		return fmt.Errorf("cookie %q, expected none in mode %s: users stay in their slot by key", s.Cookie, s.Mode)
	case s.Cookie != "" && !word.MatchString(s.Cookie):
		return fmt.Errorf("cookie %q, expected up to 32 of a–z, 0–9 and _, a letter first", s.Cookie)
	}
	a, b := s.Addresses[state.SlotA], s.Addresses[state.SlotB]
	if len(a) == 0 || len(b) == 0 {
		return fmt.Errorf("slot_a %q and slot_b %q, expected servers as host:port in both", a, b)
	}
	all := slices.Sorted(slices.Values(slices.Concat(a, b)))
	for i, address := range all {
		if i > 0 && address == all[i-1] {
			return fmt.Errorf("server %q is there twice, expected it once in one slot", address)
		}
		if err := checkServer(address, s.Mode == Weighted); err != nil {
			return err
		}
	}
	return nil
}

// checkServer takes an address and port, or where names will do a name. An
// address has to be written as NGINX logs it.
func checkServer(address string, numeric bool) error {
	if ip, err := netip.ParseAddrPort(address); err == nil {
		if ip.String() != address || ip.Port() == 0 || ip.Addr().Zone() != "" {
			return fmt.Errorf("server %q, expected %s", address, ip)
		}
		return nil
	}
	if numeric {
		return fmt.Errorf("server %q, expected an address and a port: mode weight tells the slots apart by it", address)
	}
	parts := hostPort.FindStringSubmatch(address)
	if parts == nil {
		return fmt.Errorf("server %q, expected host:port", address)
	}
	if port, err := strconv.ParseUint(parts[3], 10, 16); err != nil || port == 0 {
		return fmt.Errorf("server %q, expected a port of 1–65535", address)
	}
	return nil
}

// Check refuses what would not be one plain entry of a map: its own keywords,
// and what needs escapes.
func (t Testers) Check() error {
	switch {
	case !headerName.MatchString(t.Header):
		return fmt.Errorf("header %q, expected small letters, digits and dashes", t.Header)
	case !headerValue.MatchString(t.Value):
		return fmt.Errorf("value %q, expected letters, digits, dots, dashes and underscores", t.Value)
	}
	switch strings.ToLower(t.Value) {
	case never, "default", "hostnames", "include", "volatile":
		return fmt.Errorf("value %q has a meaning of its own, expected another, such as always", t.Value)
	}
	return nil
}
