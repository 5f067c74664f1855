package kubernetes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	lend "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/process"
)

// credential is what a program gave.
type credential struct {
	token     string
	cert, key []byte
	ends      time.Time
}

// API: client.authentication.k8s.io, whose v1 and v1beta1 are alike.
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
const (
	lendGroup = "client.authentication.k8s.io/"
	lendEnv   = "KUBERNETES_EXEC_INFO"
	maxLent   = 1 << 20 // bytes of an answer
	stopGrace = 500 * time.Millisecond
)

// machine refuses a program that a pipeline cannot use, and forgets one that
// is not needed: another credential comes first.
func machine(cfg *rest.Config) error {
	e := cfg.ExecProvider
	switch {
	case e == nil:
	case cfg.BearerToken != "" || cfg.BearerTokenFile != "" || cfg.Username != "" || len(cfg.CertData) > 0 || cfg.CertFile != "":
		cfg.ExecProvider = nil
	case e.APIVersion != lendGroup+"v1" && e.APIVersion != lendGroup+"v1beta1":
		return invalid(fmt.Errorf("exec of the kubeconfig: apiVersion %q of %s, expected %sv1 or v1beta1", e.APIVersion, e.Command, lendGroup), "")
	case e.InteractiveMode == clientcmdapi.AlwaysExecInteractiveMode:
		return invalid(fmt.Errorf("exec of the kubeconfig: %s has interactiveMode Always, and a pipeline has nobody to ask", e.Command), "use credentials for machines: a service account's token, or a program that needs no terminal")
	}
	return nil
}

// borrow asks the program that the kubeconfig names, within the timeout of a
// request and the caller's context; it is stopped with all that it started.
// client-go runs it without any limit. It has no terminal, and the
// environment of this process.
func (c *Client) borrow(ctx context.Context, cfg *rest.Config) (credential, error) {
	e := cfg.ExecProvider
	question, err := ask(cfg)
	if err != nil {
		return credential{}, c.notLent(e, err)
	}
	env := os.Environ()
	for _, v := range e.Env {
		env = append(env, v.Name+"="+v.Value)
	}
	reply, err := process.Ask(ctx, process.Program{
		Args: append([]string{filepath.Clean(e.Command)}, e.Args...), Env: append(env, lendEnv+"="+question),
		Limit: maxLent, Timeout: c.opts.Timeout, Secrets: &c.redact, Grace: stopGrace,
		Log: func(line string) { c.opts.Log("kubernetes: %s: %s", filepath.Base(e.Command), oneLine(line)) },
	})
	switch {
	case ctx.Err() != nil:
		return credential{}, &providers.Fault{Kind: providers.Unknown, Err: fmt.Errorf("no credentials: %s, which the kubeconfig names under exec, was stopped: %w", e.Command, ctx.Err())}
	case err != nil:
		return credential{}, c.notLent(e, err)
	case reply.Exit != 0:
		return credential{}, c.notLent(e, fmt.Errorf("exit code %d%s", reply.Exit, quote(reply.Tail)))
	}
	got, err := lent(e.APIVersion, reply.Out)
	if err != nil {
		return credential{}, c.notLent(e, err)
	}
	return got, nil
}

// notLent: nothing was sent to the API server.
func (c *Client) notLent(e *clientcmdapi.ExecConfig, err error) error {
	f := &providers.Fault{
		Kind: providers.Unavailable, Hint: "run the program that the kubeconfig names under exec, without a terminal, and see what it says",
		Err: errors.New(c.clean(fmt.Sprintf("no credentials: %s, which the kubeconfig names under exec: %v", e.Command, err))),
	}
	if providers.KindOf(err) == providers.Invalid { // it could not be started
		f.Kind = providers.Denied
		f.Hint = oneLine(cmp.Or(e.InstallHint, "install the program that the kubeconfig names under exec, or use a kubeconfig with a token"))
	}
	return f
}

// ask is what the program is told.
func ask(cfg *rest.Config) (string, error) {
	e := cfg.ExecProvider
	question := lend.ExecCredential{TypeMeta: metav1.TypeMeta{Kind: "ExecCredential", APIVersion: e.APIVersion}}
	if e.ProvideClusterInfo {
		known, err := rest.ConfigToExecCluster(cfg)
		if err != nil {
			return "", err
		}
		question.Spec.Cluster = &lend.Cluster{
			Server: known.Server, TLSServerName: known.TLSServerName, CertificateAuthorityData: known.CertificateAuthorityData,
			ProxyURL: known.ProxyURL, DisableCompression: known.DisableCompression, Config: runtime.RawExtension{Object: known.Config},
		}
	}
	data, err := json.Marshal(question)
	return string(data), err
}

// lent reads what the program printed.
func lent(version string, out []byte) (credential, error) {
	var c lend.ExecCredential
	switch err := json.NewDecoder(bytes.NewReader(out)).Decode(&c); {
	case err != nil:
		return credential{}, errors.New("what it printed is no JSON") // the error might quote it
	case c.Kind != "ExecCredential" || c.APIVersion != version:
		return credential{}, fmt.Errorf("it printed %s %s, expected ExecCredential %s", c.Kind, c.APIVersion, version)
	case c.Status == nil || c.Status.Token == "" && c.Status.ClientCertificateData == "":
		return credential{}, errors.New("it printed neither a token nor a certificate")
	case (c.Status.ClientCertificateData == "") != (c.Status.ClientKeyData == ""):
		return credential{}, errors.New("it printed a certificate or a key, expected both")
	}
	got := credential{token: c.Status.Token, cert: []byte(c.Status.ClientCertificateData), key: []byte(c.Status.ClientKeyData)}
	if c.Status.ExpirationTimestamp != nil {
		got.ends = c.Status.ExpirationTimestamp.Time
	}
	return got, nil
}

// quote is the last line that the program logged.
func quote(tail []string) string {
	if len(tail) == 0 {
		return ""
	}
	return "; it last logged: " + tail[len(tail)-1]
}
