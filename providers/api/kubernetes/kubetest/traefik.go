//go:build peers

package kubetest

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Traefik starts the Gateway API implementation of that name with one entry
// point, and makes its GatewayClass. It can only reach endpoints that are no
// loopback addresses.
func (c *Cluster) Traefik(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	config := fmt.Sprintf(`entryPoints: {web: {address: "127.0.0.1:%s"}}
log: {level: INFO, noColor: true}
global: {checkNewVersion: false, sendAnonymousUsage: false}
providers:
  providersThrottleDuration: 100ms
  kubernetesGateway: {endpoint: %q, token: %q, certAuthFilePath: %q}
`, port, c.URL, Controller, c.file("server.crt"))
	if err := os.WriteFile(c.file("traefik.yml"), []byte(config), 0o600); err != nil {
		return err
	}
	class := map[string]any{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": map[string]any{"name": "traefik"},
		"spec": map[string]any{"controllerName": "traefik.io/gateway-controller"},
	}
	classes := c.Admin.Resource(schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gatewayclasses"})
	if _, err := classes.Create(context.Background(), &unstructured.Unstructured{Object: class}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := c.run("traefik", "--configFile="+c.file("traefik.yml")); err != nil {
		return err
	}
	return wait(func() (bool, error) {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.Background(), "tcp", address)
		if err != nil {
			return false, err
		}
		return true, conn.Close()
	})
}

// Gateway is one listener of Traefik, for the routes of its namespace. Its
// port is the entry point's.
func Gateway(name string, port int) map[string]any {
	return Object("gateway.networking.k8s.io/v1", "Gateway", name, map[string]any{"spec": map[string]any{
		"gatewayClassName": "traefik",
		"listeners":        []any{map[string]any{"name": "web", "protocol": "HTTP", "port": port}},
	}})
}
