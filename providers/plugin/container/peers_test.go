//go:build peers

package container

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/host/sshdtest"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/plugin/plugintest"
	"github.com/manent/action/state"
)

// withEnv is a machine whose programs get more variables.
type withEnv struct {
	host.Host
	env []string
}

func (h withEnv) Run(ctx context.Context, c host.Command) (host.Result, error) {
	c.Args = slices.Concat([]string{"env"}, h.env, c.Args)
	return h.Host.Run(ctx, c)
}

// overSSH lets the plugin reach machine b1 by a real sshd, with the engine that
// stands in for docker.
func (w *world) overSSH(t *testing.T) plugin.Bundle {
	t.Helper()
	m := w.machines["b1"]
	s := sshdtest.Start(t)
	w.targets = w.targets[:2]
	w.targets[1].Labels["ssh"] = s.Address
	w.settings["ssh_user"], w.settings["known_hosts"] = s.User, s.KnownHosts
	env := providers.Env{Targets: w.targets, Secret: func(_ context.Context, name string) (providers.Secret, error) {
		return providers.NewSecret(map[string]string{"key": s.Key, "db": secret}[name]), nil
	}}
	bundle, err := Spec().Build(env, w.settings)
	if err != nil {
		t.Fatal(err)
	}
	r := bundle.Deployer.(*runner)
	open := r.open
	r.open = func(ctx context.Context, address string) (host.Host, error) {
		inner, err := open(ctx, address)
		return withEnv{inner, append(m.Env, "PATH="+m.Bin+":/usr/bin:/bin")}, err
	}
	return bundle
}

func TestPeersRun(t *testing.T) {
	w := newWorld(t)
	bundle := w.overSSH(t)
	for range 2 {
		if _, err := bundle.Deployer.Deploy(t.Context(), plugintest.Call(state.SlotB, "v2")); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.version("b1"); got != "v2" {
		t.Errorf("b1 runs %q, expected v2", got)
	}
	if env := w.at("b1", "env"); !strings.Contains(env, "PASSWORD="+secret+"\n") || !strings.Contains(env, `JSON={"a": "$(x) 'y'"}`) {
		t.Errorf("environment %q, expected it as it was written", env)
	}
	ok, reason, err := bundle.Ready.Ready(t.Context(), plugintest.Call(state.SlotB, "v2"), 5)
	if ok || err != nil || !strings.Contains(reason, "nothing accepts connections at 127.0.0.1:8080") {
		t.Errorf("ready: %v, reason %q, error %v, expected that nothing accepts", ok, reason, err)
	}
}
