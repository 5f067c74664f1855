//go:build peers

package kubetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Users of the real API server, by their tokens.
const (
	Admin      = "admin-token"      // may do anything
	CI         = "hush-hush-token"  // what manent runs as: nothing by default; the user is ci
	Controller = "controller-token" // of a Gateway API implementation: anything
)

// Cluster is a real kube-apiserver on a real etcd, on loopback. There is no
// kubelet and no controller of the cluster itself.
type Cluster struct {
	URL       string
	Authority []byte
	Admin     dynamic.Interface // as Admin; field manager by call

	dir   string
	stops []func()
}

// Start starts a cluster without custom resources. Stop it.
func Start() (*Cluster, error) {
	dir, err := os.MkdirTemp("", "manent-kube-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir}
	if err := c.start(); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// Stop ends what Start started.
func (c *Cluster) Stop() {
	for _, stop := range c.stops {
		stop()
	}
	_ = os.RemoveAll(c.dir) // it is a temporary folder
}

func (c *Cluster) start() error {
	if err := c.secrets(); err != nil {
		return err
	}
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	etcd := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	peer := fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	err = c.run("etcd", "--data-dir", c.file("etcd"), "--unsafe-no-fsync", "--log-level", "error",
		"--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	if err != nil {
		return err
	}
	err = c.run("kube-apiserver", "--etcd-servers", etcd, "--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(ports[2]),
		"--tls-cert-file", c.file("server.crt"), "--tls-private-key-file", c.file("server.key"), "--token-auth-file", c.file("tokens"),
		"--authorization-mode", "RBAC", "--disable-admission-plugins", "ServiceAccount", "--endpoint-reconciler-type", "none",
		"--service-account-issuer", "https://127.0.0.1", "--service-account-key-file", c.file("server.key"), "--service-account-signing-key-file", c.file("server.key"),
		"--service-cluster-ip-range", "10.0.0.0/24", "--advertise-address", "127.0.0.1")
	if err != nil {
		return err
	}
	c.URL = fmt.Sprintf("https://127.0.0.1:%d", ports[2])
	return c.ready()
}

func (c *Cluster) file(name string) string { return filepath.Join(c.dir, name) }

// find looks for a program where make peers puts it, and in PATH.
func find(name string) (string, error) {
	if path := filepath.Join(os.Getenv("MANENT_PEERS_BIN"), name); os.Getenv("MANENT_PEERS_BIN") != "" {
		if _, err := os.Stat(path); err == nil { //nolint:gosec // where the Makefile puts programs
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: run make peers, and set MANENT_PEERS_BIN as make test-peers does", err)
	}
	return path, nil
}

// run starts a program that ends with this process, however that ends: a shell
// waits for the end of its standard input.
func (c *Cluster) run(name string, args ...string) error {
	program, err := find(name)
	if err != nil {
		return err
	}
	log, err := os.Create(c.file(name + ".log"))
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.Background(), "sh", append([]string{"-c", `"$@" </dev/null & read -r _; kill -9 $!`, "sh", program}, args...)...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, c.dir
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	c.stops = append(c.stops, func() {
		_ = stdin.Close()
		_ = cmd.Wait() // it was killed
		_ = log.Close()
	})
	return nil
}

// ready waits for the API server.
func (c *Cluster) ready() error {
	cfg := c.config(Admin)
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		said, err := get(ctx, web, c.URL+"/readyz")
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(c.file("kube-apiserver.log"))
			return fmt.Errorf("kube-apiserver is not ready: %w, %s: %s", err, said, log[max(0, len(log)-2000):])
		case <-time.After(50 * time.Millisecond):
		}
	}
	c.Admin, err = dynamic.NewForConfigAndClient(cfg, web)
	return err
}

func get(ctx context.Context, web *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := web.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(bytes.TrimSpace(body)), err
}

func (c *Cluster) config(token string) *rest.Config {
	return &rest.Config{Host: c.URL, BearerToken: token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: c.Authority}}
}

// As is a client with another token.
func (c *Cluster) As(token string) (dynamic.Interface, error) {
	return dynamic.NewForConfig(c.config(token))
}

func freePorts(n int) ([]int, error) {
	var out []int
	for range n {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }()
		out = append(out, l.Addr().(*net.TCPAddr).Port)
	}
	return out, nil
}
