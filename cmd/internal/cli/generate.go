package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/manent/action/cmd/internal/wire"
)

func (a *app) newGenerate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "generate WHAT",
		Short: "write pipelines, and configuration of other systems that a rollout needs once",
		Args:  cobra.ArbitraryArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage("for example `manent generate github -c FILE`", "what is to be generated? expected github, gitlab or nginx")
		}
		return usage("expected github, gitlab or nginx", "cannot generate %q", args[0])
	}
	cmd.AddCommand(a.newGenerateGitHub(), a.newGenerateGitLab(), a.newGenerateNginx())
	return cmd
}

// nginxFlags say which of the two files is printed.
type nginxFlags struct{ initial, empty bool }

func (a *app) newGenerateNginx() *cobra.Command {
	var f nginxFlags
	cmd := &cobra.Command{
		Use:   "nginx -c FILE",
		Short: "print what to include in NGINX once",
		Long: `Prints what goes into NGINX's http block once, by hand: the upstreams of the
slots, a log format with time, status, chosen slot, request time and key, and
the location that says which file the workers serve. With --initial or --empty
it prints the first content of the file that manent replaces from then on.`,
		Example: `  manent generate nginx -c envconfig/shop/web/prod.yml > /etc/nginx/conf.d/manent.conf
  manent generate nginx -c envconfig/shop/web/prod.yml --initial > /etc/nginx/manent-split.conf`,
	}
	cmd.Flags().BoolVar(&f.initial, "initial", false, "the managed file while slot a serves")
	cmd.Flags().BoolVar(&f.empty, "empty", false, "the managed file before a first release, when no slot serves")
	return a.verb(a.fileFlags(cmd), func(context.Context, []string) (view, error) { return a.generateNginx(f) })
}

func (a *app) generateNginx(f nginxFlags) (view, error) {
	if f.initial && f.empty {
		return view{}, usage("leave one out", "--initial and --empty exclude each other")
	}
	cfg, err := a.load(true, true)
	if err != nil {
		return view{}, err
	}
	r := cfg.Traffic.Router
	if r == nil || r.Provider != "nginx" {
		return view{}, usage("set traffic.router.provider to nginx", "%s has no router nginx", a.file)
	}
	g, err := wire.Nginx(r.Settings, cfg.Targets)
	if err != nil {
		return view{}, err
	}
	text := g.Once
	switch {
	case f.initial:
		text = g.Initial
	case f.empty:
		text = g.Empty
	default:
		a.complain(fmt.Sprintf("manent: %s is managed by manent; its first content is printed with --initial", g.File), "")
	}
	return view{JSON: g, Text: text}, nil
}
