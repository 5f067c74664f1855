//go:build peers

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/manent/action/providers/api/kubernetes/kubetest"
	"github.com/manent/action/state"
)

const (
	byKubernetes = `
project: shop
application: web
environment: prod
state: $STATE
plugin:
  name: kubernetes
  settings: {service: shop, $ROUTE: web, manifests: deploy, settle: 0s}
clusters: [{name: test, settings: {namespace: $NAMESPACE, kubeconfig: $KUBECONFIG}}]
rollout:
  traffic: {steps: [5, 25, 50, 100], replicas: proportional, scaleDownDelay: 1s}
`
	kubernetesManifests = `
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {selector: {app: shop}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 8
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: shop, image: "registry.example.net/shop:{version}"}]}
`
)

// controllers plays those of Deployments, EndpointSlices and routes, and the
// kubelet, on a real API server that has none, and watches that no share comes
// before its capacity.
type controllers struct {
	*kubetest.Space
	istio bool
	mu    sync.Mutex
	seen  []string // what is wrong
	most  map[string]int

	watch atomic.Bool // something serves, so that shares count
}

func (c *controllers) wrong(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, fmt.Sprintf(format, args...))
}

// run plays until its context ends.
func (c *controllers) run(ctx context.Context) {
	for ctx.Err() == nil {
		weights := c.weights(ctx)
		for _, slot := range []string{"a", "b"} {
			n := c.deployment(ctx, slot)
			if share := weights[slot]; n >= 0 && c.watch.Load() && float64(n) < math.Ceil(8*share/100) {
				c.wrong("slot %s has %v %% with %d of 8 replicas", slot, share, n)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(30 * time.Millisecond):
		}
	}
}

func (c *controllers) get(ctx context.Context, group, version, resource, name string) *unstructured.Unstructured {
	o, err := c.Admin.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: resource}).Namespace(c.Name).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil // not there yet, or the test is over
	}
	return o
}

// route is the document that splits the traffic, where it has its rules and
// these their entries.
func (c *controllers) route() (like map[string]any, rules, entries string) {
	if c.istio {
		return kubetest.VirtualService("web", map[string]any{"route": kubetest.Destinations()}), "http", "route"
	}
	return kubetest.HTTPRoute("web", map[string]any{"backendRefs": kubetest.Refs()}), "rules", "backendRefs"
}

// weights are the shares of the route's slots; an HTTPRoute that has changed is
// accepted.
func (c *controllers) weights(ctx context.Context) map[string]float64 {
	like, list, entries := c.route()
	group, version, _ := strings.Cut(like["apiVersion"].(string), "/")
	o := c.get(ctx, group, version, strings.ToLower(like["kind"].(string))+"s", "web")
	if o == nil {
		return nil
	}
	parents, _, _ := unstructured.NestedSlice(o.Object, "status", "parents")
	if text := fmt.Sprint(parents); !c.istio && !strings.Contains(text, fmt.Sprintf("observedGeneration:%d ", o.GetGeneration())) {
		c.Accept(like)
	}
	out := map[string]float64{}
	rules, _, _ := unstructured.NestedSlice(o.Object, "spec", list)
	for i, slot := range []string{"a", "b"} {
		weight, _ := rules[0].(map[string]any)[entries].([]any)[i].(map[string]any)["weight"].(int64)
		out[slot] = float64(weight)
	}
	return out
}

// deployment brings up what is wanted, and returns how many were available
// before; -1 for no Deployment.
func (c *controllers) deployment(ctx context.Context, slot string) int {
	o := c.get(ctx, "apps", "v1", "deployments", "shop-"+slot)
	if o == nil {
		return -1
	}
	had, _, _ := unstructured.NestedInt64(o.Object, "status", "availableReplicas")
	wanted, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	seen, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	if seen == o.GetGeneration() && had == wanted {
		return int(had)
	}
	c.mu.Lock()
	c.most[slot] = int(wanted)
	c.mu.Unlock()
	kubetest.SetReplicas(o.Object, int(wanted))
	_, _ = c.Admin.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace(c.Name).
		UpdateStatus(ctx, o, metav1.UpdateOptions{FieldManager: "kube-controller-manager"}) // when it lost a race, the next look does it
	if c.istio {
		c.pods(ctx, slot, int(wanted))
		return int(had)
	}
	slice := kubetest.EndpointSlice("shop-" + slot)
	endpoints := []any{}
	for i := range int(wanted) {
		endpoints = append(endpoints, map[string]any{"addresses": []any{fmt.Sprintf("10.77.%d.%d", slot[0], i+1)}, "conditions": map[string]any{"ready": true}})
	}
	slice["endpoints"] = endpoints
	if err := c.Apply(slice, "endpointslice-controller", true); err != nil && ctx.Err() == nil {
		c.wrong("%v", err)
	}
	return int(had)
}

