// Package dialect is what Gateway API and Istio differ in for whoever moves
// traffic in a cluster: where a route is and how it is read, what serves in
// each slot, and when a change of it is in force. It must not know any
// contract, nor what is written and why.
package dialect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/kubernetes"
	"github.com/manent/action/providers/api/kubernetes/route"
)

// API groups, as rules of a Role name them.
const (
	GatewayGroup = "gateway.networking.k8s.io"
	IstioGroup   = "networking.istio.io"
)

// Options say what is whose. All but Client, Service, Log and Now may be empty.
type Options struct {
	Client          *api.Client
	Service         string        // without the slot's suffix
	Namespace       string        // of Services and pods; "" for the context's own
	RouteNamespace  string        // of routes and the DestinationRule; "" for Namespace
	Rules           []string      // managed rules by name
	Gateways        []string      // parents whose word counts
	DestinationRule string        // "" for one named like the Service
	Deploys         bool          // a deployment makes the Service when it is missing
	Settle          time.Duration // for the last proxy to follow
	SettleTimeout   time.Duration // after which a silent controller is believed
	Log             func(format string, args ...any)
	Now             func() time.Time
}

// Route is a route that has been read.
type Route struct {
	Ref   api.Ref
	Doc   map[string]any
	Split route.Split
	Ahead time.Duration // of the API server's clock, by which the document's times are
}

// Revision is the object's resourceVersion, "" when it has none.
func (r Route) Revision() string {
	meta, _ := r.Doc["metadata"].(map[string]any)
	revision, _ := meta["resourceVersion"].(string)
	return revision
}

// Changed is when the rules were last changed, long ago when the document does
// not say. It is recorded in whole seconds, so it was up to one later, by a
// clock that may be ahead: a time to come counts as now.
func (r Route) Changed(now time.Time) time.Time {
	change, _ := r.Split.LastChange()
	if at := change.At.Add(time.Second - r.Ahead); at.Before(now) {
		return at
	}
	return now
}

// Write is what is known of the last change of a route.
type Write struct {
	At   time.Time
	Ours bool // manent did it, and asks whether it is in force
	Back bool // it took all traffic from the candidate
	Mute bool // nobody wants to be warned

	First  bool   // nothing serves yet in either slot: what is missing may come
	Shared string // of what serves
}

// namespace is the one of the Services and workloads.
func (o Options) namespace() (string, error) {
	if o.Namespace != "" {
		return o.Namespace, nil
	}
	return o.Client.Namespace()
}

func (o Options) names() (route.Names, error) {
	ns, err := o.namespace()
	return route.Names{Service: o.Service, Namespace: ns, Rules: o.Rules}, err
}

// find names an object beside the routes.
func (o Options) find(ctx context.Context, group, resource, id string, versions ...string) (api.Ref, error) {
	version, err := o.Client.Version(ctx, group, versions...)
	if err != nil {
		return api.Ref{}, err
	}
	ref := api.Ref{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: resource}, Namespace: o.RouteNamespace, Name: id}
	if ref.Namespace == "" {
		ref.Namespace, err = o.namespace()
	}
	return ref, err
}

// parse reads a document.
func (o Options) parse(ref api.Ref, doc map[string]any, read func(map[string]any, route.Names) (route.Split, error)) (Route, error) {
	r := Route{Ref: ref, Doc: doc, Ahead: o.Client.Ahead(o.Now())}
	names, err := o.names()
	if err == nil {
		r.Split, err = read(doc, names)
	}
	return r, about(ref, err)
}

// about says which object an error is about.
func about(ref api.Ref, err error) error {
	if err == nil {
		return nil
	}
	return &providers.Fault{Op: ref.String(), Kind: providers.KindOf(err), Err: api.Bare(err), Hint: providers.HintOf(err)}
}

// service reads a Service.
func (o Options) service(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	ns, err := o.namespace()
	if err != nil {
		return nil, err
	}
	found, err := o.Client.Get(ctx, api.Ref{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "services"}, Namespace: ns, Name: name})
	if err != nil && providers.KindOf(err) == providers.NotFound {
		p := o.absent(name, "no traffic can be sent to it")
		return nil, &providers.Fault{Kind: providers.NotFound, Err: errors.New(p.Text), Hint: p.Hint}
	}
	return found, err
}

// Absent is about a route that is not there: what was looked for, and where.
func Absent(ref api.Ref) string {
	kind, setting := "HTTPRoute", "http_route"
	if ref.Resource == "virtualservices" {
		kind, setting = "VirtualService", "virtual_service"
	}
	return fmt.Sprintf("%s %s was looked for in namespace %s: apply it there, or correct the settings %s, namespace or route_namespace", kind, ref.Name, ref.Namespace, setting)
}

// reached reports whether the proxies have had time to follow a change.
func (o Options) reached(since time.Time) bool {
	return o.Settle == 0 || !o.Now().Before(since.Add(o.Settle))
}
