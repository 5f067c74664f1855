// Package remotecopy is the plugin remote-copy: it copies files over SSH to
// the targets of the free slot, makes them the current release and restarts
// what runs there. It must not know what the files are, nor who has traffic.
//
// On each target, below the destination: releases/<version>, one folder for
// each release, and the symbolic link current. A release gets its name when
// every file is there and has its SHA-256; the link is replaced by a rename.
// What was done is on the target, so that a step entered again goes on from
// there: a copy that did not end begins anew, a restart that is not known to
// have ended is repeated.
package remotecopy

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"path"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/host/fleet"
	"github.com/manent/action/providers/api/host/payload"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/state"
)

var (
	_ plugin.Deployer = (*copier)(nil)
	_ plugin.Ready    = (*copier)(nil)
)

const name = "remote-copy"

//go:embed look.sh
var lookScript string

//go:embed put.sh
var putScript string

//go:embed switch.sh
var switchScript string

// Keys of a release's Ref.
const (
	refVersion = "version"
	refDigest  = "digest" // SHA-256 of the list of files with their digests and modes
	refPath    = "path"   // of the release on the targets
)

// Spec describes the plugin.
func Spec() plugin.Spec {
	return plugin.Spec{Spec: providers.Define(name, "Copies files over SSH to the targets of the free slot.", New)}
}

// New makes the plugin. Without targets, as when settings are checked by
// themselves, it deploys to nothing.
func New(env providers.Env, s Settings) (plugin.Bundle, error) {
	c := &copier{env: env, settings: s}
	c.open = func(ctx context.Context, address string) (host.Host, error) {
		return host.Open(ctx, env, s.access(), address)
	}
	if err := c.check(); err != nil {
		return plugin.Bundle{}, &providers.Fault{Provider: name, Op: "settings", Kind: providers.Invalid, Err: err}
	}
	return plugin.Bundle{Deployer: c, Ready: c, CheckSlot: c.CheckSlot, Findings: c.Findings}, nil
}

type copier struct {
	env      providers.Env
	settings Settings
	machines []fleet.Machine
	open     func(ctx context.Context, address string) (host.Host, error)
}

// check refuses settings and targets that cannot work together.
func (c *copier) check() error {
	if err := c.settings.check(); err != nil || len(c.env.Targets) == 0 {
		return err
	}
	var err error
	if c.machines, err = fleet.Machines(c.env.Targets); err != nil {
		return err
	}
	slots := map[string]string{}
	for _, m := range c.machines {
		if other := slots[m.Address]; other != "" && other != m.Slot() && !strings.Contains(c.settings.Destination, "{slot}") {
			return fmt.Errorf("%s has targets of both slots, expected {slot} in destination %q: else each would overwrite the other", m.Address, c.settings.Destination)
		}
		slots[m.Address] = m.Slot()
	}
	return nil
}

// job is one release on its way to one slot.
type job struct {
	slot, version, step string
	dest                string
	digest              string
}

func (c *copier) job(call plugin.Call) (job, error) {
	j := job{slot: string(call.Slot), version: call.Release.Version, step: call.StepID}
	if !versionForm.MatchString(j.version) {
		return j, &providers.Fault{
			Kind: providers.Invalid, Err: fmt.Errorf("version %q cannot be the name of a folder", j.version),
			Hint: "expected up to 128 letters, digits and ._+-, the first a letter or digit",
		}
	}
	if strings.ContainsAny(j.step, "\r\n") {
		return j, &providers.Fault{Kind: providers.Invalid, Err: fmt.Errorf("step id %q has more than one line", j.step)}
	}
	j.dest = fill(c.settings.Destination, j)
	return j, nil
}

func (c *copier) fleet() fleet.Fleet {
	return fleet.Fleet{Open: c.open, AtOnce: c.settings.AtOnce, Timeout: c.settings.Timeout}
}

// on does something for a job on every machine of its slot.
func (c *copier) on(ctx context.Context, j job, do func(context.Context, target) error) error {
	return c.fleet().Each(ctx, fleet.In(j.slot, c.machines), func(ctx context.Context, h host.Host, m fleet.Machine) error {
		return do(ctx, target{Host: h, machine: m, job: j})
	})
}

// Deploy implements plugin.Deployer.
func (c *copier) Deploy(ctx context.Context, call plugin.Call) (state.Release, error) {
	j, err := c.job(call)
	if err == nil {
		err = c.deploy(ctx, &j, fleet.Printer(call.Output, c.env.Redactor))
	}
	if err != nil {
		return state.Release{}, fleet.Named(name, "deploy "+j.version+" to slot "+j.slot, err, c.env.Redactor)
	}
	ref := maps.Clone(call.Release.Ref)
	if ref == nil {
		ref = state.Ref{}
	}
	ref[refVersion], ref[refDigest], ref[refPath] = j.version, j.digest, path.Join(j.dest, "releases", j.version)
	return state.Release{Version: j.version, Ref: ref}, nil
}

func (c *copier) deploy(ctx context.Context, j *job, say func(machine, text string)) error {
	if err := ctx.Err(); err != nil {
		return &providers.Fault{Kind: providers.Unknown, Err: context.Cause(ctx)}
	}
	files, err := payload.Open(ctx, c.env.Dir, fill(c.settings.Source, *j), c.settings.limits())
	if err != nil {
		if ctx.Err() != nil {
			return &providers.Fault{Kind: providers.Unknown, Err: context.Cause(ctx)}
		}
		return &providers.Fault{Kind: providers.Invalid, Op: "read the source", Err: err}
	}
	defer files.Close()
	j.digest = files.Digest
	restart := make([]string, len(c.settings.Restart))
	for i, arg := range c.settings.Restart {
		restart[i] = fill(arg, *j)
	}
	return c.on(ctx, *j, func(ctx context.Context, t target) error {
		return t.deploy(ctx, files, c.settings.Keep, restart, func(text string) { say(t.machine.Host, text) })
	})
}

// Ready implements plugin.Ready: on every target of the slot the release is
// current and was restarted, and, of a target with a port, the machine itself
// can open a connection to it. Of what was there before manent, which has no
// version, the connection is all that can be looked at.
func (c *copier) Ready(ctx context.Context, call plugin.Call, _ float64) (bool, string, error) {
	ask := func(ctx context.Context, h host.Host, m fleet.Machine) (string, error) {
		return accepts(ctx, h, m, c.settings.Listen)
	}
	if call.Release.Version != "" {
		j, err := c.job(call)
		if err != nil {
			return false, "", fleet.Named(name, "look at slot "+j.slot, err, c.env.Redactor)
		}
		if j.digest = call.Release.Ref[refDigest]; j.digest == "" {
			j.digest = anyDigest // nobody wrote down what is in it
		}
		ask = func(ctx context.Context, h host.Host, m fleet.Machine) (string, error) {
			return target{Host: h, machine: m, job: j}.ready(ctx, c.settings.Listen)
		}
	}
	slot := string(call.Slot)
	reason, err := c.fleet().Look(ctx, fleet.In(slot, c.machines), ask)
	return reason == "" && err == nil, reason, fleet.Named(name, "look at slot "+slot, err, c.env.Redactor)
}
