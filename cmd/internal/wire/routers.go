package wire

import (
	"github.com/manent/action/providers/router"
	"github.com/manent/action/providers/router/f5"
	"github.com/manent/action/providers/router/haproxy"
	"github.com/manent/action/providers/router/nginx"
	"github.com/manent/action/providers/router/nginxplus"
	"github.com/manent/action/providers/router/proxy"
)

// Routers are the routers of this build.
func Routers() []router.Spec {
	return []router.Spec{
		proxy.Spec(),
		nginx.Spec(),
		haproxy.Spec(),
		nginxplus.Spec(),
		f5.Spec(),
	}
}

// RouterEntries are the routers of this build and those that its plugins bring.
func RouterEntries() []router.Entry {
	var out []router.Entry
	for _, s := range Routers() {
		out = append(out, router.Entry{Name: s.Name, Unproven: s.Unproven, Traits: s.Traits})
	}
	for _, p := range Plugins() {
		out = append(out, p.Routers...)
	}
	return out
}
