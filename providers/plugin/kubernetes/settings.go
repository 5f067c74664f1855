package kubernetes

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/router"
)

// Settings of the plugin.
type Settings struct {
	Service        string        `name:"service" required:"true" help:"the application's Service: without -a and -b with Gateway API, as it is with Istio"`
	Namespace      string        `name:"namespace" help:"of the Services and workloads; the context's own by default"`
	HTTPRoutes     []string      `name:"http_route" help:"Gateway API: HTTPRoutes whose rules have both backendRefs, <service>-a and <service>-b"`
	VirtualService []string      `name:"virtual_service" help:"Istio: VirtualServices whose http entries have both subsets, a and b, of the Service"`
	RouteNamespace string        `name:"route_namespace" help:"of the HTTPRoutes or VirtualServices and the DestinationRule; namespace by default"`
	Manifests      []string      `name:"manifests" help:"files and folders in the workspace with what a slot consists of; without it manent moves traffic only"`
	Force          bool          `name:"force_conflicts" default:"false" help:"take over fields of the slot's objects that another field manager holds with another value"`
	Rules          []string      `name:"rules" help:"names of the rules (http entries) to manage; all that name both slots by default"`
	Gateways       []string      `name:"gateways" help:"Gateway API: parents whose word counts; all of the route by default"`
	DestRule       string        `name:"destination_rule" help:"Istio: the DestinationRule with the subsets; named like the Service by default"`
	Kubeconfig     string        `name:"kubeconfig" help:"path of a kubeconfig; else KUBECONFIG, ~/.kube/config, or the pod's own service account"`
	Context        string        `name:"context" help:"context of the kubeconfig, its current one by default; one for each cluster in the settings of clusters"`
	Settle         time.Duration `name:"settle" default:"5s" help:"how long a change takes to reach the last proxy, after it is written and reported; nobody reports that"`
	SettleTimeout  time.Duration `name:"settle_timeout" default:"1m" help:"Gateway API: a controller that is silent for so long after a change never reports, and is believed with a warning"`
	Timeout        time.Duration `name:"timeout" default:"8s" help:"for one request to the API server, and for a program that gives credentials"`
}

// longest is what a share may take to be in force, less than a step may.
const longest = 9 * time.Minute

// label is what the API server takes as a Service's name.
var label = regexp.MustCompile(`^[a-z]([a-z0-9-]*[a-z0-9])?$`)

func (s Settings) valid() error {
	var err error
	switch {
	case !label.MatchString(s.Service) || len(s.Service) > 61:
		err = wrong("it is what shop-a and shop-b have in common, or, with Istio, the Service itself", "service %q, expected the name of a Service of at most 61 letters, digits and dashes", s.Service)
	case len(s.HTTPRoutes) > 0 && len(s.VirtualService) > 0:
		err = wrong("leave one of them out", "both http_route and virtual_service are given, expected one: two routers would move the traffic of one Service")
	case len(s.HTTPRoutes) == 0 && len(s.VirtualService) == 0:
		err = wrong("name the HTTPRoute that splits the traffic with http_route, or Istio's VirtualService with virtual_service", "neither http_route nor virtual_service is given")
	case s.Timeout <= 0:
		err = wrong("", "timeout %v, expected more than 0", s.Timeout)
	case s.Settle < 0 || s.SettleTimeout <= 0:
		err = wrong("", "settle %v and settle_timeout %v, expected at least 0 and more than 0", s.Settle, s.SettleTimeout)
	case s.Settle+s.SettleTimeout > longest:
		err = wrong("", "settle %v and settle_timeout %v, expected at most %v together: a share that is not in force after 10m has failed", s.Settle, s.SettleTimeout, longest)
	default:
		err = s.idle()
	}
	for _, list := range []struct {
		name  string
		given []string
	}{{"http_route", s.HTTPRoutes}, {"virtual_service", s.VirtualService}, {"rules", s.Rules}, {"gateways", s.Gateways}, {"manifests", s.Manifests}} {
		for i, one := range list.given {
			if err == nil && (one == "" || slices.Contains(list.given[:i], one)) {
				err = wrong("", "%s: %q is empty or there twice", list.name, one)
			}
		}
	}
	for _, path := range s.Manifests {
		if err == nil && !filepath.IsLocal(strings.TrimSpace(path)) {
			err = wrong("give a path inside the workspace, such as deploy/shop", "manifests: %q leads out of the workspace", path)
		}
	}
	return err
}

// silence is the default of settle_timeout.
const silence = time.Minute

// idle refuses settings that would have no effect.
func (s Settings) idle() error {
	istio := len(s.VirtualService) > 0
	switch {
	case !istio && s.DestRule != "":
		return wrong("leave it out, or name a virtual_service instead of http_route", "destination_rule %q without virtual_service, which alone has subsets", s.DestRule)
	case istio && len(s.Gateways) > 0:
		return wrong("leave it out: Istio does not say what its gateways have", "gateways with virtual_service, expected only with http_route")
	case istio && s.SettleTimeout != silence:
		return wrong("leave it out: with Istio a share is in force after settle", "settle_timeout with virtual_service, expected only with http_route")
	case len(s.Manifests) == 0 && s.Force:
		return wrong("leave it out: without manifests nothing is applied", "force_conflicts without manifests, expected both or none")
	}
	return nil
}

func wrong(hint, format string, args ...any) error {
	return &providers.Fault{Kind: providers.Invalid, Err: fmt.Errorf(format, args...), Hint: hint}
}

// routes are the routes' names: the router's parts.
func (s Settings) routes() []string { return append(slices.Clone(s.HTTPRoutes), s.VirtualService...) }

// Traits are what a router with these settings can do. Older
// releases of Istio take only weights that are 100 together, so there a share
// has no decimals.
func (s Settings) Traits() router.Traits {
	if len(s.HTTPRoutes) > 0 {
		return router.Traits{Unit: "weight, 100 together; 10000 for a share with decimals", Step: 0.01, Conditional: true, Testers: "header", Notes: gatewayNotes()}
	}
	return router.Traits{Unit: "weight, 100 together", Step: 1, Conditional: true, Testers: "header", Notes: istioNotes()}
}

func (s Settings) destinationRule() string {
	if s.DestRule == "" {
		return s.Service
	}
	return s.DestRule
}
