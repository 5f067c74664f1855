package aws

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/sts/types"
	"github.com/aws/smithy-go"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/identity"
	"github.com/manent/action/providers/api/identity/identitytest"
)

func apiError(code string) error {
	return &smithy.OperationError{ServiceID: "S3", OperationName: "GetObject", Err: &smithy.GenericAPIError{Code: code}}
}

// clockSTS gives sessions by the test's own clock, without a network.
type clockSTS struct {
	life time.Duration
	down bool
	n    int
}

func (c *clockSTS) AssumeRoleWithWebIdentity(context.Context, *sts.AssumeRoleWithWebIdentityInput, ...func(*sts.Options)) (*sts.AssumeRoleWithWebIdentityOutput, error) {
	if c.down {
		return nil, apiError("ServiceUnavailable")
	}
	c.n++
	return &sts.AssumeRoleWithWebIdentityOutput{Credentials: &types.Credentials{
		AccessKeyId: sdk.String("ASIA"), SecretAccessKey: sdk.String("s3cr3t"), SessionToken: sdk.String(fmt.Sprint("session ", c.n)), Expiration: sdk.Time(time.Now().Add(c.life)),
	}}, nil
}

// asked is one call by the clock: which session it was made with, 0 for none.
func asked(t *testing.T, from sdk.CredentialsProvider) int {
	t.Helper()
	c, err := from.Retrieve(t.Context())
	if err != nil {
		return 0
	}
	n := 0
	if _, err := fmt.Sscanf(c.SessionToken, "session %d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRenewal: a session is renewed before its end; one that cannot be renewed
// is used to its end and not beyond, and there is a new one once there can be.
func TestRenewal(t *testing.T) {
	jobs := identitytest.New(t)
	type call struct {
		at   time.Duration
		down bool
		want int
	}
	for name, tc := range map[string]struct {
		life  time.Duration
		calls []call
	}{
		"an hour":    {time.Hour, []call{{0, false, 1}, {54 * time.Minute, false, 1}, {55*time.Minute + time.Second, false, 2}, {109 * time.Minute, false, 2}, {5 * time.Hour, false, 3}}},
		"short ones": {time.Minute, []call{{0, false, 1}, {44 * time.Second, false, 1}, {46 * time.Second, false, 2}}},
		"away":       {time.Hour, []call{{0, false, 1}, {56 * time.Minute, true, 1}, {59 * time.Minute, true, 1}, {60 * time.Minute, true, 0}, {61 * time.Minute, true, 0}, {62 * time.Minute, false, 2}}},
		"back":       {time.Hour, []call{{0, false, 1}, {56 * time.Minute, true, 1}, {57 * time.Minute, false, 1}, {59*time.Minute + 30*time.Second, false, 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				vars := jobs.GitLab("aud", 24*time.Hour)
				job, _ := identity.From(providers.Env{Getenv: func(name string) string { return vars[name] }})
				service := &clockSTS{life: tc.life}
				from := role{job: job, audience: "aud", sts: service, ends: &atomic.Int64{}}.kept()
				began := time.Now()
				for _, c := range tc.calls {
					<-time.After(time.Until(began.Add(c.at)))
					service.down = c.down
					if got := asked(t, from); got != c.want {
						t.Errorf("after %v: session %d, expected %d", c.at, got, c.want)
					}
				}
			})
		})
	}
}

// TestAnswersOfSTS: what is not a session that is good is never used.
func TestAnswersOfSTS(t *testing.T) {
	jobs := identitytest.New(t)
	vars := jobs.GitLab("aud", time.Hour)
	job, _ := identity.From(providers.Env{Getenv: func(name string) string { return vars[name] }})
	for name, life := range map[string]time.Duration{"ended": -time.Second, "ends now": 0} {
		from := role{job: job, audience: "aud", sts: &clockSTS{life: life}, ends: &atomic.Int64{}}.kept()
		if c, err := from.Retrieve(t.Context()); err == nil || providers.KindOf(err) != providers.Unknown || c.HasKeys() {
			t.Errorf("%s: %v of kind %v", name, err, providers.KindOf(err))
		}
	}
}
