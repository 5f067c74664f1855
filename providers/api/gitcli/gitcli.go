// Package gitcli runs the git program against one remote, in scratch
// repositories of its own and never in the checkout, with the checkout's way to
// reach and authenticate to the remote and with nothing else of anybody's
// configuration.
//
// It must not know what is kept in the remote, nor any contract.
package gitcli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/manent/action/providers"
)

// RemoteName is what the remote is called in a scratch repository.
const RemoteName = "manent"

// Client is one remote. Its methods are for one goroutine at a time.
type Client struct {
	env     providers.Env
	address string
	remote  *remote // nil before the first scratch repository
}

// New makes a client of a remote of the checkout in env.Dir ("" is origin), or
// of a URL or path. Nothing is looked up before the first Scratch.
func New(env providers.Env, address string) *Client {
	if env.Getenv == nil {
		env.Getenv = func(string) string { return "" }
	}
	return &Client{env: env, address: address}
}

// Place names the remote in messages, without credentials; "" before it is
// known.
func (c *Client) Place() string {
	if c.remote == nil {
		return ""
	}
	return c.remote.shown
}

// Address looks up where the remote is, without credentials. It asks nothing of
// the remote itself.
func (c *Client) Address(ctx context.Context) (string, error) {
	if c.remote == nil {
		found, err := c.findRemote(ctx)
		if err != nil {
			return "", err
		}
		c.remote = found
	}
	return c.remote.shown, nil
}

// scratchPrefix begins the name of a scratch directory; the number of the
// process that made it follows.
const scratchPrefix = "manent-state-"

// Scratch makes an empty bare repository in a new temporary directory. The
// caller removes it.
func (c *Client) Scratch(ctx context.Context) (string, error) {
	if c.remote == nil {
		found, err := c.findRemote(ctx)
		if err != nil {
			return "", err
		}
		c.remote = found
		sweep(os.TempDir(), time.Now())
	}
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-*", scratchPrefix, os.Getpid()))
	if err != nil {
		return "", err
	}
	err = c.remote.trust(dir)
	if err == nil {
		err = c.Run(ctx, dir, nil, "init", "--quiet", "--bare", "--template=").Fault()
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", fmt.Errorf("make a scratch repository: %w", err)
	}
	return dir, nil
}

// Refs asks the remote for its refs that match a pattern of ls-remote, from a
// scratch repository. That there are none is believed only of something that
// speaks git's protocol: over http git takes any page at all, a proxy's
// greeting for example, for a repository without refs, and what is kept there
// would look as if it had never been.
func (c *Client) Refs(ctx context.Context, dir, pattern string) (map[string]string, error) {
	args := []string{"ls-remote", "--quiet", RemoteName, pattern}
	r := c.Run(ctx, dir, nil, args...)
	if len(r.Out) == 0 && r.err == nil {
		r = c.run(ctx, command{dir: dir, args: args, env: append(c.scratchEnviron(dir), "GIT_TRACE_PACKET=2")})
		if r.err == nil && !speaksGit(r.said) {
			return nil, errors.New("what answers there is no git server")
		}
	}
	if redirect(r.text) {
		return nil, c.redirected(ctx, dir, r, args)
	}
	if err := r.Fault(); err != nil {
		return nil, err
	}
	refs := map[string]string{}
	for line := range strings.Lines(string(r.Out)) {
		if id, ref, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			refs[ref] = id
		}
	}
	return refs, nil
}

// speaksGit looks in a packet trace for what every server of git's protocol
// says first: in version 2, in version 0 over http, in version 0.
func speaksGit(trace string) bool {
	return strings.Contains(trace, "< version 2") || strings.Contains(trace, "# service=git-upload-pack") ||
		strings.Contains(trace, " agent=")
}
