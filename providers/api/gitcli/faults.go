package gitcli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"regexp"
	"strings"

	"github.com/manent/action/providers"
)

const (
	grants     = "on GitHub the job's `permissions: {contents: write}`, which the token of a fork never gets; on GitLab Settings > CI/CD > Job token permissions > Allow Git push requests, and the role Developer"
	deniedHint = "the credentials may not write refs: " + grants + "; or set " + TokenVariable + " to a token that may"
	staleHint  = "there are no credentials, or they are wrong or have expired, as a job's token does with its job: run the job again, or set " + TokenVariable + "; they have to write refs: " + grants
	hiddenHint = "this host takes no refs besides branches and tags; keep the state in S3 or in a repository of another host"
	absentHint = "check the address of the state repository, and that the credentials may read it: hosts say not found for what one may not see (" + grants + ")"
	movedHint  = "give the address that the remote redirects to, its .git included: credentials go to no other address"
)

// meaning says what a message of git or of a host means. It only ever
// classifies a failure; whether a write has landed is read from the ref.
type meaning struct {
	text string // in lower case
	kind providers.Kind
	hint string
}

// meanings are searched in order; messages of git 2.31 to 2.50, of GitHub and
// of GitLab.
func meanings() []meaning {
	return []meaning{
		{"deny updating a hidden ref", providers.Denied, hiddenHint},
		{"funny refname", providers.Denied, hiddenHint},
		{"rpc failed", providers.Unknown, ""}, // the request was under way
		{"authentication failed", providers.Denied, staleHint},
		{"could not read username", providers.Denied, staleHint},
		{"could not read password", providers.Denied, staleHint},
		{"permission denied", providers.Denied, deniedHint},
		{"permission to ", providers.Denied, deniedHint}, // Permission to o/r.git denied to …
		{"you are not allowed to", providers.Denied, deniedHint},
		{"returned error: 401", providers.Denied, staleHint},
		{"returned error: 403", providers.Denied, deniedHint},
		{"hook declined", providers.Denied, "a rule of the host refused the push; exempt the ref from it"},
		{"host key verification failed", providers.Denied, "put the host's key into known_hosts"},
		{"dubious ownership", providers.Denied, "git config --global --add safe.directory <the directory>"},
		{"shallow update not allowed", providers.Invalid, "set receive.shallowUpdate in the state repository"},
		{"mismatched algorithms", providers.Invalid, "the state repository must use SHA-1 object names"},
		{"certificate", providers.Unavailable, "the host's certificate is not trusted; set http.sslCAInfo"},
		{redirectText, providers.Invalid, movedHint},
		{"returned error: 429", providers.Throttled, ""},
		{"returned error: 404", providers.NotFound, absentHint},
		{"repository not found", providers.NotFound, absentHint},
		{"could not be found", providers.NotFound, absentHint},
		{"' not found", providers.NotFound, absentHint}, // repository 'https://…' not found
		{"does not appear to be a git repository", providers.NotFound, absentHint},
		{"does not exist", providers.NotFound, absentHint},
		{"returned error: 5", providers.Unavailable, ""},
		{"could not resolve", providers.Unavailable, ""},
		{"failed to connect", providers.Unavailable, ""},
		{"couldn't connect", providers.Unavailable, ""},
		{"connection refused", providers.Unavailable, ""},
		{"connection timed out", providers.Unavailable, ""},
		{"network is unreachable", providers.Unavailable, ""},
	}
}

// redirectText is what git says of a redirect that it may not follow.
const redirectText = "returned error: 30"

func redirect(said string) bool { return strings.Contains(said, redirectText) }

// redirected says where a redirect leads. git tells only in a trace, so it is
// asked again; of the address no more than the host is shown, since the rest
// may be a credential.
func (c *Client) redirected(ctx context.Context, dir string, first Result, args []string) error {
	f := &providers.Fault{Kind: providers.Invalid, Err: fmt.Errorf("the remote answers with a redirect, which is not followed (%s)", first.text), Hint: movedHint}
	traced := append(c.scratchEnviron(dir), "GIT_TRACE_CURL=2", "GIT_TRACE_CURL_NO_DATA=1", "GIT_TRACE_REDACT=1")
	r := c.run(ctx, command{dir: dir, args: args, env: traced})
	if found := location.FindStringSubmatch(r.said); found != nil {
		if u, err := url.Parse(found[1]); err == nil && u.Host != "" {
			f.Hint = "it leads to host " + u.Host + "; " + movedHint
		}
	}
	return f
}

var location = regexp.MustCompile(`(?i)<= recv header: location: *(\S+)`)

// Fault is why the process failed, nil when it did not: a *providers.Fault
// without provider, to be wrapped.
func (r Result) Fault() error {
	if r.err == nil {
		return nil
	}
	f := &providers.Fault{Err: r.err}
	switch {
	case providers.Lost(r.err):
		return f
	case errors.Is(r.err, exec.ErrNotFound):
		f.Kind, f.Hint = providers.Invalid, "install git 2.31 or newer"
		return f
	case r.text != "":
		f.Err = fmt.Errorf("%s (%w)", r.text, r.err)
	}
	said := strings.ToLower(r.text)
	for _, m := range meanings() {
		if strings.Contains(said, m.text) {
			f.Kind, f.Hint = m.kind, m.hint
			return f
		}
	}
	return f
}
