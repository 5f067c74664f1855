package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/kubernetes/kubetest"
	"github.com/manent/action/providers/api/kubernetes/patch"
)

var web = Ref{GroupVersionResource: schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}, Namespace: "shop", Name: "web"}

// serve starts a server and returns a client of it.
func serve(t *testing.T, h http.HandlerFunc, change ...func(*Options)) *Client {
	t.Helper()
	server := httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	o := Options{Provider: "kubernetes", Timeout: 5 * time.Second, Kubeconfig: kubetest.Kubeconfig(t, server.URL, kubetest.Token, kubetest.Authority(server))}
	for _, c := range change {
		c(&o)
	}
	return New(o)
}

func check(t *testing.T, err error, kind providers.Kind, words ...string) {
	t.Helper()
	f, ok := err.(*providers.Fault) //nolint:errorlint // the client returns it as it is
	if !ok {
		t.Fatalf("error %v, want a Fault", err)
	}
	text := f.Error() + "\nhint: " + f.Hint
	if f.Kind != kind {
		t.Errorf("kind %v, want %v: %s", f.Kind, kind, text)
	}
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("error without %q: %s", w, text)
		}
	}
	if strings.Contains(text, kubetest.Token) || strings.Contains(f.Error(), "\n") {
		t.Errorf("error with a token or several lines: %q", text)
	}
}

func TestAnswers(t *testing.T) {
	status := func(code int, reason, message string) string {
		return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":%q,"code":%d,"details":{"retryAfterSeconds":7}}`, reason, message, code)
	}
	tests := []struct {
		name  string
		code  int
		body  string
		kind  providers.Kind
		words []string
		after time.Duration
	}{
		{"unauthorized", 401, status(401, "Unauthorized", "Unauthorized"), providers.Denied, []string{"read httproutes shop/web: status 401", "renew the token"}, 0},
		{"forbidden", 403, status(403, "Forbidden", `httproutes.gateway.networking.k8s.io "web" is forbidden: User "ci" cannot get resource "httproutes"`), providers.Denied,
			[]string{`User "ci" cannot get`, `allow it in RBAC: {apiGroups: ["gateway.networking.k8s.io"], resources: ["httproutes"], verbs: [get]} in a Role of namespace shop`}, 0},
		{"refused by a webhook", 403, status(403, "Forbidden", `admission webhook "policy.example.net" denied the request: no`), providers.Denied, []string{"not RBAC"}, 0},
		{"not found", 404, status(404, "NotFound", `httproutes.gateway.networking.k8s.io "web" not found`), providers.NotFound, []string{`"web" not found`}, 0},
		{"conflict", 409, status(409, "Conflict", "Apply failed with 1 conflict"), providers.Conflict, []string{"1 conflict"}, 0},
		{"invalid", 422, status(422, "Invalid", "spec.rules: Too many: 17"), providers.Invalid, []string{"Too many: 17"}, 0},
		{"bad request", 400, status(400, "BadRequest", `strict decoding error: unknown field "spec.x"`), providers.Invalid, []string{"unknown field"}, 0},
		{"throttled", 429, status(429, "TooManyRequests", "slow down"), providers.Throttled, []string{"slow down"}, 3 * time.Second},
		{"throttled in plain text", 429, "Too many requests, please try again later.", providers.Throttled, []string{"Too many requests"}, 3 * time.Second},
		{"server error", 500, status(500, "InternalError", "etcdserver: leader changed"), providers.Unavailable, []string{"leader changed"}, 3 * time.Second},
		{"unavailable", 503, "no\nbackend " + kubetest.Token, providers.Unavailable, []string{"no backend [redacted]"}, 3 * time.Second},
		{"not found by a proxy", 404, "<html>404 page not found</html>", providers.Unavailable, []string{"status 404 from something that is not the API server", "404 page not found", "what is between"}, 0},
		{"forbidden by a proxy", 403, `{"error":"no","kind":"Error"}`, providers.Unavailable, []string{"status 403 from something"}, 0},
		{"login of a proxy", 401, `{"kind":"Status","message":"log in"}`, providers.Unavailable, []string{"status 401 from something"}, 0},
		{"conflict of a proxy", 409, "", providers.Unavailable, []string{"status 409 from something"}, 0},
		{"invalid for a proxy", 422, `{"kind":"Status","apiVersion":"v1","status":"Success"}`, providers.Unavailable, []string{"status 422 from something"}, 0},
		{"too large for a proxy", 413, "<html>413</html>", providers.Unavailable, []string{"status 413 from something"}, 0},
		{"timed out inside", 504, status(504, "Timeout", "request did not complete within the allotted timeout"), providers.Unknown, []string{"allotted timeout"}, 3 * time.Second},
		{"no JSON", 200, "<html>login</html>", providers.Unknown, nil, 0},
		{"half an answer", 200, `{"kind":"HTTPRoute","apiVer`, providers.Unknown, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sent := 0
			c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				sent++
				w.Header().Set("Content-Type", "application/json")
				if !strings.HasPrefix(tt.body, "{") {
					w.Header().Set("Content-Type", "text/plain")
				}
				if tt.code == 429 || tt.code >= 500 {
					w.Header().Set("Retry-After", "3")
				}
				w.WriteHeader(tt.code)
				_, _ = w.Write([]byte(tt.body))
			})
			_, err := c.Get(t.Context(), web)
			check(t, err, tt.kind, tt.words...)
			if f, _ := err.(*providers.Fault); f.After != tt.after || sent != 1 { //nolint:errorlint // check has seen that it is one
				t.Errorf("come back after %v, want %v; sent %d times", f.After, tt.after, sent)
			}
		})
	}
}

