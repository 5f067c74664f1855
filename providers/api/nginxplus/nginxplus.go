// Package nginxplus is a client for the HTTP API of NGINX Plus: the servers of
// one upstream, their weights, and draining. It must not know slots or shares.
//
// Facts are from the published description of version 9 (nginx_api.yaml) and
// from the documentation of ngx_http_api_module and ngx_http_upstream_module.
// The API has no conditional write, and knows nothing of other instances.
package nginxplus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
)

// Newest is the newest version of the API that this package knows.
const Newest = 9

// Client talks to one instance, and stays with one version of the API: make
// another for another call. It is for one goroutine.
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

// Servers lists the upstream's entries in NGINX's order.
func (c *Client) Servers(ctx context.Context) ([]Server, error) {
	if err := c.negotiate(ctx); err != nil {
		return nil, err
	}
	op := "read upstream " + c.where
	var entries []configured
	if err := c.send(ctx, http.MethodGet, "/servers/", op, nil, &entries); err != nil {
		return nil, err
	}
	var live status
	if err := c.send(ctx, http.MethodGet, "/", op, nil, &live); err != nil {
		return nil, err
	}
	if entries == nil || live.Peers == nil {
		return nil, c.http.Unexpected(op, "no list of servers")
	}
	out := make([]Server, len(entries))
	for i, e := range entries {
		if e.ID == "" || e.Server == "" || e.Weight < 1 {
			return nil, c.http.Unexpected(op, fmt.Sprintf("server %q with id %q and weight %d", e.Server, e.ID, e.Weight))
		}
		out[i] = Server{
			ID: string(e.ID), Address: e.Server, Host: e.Host, Parent: string(e.Parent),
			Weight: e.Weight, Drain: e.Drain, Down: e.Down, Backup: e.Backup,
		}
		// A reload between the two answers may have given the id to another.
		j := slices.IndexFunc(live.Peers, func(p peer) bool { return p.ID == e.ID && p.Server == e.Server })
		if j >= 0 {
			out[i].Live, out[i].Up, out[i].Name = true, live.Peers[j].up(), live.Peers[j].Name
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
	if err := c.send(ctx, http.MethodPatch, "/servers/"+url.PathEscape(s.ID), op, body, &now); err != nil {
		return err
	}
	if now.Server != s.Address {
		return &providers.Fault{Provider: c.provider, Op: op, Kind: providers.Conflict,
			Err:  fmt.Errorf("id %s is server %q now, which was changed instead: NGINX was reloaded meanwhile", s.ID, now.Server),
			Hint: "compare the upstream's weights with those of its configuration"}
	}
	return nil
}

// nobody is the id of no server: NGINX counts from 0.
const nobody = 1 << 30

// Writable asks for a change of a server that is not there: what answers that
// there is no such server would have changed one. It is an error if the API is
// read-only or the credentials are not for writing; any other refusal says
// nothing, and is none.
func (c *Client) Writable(ctx context.Context) error {
	if err := c.negotiate(ctx); err != nil {
		return err
	}
	drain := true
	err := c.send(ctx, http.MethodPatch, "/servers/"+strconv.Itoa(nobody), "ask to write upstream "+c.where, change{Drain: &drain}, nil)
	if k := providers.KindOf(err); err == nil || k == providers.NotFound || k == providers.Invalid || k == providers.Conflict {
		return nil
	}
	return err
}

// negotiate finds the version out, once.
func (c *Client) negotiate(ctx context.Context) error {
	if c.version != 0 {
		return nil
	}
	var offered []int
	op := "list the API's versions at " + c.base
	resp, err := c.http.Send(ctx, httpx.Request{Method: http.MethodGet, URL: c.base + "/", Into: &offered, Op: op})
	if err != nil {
		return c.explain(err, resp)
	}
	if len(offered) == 0 || slices.Min(offered) < 1 {
		return c.http.Unexpected(op, fmt.Sprintf("versions %v", offered))
	}
	c.version = min(Newest, slices.Max(offered))
	return nil
}

func (c *Client) send(ctx context.Context, method, path, op string, body, into any) error {
	resp, err := c.http.Send(ctx, httpx.Request{
		Method: method, Op: op, Body: body, Into: into,
		URL: c.base + "/" + strconv.Itoa(c.version) + "/http/upstreams/" + url.PathEscape(c.upstream) + path,
	})
	return c.explain(err, resp)
}

// ErrGone is in the chain when NGINX has no server with the id.
var ErrGone = errors.New("UpstreamServerNotFound")

// meaning is what one of the API's codes means.
type meaning struct {
	kind providers.Kind
	hint string
}

func meaningOf(code string) (meaning, bool) {
	m, ok := map[string]meaning{
		"UpstreamNotFound":              {providers.NotFound, "expected the name of an upstream of the http block that has a zone"},
		"UpstreamServerNotFound":        {providers.NotFound, "NGINX was reloaded meanwhile; run this again"},
		"UnknownVersion":                {providers.Invalid, "leave api_version out for the newest that both sides know"},
		"PathNotFound":                  {providers.NotFound, "expected in api_urls the address of the location with the api directive, such as https://lb1:8443/api"},
		"UpstreamStatic":                {providers.Invalid, "give the upstream a zone: without one its servers cannot be changed at run time"},
		"MethodDisabled":                {providers.Denied, "the API is read-only: write `api write=on;` in its location"},
		"UpstreamServerWeightImmutable": {providers.Invalid, "SRV records give this server its weight: list servers without service= in the upstream"},
		"UpstreamServerImmutable":       {providers.Invalid, ""},
		"UpstreamBadServerId":           {providers.Invalid, ""},
		"UpstreamBadWeight":             {providers.Invalid, ""},
		"UpstreamConfFormatError":       {providers.Invalid, "this version of the API may be too old: leave api_version out"},
		"UpstreamOutOfMemory":           {providers.Unavailable, "give the upstream's zone more memory"},
		"BodyReadError":                 {providers.Unavailable, ""},
		"JsonError":                     {providers.Invalid, ""},
	}[code]
	return m, ok
}

// explain names what the API's own code says, and what helps. Of an answer
// only a code that is known gets into the text.
func (c *Client) explain(err error, resp *httpx.Response) error {
	f, ok := errors.AsType[*providers.Fault](err)
	if !ok || resp == nil {
		return err
	}
	told := *f
	var p problem
	if json.Unmarshal(resp.Body, &p) == nil {
		if m, known := meaningOf(p.Error.Code); known {
			told.Kind, told.Hint = m.kind, m.hint
			told.Err = fmt.Errorf("status %d, %s", resp.Status, p.Error.Code)
			if p.Error.Code == ErrGone.Error() {
				told.Err = fmt.Errorf("status %d, %w", resp.Status, ErrGone)
			}
			return &told
		}
	}
	switch resp.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		told.Hint = "credentials_secret names a secret user:password that the API's location lets in for GET and PATCH"
	case http.StatusNotFound:
		told.Hint = "expected in api_urls the address of the location with the api directive, such as https://lb1:8443/api"
	case http.StatusMethodNotAllowed:
		told.Hint = "does the location of api_urls have the directive `api write=on;`?"
	}
	return &told
}
