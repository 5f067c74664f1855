package external

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/external"
)

// Settings are the plugin's settings.
type Settings struct {
	Command      []string                       `name:"command" required:"true" help:"the program and its arguments, [./plugin.py] or [node, plugin.js]; started without a shell, once for each request, in the workspace"`
	Capabilities []string                       `name:"capabilities" required:"true" help:"what it is used for: deploy, slots, scale, traffic_router; it has to describe itself as capable of each. metrics and pool may be named too: metrics is used by rollout.providers.external, pool by nothing yet"`
	Settings     map[string]string              `name:"settings" help:"handed to the program in each request, as it is"`
	Env          map[string]string              `name:"env" help:"variables for the program; beside these it gets PATH, HOME, TMPDIR, LANG and MANENT_… and nothing else"`
	Inherit      []string                       `name:"inherit" help:"names of variables that it gets from manent's own environment if they are set"`
	Secrets      map[string]providers.SecretRef `name:"secrets" help:"NAME: name of a secret of the configuration; its value never is on a command line"`
	SecretsIn    string                         `name:"secrets_in" default:"environment" enum:"environment,request" help:"where the program finds them: variables NAME, or secrets.NAME of the request"`
	Timeout      time.Duration                  `name:"timeout" default:"15s" help:"a request without an answer by then has no known outcome; the engine itself waits 20s for any but deploy"`
	DeployTime   time.Duration                  `name:"deploy_timeout" default:"10m" help:"the same for the request deploy"`
	Unit         string                         `name:"unit" default:"percent" help:"of the router: what its weights are, as it describes them"`
	Step         float64                        `name:"step" default:"1" help:"of the router: smallest difference between two shares, percentage points"`
	Conditional  bool                           `name:"conditional" default:"false" help:"of the router: write itself refuses when the weights are not as expected; else manent reads and compares before it, which leaves a race window"`
	Testers      string                         `name:"testers" enum:"header,tag" help:"of the router: it can send testers to one slot"`
	Plans        bool                           `name:"plans" default:"false" help:"of the router: it answers plan; else its weights are percentages named a and b"`
	PinnedFor    time.Duration                  `name:"pinned_for" default:"0s" help:"of the router: clients stay this long on their slot; a retirement waits for them"`
}

func (s Settings) check() error {
	switch {
	case len(s.Command) == 0 || s.Command[0] == "":
		return errors.New("command is empty, expected a program and its arguments")
	case strings.Contains(strings.Join(s.Command, ""), "\x00"):
		return errors.New("command has a zero byte")
	case s.Timeout <= 0 || s.DeployTime <= 0:
		return fmt.Errorf("timeout is %v and deploy_timeout %v, expected more than 0", s.Timeout, s.DeployTime)
	case s.PinnedFor < 0:
		return fmt.Errorf("pinned_for is %v, expected 0 or more", s.PinnedFor)
	case s.Step < 0.000001 || s.Step > 50:
		return fmt.Errorf("step is %v, expected a number of percentage points, at most 50", s.Step)
	}
	for i, c := range s.Capabilities {
		if !slices.Contains(api.Capabilities(), c) || slices.Contains(s.Capabilities[:i], c) {
			return fmt.Errorf("capabilities has %q, expected each of %s at most once", c, strings.Join(api.Capabilities(), ", "))
		}
	}
	if !s.has(api.Deploys) && !s.has(api.Routes) {
		return fmt.Errorf("capabilities is %v, expected at least %s or %s", s.Capabilities, api.Deploys, api.Routes)
	}
	return s.variables().Check()
}

func (s Settings) variables() api.Variables {
	v := api.Variables{Set: s.Env, Inherit: s.Inherit}
	if s.SecretsIn == "environment" {
		v.Secrets = slices.Collect(maps.Keys(s.Secrets))
	}
	return v
}

func (s Settings) has(capability string) bool { return slices.Contains(s.Capabilities, capability) }
