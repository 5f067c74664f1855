// Package container is the plugin container: it runs an image on the targets
// of the free slot, by the Docker or Podman that is there, over SSH. It must
// not know what is in the image, nor who has traffic.
//
// Each slot has one container on a target. It is replaced in place, as the slot
// has no traffic. Its labels say what it is and which step made it, so that a
// step entered again sees what is done: manent.slot, manent.version,
// manent.digest and manent.step.
package container

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/engine"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/host/fleet"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/state"
)

var (
	_ plugin.Deployer = (*runner)(nil)
	_ plugin.Ready    = (*runner)(nil)
)

const name = "container"

//go:embed run.sh
var runScript string

// Keys of a release's Ref.
const (
	refVersion   = "version"
	refDigest    = "digest" // of the image in its registry, sha256:…
	refImage     = "image"  // repository@digest
	refContainer = "container"
)

// Spec describes the plugin.
func Spec() plugin.Spec {
	s := providers.Define(name, "Runs an image over SSH on the targets of the free slot, with Docker or Podman.", New)
	s.Unproven = "tests ran on a stand-in for docker and podman"
	return plugin.Spec{Spec: s}
}

// New makes the plugin. Without targets, as when settings are checked by
// themselves, it deploys to nothing.
func New(env providers.Env, s Settings) (plugin.Bundle, error) {
	r := &runner{env: env, settings: s}
	err := s.check()
	if err == nil && len(env.Targets) > 0 {
		r.machines, err = fleet.Machines(env.Targets)
	}
	for _, m := range r.machines {
		if err == nil && m.Port == 0 && slices.ContainsFunc(s.Publish, func(p string) bool { return strings.Contains(p, "{port}") }) {
			err = fmt.Errorf("target %s has no port, which publish needs", m.Host)
		}
	}
	if err != nil {
		return plugin.Bundle{}, &providers.Fault{Provider: name, Op: "settings", Kind: providers.Invalid, Err: err}
	}
	r.open = func(ctx context.Context, address string) (host.Host, error) {
		return host.Open(ctx, env, s.access(), address)
	}
	return plugin.Bundle{Deployer: r, Ready: r, CheckSlot: r.CheckSlot, Findings: r.Findings}, nil
}

type runner struct {
	env      providers.Env
	settings Settings
	machines []fleet.Machine
	open     func(ctx context.Context, address string) (host.Host, error)
}

// job is one release on its way to one slot.
type job struct {
	slot, version, step string
	container           string // name
	image               string // by its tag
	repository          string
	digest              string // "" while it is not known
}

func (r *runner) job(call plugin.Call) (job, error) {
	j := job{slot: string(call.Slot), version: call.Release.Version, step: call.StepID}
	if !tagForm.MatchString(j.version) {
		return j, &providers.Fault{
			Kind: providers.Invalid, Err: fmt.Errorf("version %q cannot be an image's tag", j.version),
			Hint: "expected up to 128 letters, digits and ._-, the first a letter, digit or _",
		}
	}
	j.container = r.settings.Name + "-" + j.slot
	j.image = strings.ReplaceAll(r.settings.Image, "{version}", j.version)
	j.repository = j.image[:strings.LastIndex(j.image, ":")]
	return j, nil
}

// on does something for a job on machines of its slot, on all or the first.
func (r *runner) on(ctx context.Context, j job, machines []fleet.Machine, do func(context.Context, target) error) error {
	return r.fleet().Each(ctx, machines, func(ctx context.Context, h host.Host, m fleet.Machine) error {
		return do(ctx, r.target(j, h, m))
	})
}

func (r *runner) fleet() fleet.Fleet {
	return fleet.Fleet{Open: r.open, AtOnce: r.settings.AtOnce, Timeout: r.settings.Timeout}
}

func (r *runner) target(j job, h host.Host, m fleet.Machine) target {
	return target{host: h, on: engine.Engine{Host: h, Program: r.settings.Engine}, machine: m, job: j, settings: r.settings}
}

// Deploy implements plugin.Deployer.
func (r *runner) Deploy(ctx context.Context, call plugin.Call) (state.Release, error) {
	j, err := r.job(call)
	if err == nil {
		j.digest, err = r.deploy(ctx, j, fleet.Printer(call.Output, r.env.Redactor))
	}
	if err != nil {
		return state.Release{}, fleet.Named(name, "deploy "+j.version+" to slot "+j.slot, err, r.env.Redactor)
	}
	ref := maps.Clone(call.Release.Ref)
	if ref == nil {
		ref = state.Ref{}
	}
	ref[refVersion], ref[refDigest], ref[refContainer] = j.version, j.digest, j.container
	ref[refImage] = j.repository + "@" + j.digest
	return state.Release{Version: j.version, Ref: ref}, nil
}

// deploy runs the image of the digest that the tag has on the first target, on
// all of them: a tag that moves meanwhile makes no difference.
func (r *runner) deploy(ctx context.Context, j job, say func(machine, text string)) (digest string, err error) {
	machines := fleet.In(j.slot, r.machines)
	err = r.on(ctx, j, machines[:min(1, len(machines))], func(ctx context.Context, t target) error {
		j.digest, err = t.resolve(ctx)
		return err
	})
	if err != nil {
		return "", err
	}
	secrets, err := r.secrets(ctx)
	if err != nil {
		return "", err
	}
	return j.digest, r.on(ctx, j, machines, func(ctx context.Context, t target) error {
		return t.deploy(ctx, secrets, func(text string) { say(t.machine.Host, text) })
	})
}

// secrets are lines NAME=VALUE of the environment.
func (r *runner) secrets(ctx context.Context) ([]string, error) {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(r.settings.Secrets)) {
		value, err := r.settings.Secrets[key].Resolve(ctx, r.env)
		if err == nil {
			err = checkVariable(key, value.Reveal())
		}
		if err != nil {
			return nil, &providers.Fault{Kind: providers.Invalid, Op: "environment", Err: err}
		}
		lines = append(lines, key+"="+value.Reveal())
	}
	return lines, nil
}

// Ready implements plugin.Ready: on every target of the slot the container of
// the release runs, is healthy if its image says what that is, and, of a target
// with a port, the machine itself can open a connection to it. What was there
// before manent has no version, and need not be a container.
func (r *runner) Ready(ctx context.Context, call plugin.Call, _ float64) (bool, string, error) {
	j := job{slot: string(call.Slot), container: r.settings.Name + "-" + string(call.Slot)}
	ask := target.adopted
	if call.Release.Version != "" {
		var err error
		if j, err = r.job(call); err != nil {
			return false, "", fleet.Named(name, "look at slot "+j.slot, err, r.env.Redactor)
		}
		j.digest = call.Release.Ref[refDigest] // "" if nobody wrote it down
		ask = target.ready
	}
	reason, err := r.fleet().Look(ctx, fleet.In(j.slot, r.machines), func(ctx context.Context, h host.Host, m fleet.Machine) (string, error) {
		return ask(r.target(j, h, m), ctx)
	})
	if r.env.Redactor != nil {
		reason = r.env.Redactor.Clean(reason) // it may quote the container's log
	}
	return reason == "" && err == nil, reason, fleet.Named(name, "look at slot "+j.slot, err, r.env.Redactor)
}
