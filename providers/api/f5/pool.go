package f5

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/manent/action/providers"
)

// Pool is an LTM pool.
type Pool struct {
	FullPath         string   `json:"fullPath"`
	Mode             string   `json:"loadBalancingMode"` // ratio-member, round-robin, …
	MinActiveMembers int      `json:"minActiveMembers"`  // above 0 the members' priority groups count
	Members          []Member `json:"-"`
}

// ByRatio reports whether the pool deals connections by its members' ratios.
func (p Pool) ByRatio() bool {
	switch p.Mode {
	case "ratio-member", "ratio-session", "ratio-least-connections-member":
		return true
	}
	return false
}

// Uneven says why the ratios of these members are not what the pool deals by,
// nil when they are.
func (p Pool) Uneven(members []Member) error {
	if !p.ByRatio() {
		return unclear("set the pool's load balancing method to Ratio (member): loadBalancingMode ratio-member",
			"pool %s has loadBalancingMode %s, which ignores the ratios of members", p.FullPath, p.Mode)
	}
	for _, m := range members {
		if p.MinActiveMembers > 0 && m.PriorityGroup != members[0].PriorityGroup {
			return unclear("give all members the same priority group, or turn priority group activation off",
				"pool %s sends traffic to its highest priority group first (minActiveMembers %d), and its members have several", p.FullPath, p.MinActiveMembers)
		}
	}
	return nil
}

// Member is a member of a pool, as read. What is read as session and state are
// not the values that can be written.
type Member struct {
	Name          string `json:"name"` // ADDRESS:PORT or NODE:PORT, with IPv6 ADDRESS.PORT
	FullPath      string `json:"fullPath"`
	Address       string `json:"address"`
	Ratio         int    `json:"ratio"`
	Session       string `json:"session"` // user-enabled, monitor-enabled, user-disabled
	State         string `json:"state"`   // up, down, unchecked, checking, user-down
	PriorityGroup int    `json:"priorityGroup"`
}

// Enabled reports whether the member may get new connections.
func (m Member) Enabled() bool { return m.Session != "user-disabled" }

// Up reports whether the member's monitor, if it has one, lets it get some.
func (m Member) Up() bool { return m.State == "up" || m.State == "unchecked" }

// ForcedDown reports whether somebody took the member out by hand.
func (m Member) ForcedDown() bool { return m.State == "user-down" }

// Out says how somebody took the member out of service, "" for not at all.
func (m Member) Out() string {
	switch {
	case m.ForcedDown():
		return "is forced offline (state user-down)"
	case !m.Enabled():
		return "is disabled (session user-disabled)"
	}
	return ""
}

// Weight is the member's ratio while it may get new connections, else 0: a
// ratio of 0 would not take it out.
func (m Member) Weight() int {
	if !m.Enabled() {
		return 0
	}
	return m.Ratio
}

// hostPort splits the name.
func (m Member) hostPort() (host, port string) {
	sep := ":"
	if strings.Count(m.Name, ":") > 1 {
		sep = "."
	}
	i := strings.LastIndex(m.Name, sep)
	if i < 0 {
		return m.Name, ""
	}
	return m.Name[:i], m.Name[i+1:]
}

// Called reports whether the member is meant by a name: its own, its address
// with its port as anybody writes it, or either without a port.
func (m Member) Called(name string) bool {
	if to, err := netip.ParseAddrPort(name); err == nil {
		name = to.String()
	} else if ip, err := netip.ParseAddr(name); err == nil {
		name = ip.String()
	}
	node, port := m.hostPort()
	for _, host := range []string{node, m.Address} {
		if host != "" && (name == host || name == host+":"+port || name == host+"."+port || name == net.JoinHostPort(host, port)) {
			return true
		}
	}
	return false
}

// Match finds the members that each name means, in the pool's order: a name
// without a port all of its node's. A member belongs to the first name that
// means it. The error (Invalid) says which names mean several members, and
// which mean another one's; what was found is returned with it.
func Match(members []Member, names []string) (found map[string][]Member, missing []string, others []Member, err error) {
	found = map[string][]Member{}
	taken := map[string]string{}
	for _, name := range names {
		var called []string
		for _, m := range members {
			switch other := taken[m.FullPath]; {
			case !m.Called(name):
			case other != "":
				err = unclear("correct targets and member", "%s and %s are both member %s of the pool", other, name, m.Name)
			default:
				taken[m.FullPath] = name
				found[name] = append(found[name], m)
				called = append(called, m.Name)
			}
		}
		switch len(called) {
		case 0:
			missing = append(missing, name)
		case 1:
		default:
			err = unclear(`name the port: member: "{host}:{port}"`, "member %s could be %s", name, strings.Join(called, " or "))
		}
	}
	for _, m := range members {
		if taken[m.FullPath] == "" {
			others = append(others, m)
		}
	}
	return found, missing, others, err
}

