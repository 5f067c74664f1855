// Package haproxy is a client of HAProxy's Data Plane API, versions 2 and 3:
// the servers of a backend as configured and as they run. It must not know
// slots, shares nor what a weight is for.
//
// A weight is changed by one PUT of the whole server without a transaction,
// which HAProxy applies at once and keeps in its file; a commit of a
// transaction always reloads. The API's answers are those of its version 3.4
// and of the specification of 2.9 (haproxytech/dataplaneapi,
// haproxytech/dataplaneapi-specification).
package haproxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
)

// Versions of the API. A server has one of them: 2 up to 2.9, 3 from 3.0 on.
const (
	V2 = "v2"
	V3 = "v3"
)

// Client speaks to one instance about one backend.
type Client struct {
	http    *httpx.Client
	base    string // with the version, no slash at the end
	version string
	backend string
}

// New returns a client; options carry the credentials. It does no I/O.
func New(options httpx.Options, base, version, backend string) *Client {
	return &Client{
		http: httpx.New(options), base: strings.TrimRight(base, "/") + "/" + version,
		version: version, backend: backend,
	}
}

// Version is that of the configuration: every change makes it one higher.
// Read it before what a change is based on: what changes in between then is a
// Conflict and not overwritten.
func (c *Client) Version(ctx context.Context) (int64, error) {
	var v int64
	err := c.get(ctx, "read the configuration's version", "configuration/version", nil, &v)
	if err != nil && providers.KindOf(err) == providers.NotFound {
		return 0, c.hint(err, "the Data Plane API has no "+c.version+" here: set api_version to what it speaks, v2 up to 2.9 and v3 from 3.0 on")
	}
	if err == nil && v < 1 {
		return 0, c.http.Unexpected("read the configuration's version", fmt.Sprintf("version %d", v))
	}
	return v, err
}

// Backend returns the backend as configured.
func (c *Client) Backend(ctx context.Context) (Backend, error) {
	var b Backend
	err := c.configured(ctx, "read backend "+c.backend, "configuration/backends/"+url.PathEscape(c.backend), nil, &b)
	if err == nil && b.Name != c.backend {
		return b, c.http.Unexpected("read backend "+c.backend, fmt.Sprintf("backend %q", b.Name))
	}
	return b, c.noBackend(err)
}

// noBackend says what to do about a backend that is not there.
func (c *Client) noBackend(err error) error {
	if err == nil || providers.KindOf(err) != providers.NotFound {
		return err
	}
	return c.hint(err, "give the name of a backend section of HAProxy's configuration in backend")
}

// Servers returns the servers of the backend as configured, without those
// that a server-template makes.
func (c *Client) Servers(ctx context.Context) ([]Server, error) {
	var list []Server
	path, query := c.of("configuration", "servers")
	err := c.configured(ctx, "read the servers of backend "+c.backend, path, query, &list)
	for _, s := range list {
		if err == nil && s.Name == "" {
			err = c.http.Unexpected("read the servers of backend "+c.backend, "a server without a name")
		}
	}
	return list, c.noBackend(err)
}

// StickRules returns the types of the backend's stick rules ("on", "match", …).
func (c *Client) StickRules(ctx context.Context) ([]string, error) {
	var list []struct {
		Type string `json:"type"`
	}
	path, query := c.of("configuration", "stick_rules")
	err := c.configured(ctx, "read the stick rules of backend "+c.backend, path, query, &list)
	types := make([]string, len(list))
	for i, rule := range list {
		types[i] = rule.Type
	}
	return types, err
}

