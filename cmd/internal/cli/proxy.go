package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/manent/action/cmd/internal/wire"
)

// proxyJSON is printed by `manent proxy --json` once it serves.
type proxyJSON struct {
	Listen string `json:"listen"` // address of the data plane
	Admin  string `json:"admin"`  // address of the admin interface
}

func (a *app) newProxy() *cobra.Command {
	var o wire.ProxyOptions
	cmd := &cobra.Command{
		Use:   "proxy --listen ADDRESS --admin ADDRESS --slot a=URL --slot b=URL",
		Short: "run the embedded weighted reverse proxy",
		Long: `Splits requests between two slots, exactly by their weights. The router "proxy"
changes the weights through the admin interface, which only this machine can
reach, without dropping a request. It starts with all traffic at slot a, or
with what --keep has kept. The access log, one JSON object a line, names the
slot that was chosen; SIGHUP opens it again after a rotation. Prometheus
metrics by slot are at /metrics of the admin interface. SIGTERM lets the
requests in flight finish.`,
		Example: "  manent proxy --listen :8080 --admin 127.0.0.1:9901 --slot a=http://127.0.0.1:8081 --slot b=http://127.0.0.1:8082 --log access.log",
	}
	f := cmd.Flags()
	f.StringVar(&o.Listen, "listen", "", "`ADDRESS` of the data plane, such as :8080; required")
	f.StringVar(&o.Admin, "admin", "127.0.0.1:9901", "loopback `ADDRESS` of the admin interface")
	f.StringToStringVar(&o.Slots, "slot", nil, "a=`URL` and b=URL; required")
	f.StringVar(&o.Log, "log", "", "`FILE` of the access log")
	f.StringVar(&o.Keep, "keep", "", "`FILE` that keeps weights over a restart")
	f.StringVar(&o.Cookie, "cookie", "", "`NAME` of a cookie that keeps a client at its slot")
	f.DurationVar(&o.CookieTTL, "cookie-ttl", time.Hour, "how long the cookie keeps a client")
	f.DurationVar(&o.HeaderTimeout, "header-timeout", time.Minute, "how long a slot may take to begin its answer")
	f.BoolVar(&o.TrustForwarded, "trust-forwarded", false, "keep the client's X-Forwarded headers: only behind another proxy")
	return a.verb(cmd, func(ctx context.Context, _ []string) (view, error) { return a.proxy(ctx, o) })
}

// proxy serves until a signal ends it.
func (a *app) proxy(ctx context.Context, o wire.ProxyOptions) (view, error) {
	switch {
	case o.Listen == "":
		return view{}, need("--listen ADDRESS", "no address to listen on is named")
	case len(o.Slots) == 0:
		return view{}, need("--slot a=URL --slot b=URL", "no slot is named")
	}
	err := wire.Proxy(ctx, o, func(listen, admin string) {
		if !a.json {
			a.print(fmt.Sprintf("serving on %s, admin on http://%s", listen, admin))
			return
		}
		data, _ := json.MarshalIndent(proxyJSON{Listen: listen, Admin: admin}, "", "  ")
		a.print(string(data))
	})
	if err != nil {
		return view{}, usage("`manent proxy --help` shows how it is called", "%v", err)
	}
	return view{JSON: silent{}}, nil
}
