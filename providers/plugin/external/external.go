// Package external is the plugin that is a program of its own, written by
// anybody in any language: it is started once for each request and speaks the
// protocol of providers/api/external. With the capability traffic_router it is
// its own router. The package must not know what the program does, nor when or
// why it is asked.
package external

import (
	"context"
	"errors"
	"maps"
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

// Program is a configured program.
type Program struct {
	*api.Program
	Settings Settings
}

// Open checks the settings; it starts nothing.
func Open(env providers.Env, s Settings) (*Program, error) {
	if err := s.check(); err != nil {
		return nil, &providers.Fault{Provider: name, Op: "settings", Kind: providers.Invalid, Err: err}
	}
	client := api.New(api.Options{
		Provider: name, Command: s.Command, Dir: env.Dir, Env: s.variables().Environ(env.Getenv), Settings: s.Settings,
		Targets: targetsOf(env.Targets), Redactor: env.Redactor, Secrets: api.Secrets(env, s.Secrets, s.SecretsIn == "request"),
	})
	p := &Program{Settings: s, Program: &api.Program{Client: client, Capabilities: s.Capabilities, Traits: s.traits(), Timeout: s.Timeout}}
	if env.Log != nil {
		p.Log = func(line string) { env.Log("%s", line) }
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
	return api.Ask[T](ctx, p.Program, p.Call(method, params))
}

// about is a request for a slot.
func about(call plugin.Call) api.SlotParams {
	return api.SlotParams{
		Slot: string(call.Slot), Step: call.StepID, Vars: call.Vars, Gradual: call.Gradual,
		Release: api.Release{Version: call.Release.Version, Ref: call.Release.Ref},
	}
}

func onSlot[T any](ctx context.Context, p *Program, method string, call plugin.Call, params any, timeout time.Duration) (T, error) {
	log := call.Output
	if log == nil {
		log = p.Log
	}
	return api.Ask[T](ctx, p.Program, api.Call{Method: method, Params: params, Timeout: timeout, Vars: call.Vars, Log: log})
}

// Deploy implements plugin.Deployer.
func (p *Program) Deploy(ctx context.Context, call plugin.Call) (state.Release, error) {
	got, err := onSlot[api.DeployResult](ctx, p, api.Deploy, call, about(call), p.Settings.DeployTime)
	if err != nil {
		return state.Release{}, err
	}
	if err := got.Sense(); err != nil {
		return state.Release{}, p.Doubt(api.Deploy, err)
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
		err = p.Doubt(api.Ready, errors.New("it is not ready, and there is no reason"))
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
