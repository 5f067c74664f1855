// Package aws is how every provider that talks to AWS gets its region and its
// credentials, and what an error of the SDK means. It must not know any
// service of AWS but the one that gives sessions.
//
// Credentials are, in this order: the keys of the environment; a session of
// the role AWS_ROLE_ARN, taken with the identity of the pipeline's job and
// taken again before it ends; what the SDK's own chain finds.
package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/identity"
)

const name = "aws"

// requestLimit bounds one request.
const requestLimit = 10 * time.Second

// Config returns how to talk to AWS in a region; "" is that of the
// environment, and none at all is left to the caller, see NoRegion. It makes
// no request, but may read the files that the SDK reads.
func Config(ctx context.Context, env providers.Env, region string) (sdk.Config, error) {
	if env.Getenv == nil {
		env.Getenv = func(string) string { return "" }
	}
	cfg, err := source(ctx, env, region)
	if err != nil {
		return sdk.Config{}, err
	}
	cfg.Region = cmp.Or(region, env.Getenv("AWS_REGION"), env.Getenv("AWS_DEFAULT_REGION"), cfg.Region)
	cfg.HTTPClient = client(requestLimit)
	cfg.RetryMaxAttempts, _ = strconv.Atoi(env.Getenv("AWS_MAX_ATTEMPTS")) // 0 is the SDK's own number, 3
	cfg.Credentials = guarded{env: env, from: cfg.Credentials}
	return cfg, nil
}

// client follows no redirect, as the SDK's own does with 307 and 308: the
// body, which may hold the job's token, would go to whatever host one names.
func client(limit time.Duration) *http.Client {
	return &http.Client{
		Transport: awshttp.NewBuildableClient().GetTransport(), Timeout: limit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// source says where credentials come from.
func source(ctx context.Context, env providers.Env, region string) (sdk.Config, error) {
	if id := env.Getenv("AWS_ACCESS_KEY_ID"); id != "" {
		return sdk.Config{Credentials: credentials.NewStaticCredentialsProvider(id, env.Getenv("AWS_SECRET_ACCESS_KEY"), env.Getenv("AWS_SESSION_TOKEN"))}, nil
	}
	if arn := env.Getenv("AWS_ROLE_ARN"); arn != "" && env.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE") == "" {
		if job, ok := identity.From(env); ok {
			return assumed(env, job, arn, region)
		}
	}
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return cfg, &providers.Fault{Provider: name, Op: "configuration", Kind: providers.Invalid, Err: err}
	}
	return cfg, nil
}

// NoRegion is the fault of a provider that got none.
func NoRegion(hint string) *providers.Fault {
	return &providers.Fault{Provider: name, Op: "configuration", Kind: providers.Invalid, Err: errors.New("no region"), Hint: hint}
}

// Endpoint returns where a service answers, as AWS_ENDPOINT_URL_<service> or
// AWS_ENDPOINT_URL says; nil for AWS's own. The service is written as the SDK
// does in such a variable: STS, SECRETS_MANAGER.
func Endpoint(env providers.Env, service string) (*string, error) {
	for _, variable := range []string{"AWS_ENDPOINT_URL_" + service, "AWS_ENDPOINT_URL"} {
		address := env.Getenv(variable)
		if address == "" {
			continue
		}
		if _, err := providers.CheckURL(address, false); err != nil {
			return nil, &providers.Fault{Provider: name, Op: "configuration", Kind: providers.Invalid, Err: fmt.Errorf("%s: %w", variable, err)}
		}
		return &address, nil
	}
	return nil, nil
}

// guarded gives credentials that are hidden from logs, and errors that are
// faults.
type guarded struct {
	env  providers.Env
	from sdk.CredentialsProvider
}

// Retrieve implements aws.CredentialsProvider.
func (g guarded) Retrieve(ctx context.Context) (sdk.Credentials, error) {
	c, err := g.from.Retrieve(ctx)
	if err != nil {
		return sdk.Credentials{}, g.fault(ctx, err)
	}
	for _, secret := range []string{c.SecretAccessKey, c.SessionToken} {
		if secret == "" {
			continue
		}
		if err := g.env.Hide(providers.NewSecret(secret)); err != nil {
			return sdk.Credentials{}, err
		}
	}
	return c, nil
}

// fault names what failed. Nothing of the SDK's error stays in its chain: a
// status of the service of sessions must not be taken for one of the service
// that is called.
func (g guarded) fault(ctx context.Context, err error) error {
	if f, ok := errors.AsType[*providers.Fault](err); ok {
		return f
	}
	if ctx.Err() != nil {
		return &providers.Fault{Provider: name, Op: "credentials", Err: ctx.Err()}
	}
	f := Fault(err, g.env.Redactor)
	if f.Kind == providers.Unknown && strings.Contains(err.Error(), "no EC2 IMDS role found") {
		f.Kind = providers.Denied // the end of the SDK's chain: nothing was found
	}
	if f.Kind == providers.Denied {
		f.Hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the job a role: AWS_ROLE_ARN"
	}
	f.Provider, f.Op = name, "credentials"
	return f
}
