// Package f5 is a client of F5 BIG-IP's iControl REST interface: pools with
// their members, transactions, and the device's place in its cluster. It must
// not know what members are moved for.
//
// All calls are made within Use, which logs in, and out again however it ends:
// a user has at most 100 tokens, each lives for 20 minutes, and a pipeline
// makes a process for every step. The interface is one small process: a few
// reads are made at the same time, as a slow one would take longer for all of
// them than a caller has, and one use after the other. Facts are those of clouddocs.f5.com (iControl
// REST user guide, tmsh reference); what they leave open is said where it
// matters.
package f5

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
)

// DefaultTimeout is for one answer: a large configuration takes seconds to be
// saved.
const DefaultTimeout = 15 * time.Second

// Options are what a Client needs.
type Options struct {
	Provider string        // named in every fault
	URL      string        // of the management interface, https://HOST[:PORT]
	CAFile   string        // authorities trusted instead of the system's, "" for those
	Timeout  time.Duration // for one answer, 0 for DefaultTimeout
	Pause    time.Duration // between two looks at a transaction and before a call is repeated; 0 for 250 ms

	Transport http.RoundTripper // nil for verified TLS and the proxy of the environment

	Credentials func(context.Context) (providers.Secret, error) // user:password, asked before each login
	Hide        func(providers.Secret) error                    // keeps a secret out of what is printed
	Log         func(format string, args ...any)                // never secrets
}

// Client makes the calls. It keeps nothing between two uses.
type Client struct {
	opts    Options
	base    string
	secrets *providers.Redactor
	http    *httpx.Client
	turn    chan struct{} // holds one, for who is at work
}

// New makes a client. It does no I/O.
func New(o Options) (*Client, error) {
	u, err := providers.CheckURL(o.URL, false)
	if err == nil && (strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "") {
		err = fmt.Errorf("%q, expected https://HOST or https://HOST:PORT", u.Redacted())
	}
	if err != nil {
		return nil, &providers.Fault{Provider: o.Provider, Op: "management URL", Kind: providers.Invalid, Err: err}
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Pause == 0 {
		o.Pause = 250 * time.Millisecond
	}
	c := &Client{opts: o, base: u.Scheme + "://" + u.Host, secrets: &providers.Redactor{}, turn: make(chan struct{}, 1)}
	c.http = httpx.New(httpx.Options{
		Provider: o.Provider, Timeout: o.Timeout, CAFile: o.CAFile, Backoff: o.Pause, Secrets: c.secrets, Transport: o.Transport,
		NoRedirects: true, // a token is for the device alone
	})
	return c, nil
}

// Session is one use of the interface. It is for several goroutines.
type Session struct {
	c      *Client
	mu     sync.Mutex
	tokens []providers.Secret // the last one is in use
}

// logoutLimit is for the logout, which is made also when the caller's time is
// over. What is done within Use ends so much earlier than the caller's time,
// or a fifth of it.
const logoutLimit = 3 * time.Second

// Use logs in, does what is given, and logs out.
func (c *Client) Use(ctx context.Context, do func(context.Context, *Session) error) error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return c.fault("log in", providers.Unknown, fmt.Errorf("no answer: %w", ctx.Err()))
	}
	s := &Session{c: c}
	defer s.logout(ctx)
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-min(logoutLimit, time.Until(end)/5)))
		defer cancel()
	}
	if err := s.login(ctx); err != nil {
		return err
	}
	return do(ctx, s)
}

type loginAnswer struct {
	Token struct {
		Token string `json:"token"`
	} `json:"token"`
}

// login gets a token. Users of the device and of a remote directory both come
// by the provider tmos.
func (s *Session) login(ctx context.Context) error {
	user, password, err := s.c.credentials(ctx)
	if err != nil {
		return err
	}
	body := map[string]string{"username": user, "password": password.Reveal(), "loginProviderName": "tmos"}
	var answer loginAnswer
	resp, err := s.c.patient(ctx, httpx.Request{
		Method: http.MethodPost, URL: s.c.base + "/mgmt/shared/authn/login", Body: body, Into: &answer, Op: "log in",
	})
	if err != nil {
		return s.c.loginFault(resp, err)
	}
	token := providers.NewSecret(answer.Token.Token)
	if token.Empty() || strings.ContainsAny(token.Reveal(), "/?# \r\n") {
		return s.c.http.Unexpected("log in", "no usable token")
	}
	s.c.secrets.Add(token)
	s.tokens = append(s.tokens, token)
	return s.c.opts.Hide(token)
}

