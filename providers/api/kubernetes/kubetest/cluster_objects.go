//go:build peers

package kubetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Space is a namespace of a test.
type Space struct {
	*Cluster
	Name string
	t    testing.TB
}

// Space makes a namespace with objects in it, whatever theirs says. What they
// have as status is written as such.
func (c *Cluster) Space(t testing.TB, objects ...map[string]any) *Space {
	t.Helper()
	ns, err := c.Admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "shop-"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := &Space{Cluster: c, Name: ns.GetName(), t: t}
	for _, o := range objects {
		s.Create(o)
	}
	return s
}

// resource is the interface to the objects of a kind in the namespace.
func (s *Space) resource(o map[string]any) dynamic.ResourceInterface {
	version, err := schema.ParseGroupVersion(o["apiVersion"].(string))
	if err != nil {
		s.t.Fatal(err)
	}
	return s.Admin.Resource(version.WithResource(strings.ToLower(o["kind"].(string)) + "s")).Namespace(s.Name)
}

// Create makes an object, as kubectl.
func (s *Space) Create(o map[string]any) {
	s.t.Helper()
	o = plain(o)
	meta := o["metadata"].(map[string]any)
	meta["namespace"] = s.Name
	status := o["status"]
	made, err := s.resource(o).Create(context.Background(), &unstructured.Unstructured{Object: o}, metav1.CreateOptions{FieldManager: "kubectl", FieldValidation: "Strict"})
	if err == nil && status != nil {
		made.Object["status"] = status
		_, err = s.resource(o).UpdateStatus(context.Background(), made, metav1.UpdateOptions{FieldManager: "kubelet"})
	}
	if err != nil {
		s.t.Fatalf("create %v: %v", o["kind"], err)
	}
}

// Get reads the object that has the kind and name of another.
func (s *Space) Get(like map[string]any) map[string]any {
	s.t.Helper()
	name := like["metadata"].(map[string]any)["name"].(string)
	o, err := s.resource(like).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return o.Object
}

// Edit changes an object as somebody else, under a field manager's name, and
// returns what was stored.
func (s *Space) Edit(like map[string]any, manager string, change func(o map[string]any)) map[string]any {
	s.t.Helper()
	var stored *unstructured.Unstructured
	err := wait(func() (bool, error) {
		o := plain(s.Get(like))
		change(o)
		var err error
		stored, err = s.resource(like).Update(context.Background(), &unstructured.Unstructured{Object: o}, metav1.UpdateOptions{FieldManager: manager})
		if err != nil && !strings.Contains(err.Error(), "the object has been modified") {
			s.t.Fatal(err)
		}
		return err == nil, err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return stored.Object
}

// Apply is a server-side apply by a GitOps tool.
func (s *Space) Apply(o map[string]any, manager string, force bool) error {
	o = plain(o)
	o["metadata"].(map[string]any)["namespace"] = s.Name
	_, err := s.resource(o).Apply(context.Background(), o["metadata"].(map[string]any)["name"].(string), &unstructured.Unstructured{Object: o}, metav1.ApplyOptions{FieldManager: manager, Force: force})
	return err
}

// Accept writes a route's status as a controller that has seen it, at the
// generation that it has then.
func (s *Space) Accept(like map[string]any, change ...func(o map[string]any)) {
	s.t.Helper()
	err := wait(func() (bool, error) {
		o := plain(s.Get(like))
		generation := o["metadata"].(map[string]any)["generation"].(float64)
		SetStatus(o, "Accepted", "True", "Accepted", generation)
		SetStatus(o, "ResolvedRefs", "True", "ResolvedRefs", generation)
		for _, c := range change {
			c(o)
		}
		stamp(o)
		_, err := s.resource(like).UpdateStatus(context.Background(), &unstructured.Unstructured{Object: o}, metav1.UpdateOptions{FieldManager: "gateway-controller"})
		return err == nil, err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// stamp gives conditions the times that the CRD requires.
func stamp(o map[string]any) {
	status, _ := o["status"].(map[string]any)
	for _, p := range entries(status, "parents") {
		for _, c := range entries(p, "conditions") {
			c["lastTransitionTime"] = metav1.Now().UTC().Format("2006-01-02T15:04:05Z")
		}
	}
}

// Allow gives the user ci these rules of a Role, each a line of YAML.
func (s *Space) Allow(rules ...string) {
	s.t.Helper()
	var parsed []any
	if err := yaml.Unmarshal([]byte("- "+strings.Join(rules, "\n- ")), &parsed); err != nil {
		s.t.Fatal(err)
	}
	const group = "rbac.authorization.k8s.io"
	role := Object(group+"/v1", "Role", "manent", map[string]any{"rules": parsed})
	if err := s.Apply(role, "kubectl", true); err != nil {
		s.t.Fatal(err)
	}
	if err := s.Apply(Object(group+"/v1", "RoleBinding", "manent", map[string]any{
		"roleRef":  map[string]any{"apiGroup": group, "kind": "Role", "name": "manent"},
		"subjects": []any{map[string]any{"apiGroup": group, "kind": "User", "name": "ci"}},
	}), "kubectl", true); err != nil {
		s.t.Fatal(err)
	}
	s.effective(parsed)
}

// effective waits until the authorizer has seen the Role: it looks at its own
// copy, a moment behind.
func (s *Space) effective(rules []any) {
	as, err := s.As(CI)
	if err != nil {
		s.t.Fatal(err)
	}
	review := map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": map[string]any{"namespace": s.Name}}
	expected := texts(rules)
	err = wait(func() (bool, error) {
		got, err := as.Resource(schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectrulesreviews"}).
			Create(context.Background(), &unstructured.Unstructured{Object: plain(review)}, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		list, _, _ := unstructured.NestedSlice(got.Object, "status", "resourceRules")
		found := texts(list)
		return slices.Equal(found, expected), fmt.Errorf("rules %q, expected %q", found, expected)
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// texts are the rules in an order of their own, without what everybody may
// ask about himself.
func texts(rules []any) []string {
	var out []string
	for _, rule := range rules {
		data, _ := json.Marshal(rule) // members in the order of their names
		if !strings.Contains(string(data), "self") {
			out = append(out, string(data))
		}
	}
	slices.Sort(out)
	return out
}
