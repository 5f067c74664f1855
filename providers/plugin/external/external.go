// Package external is the plugin that is a program of its own, written by
// anybody in any language: it is started once for each request and speaks the
// protocol of providers/api/external. With the capability traffic_router it is
// its own router. The package must not know what the program does, nor when or
// why it is asked.
package external

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/external"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

var (
	_ plugin.Deployer   = (*Program)(nil)
	_ plugin.Ready      = (*Program)(nil)
	_ plugin.SlotScaler = (*Program)(nil)
)

const name = "external"

// Spec describes the plugin. What a program really can do depends on the
// setting capabilities.
func Spec() plugin.Spec {
	return plugin.Spec{
		Spec: providers.Define(name, "A program of your own that speaks JSON on standard input and output, see external.md.", func(env providers.Env, s Settings) (plugin.Bundle, error) {
			p, err := Open(env, s)
			if err != nil {
				return plugin.Bundle{}, err
			}
			return p.Bundle(), nil
		}),
		Traits:  plugin.Traits{Router: true, Scales: true},
		Routers: []router.Entry{{Name: name, Traits: router.Traits{Unit: "what the program says in `unit`", Notes: notes()}}},
	}
}

// Program is a configured program. Before its first request it is asked to
// describe itself; when that is not what the settings say, nothing else is
// asked.
type Program struct {
	Settings Settings
	Client   *api.Client
	log      func(string)

	mu    sync.Mutex
	fits  bool // it has described itself as configured
	wrong error
}

// Open checks the settings; it starts nothing.
func Open(env providers.Env, s Settings) (*Program, error) {
	if err := s.check(); err != nil {
		return nil, &providers.Fault{Provider: name, Op: "settings", Kind: providers.Invalid, Err: err}
	}
	p := &Program{Settings: s, Client: api.New(api.Options{
		Provider: name, Command: s.Command, Dir: env.Dir, Env: s.variables().Environ(env.Getenv), Settings: s.Settings,
		Targets: targetsOf(env.Targets), Redactor: env.Redactor, Secrets: s.secrets(env),
	})}
	if env.Log != nil {
		p.log = func(line string) { env.Log("%s", line) }
	}
	return p, nil
}

func targetsOf(targets []providers.Target) []api.Target {
	var out []api.Target
	for _, t := range targets {
		out = append(out, api.Target{Host: t.Host, Port: t.Port, Labels: t.Labels})
	}
	return out
}

// Bundle is what the settings say that the program is used for.
func (p *Program) Bundle() plugin.Bundle {
	var b plugin.Bundle
	if p.Settings.has(api.Deploys) {
		b.Deployer = p
	}
	if p.Settings.has(api.Slots) {
		b.Ready = p
	}
	if p.Settings.has(api.Scales) {
		b.Scaler = p
	}
	if p.Settings.has(api.Routes) {
		b.Router, b.RouterTraits = p.router(), p.Settings.RouterTraits()
	}
	return b
}

// traits are what the program has to say of its router.
func (s Settings) traits() api.Traits {
	return api.Traits{
		Unit: s.Unit, Step: s.Step, Conditional: s.Conditional, Testers: s.Testers, Plans: s.Plans, PinnedFor: s.PinnedFor.String(),
	}
}

// RouterTraits are those of the program's router.
func (s Settings) RouterTraits() router.Traits {
	step := s.Step
	if s.Plans {
		step = 0
	}
	return router.Traits{Unit: s.Unit, Step: step, Conditional: s.Conditional, Testers: s.Testers, Notes: notes()}
}

// ask sends a request to a program that is what the settings say.
func ask[T any](ctx context.Context, p *Program, method string, params any) (T, error) {
	return do[T](ctx, p, api.Call{Method: method, Params: params, Timeout: p.Settings.Timeout, Log: p.log})
}

