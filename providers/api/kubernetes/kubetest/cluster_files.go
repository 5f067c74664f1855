//go:build peers

package kubetest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Modules that have the custom resource definitions, with where in them.
const (
	GatewayAPI = "sigs.k8s.io/gateway-api@v1.6.3" // config/crd/standard
	Istio      = "istio.io/api@v1.32.0"           // kubernetes/customresourcedefinitions.gen.yaml
)

// secrets writes the server's key, its certificate and the tokens.
func (c *Cluster) secrets() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kube-apiserver of a test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	c.Authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	for name, data := range map[string][]byte{
		"server.crt": c.Authority,
		"server.key": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
		"tokens":     fmt.Appendf(nil, "%s,admin,1,\"system:masters\"\n%s,ci,2\n%s,controller,3,\"system:masters\"\n", Admin, CI, Controller),
	} {
		if err := os.WriteFile(c.file(name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Install installs the custom resource definitions of a module, those of the
// kinds given or all, and waits until they are served.
func (c *Cluster) Install(module string, kinds ...string) error {
	files, err := definitions(module)
	if err != nil {
		return err
	}
	crds := c.Admin.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	var names []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, doc := range strings.Split(string(data), "\n---\n") {
			var o map[string]any
			if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			kind, _, _ := unstructured.NestedString(o, "spec", "names", "kind")
			if o["kind"] != "CustomResourceDefinition" || len(kinds) > 0 && !strings.Contains(" "+strings.Join(kinds, " ")+" ", " "+kind+" ") {
				continue
			}
			made, err := crds.Create(context.Background(), &unstructured.Unstructured{Object: plain(o)}, metav1.CreateOptions{FieldManager: "kubectl"})
			if err != nil {
				return err
			}
			names = append(names, made.GetName())
		}
	}
	for _, name := range names {
		if err := wait(func() (bool, error) {
			o, err := crds.Get(context.Background(), name, metav1.GetOptions{})
			return err == nil && strings.Contains(fmt.Sprint(o.Object["status"]), "Established"), err
		}); err != nil {
			return fmt.Errorf("definition %s: %w", name, err)
		}
	}
	return nil
}

// definitions are the files of a module that have them.
func definitions(module string) ([]string, error) {
	cmd := exec.CommandContext(context.Background(), "go", "mod", "download", "-json", module)
	cmd.Dir = os.TempDir() // outside of any module
	out, err := cmd.Output()
	var answer struct{ Dir, Error string }
	if err == nil {
		err = json.Unmarshal(out, &answer)
	}
	if err != nil {
		return nil, fmt.Errorf("go mod download %s: %w: %s", module, err, out)
	}
	if module == Istio {
		return []string{filepath.Join(answer.Dir, "kubernetes", "customresourcedefinitions.gen.yaml")}, nil
	}
	return filepath.Glob(filepath.Join(answer.Dir, "config", "crd", "standard", "gateway*_*s.yaml"))
}

// wait polls for a minute.
func wait(ok func() (bool, error)) error {
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	for {
		yes, err := ok()
		if yes {
			return nil
		}
		select {
		case <-deadline.C:
			return fmt.Errorf("not within a minute: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
