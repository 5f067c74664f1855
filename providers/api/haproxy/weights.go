package haproxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/providers"
)

// Configuration is what a backend's servers are set up as.
type Configuration struct {
	Version int64 // not newer than the rest; 0 where it was not asked for
	Servers map[string]Server
	Weights map[string]int // of all of them

	// Assumed are those of which neither their line nor the backend says a
	// weight: theirs is 1, or that of a defaults section, which is not read.
	Assumed map[string]bool
}

// Configuration reads the servers and their weights, on top of a version that
// was read before, 0 to read it. Only of members the weight has to be known.
func (c *Client) Configuration(ctx context.Context, version int64, members []string) (Configuration, error) {
	if version == 0 {
		var err error
		if version, err = c.Version(ctx); err != nil {
			return Configuration{}, err
		}
	}
	out, err := c.Inherited(ctx, members)
	out.Version = version
	return out, err
}

// Inherited is a Configured that asks for the backend at the same time, for
// what servers have from its default-server. Where that cannot be seen they
// are as their lines say.
func (c *Client) Inherited(ctx context.Context, members []string) (Configuration, error) {
	var list []Server
	var b Backend
	var err, backendErr error
	together(
		func() { list, err = c.Servers(ctx) },
		func() { b, backendErr = c.Backend(ctx) },
	)
	if err == nil {
		err = senseless(list, members)
	}
	if err == nil && lacksWeight(list, members) {
		err = backendErr
	}
	if err != nil {
		return Configuration{}, err
	}
	return b.configuration(list), nil
}

// Configured is the weights without a version, enough to compare with.
func (c *Client) Configured(ctx context.Context, members []string) (Configuration, error) {
	list, err := c.Servers(ctx)
	if err == nil {
		err = senseless(list, members)
	}
	var b Backend
	if err == nil && lacksWeight(list, members) {
		b, err = c.Backend(ctx)
	}
	if err != nil {
		return Configuration{}, err
	}
	return b.configuration(list), nil
}

func lacksWeight(list []Server, of []string) bool {
	return slices.ContainsFunc(list, func(s Server) bool { return s.Weight == nil && slices.Contains(of, s.Name) })
}

// senseless returns the first of these servers with a weight that is none.
func senseless(list []Server, of []string) error {
	for _, s := range list {
		if s.senseless != nil && slices.Contains(of, s.Name) {
			return s.senseless
		}
	}
	return nil
}

// configuration: where a server has no weight of its own, that of the
// backend's default-server counts, else 1.
func (b Backend) configuration(list []Server) Configuration {
	out := Configuration{Servers: map[string]Server{}, Weights: map[string]int{}, Assumed: map[string]bool{}}
	usual := DefaultServer{}
	if b.DefaultServer != nil {
		usual = *b.DefaultServer
	}
	for _, s := range list {
		s.AgentCheck = s.AgentCheck || usual.AgentCheck == "enabled" && !s.without
		s.SlowStart = s.SlowStart || usual.SlowStart > 0 && !s.steady
		out.Servers[s.Name] = s
		switch {
		case s.Weight != nil:
			out.Weights[s.Name] = *s.Weight
		case usual.Weight != nil:
			out.Weights[s.Name] = *usual.Weight
		default:
			out.Weights[s.Name], out.Assumed[s.Name] = 1, true
		}
	}
	return out
}

// Change is one to a server's weight.
type Change struct {
	Server string
	Weight int
}

// Apply makes the changes in their order, each on the version that the one
// before made. One that a reload brings into force is waited for before the
// next, as their order counts for what is in force; the last one is not, and
// is returned.
func (c *Client) Apply(ctx context.Context, now Configuration, changes []Change) (reload string, err error) {
	for n, change := range changes {
		if reload != "" {
			if err := c.await(ctx, reload); err != nil {
				return reload, err
			}
		}
		last, err := c.SetWeight(ctx, now.Servers[change.Server], change.Weight, now.Version+int64(n))
		if err != nil {
			return reload, err
		}
		if last != "" {
			reload = last
		}
	}
	return reload, nil
}