// SetWeight puts the server back as it was read but for its weight, 0–256, on
// condition that the configuration still has this version; it then has the
// next one. Anything else there is a Conflict. It returns the id of the reload
// that will bring the change into force, "" when it is in force at once.
func (c *Client) SetWeight(ctx context.Context, s Server, weight int, version int64) (reload string, err error) {
	path, query := c.of("configuration", "servers")
	query.Set("version", strconv.FormatInt(version, 10))
	resp, err := c.send(ctx, httpx.Request{
		Method: http.MethodPut, URL: c.url(path+"/"+url.PathEscape(s.Name), query), Body: s.with(weight),
		Op: fmt.Sprintf("set weight %d of server %s/%s", weight, c.backend, s.Name), Retry: httpx.RetryNever,
	})
	if err != nil {
		return "", err
	}
	if resp.Status == http.StatusAccepted {
		if reload = resp.Header.Get("Reload-ID"); reload == "" {
			return "", c.http.Unexpected("set weight of server "+s.Name, "status 202 without a Reload-ID")
		}
	}
	return reload, nil
}

// Reload returns how a reload went. Reloads long past are NotFound.
func (c *Client) Reload(ctx context.Context, id string) (Reload, error) {
	var r Reload
	err := c.get(ctx, "read reload "+id, "reloads/"+url.PathEscape(id), nil, &r)
	return r, err
}

// Running returns the servers as HAProxy runs them, by name. As the API
// answers 404 when it has lost HAProxy's socket, NotFound does not exist here:
// it is Unavailable.
func (c *Client) Running(ctx context.Context) (map[string]Running, error) {
	op := "read the running servers of backend " + c.backend
	var list []Running
	var stats []stat
	var listErr, statsErr error
	together(func() {
		path, query := c.of("runtime", "servers")
		listErr = c.get(ctx, op, path, query, &list)
	}, func() {
		stats, statsErr = c.stats(ctx, url.Values{"type": {"server"}, "parent": {c.backend}})
	})
	if listErr != nil {
		return nil, lostSocket(listErr)
	}
	if statsErr != nil {
		return nil, statsErr
	}
	out := make(map[string]Running, len(list))
	for _, r := range list {
		r.Weight = -1
		out[r.Name] = r
	}
	for _, s := range stats {
		r, ok := out[s.Name]
		if !ok || s.Stats.Weight == nil {
			return nil, c.http.Unexpected(op, fmt.Sprintf("server %s is in the statistics without a weight, or in them only", s.Name))
		}
		r.Weight = *s.Stats.Weight
		out[s.Name] = r
	}
	for name, r := range out {
		if r.Weight < 0 {
			return nil, c.http.Unexpected(op, "no statistics of server "+name)
		}
	}
	return out, nil
}

// Algorithm is the balance algorithm that runs, wherever it is configured; ""
// when the API does not say.
func (c *Client) Algorithm(ctx context.Context) (string, error) {
	stats, err := c.stats(ctx, url.Values{"type": {"backend"}, "name": {c.backend}})
	if err != nil || len(stats) != 1 {
		return "", err
	}
	return stats[0].Stats.Algo, nil
}

// stats of API version 2 are a list with one element for each process.
func (c *Client) stats(ctx context.Context, query url.Values) ([]stat, error) {
	const op = "read statistics"
	var all []stats
	var err error
	if c.version == V2 {
		err = c.get(ctx, op, "stats/native", query, &all)
	} else {
		all = make([]stats, 1)
		err = c.get(ctx, op, "stats/native", query, &all[0])
	}
	switch {
	case err != nil:
		return nil, lostSocket(err)
	case len(all) != 1:
		return nil, &providers.Fault{Op: op, Kind: providers.Unavailable, Err: fmt.Errorf("of %d processes, expected one", len(all)),
			Hint: "run HAProxy without nbproc, and give the Data Plane API its stats socket"}
	case all[0].Error != "":
		return nil, lostSocket(&providers.Fault{Op: op, Kind: providers.Unavailable, Err: errors.New(all[0].Error)})
	}
	return all[0].Stats, nil
}

// of is the path and the query of something below the backend.
func (c *Client) of(area, what string) (string, url.Values) {
	if c.version == V2 {
		return area + "/" + what, url.Values{"backend": {c.backend}}
	}
	return area + "/backends/" + url.PathEscape(c.backend) + "/" + what, url.Values{}
}

func (c *Client) url(path string, query url.Values) string {
	at := c.base + "/services/haproxy/" + path
	if len(query) > 0 {
		at += "?" + query.Encode()
	}
	return at
}
