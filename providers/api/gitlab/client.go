// Package gitlab is a client of GitLab's REST API for one project: the jobs of
// pipelines and who ran them, deployments and who approved them; and it writes
// dotenv reports. It must not know what for.
//
// A list is whole or an error, and an answer that lacks what the API documents
// is an error of kind Unknown: from half an answer one could read that nobody
// objected. No request that makes something is sent twice.
package gitlab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
)

// Bounds of what is read; what is longer is an error.
const (
	perPage  = 100
	maxPages = 20
	maxBody  = 8 << 20
)

// Options are what a Client needs.
type Options struct {
	Provider string              // named in every fault
	BaseURL  string              // CI_API_V4_URL, https://HOST/api/v4
	Project  int64               // id
	Path     string              // of the project, instead of its id
	Token    providers.Secret    // blanked in error texts
	JobToken bool                // it is a job's own token (CI_JOB_TOKEN)
	Variable string              // where a user sets another token, for hints
	CAFile   string              // authorities trusted instead of the system's, "" for those
	Masks    *providers.Redactor // secrets to blank in error texts; may be nil

	backoff time.Duration // before the first retry, 0 for httpx's
}

// Client makes the calls. It keeps nothing between them.
type Client struct {
	opts Options
	http *httpx.Client
}

// call is one request.
type call struct {
	op    string // for faults
	needs string // what the token has to be allowed
	path  string // below the project, from / on below the API
}

// What calls need, https://docs.gitlab.com/user/permissions/.
const (
	toRead  = "scope read_api and at least the role Reporter"
	toWrite = "scope api and at least the role Developer, and in a protected environment be allowed to deploy"
	toSetUp = "scope api and at least the role Maintainer"
)

// New makes a client. It does no I/O.
func New(opts Options) (*Client, error) {
	c := &Client{opts: opts}
	opening := call{op: "API", needs: toRead}
	if _, err := providers.CheckURL(opts.BaseURL, false); err != nil {
		return nil, c.made(opening, providers.Invalid, err)
	}
	if opts.Project < 1 && opts.Path == "" {
		return nil, c.made(opening, providers.Invalid, fmt.Errorf("project %d, expected an id", opts.Project))
	}
	token, header := opts.Token.Reveal(), "PRIVATE-TOKEN"
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > unicode.MaxASCII || !unicode.IsPrint(r) }) {
		return nil, &providers.Fault{
			Provider: opts.Provider, Op: opening.op, Kind: providers.Denied, Hint: c.remedy(toRead), Err: errors.New("no usable token"),
		}
	}
	if opts.JobToken {
		header = "JOB-TOKEN"
	}
	c.http = httpx.New(httpx.Options{
		Provider: opts.Provider, MaxBody: maxBody, CAFile: opts.CAFile, Backoff: opts.backoff, Secrets: opts.Masks,
		Auth: func(r *http.Request) error { r.Header.Set(header, token); return nil },
	})
	return c, nil
}

// send makes a call. Only what reads or sets is repeated, never a POST that
// may have arrived.
func (c *Client) send(ctx context.Context, method string, to call, query url.Values, body, into any) (*httpx.Response, error) {
	address := c.address(to.path)
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	resp, err := c.http.Send(ctx, httpx.Request{Method: method, URL: address, Body: body, Into: into, Op: to.op})
	f, ok := errors.AsType[*providers.Fault](err)
	if !ok {
		return resp, err
	}
	named := *f
	switch {
	case resp == nil:
	case resp.Status == http.StatusUnauthorized:
		named.Hint = "the token is wrong or has expired, a job's own ends with the job; " + c.remedy(to.needs)
	case resp.Status == http.StatusForbidden || resp.Status == http.StatusNotFound: // GitLab hides with 404 what a token may not see
		named.Hint = c.remedy(to.needs)
	}
	return resp, &named
}

func (c *Client) address(path string) string {
	base := strings.TrimSuffix(c.opts.BaseURL, "/")
	if strings.HasPrefix(path, "/") {
		return base + path
	}
	project := strconv.FormatInt(c.opts.Project, 10)
	if c.opts.Path != "" {
		project = url.PathEscape(c.opts.Path)
	}
	return strings.TrimSuffix(base+"/projects/"+project+"/"+path, "/")
}

func (c *Client) made(to call, kind providers.Kind, err error) error {
	return &providers.Fault{Provider: c.opts.Provider, Op: to.op, Kind: kind, Err: err}
}

// unexpected is the fault of an answer that cannot be relied on.
func (c *Client) unexpected(to call, what string) error {
	return c.made(to, providers.Unknown, errors.New("unexpected answer: "+what))
}

// remedy says what a token has to be allowed, and where that is set.
func (c *Client) remedy(needs string) string {
	if c.opts.JobToken {
		return fmt.Sprintf("let the user who runs the job have the role, or set %s (Settings > CI/CD > Variables, masked and protected)"+
			" to a project access token with %s; before GitLab 18 a job's own token may not list jobs", c.opts.Variable, needs)
	}
	return fmt.Sprintf("the token in %s needs %s (Settings > Access tokens)", c.opts.Variable, needs)
}

// all reads a list to its end, or to the first item for which enough holds;
// nil for none. https://docs.gitlab.com/api/rest/#pagination
func all[T any](ctx context.Context, c *Client, to call, query url.Values, enough func(T) bool) ([]T, error) {
	var out []T
	for n := 1; n <= maxPages; n++ {
		query.Set("per_page", strconv.Itoa(perPage))
		query.Set("page", strconv.Itoa(n))
		var items []T
		resp, err := c.send(ctx, http.MethodGet, to, query, nil, &items)
		if err != nil {
			return nil, err
		}
		if items == nil {
			return nil, c.unexpected(to, "it is no list")
		}
		for _, item := range items {
			if enough != nil && enough(item) {
				return out, nil
			}
			out = append(out, item)
		}
		next, told := resp.Header.Get("X-Next-Page"), len(resp.Header.Values("X-Next-Page")) > 0
		switch {
		case next == "" && (told || len(items) < perPage):
			return out, nil
		case next != strconv.Itoa(n+1):
			return nil, c.unexpected(to, fmt.Sprintf("after page %d of a list comes page %.10q", n, next))
		}
	}
	return nil, c.unexpected(to, fmt.Sprintf("the list has more than %d items", perPage*maxPages))
}
