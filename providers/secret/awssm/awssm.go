// Package awssm takes secrets from AWS Secrets Manager. It must not know what
// they are for, nor how one logs in to AWS.
package awssm

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	sm "github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/smithy-go"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/aws"
	"github.com/manent/action/providers/secret"
)

var _ secret.Source = (*Source)(nil)

const (
	scheme = "aws-sm"
	most   = 64 << 10 // bytes of a value, the service's own limit
)

// Spec describes the source.
func Spec() secret.Spec {
	return secret.Spec{
		Scheme: scheme, Summary: "a secret of AWS Secrets Manager by name or ARN, its current version",
		Example: "aws-sm:shop/haproxy#password", New: New,
	}
}

// Source reads Secrets Manager, in the region of the environment or of the
// ARN that is asked for.
type Source struct {
	env     providers.Env
	mu      sync.Mutex
	clients map[string]*sm.Client // by region
}

// New returns the source. It does no I/O.
func New(env providers.Env) (secret.Source, error) {
	if env.Getenv == nil {
		env.Getenv = func(string) string { return "" }
	}
	return &Source{env: env, clients: map[string]*sm.Client{}}, nil
}

// Resolve implements secret.Source. The value is taken as it is, text or
// bytes; with #field it is a JSON object and the field is taken.
// API: GetSecretValue of AWS Secrets Manager.
func (s *Source) Resolve(ctx context.Context, ref string) (providers.Secret, error) {
	if err := ctx.Err(); err != nil {
		return providers.Secret{}, fault("secret", &providers.Fault{Err: err})
	}
	name, field, ok := parse(ref)
	if !ok {
		return providers.Secret{}, fault("secret", &providers.Fault{Kind: providers.Invalid,
			Err: errors.New("not a reference, expected a name or an ARN, then #FIELD if wanted"), Hint: "a reference is never the secret itself"})
	}
	op := fmt.Sprintf("secret %q", name)
	value, err := s.value(ctx, name)
	if err == nil && field != "" {
		value, err = secret.Field(value, field)
	}
	if err != nil {
		return providers.Secret{}, fault(op, err)
	}
	return value, nil
}

// Names and ARNs as the service takes them.
// https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_CreateSecret.html
var (
	isName = regexp.MustCompile(`^[A-Za-z0-9/_+=.@-]{1,512}$`)
	isARN  = regexp.MustCompile(`^arn:aws[a-z-]*:secretsmanager:([a-z0-9-]+):[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]{1,519}$`)
)

func parse(ref string) (name, field string, ok bool) {
	name, field, given := secret.CutField(ref)
	return name, field, (isName.MatchString(name) || isARN.MatchString(name)) && (!given || field != "")
}

func (s *Source) value(ctx context.Context, name string) (providers.Secret, error) {
	region := ""
	if arn := isARN.FindStringSubmatch(name); arn != nil {
		region = arn[1]
	}
	client, err := s.client(ctx, region)
	if err != nil {
		return providers.Secret{}, err
	}
	out, err := client.GetSecretValue(ctx, &sm.GetSecretValueInput{SecretId: &name})
	if err != nil {
		return providers.Secret{}, s.refused(ctx, err)
	}
	value := aws.ToString(out.SecretString)
	if out.SecretString == nil {
		value = string(out.SecretBinary)
	}
	switch {
	case aws.ToString(out.ARN) == "" || len(value) > most:
		return providers.Secret{}, &providers.Fault{Err: fmt.Errorf("unexpected answer: no ARN, or a value of more than %d bytes", most)}
	case value == "":
		return providers.Secret{}, &providers.Fault{Kind: providers.NotFound, Err: errors.New("empty"), Hint: "put a version that holds the secret"}
	}
	return providers.NewSecret(value), nil
}

// client returns the one for a region, made when it is first needed: the SDK
// may read files.
func (s *Source) client(ctx context.Context, region string) (*sm.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.clients[region]; c != nil {
		return c, nil
	}
	cfg, err := api.Config(ctx, s.env, region)
	if err != nil {
		return nil, err
	}
	if cfg.Region == "" {
		return nil, api.NoRegion("set AWS_REGION, or name the secret by its ARN")
	}
	endpoint, err := api.Endpoint(s.env, "SECRETS_MANAGER")
	if err != nil {
		return nil, err
	}
	s.clients[region] = sm.NewFromConfig(cfg, func(o *sm.Options) {
		if endpoint != nil {
			o.BaseEndpoint = endpoint
		}
	})
	return s.clients[region], nil
}

func (s *Source) refused(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &providers.Fault{Err: fmt.Errorf("no answer: %w", ctx.Err())}
	}
	f := api.Fault(err, s.env.Redactor)
	if f.Hint != "" {
		return f // of the credentials
	}
	code := ""
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		code = e.ErrorCode()
	}
	switch {
	case code == "DecryptionFailure":
		f.Kind, f.Hint = providers.Denied, "allow kms:Decrypt on the key that the secret is encrypted with"
	case code == "InvalidRequestException":
		f.Hint = "a secret that is marked for deletion can be restored"
	case f.Kind == providers.Denied:
		f.Hint = "allow secretsmanager:GetSecretValue on this secret to the role, and kms:Decrypt if it has a key of its own"
	case f.Kind == providers.NotFound:
		f.Hint = "check the name and the region; a secret without a current version has no value"
	}
	return f
}

// fault names the source and the secret in front of an error.
func fault(op string, err error) error {
	f, ok := errors.AsType[*providers.Fault](err)
	if !ok {
		return &providers.Fault{Provider: scheme, Op: op, Err: err}
	}
	out := &providers.Fault{Provider: scheme, Op: op, Kind: f.Kind, Err: f, Hint: f.Hint, After: f.After}
	if f.Provider == "" {
		out.Err = f.Err
	}
	return out
}
