package nginxplus

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/manent/action/providers"
)

// Found is a server that a name stands for.
type Found struct {
	Server
	Of    int  // place of the name
	Takes bool // false for one that only holds a domain name
}

// Match finds the servers that each name stands for: the one of that address,
// and those that NGINX resolved the name to. Others are the rest, without
// backups. The error says which names stand for no server (NotFound) or for a
// backup (Invalid); what was found is returned with it.
func Match(servers []Server, names []string) (found []Found, others []Server, err error) {
	parents, has := map[string]bool{}, map[int]bool{}
	for _, s := range servers {
		parents[s.Parent] = true
	}
	for _, s := range servers {
		i := slices.IndexFunc(names, func(name string) bool { return belongs(s, servers, name) })
		switch {
		case i < 0 && (s.Backup || parents[s.ID]):
		case i < 0:
			others = append(others, s)
		case s.Backup:
			has[i] = true
			err = &providers.Fault{Kind: providers.Invalid, Err: fmt.Errorf("server %s is a backup", s.Address),
				Hint: "write it without backup in the upstream: a backup gets requests only while all others are unavailable"}
		default:
			has[i] = true
			found = append(found, Found{Server: s, Of: i, Takes: !parents[s.ID]})
		}
	}
	var missing []string
	for i, name := range names {
		if !has[i] {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		err = &providers.Fault{Kind: providers.NotFound, Err: fmt.Errorf("the upstream has no server %s", strings.Join(missing, ", ")),
			Hint: fmt.Sprintf("it has %s; add the missing ones, or change member so that it gives a target's server as the upstream has it", addresses(servers))}
	}
	return found, others, err
}

// addresses lists some of the servers for a hint.
func addresses(servers []Server) string {
	const most = 8
	var names []string
	for i, s := range servers {
		if i == most {
			return strings.Join(names, ", ") + fmt.Sprintf(" and %d more", len(servers)-most)
		}
		names = append(names, s.Address)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// belongs reports whether a server is the named one, or was resolved from it.
func belongs(s Server, all []Server, name string) bool {
	name = withPort(name)
	if withPort(s.Address) == name || s.Name != "" && withPort(s.Name) == name {
		return true
	}
	if s.Host != "" {
		_, port, _ := net.SplitHostPort(withPort(s.Address))
		if net.JoinHostPort(s.Host, port) == name {
			return true
		}
	}
	return s.Parent != "" && slices.ContainsFunc(all, func(p Server) bool { return p.ID == s.Parent && withPort(p.Address) == name })
}

// isAddress is false for a domain name.
func isAddress(server string) bool {
	_, err := netip.ParseAddrPort(withPort(server))
	return err == nil || strings.HasPrefix(server, "unix:")
}

// withPort adds the port that NGINX takes where none is written.
func withPort(address string) string {
	if _, _, err := net.SplitHostPort(address); err == nil || strings.HasPrefix(address, "unix:") {
		return address
	}
	return net.JoinHostPort(strings.Trim(address, "[]"), "80")
}
