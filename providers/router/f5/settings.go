package f5

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/f5"
	"github.com/manent/action/providers/router"
)

func build(env providers.Env, s Settings) (router.Router, error) {
	r := &Router{env: env, settings: s, log: router.NewLog(name, env)}
	err := s.check()
	if err == nil && len(env.Targets) > 0 {
		r.members, err = router.Members(s.Member, env.Targets)
	}
	if err == nil {
		r.api, err = r.client()
	}
	if err != nil {
		return nil, &providers.Fault{Provider: name, Op: "settings", Kind: providers.Invalid, Err: err}
	}
	return r, nil
}

func (s Settings) check() error {
	if s.Credentials == "" {
		return errors.New("credentials_secret is empty")
	}
	return cmp.Or(f5.CheckNames(s.Pool, s.Partition, s.SyncGroup), s.common().Check())
}

func (s Settings) common() router.API {
	return router.API{CAFile: s.CAFile, PinnedFor: s.PinnedFor, Timeout: s.Timeout}
}

func (r *Router) client() (*f5.Client, error) {
	s := r.settings
	client, err := f5.New(f5.Options{
		URL: s.URL, CAFile: s.common().CAPath(r.env.Dir), Timeout: s.Timeout, Pause: r.pause, Transport: r.carry, Hide: r.env.Hide,
		Credentials: func(ctx context.Context) (providers.Secret, error) { return s.Credentials.Resolve(ctx, r.env) },
		Log:         r.log.Once,
	})
	if err != nil {
		return nil, fmt.Errorf("management_url: %w", errors.Unwrap(err))
	}
	return client, nil
}
