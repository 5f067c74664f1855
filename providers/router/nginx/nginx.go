// Package nginx is the router of open-source NGINX: one included file per
// instance that holds the split between the slots, replaced as a whole over
// SSH or locally, tested, loaded, and put back if NGINX refuses it. It must
// not know what is in the slots, nor the plan.
//
// The file is manent's alone: what somebody adds to it is reported, and gone
// after the next write. What the directives say counts, not the comment above
// them, so that a share changed by hand is seen. A file that is not there has
// no weights; manent generate nginx prints the first one. The directives are
// those of NGINX 1.22 (documentation of ngx_http_split_clients_module,
// ngx_http_map_module, ngx_http_upstream_module).
package nginx

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/nginx/split"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

var (
	_ router.Router   = (*Router)(nil)
	_ router.Planner  = (*Router)(nil)
	_ router.Targeter = (*Router)(nil)
	_ router.Sticky   = (*Router)(nil)
)

const (
	name = "nginx"
	step = 0.01 // percent: split_clients has two decimals
)

// Settings of the router.
type Settings struct {
	IncludeFile   string              `name:"include_file" required:"true" help:"absolute path of the file manent owns, included in the http block"`
	Mode          string              `name:"mode" default:"split_clients" enum:"split_clients,weight" help:"split_clients: a user stays in a slot; weight: exact share of requests, in turns"`
	SlotA         []string            `name:"slot_a" help:"servers of slot a, host:port; addresses in mode weight; left out with slot_b, the targets with a label slot: a or b are the servers"`
	SlotB         []string            `name:"slot_b" help:"servers of slot b, likewise"`
	Member        string              `name:"member" default:"{host}:{port}" help:"a target's server, where the targets are the servers: {host}, {port} and {label.<name>} are replaced"`
	Key           string              `name:"key" default:"$http_x_user_id" help:"variables that name the user, for split_clients and the log; while they are empty, address and user agent do"`
	Header        string              `name:"header" default:"x-canary" help:"testers' request header where the rollout names none"`
	Prefix        string              `name:"prefix" default:"manent" help:"prefix of variables and upstreams; one for each environment of an instance"`
	Cookie        string              `name:"cookie" help:"mode weight: cookie that keeps a client at its server; NGINX 1.29.6 or newer"`
	CookieExpires time.Duration       `name:"cookie_expires" default:"1h" help:"how long the cookie keeps a client, whole seconds"`
	StatusURL     string              `name:"status_url" default:"http://127.0.0.1:8319/manent_status" help:"location that answers which file the workers serve, as the instance itself reaches it"`
	Name          string              `name:"name" default:"nginx" help:"name of this router where it is not a host's"`
	Hosts         []string            `name:"lb_hosts" help:"hosts of the instances, each may have a :port for SSH; none for this machine"`
	User          string              `name:"ssh_user" help:"may write the file and its directory, test and reload"`
	KeySecret     providers.SecretRef `name:"ssh_key_secret" help:"private key in PEM"`
	Password      providers.SecretRef `name:"ssh_password_secret" help:"password, tried after the key"`
	Port          int                 `name:"ssh_port" default:"22" help:"port of SSH, 1–65535"`
	KnownHosts    string              `name:"known_hosts" help:"path of a known_hosts file, or its lines; required with lb_hosts"`
	Command       []string            `name:"nginx_command" default:"nginx" help:"program with arguments, as a list: [nginx, -c, /path]; run with -t, with -s reload and with -v"`
	Reload        string              `name:"reload_command" help:"shell text instead of nginx_command with -t && with -s reload"`
	Timeout       time.Duration       `name:"timeout" default:"8s" help:"for one instance, connecting included"`
}

// Spec describes the router.
func Spec() router.Spec {
	return router.Spec{
		Spec: spec(),
		Traits: router.Traits{Unit: "percent", Step: step, Conditional: true, Testers: "header", OnTargets: true,
			Instead: []string{"slot_a", "slot_b"}, Notes: notes()},
	}
}

func spec() providers.Spec[router.Router] {
	s := providers.Define(name, "open-source NGINX: an included file, over SSH or local", build)
	s.Unproven = "cookie: needs NGINX 1.29.6, tests ran on 1.22"
	return s
}