func unclear(hint, format string, args ...any) error {
	return &providers.Fault{Kind: providers.Invalid, Err: fmt.Errorf(format, args...), Hint: hint}
}

// Status is what the traffic side says of a member.
type Status struct {
	Availability string // available, offline, unknown
	Enabled      string // enabled, disabled, disabled-by-parent
	Connections  int64  // to the server, now
}

// tilde is a full path as the interface has it in a URL: ~Common~shop.
func tilde(fullPath string) string {
	return url.PathEscape(strings.ReplaceAll(fullPath, "/", "~"))
}

func poolPath(fullPath string) string { return "/mgmt/tm/ltm/pool/" + tilde(fullPath) }

// Pool reads a pool by its full path, with its members in the same answer. A
// device that does not give them so is asked for them.
func (s *Session) Pool(ctx context.Context, fullPath string) (Pool, error) {
	var answer struct {
		Pool
		Reference struct {
			Items []Member `json:"items"`
		} `json:"membersReference"`
	}
	op := "read pool " + fullPath
	err := s.send(ctx, call{method: http.MethodGet, path: poolPath(fullPath) + "?expandSubcollections=true", op: op, into: &answer})
	if f, ok := asFault(err); ok && f.Kind == providers.NotFound {
		return Pool{}, hinted(f, "check pool and partition, and that the user sees the partition")
	}
	if err != nil {
		return Pool{}, err
	}
	p := answer.Pool
	if p.FullPath != fullPath || p.Mode == "" {
		return Pool{}, s.c.http.Unexpected(op, fmt.Sprintf("pool %q with loadBalancingMode %q", p.FullPath, p.Mode))
	}
	if p.Members = answer.Reference.Items; len(p.Members) == 0 {
		p.Members, err = s.members(ctx, fullPath)
		return p, err
	}
	return p, s.sound(op, p.Members)
}

func (s *Session) members(ctx context.Context, pool string) ([]Member, error) {
	var list struct {
		Kind  string   `json:"kind"`
		Items []Member `json:"items"` // left out by the system when there are none
	}
	op := "read members of pool " + pool
	err := s.send(ctx, call{method: http.MethodGet, path: poolPath(pool) + "/members", op: op, into: &list})
	if err != nil {
		return nil, err
	}
	if list.Kind == "" {
		return nil, s.c.http.Unexpected(op, "not a list")
	}
	return list.Items, s.sound(op, list.Items)
}

// sound returns nil if all members have what every one has.
func (s *Session) sound(op string, members []Member) error {
	for _, m := range members {
		if m.Name == "" || m.FullPath == "" || m.Session == "" || m.State == "" || m.Ratio < 1 {
			return s.c.http.Unexpected(op, fmt.Sprintf("member %q with ratio %d, session %q and state %q", m.Name, m.Ratio, m.Session, m.State))
		}
	}
	return nil
}

// Statuses reads what the traffic side says of a pool's members, by name. A
// member without an entry is left out.
func (s *Session) Statuses(ctx context.Context, pool string) (map[string]Status, error) {
	var answer struct {
		Entries map[string]node `json:"entries"`
	}
	op := "read statistics of pool " + pool
	err := s.send(ctx, call{method: http.MethodGet, path: poolPath(pool) + "/members/stats", op: op, into: &answer})
	if err != nil {
		return nil, err
	}
	out := map[string]Status{}
	for key, entry := range answer.Entries {
		if name, st, ok := memberStatus(key, entry); ok {
			out[name] = st
		}
	}
	return out, nil
}

func memberStatus(key string, entry node) (name string, st Status, ok bool) {
	st = Status{Availability: entry.text("status.availabilityState"), Enabled: entry.text("status.enabledState")}
	st.Connections, ok = entry.number("serverside.curConns")
	if st.Availability == "" || st.Enabled == "" || !ok {
		return "", Status{}, false
	}
	if nodeName, port := entry.text("nodeName"), entry.any("port"); nodeName != "" && port != "" {
		host := nodeName[strings.LastIndex(nodeName, "/")+1:]
		if strings.Contains(host, ":") {
			return host + "." + port, st, true
		}
		return host + ":" + port, st, true
	}
	// …/members/~Common~10.0.0.1:80/stats
	parts := strings.Split(strings.TrimSuffix(key, "/stats"), "/")
	last, err := url.PathUnescape(parts[len(parts)-1])
	last = last[strings.LastIndex(last, "~")+1:]
	return last, st, err == nil && last != ""
}

// Virtual is a virtual server that deals out a pool.
type Virtual struct {
	FullPath    string
	Persistence []string // profiles that keep a client at its member
}

