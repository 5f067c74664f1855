// Package github is a client of the part of GitHub's REST API that manent
// uses: what people said in a run, deployments and their statuses. It must not
// know what a rollout is, nor read the environment of the process.
package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	gh "github.com/google/go-github/v66/github"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
)

const name = "github"

// PublicAPI is where github.com answers.
const PublicAPI = "https://api.github.com"

// Options say where to ask and as whom.
type Options struct {
	BaseURL string // PublicAPI, or https://HOST/api/v3 of a GitHub Enterprise Server
	Token   providers.Secret
	Secrets *providers.Redactor // more that no error may show; may be nil
	Backoff time.Duration       // before a read is tried again; 0 for the default of httpx
}

// Client makes calls. Reads are tried again within the bounds of httpx; what
// writes is sent once, since nobody but the caller can tell whether it landed.
type Client struct {
	rest    *gh.Client
	secrets *providers.Redactor
	token   *providers.Redactor
}

// New returns a client. It does no I/O.
func New(o Options) (*Client, error) {
	base, err := providers.CheckURL(o.BaseURL, false)
	if err != nil {
		return nil, &providers.Fault{Provider: name, Op: "API", Kind: providers.Invalid, Err: err, Hint: "GITHUB_API_URL is the address of the API, such as " + PublicAPI}
	}
	transport := httpx.New(httpx.Options{
		Provider: name, Backoff: o.Backoff,
		Auth: func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+o.Token.Reveal())
			return nil
		},
	}).RoundTripper()
	c := &Client{secrets: o.Secrets, token: &providers.Redactor{}}
	c.token.Add(o.Token)
	c.rest = gh.NewClient(&http.Client{
		Transport: oneDocument{transport},
		// A redirect would send the request, and what it creates, elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	c.rest.UserAgent = "manent"
	c.rest.BaseURL = &url.URL{Scheme: base.Scheme, Host: base.Host, Path: strings.TrimSuffix(base.Path, "/") + "/"}
	return c, nil
}

// Repo names a repository.
type Repo struct{ Owner, Name string }

// ParseRepo reads "owner/name".
func ParseRepo(text string) (Repo, error) {
	if !regexp.MustCompile(`^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$`).MatchString(text) {
		return Repo{}, fmt.Errorf("repository %.100q, expected owner/name", text)
	}
	owner, repo, _ := strings.Cut(text, "/")
	if strings.Trim(owner, ".") == "" || strings.Trim(repo, ".") == "" {
		return Repo{}, fmt.Errorf("repository %.100q, expected owner/name", text)
	}
	return Repo{Owner: owner, Name: repo}, nil
}

// String returns "owner/name".
func (r Repo) String() string { return r.Owner + "/" + r.Name }

// call says in faults what was tried and which permission it takes.
type call struct{ op, permission string }

// errNoList is an answer that is no list at all: its lack is not emptiness.
var errNoList = errors.New("the answer holds no list")

// most pages of a list that are read, of 100 each.
const mostPages = 20

// pages reads a list to its end.
func pages[T any](get func(gh.ListOptions) ([]T, *gh.Response, error)) ([]T, error) {
	opts := gh.ListOptions{PerPage: 100}
	var all []T
	for range mostPages {
		page, resp, err := get(opts)
		if err != nil {
			return nil, err
		}
		if page == nil {
			return nil, errNoList
		}
		all = append(all, page...)
		if resp.NextPage == 0 {
			return all, nil
		}
		opts.Page = resp.NextPage
	}
	return nil, fmt.Errorf("more than %d pages, expected an end", mostPages)
}

// Approval is what one person said about environments of a run.
type Approval struct {
	State        string // approved, rejected or pending
	Who          string // login name
	Comment      string
	Environments []string
}

// Approvals returns what people said in a run, in GitHub's order; none is an
// empty list. It takes the permission `actions: read`.
// API: GET /repos/{owner}/{repo}/actions/runs/{run_id}/approvals.
func (c *Client) Approvals(ctx context.Context, r Repo, run int64) ([]Approval, error) {
	call := call{fmt.Sprintf("reviews of run %d of %s", run, r), "actions: read"}
	req, err := c.rest.NewRequest(http.MethodGet, fmt.Sprintf("repos/%s/actions/runs/%d/approvals", r, run), nil)
	if err != nil {
		return nil, c.fault(ctx, call, err)
	}
	var wire []approval
	_, err = c.rest.Do(ctx, req, &wire)
	if err == nil && wire == nil {
		err = errNoList
	}
	if err != nil {
		return nil, c.fault(ctx, call, err)
	}
	out := make([]Approval, len(wire))
	for i, w := range wire {
		if out[i], err = w.read(); err != nil {
			return nil, c.fault(ctx, call, err)
		}
	}
	return out, nil
}
