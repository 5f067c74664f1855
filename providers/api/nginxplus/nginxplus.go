// Package nginxplus is a client for the HTTP API of NGINX Plus: the servers of
// one upstream, their weights, and draining. It must not know slots or shares.
//
// Facts are from the published description of version 9 (nginx_api.yaml) and
// from the documentation of ngx_http_api_module and ngx_http_upstream_module.
// The API has no conditional write, and knows nothing of other instances.
package nginxplus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
)

// Newest is the newest version of the API that this package knows.
const Newest = 9

// Client talks to one instance, and stays with one version of the API: make
// another for another call. The first call has to be one that no other is made
// beside.
type Client struct {
	http     *httpx.Client
	provider string
	base     string // without a slash at the end
	where    string // for texts
	upstream string
	version  int // 0: not known yet
}

// New returns a client for an upstream of the http block. base is the address
// of the location with the api directive. version is that of the API, 0 for
// the newest that both sides know. It does no I/O.
func New(client *httpx.Client, provider, base, upstream string, version int) *Client {
	base = strings.TrimRight(httpx.CleanURL(base), "/")
	return &Client{http: client, provider: provider, base: base, where: upstream + " at " + base, upstream: upstream, version: version}
}

// Servers lists the upstream's entries in NGINX's order. Their state is asked
// for at the same time; where it cannot be had, unseen says why, and no server
// has a Name, Live nor Up. Without a version the newest known is tried while
// the instance is asked for its own, which saves a slow API a call.
func (c *Client) Servers(ctx context.Context) (servers []Server, unseen, err error) {
	if c.version != 0 {
		return c.look(ctx, c.version)
	}
	listing, stop := context.WithCancel(ctx)
	defer stop()
	var version int
	var unlisted error
	var asked sync.WaitGroup
	asked.Go(func() { version, unlisted = c.newest(listing) })
	servers, unseen, err = c.look(ctx, Newest)
	if err == nil {
		stop()
	}
	asked.Wait()
	switch {
	case err == nil:
		c.version = Newest
	case !errors.Is(err, errVersion):
	case unlisted != nil:
		return nil, nil, unlisted
	default:
		c.version = version
		return c.look(ctx, version)
	}
	return servers, unseen, err
}

// look reads the entries and, beside them, their state.
func (c *Client) look(ctx context.Context, version int) (servers []Server, unseen, err error) {
	op := "read upstream " + c.where
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var live status
	var watched sync.WaitGroup
	watched.Go(func() {
		unseen = c.send(watching, call{version: version, method: http.MethodGet, path: "/", op: op, into: &live})
		if unseen == nil && live.Peers == nil {
			unseen = c.http.Unexpected(op, "no list of peers")
		}
	})
	var entries []configured
	err = c.send(ctx, call{version: version, method: http.MethodGet, path: "/servers/", op: op, into: &entries})
	if err != nil {
		stop()
	}
	watched.Wait()
	if err == nil && entries == nil {
		err = c.http.Unexpected(op, "no list of servers")
	}
	if err != nil {
		return nil, nil, err
	}
	if unseen != nil {
		live.Peers = nil
	}
	servers, err = c.join(op, entries, live.Peers)
	return servers, unseen, err
}

// join adds to each entry what its peer says of it, peers being nil where
// nothing is known. A reload between the two answers may have given an id to
// another server; a domain name without an address has no peer.
func (c *Client) join(op string, entries []configured, peers []peer) ([]Server, error) {
	out := make([]Server, len(entries))
	for i, e := range entries {
		if e.ID == "" || e.Server == "" || e.Weight < 1 {
			return nil, c.http.Unexpected(op, fmt.Sprintf("server %q with id %q and weight %d", e.Server, e.ID, e.Weight))
		}
		out[i] = Server{
			ID: string(e.ID), Address: e.Server, Host: e.Host, Parent: string(e.Parent),
			Weight: e.Weight, Drain: e.Drain, Down: e.Down, Backup: e.Backup,
		}
		j := slices.IndexFunc(peers, func(p peer) bool { return p.ID == e.ID && p.Server == e.Server })
		if j >= 0 {
			out[i].Live, out[i].Up, out[i].Idle, out[i].Name = true, peers[j].up(), peers[j].idle(), peers[j].Name
		} else if peers != nil {
			out[i].Idle = !isAddress(e.Server)
		}
	}
	return out, nil
}

