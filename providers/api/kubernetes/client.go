// Package kubernetes is a client of a cluster's API: single objects read,
// patched on conditions, applied and scaled, with every error made a Fault. It
// must not know any contract, nor what the objects mean.
//
// It is client-go's dynamic client (documentation of k8s.io/client-go v0.37)
// with what a pipeline needs around it: one request has one deadline, is not
// repeated behind the caller's back and goes to no other address; an answer
// has a bounded size, and a no counts only when the API server itself says it;
// no error tells a token.
package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	Timeout    time.Duration                    // of one request, and of a program that gives credentials
	Hide       func(providers.Secret) error     // told every token that is sent, before it is; may be nil
	Log        func(format string, args ...any) // the server's warnings; may be nil
}

// Client talks to one cluster. It reads its kubeconfig at the first call. It
// may be used from several goroutines.
type Client struct {
	opts   Options
	redact providers.Redactor
	turn   chan struct{} // held by whoever makes a connection

	mu     sync.Mutex
	found  *found
	live   *connection
	groups map[string][]string // versions that the cluster serves, by API group; nil before it was asked
	hidden map[string]bool     // tokens that Hide was told
	date   time.Time           // of the last answer, on the server's clock; zero when it did not say
}

// found is what the kubeconfig says.
type found struct {
	config    *rest.Config
	namespace string
	cluster   Cluster
}

// connection is a kubeconfig made use of.
type connection struct {
	objects dynamic.Interface
	raw     *rest.RESTClient
	lent    bool      // by a program, which may be asked again
	ends    time.Time // of what it lent; zero when it did not say
}

// New returns a client. It does no I/O.
func New(o Options) *Client {
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	return &Client{opts: o, turn: make(chan struct{}, 1), hidden: map[string]bool{}}
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

// Namespace is the one of the context in use, "default" if it has none.
func (c *Client) Namespace() (string, error) {
	f, err := c.find()
	if err != nil {
		return "", c.fault(call{op: "read kubeconfig"}, err)
	}
	return f.namespace, nil
}

// do sends one request within the timeout. What a program lent and the API
// server does not take any more is asked for again, once: such a request was
// not looked at.
func (c *Client) do(ctx context.Context, what call, send func(context.Context, *connection) error) error {
	what.ctx, what.limit = ctx, c.opts.Timeout
	for {
		live, kept, err := c.connect(ctx)
		if err != nil {
			return c.fault(what, err)
		}
		err = c.once(ctx, &what, live, send)
		if err == nil || !live.lent || what.answer.code != http.StatusUnauthorized {
			return err
		}
		c.drop(live)
		if !kept {
			return err
		}
	}
}

func (c *Client) once(ctx context.Context, what *call, live *connection, send func(context.Context, *connection) error) error {
	one, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	what.answer = answer{}
	what.one = context.WithValue(one, answerKey{}, &what.answer)
	if err := send(what.one, live); err != nil {
		return c.fault(*what, err)
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

// List reads the objects that a label selector matches, "" for all, in pages,
// until visit says that it has seen enough. When the pages that follow have
// expired it begins anew, once; visit sees each name once all the same.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks
func (c *Client) List(ctx context.Context, kind schema.GroupVersionResource, namespace, selector string, visit func(*unstructured.Unstructured) (more bool)) error {
	r := Ref{GroupVersionResource: kind, Namespace: namespace}
	opts := metav1.ListOptions{LabelSelector: selector, Limit: pageSize}
	what := call{op: strings.TrimSpace("list " + kind.Resource + " " + selector), verb: "list", ref: r}
	seen, again := map[string]bool{}, false
	for {
		var page *unstructured.UnstructuredList
		expired := false
		err := c.do(ctx, what, func(ctx context.Context, l *connection) (err error) {
			page, err = l.resource(r).List(ctx, opts)
			expired = apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
			return err
		})
		if expired && opts.Continue != "" && !again {
			opts.Continue, again = "", true
			continue
		}
		if err != nil {
			return err
		}
		for i := range page.Items {
			name := page.Items[i].GetNamespace() + "/" + page.Items[i].GetName()
			if !seen[name] && !visit(&page.Items[i]) {
				return nil
			}
			seen[name] = true
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
// cluster serves. The cluster is asked once, for all groups: about one that it
// has not got it says nothing that could not come from somewhere else.
func (c *Client) Version(ctx context.Context, group string, known ...string) (string, error) {
	served, err := c.served(ctx)
	if err != nil {
		return "", err
	}
	for _, v := range known {
		if slices.Contains(served[group], v) {
			return v, nil
		}
	}
	return "", &providers.Fault{
		Provider: c.opts.Provider, Op: "find API " + group, Kind: providers.NotFound,
		Err:  fmt.Errorf("%s serves versions %v, expected one of %v", c.cluster(), served[group], known),
		Hint: "install its custom resource definitions in this cluster, or name another context",
	}
}

func (c *Client) served(ctx context.Context) (map[string][]string, error) {
	c.mu.Lock()
	known := c.groups
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	var list metav1.APIGroupList
	err := c.do(ctx, call{op: "list the cluster's APIs"}, func(ctx context.Context, l *connection) error {
		data, err := l.raw.Get().AbsPath("/apis").Do(ctx).Raw()
		if err != nil {
			return err
		}
		if err := json.Unmarshal(data, &list); err != nil || list.Kind != "APIGroupList" {
			return errors.New("the answer is no APIGroupList")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	known = map[string][]string{}
	for _, g := range list.Groups {
		for _, v := range g.Versions {
			known[g.Name] = append(known[g.Name], v.Version)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.groups = known
	return known, nil
}
