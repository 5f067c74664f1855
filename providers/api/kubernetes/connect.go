package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/manent/action/providers"
)

// accountDir is where a pod finds its service account.
const accountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// find reads the kubeconfig, once.
func (c *Client) find() (*found, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.found != nil {
		return c.found, nil
	}
	f, err := c.opts.config()
	if err != nil {
		return nil, err
	}
	if err := strict(f.config); err != nil {
		return nil, err
	}
	f.cluster.Server = f.config.Host
	c.found = f
	return f, nil
}

// connect returns a connection, and whether it was there before. Only one is
// made at a time.
func (c *Client) connect(ctx context.Context) (live *connection, kept bool, err error) {
	f, err := c.find()
	if err != nil {
		return nil, false, err
	}
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, false, &providers.Fault{Kind: providers.Unknown, Err: fmt.Errorf("no credentials: %w", ctx.Err())}
	}
	defer func() { <-c.turn }()
	if live = c.present(); live != nil {
		return live, true, nil
	}
	if live, err = c.dial(ctx, f.config); err != nil {
		return nil, false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = live
	return live, false, nil
}

// lastUse is what lent credentials must still last to be used.
const lastUse = 5 * time.Second

func (c *Client) present() *connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live != nil && !c.live.ends.IsZero() && time.Until(c.live.ends) < lastUse {
		c.live = nil
	}
	return c.live
}

// drop forgets a connection, unless there is another by now.
func (c *Client) drop(old *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == old {
		c.live = nil
	}
}

// dial makes the clients of the kubeconfig. Nothing is sent yet.
func (c *Client) dial(ctx context.Context, found *rest.Config) (*connection, error) {
	live, cfg := &connection{}, rest.CopyConfig(found)
	if cfg.ExecProvider != nil {
		got, err := c.borrow(ctx, cfg)
		if err != nil {
			return nil, err
		}
		live.lent, live.ends = true, got.ends
		cfg.BearerToken, cfg.CertData, cfg.KeyData, cfg.ExecProvider = got.token, got.cert, got.key, nil
	}
	cfg.QPS = -1 // a step sends a handful of requests; the server says when it is too much
	cfg.UserAgent = FieldManager
	cfg.WarningHandler = warnings(c.opts.Log)
	cfg.Wrap(c.wrap)
	cfg = dynamic.ConfigFor(cfg)
	way, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, invalid(err, "")
	}
	// Credentials are put on by the transport, so that whatever a redirect
	// names would get them, and a patch too.
	web := &http.Client{Transport: way, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if live.objects, err = dynamic.NewForConfigAndClient(cfg, web); err != nil {
		return nil, invalid(err, "")
	}
	if live.raw, err = rest.UnversionedRESTClientForConfigAndClient(cfg, web); err != nil {
		return nil, invalid(err, "")
	}
	return live, nil
}

// strict refuses a connection that anybody on the way could read or change.
func strict(cfg *rest.Config) error {
	if !strings.Contains(cfg.Host, "://") {
		cfg.Host = "https://" + cfg.Host // as client-go would: there are credentials
	}
	if _, err := providers.CheckURL(cfg.Host, false); err != nil {
		return invalid(fmt.Errorf("server %w", err), "use the https address of the API server")
	}
	if cfg.Insecure {
		return invalid(errors.New("the kubeconfig has insecure-skip-tls-verify, which shows the credentials to whoever answers"), "give the cluster's certificate-authority-data instead")
	}
	return machine(cfg)
}

func invalid(err error, hint string) error {
	return &providers.Fault{Kind: providers.Invalid, Err: err, Hint: hint}
}