func do[T any](ctx context.Context, p *Program, call api.Call) (T, error) {
	if err := p.Check(ctx); err != nil {
		var none T
		return none, err
	}
	return api.Do[T](ctx, p.Client, call)
}

// Check asks the program to describe itself and compares that with the
// settings. Once it has fitted, or has not, it is not asked again; when it
// gave no answer, it is.
func (p *Program) Check(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fits || p.wrong != nil {
		return p.wrong
	}
	d, err := p.Describe(ctx)
	if err != nil {
		return err
	}
	if problems := d.Differences(p.Settings.Capabilities, p.Settings.traits()); len(problems) > 0 {
		p.wrong = &providers.Fault{
			Provider: name, Op: "request " + api.Describe, Kind: providers.Invalid,
			Err:  fmt.Errorf("program %q is not what the settings say: %s", d.Name, strings.Join(problems, "; ")),
			Hint: "correct plugin.settings, or the program; nothing was asked of it",
		}
	}
	p.fits = p.wrong == nil
	return p.wrong
}

// Describe asks the program what it is.
func (p *Program) Describe(ctx context.Context) (api.Description, error) {
	return api.Do[api.Description](ctx, p.Client, api.Call{Method: api.Describe, Params: api.None{}, Timeout: p.Settings.Timeout, Log: p.log})
}

// about is a request for a slot.
func about(call plugin.Call) api.SlotParams {
	return api.SlotParams{
		Slot: string(call.Slot), Step: call.StepID, Vars: call.Vars,
		Release: api.Release{Version: call.Release.Version, Ref: call.Release.Ref},
	}
}

func onSlot[T any](ctx context.Context, p *Program, method string, call plugin.Call, params any, timeout time.Duration) (T, error) {
	log := call.Output
	if log == nil {
		log = p.log
	}
	return do[T](ctx, p, api.Call{Method: method, Params: params, Timeout: timeout, Vars: call.Vars, Log: log})
}

// Deploy implements plugin.Deployer.
func (p *Program) Deploy(ctx context.Context, call plugin.Call) (state.Release, error) {
	got, err := onSlot[api.DeployResult](ctx, p, api.Deploy, call, about(call), p.Settings.DeployTime)
	if err != nil {
		return state.Release{}, err
	}
	if err := got.Sense(); err != nil {
		return state.Release{}, doubt(api.Deploy, err)
	}
	ref := maps.Clone(call.Release.Ref)
	if ref == nil {
		ref = state.Ref{}
	}
	maps.Copy(ref, got.Ref)
	return state.Release{Version: call.Release.Version, Ref: ref}, nil
}

// Ready implements plugin.Ready.
func (p *Program) Ready(ctx context.Context, call plugin.Call, share float64) (bool, string, error) {
	got, err := onSlot[api.ReadyResult](ctx, p, api.Ready, call, api.ShareParams{SlotParams: about(call), Share: share}, p.Settings.Timeout)
	if err == nil && !got.Ready && got.Reason == "" {
		err = doubt(api.Ready, errors.New("it is not ready, and there is no reason"))
	}
	return err == nil && got.Ready, got.Reason, err
}

// Scale implements plugin.SlotScaler.
func (p *Program) Scale(ctx context.Context, call plugin.Call, share float64) error {
	_, err := onSlot[api.None](ctx, p, api.Scale, call, api.ShareParams{SlotParams: about(call), Share: share}, p.Settings.Timeout)
	return err
}

// Retire implements plugin.SlotScaler.
func (p *Program) Retire(ctx context.Context, call plugin.Call) error {
	_, err := onSlot[api.None](ctx, p, api.Retire, call, about(call), p.Settings.Timeout)
	return err
}

// doubt is about an answer that makes no sense.
func doubt(method string, err error) error {
	return &providers.Fault{
		Provider: name, Op: "request " + method, Kind: providers.Unknown, Err: fmt.Errorf("the answer makes no sense: %w", err),
		Hint: "correct the program, see docs/external.md",
	}
}