// Virtuals are the virtual servers with this default pool. Those that come to
// it by a rule or a policy are not among them.
func (s *Session) Virtuals(ctx context.Context, pool string) ([]Virtual, error) {
	var list struct {
		Kind  string `json:"kind"`
		Items []struct {
			FullPath string          `json:"fullPath"`
			Pool     string          `json:"pool"`
			Persist  json.RawMessage `json:"persist"`
			Fallback string          `json:"fallbackPersistence"`
		} `json:"items"`
	}
	op := "read virtual servers"
	err := s.send(ctx, call{method: http.MethodGet, path: "/mgmt/tm/ltm/virtual?$select=fullPath,pool,persist,fallbackPersistence", op: op, into: &list})
	if err != nil {
		return nil, err
	}
	if list.Kind == "" {
		return nil, s.c.http.Unexpected(op, "not a list")
	}
	var out []Virtual
	for _, v := range list.Items {
		if v.Pool != pool {
			continue
		}
		profiles := persistence(v.Persist)
		if v.Fallback != "" && v.Fallback != "none" {
			profiles = append(profiles, v.Fallback)
		}
		out = append(out, Virtual{FullPath: v.FullPath, Persistence: profiles})
	}
	return out, nil
}

// persistence are the names in a list of profiles, or in the one name or none
// that stands for it.
func persistence(raw json.RawMessage) []string {
	var list []struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(raw, &list) == nil {
		var names []string
		for _, p := range list {
			names = append(names, p.Name)
		}
		return names
	}
	var one string
	if json.Unmarshal(raw, &one) == nil && (one == "" || one == "none") || len(raw) == 0 {
		return nil
	}
	return []string{strings.Trim(string(raw), `"`)}
}

// Change is what is written of a member. Session is user-enabled or
// user-disabled, State is user-up or user-down, "" to leave it; Ratio 0
// leaves the ratio. What is read as monitor-enabled or up cannot be written.
type Change struct {
	Ratio   int    `json:"ratio,omitempty"`
	Session string `json:"session,omitempty"`
	State   string `json:"state,omitempty"`
}

// Reweigh is what brings a member from one weight to another. One that goes
// out keeps its ratio; one that was forced offline by hand stays so.
func Reweigh(from, to int) Change {
	switch {
	case to == 0:
		return Change{Session: "user-disabled"}
	case from == 0:
		return Change{Ratio: to, Session: "user-enabled"}
	}
	return Change{Ratio: to}
}

func (ch Change) check() error {
	switch {
	case ch == Change{}:
		return fmt.Errorf("nothing to change")
	case ch.Ratio < 0:
		return fmt.Errorf("ratio %d, expected 1 or more", ch.Ratio)
	case ch.Session != "" && ch.Session != "user-enabled" && ch.Session != "user-disabled":
		return fmt.Errorf("session %s, expected user-enabled or user-disabled", strconv.Quote(ch.Session))
	case ch.State != "" && ch.State != "user-up" && ch.State != "user-down":
		return fmt.Errorf("state %s, expected user-up or user-down", strconv.Quote(ch.State))
	}
	return nil
}

// Set changes one member, within a transaction when that is not 0. It is a
// PATCH of the member: a PUT, or members in a PATCH of the pool, would replace
// what is not named and begin the monitors again.
func (s *Session) Set(ctx context.Context, transaction int64, pool string, m Member, ch Change) error {
	op := "change member " + m.Name + " of pool " + pool
	if err := ch.check(); err != nil {
		return s.c.fault(op, providers.Invalid, err)
	}
	var done struct {
		Kind string `json:"kind"` // of the member, or of the command in a transaction
	}
	err := s.send(ctx, call{
		method: http.MethodPatch, path: poolPath(pool) + "/members/" + tilde(m.FullPath), op: op, body: ch, into: &done, transaction: transaction,
	})
	if err == nil && done.Kind == "" {
		err = s.c.http.Unexpected(op, "neither a member nor a command")
	}
	return err
}

// nobody is the name of no member.
const nobody = "manent.invalid:1"

// Writable asks for a change of a member that is not there: a user that may
// write is told so. It is an error if this one may not, or nobody can tell: what
// says that it was done is not the device. An operator, who may not change a
// ratio, may be told the same.
func (s *Session) Writable(ctx context.Context, pool string) error {
	partition, _, _ := strings.Cut(strings.TrimPrefix(pool, "/"), "/")
	path, op := poolPath(pool)+"/members/"+tilde("/"+partition+"/"+nobody), "ask to write pool "+pool
	err := s.send(ctx, call{method: http.MethodPatch, path: path, op: op, body: Change{Ratio: 1}})
	switch k := providers.KindOf(err); {
	case err == nil:
		return hinted(s.c.http.Unexpected(op, "a change of a member that is not there is done"), foreignHint)
	case k == providers.NotFound || k == providers.Invalid || k == providers.Conflict:
		return nil
	}
	return err
}