// config finds the kubeconfig in kubectl's order.
func (o Options) config() (*found, error) {
	rules := &clientcmd.ClientConfigLoadingRules{Warner: func(error) {}}
	var source string
	home := filepath.Join(o.Getenv("HOME"), ".kube", "config")
	switch {
	case o.Kubeconfig != "":
		rules.Precedence, source = []string{o.path(o.Kubeconfig)}, "kubeconfig "+o.path(o.Kubeconfig)
	case o.Getenv("KUBECONFIG") != "":
		source = "KUBECONFIG " + o.Getenv("KUBECONFIG")
		for _, file := range filepath.SplitList(o.Getenv("KUBECONFIG")) {
			rules.Precedence = append(rules.Precedence, o.path(file))
		}
	case o.Getenv("HOME") != "" && exists(home):
		rules.Precedence, source = []string{home}, home
	case o.Getenv("KUBERNETES_SERVICE_HOST") != "":
		return o.inCluster(accountDir)
	default:
		return nil, invalid(errors.New("no kubeconfig and no service account of a pod"), "set KUBECONFIG, or the setting kubeconfig")
	}
	if !slices.ContainsFunc(rules.Precedence, exists) { // kubectl takes it for an empty one
		return nil, invalid(fmt.Errorf("there is no file of %s", source), o.elsewhere())
	}
	files, err := rules.Load()
	if err != nil {
		return nil, invalid(fmt.Errorf("%s: %w", source, err), "kubectl config view reads the same files, and says more")
	}
	return o.pick(files, source)
}

// elsewhere says what to do about a kubeconfig that is not there.
func (o Options) elsewhere() string {
	if o.Kubeconfig != "" {
		return "correct the setting kubeconfig, whose relative paths begin in the workspace, or leave it out: then KUBECONFIG or ~/.kube/config counts"
	}
	return "correct KUBECONFIG, or name the file with the setting kubeconfig"
}

func (o Options) path(file string) string {
	if filepath.IsAbs(file) || o.Dir == "" {
		return file
	}
	return filepath.Join(o.Dir, file)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// pick takes one context of the kubeconfig.
func (o Options) pick(files *clientcmdapi.Config, source string) (*found, error) {
	name := o.Context
	if name == "" {
		name = files.CurrentContext
	}
	chosen, ok := files.Contexts[name]
	have := slices.Sorted(maps.Keys(files.Contexts))
	switch {
	case len(have) == 0:
		return nil, invalid(fmt.Errorf("%s has no contexts", source), "see whether this is the kubeconfig that was meant: kubectl config get-contexts shows them")
	case !ok && name == "":
		return nil, invalid(fmt.Errorf("%s has no current context, it has %q", source, have), "name one of them with the setting context")
	case !ok:
		return nil, invalid(fmt.Errorf("%s has no context %q, it has %q", source, name, have), "name one of them with the setting context")
	case files.Clusters[chosen.Cluster] == nil:
		return nil, invalid(fmt.Errorf("context %q: there is no cluster %q in %s", name, chosen.Cluster, source), "name another context, or add the cluster: kubectl config view shows both")
	}
	loader := clientcmd.NewNonInteractiveClientConfig(*files, name, &clientcmd.ConfigOverrides{}, nil)
	cfg, err := loader.ClientConfig()
	if err != nil {
		return nil, invalid(fmt.Errorf("context %q of %s: %w", name, source, err), "")
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, invalid(fmt.Errorf("context %q of %s: %w", name, source, err), "")
	}
	return &found{config: cfg, namespace: namespace, cluster: Cluster{Context: name, Current: o.Context == "", Source: source}}, nil
}

// inCluster is what a pod is given: client-go reads the token anew when it is
// replaced.
func (o Options) inCluster(dir string) (*found, error) {
	if o.Context != "" {
		return nil, invalid(fmt.Errorf("context %q, but there is no kubeconfig: the pod's own service account has no contexts", o.Context), "leave the setting context out, or give a kubeconfig")
	}
	namespace, err := os.ReadFile(filepath.Join(dir, "namespace"))
	if err != nil {
		return nil, invalid(fmt.Errorf("service account of the pod: %w", err), "mount it (automountServiceAccountToken), or give a kubeconfig")
	}
	cfg := &rest.Config{
		Host:            "https://" + net.JoinHostPort(o.Getenv("KUBERNETES_SERVICE_HOST"), o.Getenv("KUBERNETES_SERVICE_PORT")),
		BearerTokenFile: filepath.Join(dir, "token"),
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(dir, "ca.crt")},
	}
	return &found{config: cfg, namespace: strings.TrimSpace(string(namespace)), cluster: Cluster{Source: "the pod's own service account"}}, nil
}

// warnings hands on what the server says beside its answer.
type warnings func(format string, args ...any)

// HandleWarningHeader implements rest.WarningHandler.
func (w warnings) HandleWarningHeader(_ int, _, text string) {
	w("kubernetes: the cluster warns: %s", oneLine(text))
}
