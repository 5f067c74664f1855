package cli

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/manent/action/providers/ci"
	"github.com/manent/action/providers/store"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
	"github.com/manent/action/state/checkpoint"
)

// place is one environment: where its state is, and what the file says.
type place struct {
	key     string
	session *checkpoint.Session // with the document in the store
	store   store.Store         // the same, for what lies beside the document
	cfg     *config.Config      // nil without a file
	broken  error               // why the store could not list all; session is nil
}

// fileFlags adds the flags that say which environment is meant.
func (a *app) fileFlags(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVarP(&a.file, "config", "c", "", "the environment's `FILE`: envconfig/<project>/<application>/<environment>.yml")
	cmd.Flags().StringVar(&a.descriptor, "descriptor", "", "the application's `FILE` with a rollout section (manent.yml of this directory, if it is there)")
	return cmd
}

// placeFlags adds -c and --state.
func (a *app) placeFlags(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&a.state, "state", "", "`ADDRESS` of the state instead of the file's: git, git:<url>, s3://bucket/prefix, file:<dir>")
	return a.fileFlags(cmd)
}

// load reads the configuration. Warnings are shown, problems are an error;
// without strict what this build cannot do is only a warning.
func (a *app) load(anonymous, strict bool) (config.Config, error) {
	if a.file == "" {
		return config.Config{}, need("-c FILE", "no configuration is named")
	}
	cfg, problems := config.Load(config.Options{
		File: a.file, Descriptor: a.descriptorFile(), State: a.state, Anonymous: anonymous, Catalog: a.host.Catalog(),
	})
	stops := []config.Severity{config.Error}
	if strict {
		stops = append(stops, config.Absent)
	}
	if bad := problems.Of(stops...); len(bad) > 0 {
		if hint := a.filesHint(); hint != "" {
			bad[0].Hint = strings.TrimPrefix(bad[0].Hint+"; "+hint, "; ")
		}
		return cfg, &problemsError{problems: bad}
	}
	for _, p := range problems {
		a.complain(p.String(), p.Hint)
	}
	return cfg, nil
}

// descriptorFile is manent.yml of this directory, unless another one is named
// or it is the environment's file itself.
func (a *app) descriptorFile() string {
	const usual = "manent.yml"
	if a.descriptor != "" {
		return a.descriptor
	}
	info, err := os.Stat(filepath.Join(a.dir, usual))
	if err != nil {
		return ""
	}
	if own, err := os.Stat(a.file); err != nil || os.SameFile(info, own) {
		return ""
	}
	return usual
}

// place is the one environment that the flags name: the file's, or the only
// one of the store.
func (a *app) place(ctx context.Context) (place, error) {
	all, err := a.places(ctx)
	switch {
	case err != nil:
		return place{}, err
	case len(all) == 1:
		return all[0], nil
	case len(all) > 0 && all[len(all)-1].broken != nil:
		return place{}, all[len(all)-1].broken
	case len(all) == 0:
		return place{}, need("-c FILE", a.state+" holds no environment yet")
	}
	keys := make([]string, len(all))
	for i, p := range all {
		keys[i] = p.key
	}
	return place{}, need("-c FILE", fmt.Sprintf("%s holds %d environments: %s", a.state, len(all), strings.Join(keys, ", ")))
}

// places are all environments that the flags name: the file's, or without a
// file all of the store. What of a store could not be looked at is a last,
// broken place, so that it keeps nobody from the others.
func (a *app) places(ctx context.Context) ([]place, error) {
	if a.file != "" {
		cfg, err := a.load(false, true)
		if err != nil {
			return nil, err
		}
		s, err := a.openStore(cfg.State)
		return []place{a.placeOf(cfg.Key(), s, &cfg)}, err
	}
	if a.state == "" {
		return nil, need("-c FILE or --state ADDRESS", "no environment is named")
	}
	s, err := a.openStore(a.state)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, runner.CallLimit)
	defer cancel()
	keys, bad := s.List(ctx, "")
	if bad != nil {
		bad = &runner.UnsureError{Step: "state", Err: bad}
	}
	if len(keys) == 0 {
		return nil, bad
	}
	return a.listed(s, keys, bad), nil
}

// listed are the places of a store's keys, and a broken one for the rest.
func (a *app) listed(s store.Store, keys []string, bad error) []place {
	var out []place
	for _, key := range keys {
		if key != store.ProbeKey {
			out = append(out, a.placeOf(key, s, nil))
		}
	}
	if bad != nil {
		out = append(out, place{key: a.state, broken: bad})
	}
	return out
}

func (a *app) placeOf(key string, s store.Store, cfg *config.Config) place {
	return place{key: key, cfg: cfg, store: s, session: checkpoint.Open(s, key, a.now, checkpoint.Nonce)}
}

// engine makes the engine of one environment.
func (a *app) engine(ctx context.Context, p place) (*runner.Engine, error) {
	platform, err := a.platform()
	if err != nil {
		return nil, err
	}
	base, err := a.world(ctx, platform)
	if err != nil {
		return nil, err
	}
	e := &runner.Engine{State: p.session, World: base}
	e.Wire = func(cfg config.Config) (runner.World, error) {
		if err := a.host.Resolve(ctx, cfg.Secrets); err != nil {
			a.warn(err) // the step that needs it says what follows
		}
		return a.host.Connect(base, cfg)
	}
	a.drives = append(a.drives, drive{place: p, engine: e})
	return e, nil
}

// world is what the process itself gives to the engine.
func (a *app) world(ctx context.Context, platform ci.Platform) (runner.World, error) {
	owner, err := platform.Identity(ctx)
	if err != nil {
		return runner.World{}, err
	}
	a.me = owner
	return runner.World{
		Now: a.now, Sleep: a.sleep, Say: a.screen.say, Doing: a.screen.begin, NewID: a.newID,
		Process: runner.Process{
			ID: checkpoint.Nonce(), Owner: owner, Host: checkpoint.Host(), PID: os.Getpid(), Alive: checkpoint.Alive,
		},
		Catalog: a.host.Catalog(),
	}, nil
}

// newID names a rollout: the second it began, and enough chance that two
// begun in one second differ.
func (a *app) newID() string {
	return a.now().UTC().Format("20060102-150405") + "-" + strings.ToLower(rand.Text()[:6])
}

// document reads the state document as it is.
func (a *app) document(ctx context.Context, p place) (*state.Document, error) {
	if p.broken != nil {
		return nil, p.broken
	}
	ctx, cancel := context.WithTimeout(ctx, runner.CallLimit)
	defer cancel()
	doc, err := p.session.Load(ctx)
	if err != nil {
		return nil, &runner.UnsureError{Step: "state", Err: err}
	}
	a.about.see(doc)
	return doc, nil
}
