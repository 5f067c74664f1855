package f5

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/f5"
	"github.com/manent/action/providers/router"
)

var (
	poolName  = regexp.MustCompile(`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$`)
	plainName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)
	groupName = regexp.MustCompile(`^(/[A-Za-z0-9_.-]+/)?[A-Za-z0-9_.-]+$`)
)

func build(env providers.Env, s Settings) (router.Router, error) {
	r := &Router{env: env, settings: s, warned: map[string]bool{}}
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
	switch {
	case !poolName.MatchString(s.Pool):
		return fmt.Errorf("pool %q, expected its name, or FOLDER/NAME, without the partition", s.Pool)
	case !plainName.MatchString(s.Partition):
		return fmt.Errorf("partition %q, expected its name such as Common", s.Partition)
	case s.SyncGroup != "" && !groupName.MatchString(s.SyncGroup): // an argument of the device's command
		return fmt.Errorf("sync_group %q, expected the name of a device group", s.SyncGroup)
	case s.Credentials == "":
		return errors.New("credentials_secret is empty")
	case s.CAFile != "" && !filepath.IsAbs(s.CAFile) && !filepath.IsLocal(s.CAFile):
		return fmt.Errorf("ca_file: %q, expected a path inside the workspace or an absolute one", s.CAFile)
	case s.PinnedFor < 0:
		return fmt.Errorf("pinned_for: %v, expected 0 or more", s.PinnedFor)
	case s.Timeout < time.Second || s.Timeout > 15*time.Second:
		return fmt.Errorf("timeout: %v, expected 1s to 15s", s.Timeout)
	}
	return nil
}

func (r *Router) client() (*f5.Client, error) {
	s := r.settings
	if s.CAFile != "" && !filepath.IsAbs(s.CAFile) {
		s.CAFile = filepath.Join(r.env.Dir, s.CAFile)
	}
	client, err := f5.New(f5.Options{
		URL: s.URL, CAFile: s.CAFile, Timeout: s.Timeout, Pause: r.pause, Hide: r.env.Hide,
		Credentials: func(ctx context.Context) (providers.Secret, error) { return s.Credentials.Resolve(ctx, r.env) },
		Log:         r.warn,
	})
	if err != nil {
		return nil, fmt.Errorf("management_url: %w", errors.Unwrap(err))
	}
	return client, nil
}