// pods makes as many ready ones of a slot as are wanted, and deletes the others.
func (c *controllers) pods(ctx context.Context, slot string, wanted int) {
	all := c.Admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(c.Name)
	for i := range 8 {
		pod := kubetest.Pod(fmt.Sprintf("shop-%s-%d", slot, i), map[string]any{"app": "shop", "manent.io/track": slot})
		pod["metadata"].(map[string]any)["namespace"] = c.Name
		var err error
		if i >= wanted {
			err = all.Delete(ctx, fmt.Sprintf("shop-%s-%d", slot, i), metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		} else if made, failed := all.Create(ctx, &unstructured.Unstructured{Object: pod}, metav1.CreateOptions{}); failed == nil {
			made.Object["status"] = pod["status"]
			_, err = all.UpdateStatus(ctx, made, metav1.UpdateOptions{})
		} else {
			err = failed
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
			c.wrong("%v", err)
		}
	}
}

func (c *controllers) replicas(slot string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most[slot]
}

// kubernetes prepares a namespace of a real API server with a route, and
// allows what doctor prints, and nothing else.
func (s *shop) kubernetes(cluster *kubetest.Cluster, istio bool) *controllers {
	s.t.Helper()
	c := &controllers{istio: istio, most: map[string]int{}}
	route, _, _ := c.route()
	c.Space = cluster.Space(s.t, route)
	if s.vars["ROUTE"] = "http_route"; istio {
		s.vars["ROUTE"] = "virtual_service"
		c.Create(kubetest.DestinationRule())
	}
	if err := os.MkdirAll(filepath.Join(s.dir, "deploy"), 0o750); err != nil {
		s.t.Fatal(err)
	}
	s.write("deploy/shop.yml", kubernetesManifests)
	s.vars["NAMESPACE"], s.vars["KUBECONFIG"] = c.Name, kubetest.Kubeconfig(s.t, cluster.URL, kubetest.CI, cluster.Authority)
	s.repository()
	s.configure(byKubernetes)
	c.Allow(s.printedRights()...)
	ctx, stop := context.WithCancel(context.Background())
	var playing sync.WaitGroup
	playing.Go(func() { c.run(ctx) })
	s.t.Cleanup(func() {
		stop()
		playing.Wait()
		for _, wrong := range c.seen {
			s.t.Error(wrong)
		}
	})
	return c
}

// printedRights are the rules that doctor prints.
func (s *shop) printedRights() []string {
	s.t.Helper()
	var said struct {
		Checks []struct{ Name, Text string }
	}
	if err := json.Unmarshal([]byte(s.exits(1, "doctor", "--json")), &said); err != nil { // without any rights it fails
		s.t.Fatal(err)
	}
	var rules []string
	for _, check := range said.Checks {
		for _, line := range strings.Split(check.Text, "\n") {
			if rule, ok := strings.CutPrefix(strings.TrimSpace(line), "- "); ok && check.Name == "kubernetes rights" {
				rules = append(rules, rule)
			}
		}
	}
	return rules
}

// TestPeersKubernetes deploys, moves traffic and scales, three versions, by
// the command line, on a real API server whose controllers the test plays:
// a first release, a promoted one, a returned one, and the retirements.
// Somebody else changes the weights in between.
func TestPeersKubernetes(t *testing.T) {
	t.Parallel()
	cluster, err := kubetest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Stop)
	if err = cluster.Install(kubetest.GatewayAPI, "HTTPRoute"); err == nil {
		err = cluster.Install(kubetest.Istio, "VirtualService", "DestinationRule")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Run("gateway", func(t *testing.T) { t.Parallel(); wholeRollouts(t, cluster, false) })
	t.Run("istio", func(t *testing.T) { t.Parallel(); wholeRollouts(t, cluster, true) })
}

func wholeRollouts(t *testing.T, cluster *kubetest.Cluster, istio bool) {
	s := newShop(t)
	c := s.kubernetes(cluster, istio)
	shares := func(a, b float64) {
		t.Helper()
		if got := c.weights(t.Context()); got["a"] != a || got["b"] != b {
			t.Errorf("weights %v, want %v and %v", got, a, b)
		}
	}
	s.exits(0, "run", "--version", "1.0")
	shares(100, 0)
	if n := c.replicas("a"); n != 8 {
		t.Errorf("a first release has %d replicas", n)
	}
	c.watch.Store(true)
	s.exits(0, "doctor")
	s.exits(0, "run", "--version", "2.0", "--until", "traffic@50")
	shares(75, 25)
	if n := c.replicas("b"); n != 2 {
		t.Errorf("%d replicas for 25 %% of 8", n)
	}
	c.drift(90, 10)
	s.exits(3, "run", "--version", "2.0")
	if doc, _ := s.status(); !strings.Contains(doc.Rollout.Step("traffic@50").Message, "last changed by kubectl-edit at ") {
		t.Errorf("drift is told without who did it: %s", doc.Rollout.Step("traffic@50").Message)
	}
	shares(90, 10)
	s.answer(0, "approve")
	s.exits(0, "run", "--version", "2.0")
	shares(0, 100)
	eventually(t, func() error {
		s.exits(0, "resume")
		if n := c.replicas("a"); n != 0 {
			return fmt.Errorf("the replaced version has %d replicas", n)
		}
		return nil
	})
	s.exits(0, "run", "--version", "3.0", "--until", "traffic@100")
	shares(50, 50)
	c.drift(20, 80) // a return asks nobody
	s.exits(0, "revert", "--version", "3.0")
	shares(0, 100)
	doc, _ := s.status()
	if doc.Rollout.Status != state.Returned || doc.Passes[0].Serving != state.SlotB || c.replicas("b") != 8 {
		t.Errorf("ended as %s, with slot %s serving by %d replicas", doc.Rollout.Status, doc.Passes[0].Serving, c.replicas("b"))
	}
}

// drift is somebody else who sets weights, those of slot a first.
func (c *controllers) drift(weights ...int) {
	like, rules, entries := c.route()
	c.Edit(like, "kubectl-edit", func(o map[string]any) {
		rule := o["spec"].(map[string]any)[rules].([]any)[0].(map[string]any)
		for i, w := range weights {
			rule[entries].([]any)[i].(map[string]any)["weight"] = w
		}
	})
}
