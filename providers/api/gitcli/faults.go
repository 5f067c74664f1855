package gitcli

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/manent/action/providers"
)

const (
	deniedHint = "the credentials need to write refs: contents: write on GitHub, Developer on GitLab; set " + TokenVariable + " if the checkout leaves none"
	hiddenHint = "this host takes no refs besides branches and tags; keep the state in S3 or in a repository of another host"
	absentHint = "check the address of the state repository, and that the credentials may read it: hosts say not found for what one may not see"
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
		{"authentication failed", providers.Denied, deniedHint},
		{"could not read username", providers.Denied, deniedHint},
		{"could not read password", providers.Denied, deniedHint},
		{"permission denied", providers.Denied, deniedHint},
		{"permission to ", providers.Denied, deniedHint}, // Permission to o/r.git denied to …
		{"you are not allowed to", providers.Denied, deniedHint},
		{"returned error: 401", providers.Denied, deniedHint},
		{"returned error: 403", providers.Denied, deniedHint},
		{"hook declined", providers.Denied, "a rule of the host refused the push; exempt the ref from it"},
		{"host key verification failed", providers.Denied, "put the host's key into known_hosts"},
		{"dubious ownership", providers.Denied, "git config --global --add safe.directory <the directory>"},
		{"shallow update not allowed", providers.Invalid, "set receive.shallowUpdate in the state repository"},
		{"mismatched algorithms", providers.Invalid, "the state repository must use SHA-1 object names"},
		{"certificate", providers.Unavailable, "the host's certificate is not trusted; set http.sslCAInfo"},
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
