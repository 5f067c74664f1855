// Package exec is the plugin whose deployment is the user's own commands. It
// must not know what they do: it tells them what is wanted in MANENT_*
// variables, and learns from their exit code and the file MANENT_OUTPUT.
//
// Every command gets the engine's variables (MANENT_PROJECT, MANENT_TRACK, …)
// and MANENT_VERSION, MANENT_SLOT, MANENT_STEP_ID, and MANENT_REF_<KEY> for
// each entry of the release's Ref, with what is not a letter or digit in KEY
// as "_"; ready and scale also MANENT_SHARE, the share in percent that
// capacity is wanted for. What deploy writes to MANENT_OUTPUT, a line
// key=value each, is added to the Ref. Errors are those of process.Run.
package exec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/process"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/state"
)

var (
	_ plugin.Deployer   = (*deployer)(nil)
	_ plugin.Ready      = (*deployer)(nil)
	_ plugin.SlotScaler = (*deployer)(nil)
)

const name = "exec"

// Settings are the plugin's settings.
type Settings struct {
	Deploy  string        `name:"deploy" required:"true" help:"command line that puts MANENT_VERSION into MANENT_SLOT, with capacity for all the traffic, also after a retirement, unless MANENT_GRADUAL is true: then scale follows; may be called again with the same MANENT_STEP_ID"`
	Ready   string        `name:"ready" help:"command line that tells whether MANENT_SLOT has capacity for MANENT_SHARE percent: exit code 0 yes, 75 not yet, any other failed; MANENT_VERSION is empty for what was there before manent, which counts as ready when it is up; without it the router's own word is enough"`
	Scale   string        `name:"scale" help:"command line that gives MANENT_SLOT capacity for MANENT_SHARE percent: before each share with replicas: proportional, and before a return; together with retire"`
	Retire  string        `name:"retire" help:"command line that scales MANENT_SLOT down to nothing; together with scale"`
	Timeout time.Duration `name:"timeout" default:"10m" help:"each command is stopped after it, and has then failed"`
}

// Spec describes the plugin. It can scale if its settings say how.
func Spec() plugin.Spec {
	return plugin.Spec{
		Spec:   providers.Define(name, "Runs your own commands to deploy, check, scale and retire a version.", New),
		Traits: plugin.Traits{Scales: true},
	}
}

// New makes the plugin.
func New(env providers.Env, s Settings) (plugin.Bundle, error) {
	d := &deployer{env: env, settings: s}
	bundle := plugin.Bundle{Deployer: d}
	switch {
	case strings.TrimSpace(s.Deploy) == "":
		return plugin.Bundle{}, invalid(errors.New("deploy is empty, expected a command line"), "")
	case s.Timeout <= 0:
		return plugin.Bundle{}, invalid(fmt.Errorf("timeout is %v, expected more than 0", s.Timeout), "")
	case (s.Scale == "") != (s.Retire == ""):
		return plugin.Bundle{}, invalid(errors.New("only one of scale and retire is given, expected both or none"),
			`give "true" as the command of the one that has nothing to do`)
	}
	if s.Ready != "" {
		bundle.Ready = d
	}
	if s.Scale != "" {
		bundle.Scaler = d
	}
	return bundle, nil
}

func invalid(err error, hint string) error {
	return &providers.Fault{Provider: name, Op: "settings", Kind: providers.Invalid, Err: err, Hint: hint}
}

type deployer struct {
	env      providers.Env
	settings Settings
}

// Deploy implements plugin.Deployer. The command may run again with the same
// step id after a crash; then it has to end in the same place.
func (d *deployer) Deploy(ctx context.Context, call plugin.Call) (state.Release, error) {
	result, err := d.run(ctx, "deploy", d.settings.Deploy, call, nil)
	if err != nil {
		return state.Release{}, err
	}
	ref := maps.Clone(call.Release.Ref)
	if ref == nil {
		ref = state.Ref{}
	}
	for key, value := range result.Values {
		if strings.HasPrefix(strings.ToLower(key), "manent") {
			return state.Release{}, &providers.Fault{
				Provider: name, Op: "command deploy", Kind: providers.Invalid,
				Err: fmt.Errorf("MANENT_OUTPUT has key %q, expected none that begins with manent", key),
			}
		}
		ref[key] = value
	}
	return state.Release{Version: call.Release.Version, Ref: ref}, nil
}

// Ready implements plugin.Ready. The reason is the last line that the command
// printed.
func (d *deployer) Ready(ctx context.Context, call plugin.Call, share float64) (bool, string, error) {
	result, err := d.run(ctx, "ready", d.settings.Ready, call, &share)
	if result.Exit != process.ExitTempFail {
		return err == nil, "", err
	}
	for i := len(result.Tail) - 1; i >= 0; i-- {
		if reason := strings.TrimSpace(result.Tail[i]); reason != "" {
			return false, reason, nil
		}
	}
	return false, fmt.Sprintf("command ready ended with exit code %d", process.ExitTempFail), nil
}

// Scale implements plugin.SlotScaler.
func (d *deployer) Scale(ctx context.Context, call plugin.Call, share float64) error {
	_, err := d.run(ctx, "scale", d.settings.Scale, call, &share)
	return err
}

// Retire implements plugin.SlotScaler.
func (d *deployer) Retire(ctx context.Context, call plugin.Call) error {
	_, err := d.run(ctx, "retire", d.settings.Retire, call, nil)
	return err
}

func (d *deployer) run(ctx context.Context, op, line string, call plugin.Call, share *float64) (process.Result, error) {
	return process.Run(ctx, process.Command{
		Provider: name, Name: op, Run: line, Dir: d.env.Dir, Timeout: d.settings.Timeout,
		Vars: vars(call, share), Output: call.Output, Secrets: d.env.Redactor,
	})
}

// other is what cannot be in the name of a variable.
var other = regexp.MustCompile(`[^A-Z0-9]`)

func vars(call plugin.Call, share *float64) map[string]string {
	out := map[string]string{}
	maps.Copy(out, call.Vars)
	for key, value := range call.Release.Ref {
		out["MANENT_REF_"+other.ReplaceAllString(strings.ToUpper(key), "_")] = value
	}
	out["MANENT_VERSION"] = call.Release.Version
	out["MANENT_SLOT"] = string(call.Slot)
	out["MANENT_STEP_ID"] = call.StepID
	out["MANENT_GRADUAL"] = strconv.FormatBool(call.Gradual)
	if share != nil {
		out["MANENT_SHARE"] = strconv.FormatFloat(*share, 'f', -1, 64)
	}
	return out
}
