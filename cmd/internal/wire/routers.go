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