// await waits for the end of a reload, as long as the call may take.
func (c *Client) await(ctx context.Context, id string) error {
	for {
		if done, err := c.Reloaded(ctx, id); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return &providers.Fault{Op: "reload " + id, Err: fmt.Errorf("it has not ended yet, the rest is not written: %w", ctx.Err())}
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// ErrRefused is that a reload failed.
var ErrRefused = errors.New("HAProxy refused the configuration")

// Reloaded reports whether a reload is over: a failed one is Invalid, one that
// nobody remembers is over.
func (c *Client) Reloaded(ctx context.Context, id string) (bool, error) {
	r, err := c.Reload(ctx, id)
	switch {
	case err != nil && providers.KindOf(err) == providers.NotFound:
		return true, nil
	case err != nil || r.Status == Succeeded:
		return err == nil, err
	case r.Status == Failed:
		return false, &providers.Fault{
			Op: "reload " + id, Kind: providers.Invalid,
			Err:  fmt.Errorf("%w, and the Data Plane API put the last good one back: %s", ErrRefused, strings.Join(strings.Fields(r.Response), " ")),
			Hint: "correct the configuration on the instance, then go on",
		}
	}
	return false, nil
}

// Up says whether a server takes traffic when it has weight.
func (r Running) Up() bool { return r.State == "up" && r.Admin == "ready" }

// InForce returns why the configured weights of these servers are not those
// that HAProxy runs with, "" if they are. One that is out of service gets
// nothing whatever its weight; one that runs and is in no configuration is to
// get nothing.
func (c Configuration) InForce(names []string, running map[string]Running) string {
	for _, name := range names {
		want, configured := c.Weights[name]
		r, runs := running[name]
		switch {
		case !configured && (!runs || !r.Up() || r.Weight == 0):
		case !configured:
			return fmt.Sprintf("server %s is not in the configuration, HAProxy runs it with weight %d", name, r.Weight)
		case !runs:
			return fmt.Sprintf("server %s does not run", name)
		case r.User != nil && *r.User != want:
			return fmt.Sprintf("server %s has weight %d, HAProxy runs it with %d", name, want, *r.User)
		case r.Up() && r.Weight != want:
			return fmt.Sprintf("server %s has weight %d, HAProxy gives it traffic by %d", name, want, r.Weight)
		}
	}
	return ""
}

// Alone returns why servers do not have all that members may get, while others
// are to have nothing, "" if it is so: none of the others runs with weight, and
// one of them does. Nothing else counts: neither how much that is, which an
// agent or slowstart may have a say in, nor a server that gets nothing.
func Alone(servers, others []string, running map[string]Running) string {
	for _, name := range others {
		r, runs := running[name]
		switch {
		case runs && r.User != nil && *r.User > 0:
			return fmt.Sprintf("server %s is to have weight 0, HAProxy runs it with %d", name, *r.User)
		case runs && r.Up() && r.Weight > 0:
			return fmt.Sprintf("server %s is to have weight 0, HAProxy gives it traffic by %d", name, r.Weight)
		}
	}
	if slices.ContainsFunc(servers, func(name string) bool { r, runs := running[name]; return runs && r.Weighs() }) {
		return ""
	}
	return fmt.Sprintf("HAProxy runs none of the servers %s with weight", strings.Join(servers, ", "))
}

// Weighs says whether a server has weight, be it up or not.
func (r Running) Weighs() bool {
	return (r.User == nil || *r.User > 0) && (!r.Up() || r.Weight > 0)
}

// SetAtRunTime are the weights that servers run with although others are
// configured, and neither an agent nor slowstart can be why: somebody set them
// at the stats socket, or HAProxy has yet to load its file. What an agent says
// is the weight set, too (seen with HAProxy 2.6).
func (c Configuration) SetAtRunTime(names []string, running map[string]Running) map[string]int {
	out := map[string]int{}
	for _, name := range names {
		s, configured := c.Servers[name]
		r, runs := running[name]
		switch {
		case !configured || !runs || s.AgentCheck:
		case r.User != nil && *r.User != c.Weights[name]:
			out[name] = *r.User
		case r.User == nil && r.Up() && r.Weight != c.Weights[name] && !s.SlowStart:
			out[name] = r.Weight
		}
	}
	return out
}

// IgnoresWeights says why an algorithm splits traffic without the weights, or
// takes a reload to change them, and what to do; "" when it heeds them
// (HAProxy's configuration manual, balance and hash-type).
func (b Backend) IgnoresWeights(algorithm string) (why, remedy string) {
	remedy = "use balance roundrobin in backend " + b.Name
	switch algorithm {
	case "roundrobin", "random", "leastconn", "":
		return "", ""
	case "first", "static-rr":
		return fmt.Sprintf("balance %s ignores weights that change while HAProxy runs", algorithm), remedy
	}
	if b.HashType != nil && b.HashType.Method == "consistent" {
		return "", ""
	}
	why = fmt.Sprintf("balance %s ignores weights that change while HAProxy runs, as its hash-type is map-based", algorithm)
	if b.HashType == nil {
		return why + " where the backend has none", remedy + ", or write hash-type consistent into the backend itself: one of a defaults section is not seen"
	}
	return why, remedy + ", or hash-type consistent"
}

// Keeps says what binds clients to their server, "" for nothing, and for how
// long, 0 when nobody says. rules are the types of the stick rules.
func (b Backend) Keeps(rules []string) (what string, lasts time.Duration) {
	if b.Cookie != nil {
		what, lasts = "cookie "+b.Cookie.Name, time.Duration(b.Cookie.MaxLife)*time.Second
	}
	if !slices.ContainsFunc(rules, func(r string) bool { return r == "on" || r == "match" }) {
		return what, lasts
	}
	what = strings.TrimPrefix(what+" and stick rules", " and ")
	if b.StickTable == nil || b.StickTable.Expire == nil || b.Cookie != nil && lasts == 0 {
		return what, 0
	}
	return what, max(lasts, time.Duration(*b.StickTable.Expire)*time.Millisecond)
}