// credentials are user and password. The password is hidden by itself too: the
// secret as a whole has the user's name in it.
func (c *Client) credentials(ctx context.Context) (string, providers.Secret, error) {
	secret, err := c.opts.Credentials(ctx)
	if err != nil {
		return "", providers.Secret{}, err
	}
	user, password, ok := strings.Cut(strings.TrimRight(secret.Reveal(), "\r\n"), ":")
	if !ok || user == "" || password == "" {
		return "", providers.Secret{}, &providers.Fault{
			Provider: c.opts.Provider, Op: "log in", Kind: providers.Invalid,
			Err: errors.New("credentials_secret is not of the form user:password"), Hint: "store both in it, with a colon between them",
		}
	}
	hidden := providers.NewSecret(password)
	c.secrets.Add(hidden)
	return user, hidden, c.opts.Hide(hidden)
}

// logout deletes the tokens, also when the caller is gone. One that cannot be
// deleted ends by itself.
func (s *Session) logout(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logoutLimit)
	defer cancel()
	for i, token := range s.tokens {
		_, err := s.c.http.Send(ctx, httpx.Request{
			Method: http.MethodDelete, URL: s.c.base + "/mgmt/shared/authz/tokens/" + token.Reveal(), Op: "log out",
			Header: http.Header{"X-F5-Auth-Token": {token.Reveal()}},
		})
		if err != nil && i == len(s.tokens)-1 {
			s.c.opts.Log("%v; the token ends by itself in 20 minutes", err)
		}
	}
}

// call is one call of the interface.
type call struct {
	method, path string
	op           string
	body, into   any
	transaction  int64 // to add the call to, 0 for none
}

// send makes a call. A 401 of the device says that it was not carried out, so
// that it can be made once more with a new token whatever it is; unless it
// says that this user may not.
func (s *Session) send(ctx context.Context, do call) error {
	token := s.token()
	resp, err := s.try(ctx, token, do)
	if expired(resp) {
		if token, err = s.renew(ctx, token); err != nil {
			return err
		}
		resp, err = s.try(ctx, token, do)
	}
	return s.c.refused(resp, err)
}

func (s *Session) token() providers.Secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens[len(s.tokens)-1]
}

// renew logs in again, once for all calls that met the old token's end.
func (s *Session) renew(ctx context.Context, old providers.Secret) (providers.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.tokens[len(s.tokens)-1]; now != old {
		return now, nil
	}
	err := s.login(ctx)
	return s.tokens[len(s.tokens)-1], err
}

func (s *Session) try(ctx context.Context, token providers.Secret, do call) (*httpx.Response, error) {
	header := http.Header{"X-F5-Auth-Token": {token.Reveal()}}
	if do.transaction != 0 {
		header.Set("X-F5-REST-Coordination-Id", fmt.Sprint(do.transaction))
	}
	return s.c.patient(ctx, httpx.Request{
		Method: do.method, URL: s.c.base + do.path, Header: header, Body: do.body, Into: do.into, Op: do.op,
	})
}

// busyTries is how often a call is made that meets another task at work.
const busyTries = 5

// patient repeats a call that was not carried out because the interface was
// busy with another one's task.
func (c *Client) patient(ctx context.Context, r httpx.Request) (*httpx.Response, error) {
	for n := 1; ; n++ {
		resp, err := c.http.Send(ctx, r)
		if n == busyTries || resp == nil || !busy(resp) || !sleep(ctx, c.opts.Pause<<n) {
			return resp, err
		}
	}
}

func busy(resp *httpx.Response) bool {
	return resp.Status == http.StatusServiceUnavailable && strings.Contains(strings.ToLower(string(resp.Body)), "active asynchronous task")
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *Client) fault(op string, kind providers.Kind, err error) error {
	return &providers.Fault{Provider: c.opts.Provider, Op: op, Kind: kind, Err: err}
}

// asFault returns a copy to name the remedy in.
func asFault(err error) (*providers.Fault, bool) {
	f, ok := errors.AsType[*providers.Fault](err)
	if !ok {
		return nil, false
	}
	out := *f
	return &out, true
}