// Router is one environment's split on all instances.
type Router struct {
	settings Settings
	open     func(ctx context.Context, name string) (host.Host, error)
	nonce    func() string // a new generation
	log      *router.Log
}

// Read implements router.Router. A file that means nothing is Unfit without
// weights: a return replaces it.
func (r *Router) Read(ctx context.Context, _ state.Slots) (router.Reading, error) {
	ids := r.settings.parts()
	parts, testers := make([]router.Part, len(ids)), make([]bool, len(ids))
	router.Each(len(ids), func(k int) error {
		part, op := &parts[k], "read on "+ids[k]
		err := r.on(ctx, "read", ids[k], func(ctx context.Context, i instance) (err error) {
			*part, testers[k], err = i.read(ctx)
			return err
		})
		part.ID, part.Err, part.Unfit = ids[k], err, router.Named(name, op, part.Unfit)
		return nil
	})
	return router.Reading{Parts: parts, Testers: slices.Contains(testers, true)}, nil
}

// Write implements router.Router. Conflicts are looked for on every part
// before the first is written; then each part that can be reached is written
// in order, also after one that failed. A part that expect has without weights
// for its revision (its content means nothing to manent) is overwritten if it
// still has that revision.
func (r *Router) Write(ctx context.Context, slots state.Slots, want []state.PartWeights, expect router.Reading) (state.Receipt, error) {
	jobs, err := r.jobs(slots, want, expect)
	if err != nil {
		return nil, err
	}
	return router.WriteParts(ctx, jobs)
}

// Settled implements router.Router: the file has the weights, and every one of
// several new connections meets a worker that has loaded this file.
func (r *Router) Settled(ctx context.Context, want []state.PartWeights, _ state.Receipt) (bool, error) {
	in := make([]bool, len(want))
	problems := router.Each(len(want), func(k int) error {
		return r.on(ctx, "prove", want[k].ID, func(ctx context.Context, i instance) error {
			f, err := i.look(ctx)
			if err != nil || f.Unfinished || !router.Same(f.Weights(), want[k].Weights) {
				return err
			}
			in[k], err = i.serves(ctx, f.Generation)
			return err
		})
	})
	return !slices.Contains(in, false), router.Join(problems)
}

// Plan implements router.Planner.
func (r *Router) Plan(slot state.Slot, share, tolerance float64, seen router.Reading) ([]state.PartWeights, float64, error) {
	parts, got, err := router.Percent(slot, share, step, tolerance, seen)
	if unfit := seen.Unfit(); unfit != nil && share > 0 {
		parts, got, err = nil, 0, unfit
	}
	return parts, got, router.Named(name, "", err)
}

// Target implements router.Targeter: requests with the header go to the slot,
// those with the value "never" to the other one, whatever the share. It waits
// until the workers do so, as no later call proves it.
func (r *Router) Target(ctx context.Context, slots state.Slots, slot state.Slot, match router.Match, on bool) (router.Access, error) {
	if match.Header == "" {
		match.Header = r.settings.Header
	}
	t := split.Testers{Header: strings.ToLower(match.Header), Value: match.Value, Slot: slot}
	err := t.Check()
	if err == nil {
		err = r.settings.setup().Check() // there may be no servers
	}
	if err != nil {
		return router.Access{}, &providers.Fault{Provider: name, Op: "testers", Kind: providers.Invalid, Err: err}
	}
	access := router.Access{Header: map[string]string{t.Header: t.Value}}
	if !on {
		t = split.Testers{}
	}
	ids := r.settings.parts()
	return access, router.Join(router.Each(len(ids), func(k int) error {
		return r.on(ctx, "set testers", ids[k], func(ctx context.Context, i instance) error { return i.target(ctx, slots, t) })
	}))
}

// PinnedFor implements router.Sticky. It is the life of the cookie although a
// slot without weight gets no request of a pinned client either.
func (r *Router) PinnedFor() time.Duration {
	if r.settings.Cookie == "" {
		return 0
	}
	return r.settings.CookieExpires
}
