// Package kubernetes is a client of a cluster's API: single objects read,
// patched on conditions, applied and scaled, with every error made a Fault. It
// must not know any contract, nor what the objects mean.
//
// It is client-go's dynamic client (documentation of k8s.io/client-go v0.37)
// with what a pipeline needs around it: one request has one deadline and is
// not repeated behind the caller's back, an answer has a bounded size, and no
// error tells a token.
package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/kubernetes/patch"
)

// FieldManager is the name under which the API server records what manent
// wrote (metadata.managedFields).
const FieldManager = "manent"

// Options of a client. Getenv is the only way to the environment, but for
// programs that the kubeconfig names (exec): they inherit the process's own.
type Options struct {
	Provider   string                           // whom an error names
	Kubeconfig string                           // path; "" for KUBECONFIG, ~/.kube/config, the pod's own account
	Context    string                           // of the kubeconfig, "" for its current one
	Dir        string                           // relative paths start here
	Getenv     func(string) string              // nil for an empty environment
	Timeout    time.Duration                    // of one request
	Hide       func(providers.Secret) error     // told every token that is sent, before it is; may be nil
	Log        func(format string, args ...any) // the server's warnings; may be nil
}

// Client talks to one cluster. It reads its kubeconfig at the first call. It
// may be used from several goroutines.
type Client struct {
	opts   Options
	redact providers.Redactor

	mu       sync.Mutex
	live     *connection
	versions map[string][]string
	hidden   map[string]bool // tokens that Hide was told
}

// connection is a kubeconfig made use of.
type connection struct {
	objects   dynamic.Interface
	raw       *rest.RESTClient
	namespace string
}

// New returns a client. It does no I/O.
func New(o Options) *Client {
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	return &Client{opts: o, versions: map[string][]string{}, hidden: map[string]bool{}}
}

// Ref names an object.
type Ref struct {
	schema.GroupVersionResource
	Namespace, Name string // Namespace is "" for what belongs to the whole cluster
}

// String is "httproutes shop/web".
func (r Ref) String() string {
	return r.Resource + " " + strings.TrimPrefix(r.Namespace+"/"+r.Name, "/")
}

func (c *Client) connect() (*connection, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live != nil {
		return c.live, nil
	}
	live, err := c.dial()
	if err == nil {
		c.live = live
	}
	return live, err
}

// Namespace is the one of the context in use, "default" if it has none.
func (c *Client) Namespace() (string, error) {
	live, err := c.connect()
	if err != nil {
		return "", c.fault(call{op: "read kubeconfig"}, err)
	}
	return live.namespace, nil
}

// do sends one request within the timeout.
func (c *Client) do(ctx context.Context, what call, send func(context.Context, *connection) error) error {
	live, err := c.connect()
	if err != nil {
		return c.fault(what, err)
	}
	what.ctx, what.limit = ctx, c.opts.Timeout
	one, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	what.one = context.WithValue(one, answerKey{}, &what.answer)
	if err := send(what.one, live); err != nil {
		return c.fault(what, err)
	}
	return nil
}

func (l *connection) resource(r Ref) dynamic.ResourceInterface {
	if r.Namespace == "" {
		return l.objects.Resource(r.GroupVersionResource)
	}
	return l.objects.Resource(r.GroupVersionResource).Namespace(r.Namespace)
}

// Get reads an object.
func (c *Client) Get(ctx context.Context, r Ref) (obj *unstructured.Unstructured, err error) {
	err = c.do(ctx, call{op: "read " + r.String(), verb: "get", ref: r}, func(ctx context.Context, l *connection) error {
		obj, err = l.resource(r).Get(ctx, r.Name, metav1.GetOptions{})
		return err
	})
	return obj, err
}

// pageSize bounds one answer of a list.
const pageSize = 100

