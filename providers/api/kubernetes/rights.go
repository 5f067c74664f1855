package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Grant is a rule of a Role.
type Grant struct {
	Group, Resource string   // the resource with its subresource, "deployments/scale"
	Verbs           []string // "get", "patch" …
	Names           []string // of objects; none for all
	Spare           bool     // there is a way without it
}

// String is the rule on one line.
func (g Grant) String() string {
	only := ""
	if len(g.Names) > 0 {
		only = fmt.Sprintf(", resourceNames: [%s]", strings.Join(g.Names, ", "))
	}
	return fmt.Sprintf("{apiGroups: [%q], resources: [%q], verbs: [%s]%s}", g.Group, g.Resource, strings.Join(g.Verbs, ", "), only)
}

// Lines are rules as a Role lists them.
func Lines(grants []Grant) []string {
	out := make([]string, len(grants))
	for i, g := range grants {
		out[i] = g.String()
	}
	return out
}

// Lacks returns what of these the credentials have not got in a namespace, as
// rules to add. It changes nothing: the API server is asked about each verb
// and name, which it answers to whoever has logged in.
// https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access
func (c *Client) Lacks(ctx context.Context, namespace string, grants []Grant) ([]Grant, error) {
	missing := make([][]string, len(grants))
	var one sync.Mutex
	var jobs []func() error
	for i, g := range grants {
		names := g.Names
		if len(names) == 0 {
			names = []string{""}
		}
		for k := range len(g.Verbs) * len(names) {
			verb, name := g.Verbs[k/len(names)], names[k%len(names)]
			jobs = append(jobs, func() error {
				may, err := c.may(ctx, namespace, g, verb, name)
				one.Lock()
				defer one.Unlock()
				if err == nil && !may && !slices.Contains(missing[i], verb) {
					missing[i] = append(missing[i], verb)
				}
				return err
			})
		}
	}
	if err := Together(jobs...); err != nil {
		return nil, err
	}
	var out []Grant
	for i, g := range grants {
		if g.Verbs = missing[i]; len(g.Verbs) > 0 {
			slices.Sort(g.Verbs)
			out = append(out, g)
		}
	}
	return out, nil
}

// Missing are the rights that the credentials have not got, by namespace, as
// text, and the rules to add; without those that there may be a way around.
// With surely, what is there already is only patched.
func (c *Client) Missing(ctx context.Context, roles map[string][]Grant, surely bool) (text, rules string, err error) {
	for _, namespace := range slices.Sorted(maps.Keys(roles)) {
		missing, err := c.Lacks(ctx, namespace, roles[namespace])
		if err != nil {
			return "", "", err
		}
		for _, g := range missing {
			if surely {
				g.Verbs = slices.DeleteFunc(g.Verbs, func(verb string) bool { return verb == "create" })
			}
			if g.Spare || len(g.Verbs) == 0 {
				continue
			}
			text += fmt.Sprintf(", %s %s in namespace %s", strings.Join(g.Verbs, " and "), g.Resource, namespace)
			rules += "; " + g.String() + " in a Role of namespace " + namespace
		}
	}
	return strings.TrimPrefix(text, ", "), strings.TrimPrefix(rules, "; "), nil
}

func (c *Client) may(ctx context.Context, namespace string, g Grant, verb, name string) (allowed bool, err error) {
	resource, sub, _ := strings.Cut(g.Resource, "/")
	question := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": map[string]any{
			"namespace": namespace, "group": g.Group, "resource": resource, "subresource": sub, "verb": verb, "name": name,
		}},
	}}
	kind := schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews"}
	what := call{op: "ask whether " + verb + " " + g.Resource + " is allowed", verb: "create", ref: Ref{GroupVersionResource: kind}}
	err = c.do(ctx, what, func(ctx context.Context, l *connection) error {
		answer, err := l.objects.Resource(kind).Create(ctx, question, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		yes, said, err := unstructured.NestedBool(answer.Object, "status", "allowed")
		if allowed = yes; !said || err != nil {
			return errors.New("the answer does not say")
		}
		return nil
	})
	return allowed, err
}
