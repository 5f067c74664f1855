// Package identity is who the pipeline's job is: the short-lived OIDC token by
// which a cloud or a Vault recognizes it, so that no lasting key has to be kept
// in the pipeline. It must not know who takes the tokens, nor what for.
//
// On GitHub Actions each call mints a new token. GitLab mints a job's tokens
// when the job begins, one for each audience of its id_tokens; there a call
// takes the one whose audience is asked for. Any other pipeline may put a token
// into one of the same variables.
package identity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
)

const name = "identity"

// The variables of a job on GitHub whose permissions have `id-token: write`.
// https://docs.github.com/actions/reference/security/oidc
const (
	requestURL   = "ACTIONS_ID_TOKEN_REQUEST_URL"
	requestToken = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
)

// Variables are where a token that was minted beforehand may be, in the order
// in which they are looked at. What comes behind MANENT_ID_TOKEN_ is for
// people: the audience of a token decides who it is for, not its name.
func Variables() []string {
	return []string{"MANENT_ID_TOKEN", "MANENT_ID_TOKEN_AWS", "MANENT_ID_TOKEN_GOOGLE", "MANENT_ID_TOKEN_AZURE", "MANENT_ID_TOKEN_VAULT"}
}

// Source gives the tokens of one job.
type Source struct {
	env    providers.Env
	mints  *httpx.Client // nil where tokens were minted beforehand
	github bool
}

// From returns the identity of the job that this process runs in. False means
// that it is no job of a pipeline: credentials come from elsewhere. A job that
// was not given an identity still has a source, whose Token says what lacks.
func From(env providers.Env) (Source, bool) {
	if env.Getenv == nil {
		return Source{}, false
	}
	s := Source{env: env, github: env.Getenv("GITHUB_ACTIONS") == "true"}
	if s.asks() {
		s.mints = httpx.New(httpx.Options{Provider: name, MaxBody: maxAnswer, Secrets: env.Redactor, Auth: s.authorize})
	}
	return s, s.Given() || s.github || env.Getenv("GITLAB_CI") == "true"
}

// Given reports whether the job was given an identity, expired or not.
func (s Source) Given() bool {
	return s.env.Getenv != nil && (s.asks() || slices.ContainsFunc(Variables(), func(v string) bool { return s.env.Getenv(v) != "" }))
}

func (s Source) asks() bool { return s.env.Getenv(requestURL) != "" }

// Token returns a token for an audience; hidden from logs before anybody gets
// it. On GitHub it is new and good for five minutes, elsewhere it is good as
// long as the pipeline said, mostly until the job's own timeout. A job that may
// not have one, or whose token has expired, is Denied.
func (s Source) Token(ctx context.Context, audience string) (providers.Secret, error) {
	if audience == "" {
		return providers.Secret{}, s.fault(audience, providers.Invalid, errors.New("no audience"), "name the audience that the other side expects")
	}
	if err := ctx.Err(); err != nil {
		return providers.Secret{}, s.fault(audience, providers.Unknown, err, "")
	}
	token, err := s.find(ctx, audience)
	if err != nil {
		return providers.Secret{}, err
	}
	if err := s.env.Hide(token); err != nil {
		return providers.Secret{}, err
	}
	return token, nil
}

func (s Source) find(ctx context.Context, audience string) (providers.Secret, error) {
	if s.env.Getenv != nil && s.asks() {
		return s.mint(ctx, audience)
	}
	return s.minted(audience)
}

// minted takes the first token of the variables that is for the audience and
// has not expired. Nothing is verified: that is for whom the token is for.
func (s Source) minted(audience string) (providers.Secret, error) {
	expired := error(nil)
	var others []string
	for _, variable := range Variables() {
		text := strings.TrimSpace(s.getenv(variable))
		if text == "" {
			continue
		}
		c, err := parse(text)
		switch {
		case err != nil:
			return providers.Secret{}, s.fault(audience, providers.Invalid, fmt.Errorf("%s: %w", variable, err), "the pipeline puts the token there as it is; GitLab does by `id_tokens:`")
		case !slices.Contains(c.Audience, audience):
			others = append(others, fmt.Sprintf("%s is for %.100q", variable, strings.Join(c.Audience, ", ")))
		case c.expired(time.Now()):
			expired = fmt.Errorf("%s expired at %s", variable, c.end().UTC().Format(time.RFC3339))
		default:
			return providers.NewSecret(text), nil
		}
	}
	if expired != nil {
		return providers.Secret{}, s.fault(audience, providers.Denied, expired,
			"it lives as long as the job's timeout: raise `timeout:`, or end earlier with --max-time; the same command in a new job continues")
	}
	return providers.Secret{}, s.lacking(audience, others)
}

func (s Source) lacking(audience string, others []string) error {
	what := errors.New("the job was given no identity")
	if len(others) > 0 {
		what = fmt.Errorf("no token for this audience: %s", strings.Join(others, ", "))
	}
	if s.github {
		return s.fault(audience, providers.Denied, what, "the job needs `permissions: {id-token: write}` in the workflow; a fork's pull request gets none")
	}
	return s.fault(audience, providers.Denied, what, fmt.Sprintf("add `id_tokens: {MANENT_ID_TOKEN: {aud: %q}}` to the job", audience))
}

func (s Source) getenv(variable string) string {
	if s.env.Getenv == nil {
		return ""
	}
	return s.env.Getenv(variable)
}

func (s Source) fault(audience string, kind providers.Kind, err error, hint string) error {
	return &providers.Fault{Provider: name, Op: fmt.Sprintf("token for %.100q", audience), Kind: kind, Err: err, Hint: hint}
}
