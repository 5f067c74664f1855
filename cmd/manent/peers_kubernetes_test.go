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
  settings: {service: shop, http_route: web, manifests: deploy, settle: 0s}
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

// controllers plays those of Deployments, EndpointSlices and routes on a real
// API server that has none, and watches that no share comes before its
// capacity.
type controllers struct {
	*kubetest.Space
	mu   sync.Mutex
	seen []string // what is wrong
	most map[string]int

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

// weights are the shares of the route's slots; a route that has changed is
// accepted.
func (c *controllers) weights(ctx context.Context) map[string]float64 {
	o := c.get(ctx, "gateway.networking.k8s.io", "v1", "httproutes", "web")
	if o == nil {
		return nil
	}
	parents, _, _ := unstructured.NestedSlice(o.Object, "status", "parents")
	if text := fmt.Sprint(parents); !strings.Contains(text, fmt.Sprintf("observedGeneration:%d ", o.GetGeneration())) {
		c.Accept(kubetest.HTTPRoute("web"))
	}
	out := map[string]float64{}
	rules, _, _ := unstructured.NestedSlice(o.Object, "spec", "rules")
	for _, ref := range rules[0].(map[string]any)["backendRefs"].([]any) {
		name, _ := ref.(map[string]any)["name"].(string)
		weight, _ := ref.(map[string]any)["weight"].(int64)
		out[strings.TrimPrefix(name, "shop-")] = float64(weight)
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

func (c *controllers) replicas(slot string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most[slot]
}

// kubernetes prepares a namespace of a real API server with a route, and
// allows what doctor prints, and nothing else.
func (s *shop) kubernetes() *controllers {
	s.t.Helper()
	cluster, err := kubetest.Start()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(cluster.Stop)
	if err := cluster.Install(kubetest.GatewayAPI, "HTTPRoute"); err != nil {
		s.t.Fatal(err)
	}
	c := &controllers{most: map[string]int{}, Space: cluster.Space(s.t, kubetest.HTTPRoute("web", map[string]any{"backendRefs": kubetest.Refs()}))}
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
	s.t.Cleanup(func() { stop(); playing.Wait() })
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
func TestPeersKubernetes(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	c := s.kubernetes()
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
	s.exits(0, "revert", "--version", "3.0")
	shares(0, 100)
	doc, _ := s.status()
	if doc.Rollout.Status != state.Returned || doc.Passes[0].Serving != state.SlotB || c.replicas("b") != 8 {
		t.Errorf("ended as %s, with slot %s serving by %d replicas", doc.Rollout.Status, doc.Passes[0].Serving, c.replicas("b"))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, wrong := range c.seen {
		t.Error(wrong)
	}
}