// Set gives a server, as Servers returned it, a weight, or for 0 lets it drain
// and keep its weight. It returns ErrGone if NGINX has no such id any more,
// and a Conflict if the id was another server's by now, which then has been
// changed.
func (c *Client) Set(ctx context.Context, s Server, units int) error {
	if err := c.negotiate(ctx); err != nil {
		return err
	}
	drain := units == 0
	body := change{Drain: &drain}
	switch {
	case !drain && s.Drain:
		body.Weight = &units
	case !drain:
		body.Weight, body.Drain = &units, nil
	}
	var now configured
	op := fmt.Sprintf("set weight %d of %s in upstream %s", units, s.Address, c.where)
	if drain {
		op = fmt.Sprintf("drain %s in upstream %s", s.Address, c.where)
	}
	if err := c.send(ctx, call{c.version, http.MethodPatch, "/servers/" + url.PathEscape(s.ID), op, body, &now}); err != nil {
		return err
	}
	switch now.Server {
	case s.Address:
		return nil
	case "":
		return c.http.Unexpected(op, "no server")
	default:
		return &providers.Fault{Provider: c.provider, Op: op, Kind: providers.Conflict,
			Err:  fmt.Errorf("id %s is server %q now, which was changed instead: NGINX was reloaded meanwhile", s.ID, now.Server),
			Hint: "compare the upstream's weights with those of its configuration"}
	}
}

// nobody is the id of no server: NGINX counts from 0.
const nobody = 1 << 30

// Writable asks for a change of a server that is not there: what answers that
// there is no such server would have changed one. It is an error if the API is
// read-only, the credentials are not for writing, or nobody can tell: what says
// that it was done is not the API. Any other refusal by the API says nothing,
// and is none.
func (c *Client) Writable(ctx context.Context) error {
	if err := c.negotiate(ctx); err != nil {
		return err
	}
	drain, op := true, "ask to write upstream "+c.where
	err := c.send(ctx, call{c.version, http.MethodPatch, "/servers/" + strconv.Itoa(nobody), op, change{Drain: &drain}, nil})
	switch k := providers.KindOf(err); {
	case err == nil:
		return &providers.Fault{Provider: c.provider, Op: op, Kind: providers.Unknown,
			Err:  errors.New("unexpected answer: a change of a server that is not there is done"),
			Hint: "the answer is not of NGINX's API: " + locationHint}
	case k == providers.NotFound || k == providers.Invalid || k == providers.Conflict:
		return nil
	}
	return err
}

// negotiate finds the version out, once.
func (c *Client) negotiate(ctx context.Context) error {
	if c.version != 0 {
		return nil
	}
	version, err := c.newest(ctx)
	c.version = version
	return err
}

// newest is the newest version that both sides know.
func (c *Client) newest(ctx context.Context) (int, error) {
	var offered []int
	op := "list the API's versions at " + c.base
	resp, err := c.http.Send(ctx, httpx.Request{Method: http.MethodGet, URL: c.base + "/", Into: &offered, Op: op})
	if err != nil {
		return 0, explain(err, resp)
	}
	if len(offered) == 0 || slices.Min(offered) < 1 {
		return 0, c.http.Unexpected(op, fmt.Sprintf("versions %v", offered))
	}
	return min(Newest, slices.Max(offered)), nil
}

// call is one call about the upstream.
type call struct {
	version          int
	method, path, op string
	body, into       any
}

func (c *Client) send(ctx context.Context, do call) error {
	resp, err := c.http.Send(ctx, httpx.Request{
		Method: do.method, Op: do.op, Body: do.body, Into: do.into,
		URL: c.base + "/" + strconv.Itoa(do.version) + "/http/upstreams/" + url.PathEscape(c.upstream) + do.path,
	})
	return explain(err, resp)
}
