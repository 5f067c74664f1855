package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/identity"
)

const (
	sessionLimit = 12 * time.Second // for one session, with all tries
	renewBefore  = 5 * time.Minute  // its end, or in the last quarter of its life
	lastUse      = 15 * time.Second // before its end
)

// role takes sessions of a role with tokens of the job. Each session gets a
// token of its own, since a token lives shorter than a session.
type role struct {
	env      providers.Env
	job      identity.Source
	arn      string
	session  string // its name, in AWS's log
	audience string
	sts      stscreds.AssumeRoleWithWebIdentityAPIClient
	ends     *atomic.Int64 // the last session, seconds since 1970
}

// assumed makes the credentials of a role that renew themselves.
func assumed(env providers.Env, job identity.Source, arn, region string) (sdk.Config, error) {
	endpoint, err := Endpoint(env, "STS")
	if err != nil {
		return sdk.Config{}, err
	}
	r := role{
		env: env, job: job, arn: arn, session: sessionName(env.Getenv),
		audience: cmp.Or(env.Getenv("MANENT_AWS_AUDIENCE"), "sts.amazonaws.com"), ends: &atomic.Int64{},
	}
	tries, _ := strconv.Atoi(env.Getenv("AWS_MAX_ATTEMPTS"))
	r.sts = sts.New(sts.Options{
		Region:       cmp.Or(region, env.Getenv("AWS_REGION"), env.Getenv("AWS_DEFAULT_REGION"), "us-east-1"),
		BaseEndpoint: endpoint, RetryMaxAttempts: tries,
		HTTPClient: client(sessionLimit / 2),
	})
	cache := r.kept()
	return sdk.Config{Credentials: cache, Retryer: renewing(cache)}, nil
}

// kept keeps a session until it is to be renewed.
func (r role) kept() *sdk.CredentialsCache {
	return sdk.NewCredentialsCache(r, func(o *sdk.CredentialsCacheOptions) { o.ExpiryWindow = renewBefore })
}

// sessionName is how a session is called in AWS's log: who asked for it.
// AWS takes 2 to 64 letters, digits and =,.@_+-.
func sessionName(getenv func(string) string) string {
	name := cmp.Or(getenv("AWS_ROLE_SESSION_NAME"), "manent-"+cmp.Or(getenv("GITHUB_RUN_ID"), getenv("CI_PIPELINE_ID"), "job"))
	name = strings.Map(func(c rune) rune {
		if c < 0x80 && (c == '_' || strings.ContainsRune("=,.@+-", c) || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z') {
			return c
		}
		return '-'
	}, name)
	return name[:min(len(name), 64)]
}

// Retrieve implements aws.CredentialsProvider: a new session.
// API: AssumeRoleWithWebIdentity of AWS STS.
func (r role) Retrieve(ctx context.Context) (sdk.Credentials, error) {
	ctx, cancel := context.WithTimeout(ctx, sessionLimit) // the cache hides the caller's own end
	defer cancel()
	c, err := stscreds.NewWebIdentityRoleProvider(r.sts, r.arn, tokens{ctx, r}, func(o *stscreds.WebIdentityRoleOptions) {
		o.RoleSessionName = r.session
	}).Retrieve(ctx)
	if err == nil && (c.AccessKeyID == "" || c.SecretAccessKey == "" || c.SessionToken == "" || !c.Expires.After(time.Now())) {
		err = errors.New("unexpected answer: no session that is good")
	}
	if err != nil {
		return sdk.Credentials{}, r.fault(ctx, err)
	}
	r.ends.Store(c.Expires.Unix())
	return c, nil
}

// tokens are what the role is taken with.
type tokens struct {
	ctx context.Context //nolint:containedctx // the SDK's interface passes none, and this lives for one call
	role
}

// GetIdentityToken implements stscreds.IdentityTokenRetriever.
func (t tokens) GetIdentityToken() ([]byte, error) {
	token, err := t.job.Token(t.ctx, t.audience)
	return []byte(token.Reveal()), err
}

// AdjustExpiresBy implements aws.AdjustExpiresByCredentialsCacheStrategy: a
// session is renewed five minutes before its end, a short one in the last
// quarter of its life.
func (r role) AdjustExpiresBy(c sdk.Credentials, by time.Duration) (sdk.Credentials, error) {
	c.Expires = c.Expires.Add(max(by, -time.Until(c.Expires)/4))
	return c, nil
}

// HandleFailToRefresh implements
// aws.HandleFailRefreshCredentialsCacheStrategy: a session that could not be
// renewed is good until its end, and in the last quarter of what is left it is
// tried again.
func (r role) HandleFailToRefresh(_ context.Context, old sdk.Credentials, err error) (sdk.Credentials, error) {
	end := time.Unix(r.ends.Load(), 0)
	if !old.HasKeys() || time.Until(end) < lastUse {
		return sdk.Credentials{}, err
	}
	old.Expires = end
	return old, nil
}

func (r role) fault(ctx context.Context, err error) error {
	op := "session of " + r.arn
	if f, ok := errors.AsType[*providers.Fault](err); ok { // of the token
		return &providers.Fault{Provider: name, Op: op, Kind: f.Kind, Err: f, Hint: f.Hint, After: f.After}
	}
	f := Fault(err, r.env.Redactor)
	if ctx.Err() != nil {
		f.Kind, f.Err = providers.Unknown, fmt.Errorf("no session within %v", sessionLimit)
	}
	if f.Kind == providers.NotFound {
		f.Kind = providers.Invalid // an endpoint that is no STS; what the caller asks for may well exist
	}
	switch code(err) {
	case "InvalidIdentityToken", "IDPRejectedClaim", "AccessDenied":
		f.Hint = fmt.Sprintf("the role's trust policy has to allow the job's issuer, subject and audience %q", r.audience)
	case "ExpiredTokenException":
		f.Hint = "the job's token has expired; the same command in a new job continues"
	}
	f.Provider, f.Op = name, op
	return f
}

// renewing makes a call once more with new credentials when a service says
// that the session has ended: this machine's clock may be slow.
func renewing(cache *sdk.CredentialsCache) func() sdk.Retryer {
	return func() sdk.Retryer { return renewer{RetryerV2: retry.NewStandard(), cache: cache} }
}

type renewer struct {
	sdk.RetryerV2
	cache *sdk.CredentialsCache
}

// IsErrorRetryable implements aws.Retryer.
func (r renewer) IsErrorRetryable(err error) bool {
	if _, ok := errors.AsType[*providers.Fault](err); ok {
		return false // of the credentials, which have been tried for already
	}
	if expired(err) {
		r.cache.Invalidate()
		return true
	}
	return r.RetryerV2.IsErrorRetryable(err)
}

func expired(err error) bool {
	e, ok := errors.AsType[smithy.APIError](err)
	return ok && (e.ErrorCode() == "ExpiredToken" || e.ErrorCode() == "ExpiredTokenException")
}