// List reads the objects that a label selector matches, in pages, until visit
// says that it has seen enough.
func (c *Client) List(ctx context.Context, kind schema.GroupVersionResource, namespace, selector string, visit func(*unstructured.Unstructured) (more bool)) error {
	r := Ref{GroupVersionResource: kind, Namespace: namespace}
	opts := metav1.ListOptions{LabelSelector: selector, Limit: pageSize}
	for {
		var page *unstructured.UnstructuredList
		err := c.do(ctx, call{op: "list " + kind.Resource + " " + selector, verb: "list", ref: r}, func(ctx context.Context, l *connection) (err error) {
			page, err = l.resource(r).List(ctx, opts)
			return err
		})
		if err != nil {
			return err
		}
		for i := range page.Items {
			if !visit(&page.Items[i]) {
				return nil
			}
		}
		if opts.Continue = page.GetContinue(); opts.Continue == "" {
			return nil
		}
	}
}

// Patch applies a JSON patch, whole or not at all. A test that fails is
// Invalid (422), as is what the object's schema refuses: read again to tell
// which it was.
func (c *Client) Patch(ctx context.Context, r Ref, ops []patch.Op) (*unstructured.Unstructured, error) {
	data, err := json.Marshal(ops)
	if err != nil {
		return nil, c.fault(call{op: "patch " + r.String()}, err)
	}
	return c.patch(ctx, r, types.JSONPatchType, data, metav1.PatchOptions{})
}

// Apply applies an object by server-side apply. With force manent takes over
// fields that another manager holds with another value; without it that is a
// Conflict that names them.
func (c *Client) Apply(ctx context.Context, r Ref, obj *unstructured.Unstructured, force bool) (*unstructured.Unstructured, error) {
	data, err := obj.MarshalJSON()
	if err != nil {
		return nil, c.fault(call{op: "apply " + r.String()}, err)
	}
	return c.patch(ctx, r, types.ApplyPatchType, data, metav1.PatchOptions{Force: &force})
}

// Scale sets the replicas of what has a scale.
func (c *Client) Scale(ctx context.Context, r Ref, replicas int) error {
	data := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err := c.patch(ctx, r, types.MergePatchType, data, metav1.PatchOptions{}, "scale")
	return err
}

func (c *Client) patch(ctx context.Context, r Ref, how types.PatchType, data []byte, opts metav1.PatchOptions, sub ...string) (obj *unstructured.Unstructured, err error) {
	opts.FieldManager, opts.FieldValidation = FieldManager, metav1.FieldValidationStrict
	op := map[types.PatchType]string{types.ApplyPatchType: "apply "}[how]
	if op == "" {
		op = "patch "
	}
	what := call{op: op + strings.Join(append([]string{r.String()}, sub...), " "), verb: "patch", ref: r, sub: sub}
	err = c.do(ctx, what, func(ctx context.Context, l *connection) error {
		obj, err = l.resource(r).Patch(ctx, r.Name, how, data, opts, sub...)
		return err
	})
	return obj, err
}

// Version returns the first of these versions of an API group that the
// cluster serves. The cluster is asked once.
func (c *Client) Version(ctx context.Context, group string, known ...string) (string, error) {
	served, err := c.served(ctx, group)
	if err != nil {
		return "", err
	}
	for _, v := range known {
		for _, s := range served {
			if s == v {
				return v, nil
			}
		}
	}
	return "", &providers.Fault{
		Provider: c.opts.Provider, Op: "find API " + group, Kind: providers.NotFound,
		Err: fmt.Errorf("the cluster serves versions %v, expected one of %v", served, known),
	}
}

func (c *Client) served(ctx context.Context, group string) ([]string, error) {
	c.mu.Lock()
	known, ok := c.versions[group]
	c.mu.Unlock()
	if ok {
		return known, nil
	}
	var answer metav1.APIGroup
	err := c.do(ctx, call{op: "find API " + group, group: group}, func(ctx context.Context, l *connection) error {
		data, err := l.raw.Get().AbsPath("/apis", group).Do(ctx).Raw()
		if err != nil {
			return err
		}
		return json.Unmarshal(data, &answer)
	})
	if err != nil {
		return nil, err
	}
	for _, v := range answer.Versions {
		known = append(known, v.Version)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.versions[group] = known
	return known, nil
}