func TestEndlessAnswer(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"x":"`))
		chunk := []byte(strings.Repeat("x", 1<<20))
		for range 64 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	_, err := c.Get(t.Context(), web)
	check(t, err, providers.Unknown, "longer than 16 MiB")
}

func TestOnTheWay(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	c := serve(t, hang, func(o *Options) { o.Timeout = 50 * time.Millisecond })
	_, err := c.Get(t.Context(), web)
	check(t, err, providers.Unknown, "no answer within 50ms from https://127.0.0.1:", `(context "test", the current one of kubeconfig /`, "name yours with the setting context")
	if providers.Lost(err) {
		t.Error("the client's own timeout is passed off as the caller's")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = serve(t, hang).Get(ctx, web)
	check(t, err, providers.Unknown, "no answer from https://127.0.0.1:", "): context deadline exceeded")
	if !providers.Lost(err) {
		t.Error("the caller's deadline is not in the chain")
	}

	gone := httptest.NewTLSServer(nil)
	gone.Close()
	other := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	c = New(Options{Timeout: time.Second, Kubeconfig: kubetest.Kubeconfig(t, gone.URL, "x", kubetest.Authority(gone))})
	_, err = c.Get(t.Context(), web)
	check(t, err, providers.Unavailable, "no connection to "+gone.URL+` (context "test", the current one of kubeconfig `, "connect: connection refused", "no context is set")
	c = New(Options{Timeout: time.Second, Kubeconfig: kubetest.Kubeconfig(t, strings.Replace(other.URL, "127.0.0.1", "127.0.0.2", 1), "x", kubetest.Authority(other))})
	_, err = c.Get(t.Context(), web) // no certificate for that address, and nothing may be listening
	check(t, err, providers.Unavailable)
}

// TestSaidOnce: requests that are made together say once who they are of, and
// which cluster does not answer.
func TestSaidOnce(t *testing.T) {
	gone := httptest.NewTLSServer(nil)
	gone.Close()
	c := New(Options{Provider: "kubernetes", Context: "test", Timeout: time.Second, Kubeconfig: kubetest.Kubeconfig(t, gone.URL, "x", kubetest.Authority(gone))})
	_, err := c.Lacks(t.Context(), "shop", []Grant{{Resource: "pods", Verbs: []string{"get", "list", "watch"}}})
	text := fmt.Sprint(err)
	if providers.KindOf(err) != providers.Unavailable || strings.Count(text, gone.URL) != 1 || strings.Count(text, "kubernetes: ") != 1 || !strings.HasSuffix(text, "connect: connection refused; the same of 2 more requests") {
		t.Error(text)
	}
	if hint := providers.HintOf(err); !strings.Contains(hint, "or name another cluster with the settings context and kubeconfig") {
		t.Error(hint)
	}
	no := func(what string) error {
		return &providers.Fault{Provider: "kubernetes", Op: what, Kind: providers.NotFound, Err: errors.New("no " + what)}
	}
	if text := Join(nil, no("read a"), no("read b")).Error(); text != "kubernetes: read a: no read a; read b: no read b" {
		t.Error(text)
	}
	if text := Bare(&providers.Fault{Op: "look", Err: Join(no("read a"), no("read b"))}).Error(); text != "look: read a: no read a; read b: no read b" {
		t.Error(text)
	}
}

// TestRequests holds what is sent, by method.
func TestRequests(t *testing.T) {
	var got []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, r.ContentLength+1)
		n, _ := r.Body.Read(body)
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", r.Method, r.URL, r.Header.Get("Content-Type"), body[:max(n, 0)])))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Warning", `299 - "old"`)
		if r.URL.Path == "/apis" {
			_, _ = w.Write([]byte(`{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"x"},{"name":"networking.istio.io","versions":[{"version":"v1beta1"},{"version":"v1"}]}]}`))
			return
		}
		_, _ = w.Write([]byte(`{"kind":"X","apiVersion":"v1","metadata":{"name":"web"}}`))
	}, func(o *Options) {
		o.Log = func(format string, args ...any) { got = append(got, fmt.Sprintf(format, args...)) }
	})
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "X"}}
	service := Ref{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "services"}, Namespace: "shop", Name: "shop"}
	deployment := Ref{GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Namespace: "shop", Name: "shop-a"}
	for _, do := range []func() error{
		func() error { _, err := c.Get(t.Context(), service); return err },
		func() error {
			_, err := c.Patch(t.Context(), web, []patch.Op{patch.Test(3, "metadata", "generation")})
			return err
		},
		func() error { _, err := c.Apply(t.Context(), service, obj, false); return err },
		func() error { return c.Scale(t.Context(), deployment, 3) },
		func() error {
			v, err := c.Version(t.Context(), "networking.istio.io", "v1", "v1beta1")
			got = append(got, v)
			return err
		},
		func() error {
			v, err := c.Version(t.Context(), "networking.istio.io", "v1beta1") // asked before
			got = append(got, v)
			return err
		},
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	const warning = "kubernetes: the cluster warns: old"
	want := []string{
		"GET /api/v1/namespaces/shop/services/shop", warning,
		`PATCH /apis/gateway.networking.k8s.io/v1/namespaces/shop/httproutes/web?fieldManager=manent&fieldValidation=Strict application/json-patch+json [{"op":"test","path":"/metadata/generation","value":3}]`, warning,
		`PATCH /api/v1/namespaces/shop/services/shop?fieldManager=manent&fieldValidation=Strict&force=false application/apply-patch+yaml {"apiVersion":"v1","kind":"X"}`, warning,
		`PATCH /apis/apps/v1/namespaces/shop/deployments/shop-a/scale?fieldManager=manent&fieldValidation=Strict application/merge-patch+json {"spec":{"replicas":3}}`, warning,
		"GET /apis", warning, "v1", "v1beta1",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("requests\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestHide(t *testing.T) {
	hidden := ""
	notFound := func(w http.ResponseWriter, _ *http.Request) { kubetest.Refuse(w, "no", http.StatusNotFound) }
	c := serve(t, notFound, func(o *Options) { o.Hide = func(s providers.Secret) error { hidden += s.Reveal(); return nil } })
	for range 2 {
		if _, err := c.Get(t.Context(), web); providers.KindOf(err) != providers.NotFound || hidden != kubetest.Token {
			t.Errorf("%v, hidden %q, want the token once", err, hidden)
		}
	}
	sent := false
	c = serve(t, func(http.ResponseWriter, *http.Request) { sent = true }, func(o *Options) { o.Hide = func(providers.Secret) error { return fmt.Errorf("no mask") } })
	if _, err := c.Get(t.Context(), web); err == nil || sent {
		t.Errorf("%v, sent %v: a token that cannot be hidden was used", err, sent)
	}
}

const config = `apiVersion: v1
kind: Config
current-context: one
clusters:
- {name: c, cluster: {server: "%s"%s}}
users:
- {name: u, user: {%s}}
contexts:
- {name: one, context: {cluster: c, user: u}}
- {name: two, context: {cluster: c, user: u, namespace: prod}}
- {name: three, context: {cluster: absent, user: u}}
`

func write(t *testing.T, dir, name, format string, args ...any) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, fmt.Appendf(nil, format, args...), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestKubeconfig(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "kube", config, "https://127.0.0.1:1", "", "token: x")
	write(t, dir, "home/.kube/config", config, "https://127.0.0.1:2", "", "token: x")
	insecure := write(t, dir, "insecure", config, "https://127.0.0.1:1", ", insecure-skip-tls-verify: true", "token: x")
	http := write(t, dir, "http", config, "http://192.0.2.1", "", "token: x")
	broken := write(t, dir, "broken", "x: [")
	only := write(t, dir, "only", "apiVersion: v1\nkind: Config\n")
	env := func(pairs ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	home := filepath.Join(dir, "home")
	tests := []struct {
		name      string
		options   Options
		host      string
		namespace string
		err       string
	}{
		{"setting", Options{Kubeconfig: file, Getenv: env("KUBECONFIG", broken, "HOME", home)}, "https://127.0.0.1:1", "default", ""},
		{"setting, relative", Options{Kubeconfig: "kube", Dir: dir}, "https://127.0.0.1:1", "default", ""},
		{"environment", Options{Getenv: env("KUBECONFIG", filepath.Join(dir, "absent")+string(filepath.ListSeparator)+file, "HOME", home)}, "https://127.0.0.1:1", "default", ""},
		{"home", Options{Getenv: env("HOME", home, "KUBERNETES_SERVICE_HOST", "10.0.0.1")}, "https://127.0.0.1:2", "default", ""},
		{"context", Options{Kubeconfig: file, Context: "two"}, "https://127.0.0.1:1", "prod", ""},
		{"no such context", Options{Kubeconfig: file, Context: "four"}, "", "", `no context "four", it has ["one" "three" "two"]`},
		{"context without cluster", Options{Kubeconfig: file, Context: "three"}, "", "", `context "three": there is no cluster "absent"`},
		{"nothing", Options{Getenv: env("HOME", dir)}, "", "", "no kubeconfig and no service account"},
		{"absent", Options{Kubeconfig: "absent", Dir: dir}, "", "", "there is no file of kubeconfig " + filepath.Join(dir, "absent")},
		{"absent by the environment", Options{Getenv: env("KUBECONFIG", "/absent", "HOME", home)}, "", "", "there is no file of KUBECONFIG /absent"},
		{"broken", Options{Kubeconfig: broken}, "", "", "kubeconfig " + broken + ": "},
		{"empty", Options{Kubeconfig: only}, "", "", only + " has no contexts"},
		{"insecure", Options{Kubeconfig: insecure}, "", "", "insecure-skip-tls-verify"},
		{"plain http", Options{Kubeconfig: http}, "", "", "plain http to another machine"},
		{"context in a pod", Options{Context: "two", Getenv: env("KUBERNETES_SERVICE_HOST", "10.0.0.1")}, "", "", "the pod's own service account has no contexts"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.options.Getenv == nil {
				tt.options.Getenv = env()
			}
			found, err := New(tt.options).find()
			if err != nil || tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || providers.KindOf(err) != providers.Invalid {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if found.config.Host != tt.host || found.namespace != tt.namespace || !strings.HasPrefix(found.cluster.String(), tt.host+" (context ") {
				t.Errorf("host %s, namespace %s, %s, want %s, %s", found.config.Host, found.namespace, found.cluster, tt.host, tt.namespace)
			}
		})
	}
}

func TestInCluster(t *testing.T) {
	dir := t.TempDir()
	o := Options{Getenv: func(name string) string {
		return map[string]string{"KUBERNETES_SERVICE_HOST": "::1", "KUBERNETES_SERVICE_PORT": "443"}[name]
	}}
	if _, err := o.inCluster(dir); err == nil || providers.KindOf(err) != providers.Invalid {
		t.Errorf("no account: %v", err)
	}
	write(t, dir, "namespace", "ci\n")
	found, err := o.inCluster(dir)
	if err != nil {
		t.Fatal(err)
	}
	cfg, namespace := found.config, found.namespace
	if cfg.Host != "https://[::1]:443" || namespace != "ci" || cfg.BearerTokenFile != filepath.Join(dir, "token") || cfg.CAFile != filepath.Join(dir, "ca.crt") {
		t.Errorf("%+v, %s", cfg, namespace)
	}
}

// TestRedirect: credentials, and what is written, go to the kubeconfig's
// server only.
func TestRedirect(t *testing.T) {
	visited := make(chan string, 100)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { visited <- r.Method }))
	t.Cleanup(other.Close)
	sent := 0
	for _, to := range []string{strings.Replace(other.URL, "127.0.0.1", "localhost", 1), "/elsewhere"} {
		for _, code := range []int{301, 302, 303, 307, 308} {
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				sent++
				http.Redirect(w, r, to, code)
			})
			sent = 0
			_, err := c.Get(t.Context(), web)
			check(t, err, providers.Unavailable, fmt.Sprintf("status %d: it sends to ", code), "no redirect is followed")
			_, err = c.Patch(t.Context(), web, []patch.Op{patch.Test(3, "metadata", "generation")})
			check(t, err, providers.Unavailable, "no redirect is followed")
			_, err = c.Version(t.Context(), "x", "v1")
			check(t, err, providers.Unavailable, "no redirect is followed")
			if sent != 3 || len(visited) != 0 {
				t.Errorf("%d to %s: %d requests, want 3; %d at the other server", code, to, sent, len(visited))
			}
		}
	}
}
