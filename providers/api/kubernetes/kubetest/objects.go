package kubetest

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// Kubeconfig writes a kubeconfig for a server, with a token, and returns its
// path. Its one context is named test, of namespace shop. Without TLS client-go
// would not send the token.
func Kubeconfig(t testing.TB, server, token string, authority []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
clusters:
- name: test
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: ci
  user:
    token: %s
contexts:
- name: test
  context: {cluster: test, user: ci, namespace: shop}
`, server, base64.StdEncoding.EncodeToString(authority), token)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Authority is the certificate of a test's server, in PEM.
func Authority(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// Object makes a document of namespace shop.
func Object(version, kind, name string, rest map[string]any) map[string]any {
	o := map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name, "namespace": "shop"}}
	for key, value := range rest {
		o[key] = value
	}
	return o
}

// HTTPRoute is a route to shop-a and shop-b with these rules.
func HTTPRoute(name string, rules ...any) map[string]any {
	return Object("gateway.networking.k8s.io/v1", "HTTPRoute", name, map[string]any{"spec": map[string]any{
		"parentRefs": []any{map[string]any{"name": "edge"}}, "rules": rules,
	}})
}

// Refs are the backendRefs of both slots, all weight on a.
func Refs() []any {
	return []any{
		map[string]any{"name": "shop-a", "port": 80, "weight": 100},
		map[string]any{"name": "shop-b", "port": 80, "weight": 0},
	}
}

// VirtualService has these http entries.
func VirtualService(name string, http ...any) map[string]any {
	return Object("networking.istio.io/v1", "VirtualService", name, map[string]any{"spec": map[string]any{
		"hosts": []any{"shop"}, "http": http,
	}})
}

// Destinations are both subsets, all weight on a.
func Destinations() []any {
	to := func(subset string, weight int) map[string]any {
		return map[string]any{"destination": map[string]any{"host": "shop", "subset": subset}, "weight": weight}
	}
	return []any{to("a", 100), to("b", 0)}
}

// DestinationRule has the subsets a and b of shop.
func DestinationRule() map[string]any {
	subset := func(slot string) map[string]any {
		return map[string]any{"name": slot, "labels": map[string]any{"manent.io/track": slot}}
	}
	return Object("networking.istio.io/v1", "DestinationRule", "shop", map[string]any{"spec": map[string]any{
		"host": "shop", "subsets": []any{subset("a"), subset("b")},
	}})
}

// Service of the name, without selector if that is empty.
func Service(name string, selector map[string]any) map[string]any {
	spec := map[string]any{"ports": []any{map[string]any{"port": 80}}}
	if len(selector) > 0 {
		spec["selector"] = selector
	}
	return Object("v1", "Service", name, map[string]any{"spec": spec})
}

// EndpointSlice of a Service with ready addresses.
func EndpointSlice(service string, addresses ...string) map[string]any {
	var endpoints []any
	for _, a := range addresses {
		endpoints = append(endpoints, map[string]any{"addresses": []any{a}, "conditions": map[string]any{"ready": true}})
	}
	o := Object("discovery.k8s.io/v1", "EndpointSlice", service+"-1", map[string]any{
		"addressType": "IPv4", "ports": []any{map[string]any{"port": 8080}}, "endpoints": endpoints,
	})
	o["metadata"].(map[string]any)["labels"] = map[string]any{"kubernetes.io/service-name": service}
	return o
}

// Pod is a ready pod with these labels.
func Pod(name string, labels map[string]any) map[string]any {
	o := Object("v1", "Pod", name, map[string]any{
		"spec":   map[string]any{"containers": []any{map[string]any{"name": "app", "image": "example.net/app"}}},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
	})
	o["metadata"].(map[string]any)["labels"] = labels
	return o
}
