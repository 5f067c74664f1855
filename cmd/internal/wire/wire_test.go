package wire

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/secret"
	"github.com/manent/action/providers/secret/env"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/gate"
)

// make generate gives every package of cmd/internal this flag; nothing here is
// generated.
var _ = flag.Bool("update", false, "has no effect here")

// testHost is a host whose environment is vars, and what was masked so far.
func testHost(t *testing.T, vars map[string]string) (Host, *[]string) {
	t.Helper()
	masked := &[]string{}
	return Host{
		Getenv: func(name string) string { return vars[name] }, Dir: t.TempDir(), Redactor: &providers.Redactor{},
		Say:  func(string) {},
		Mask: func(s providers.Secret) error { *masked = append(*masked, s.Reveal()); return nil },
	}, masked
}

func load(t *testing.T, h Host, text string) config.Config {
	t.Helper()
	cfg, problems := config.Parse(config.Source{Name: "prod.yml", Data: []byte(text)}, nil, config.Options{Catalog: h.Catalog()})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

const example = `
project: shop
application: web
environment: prod
secrets: [{name: token, ref: "env:TOKEN"}]
plugin: {name: exec, settings: {deploy: ./deploy.sh, scale: ./scale.sh, retire: ./retire.sh}}
rollout:
  traffic: {steps: [10, 100], bake: 10m, finalBake: 10m}
  providers:
    prometheus: {url: "https://prometheus.example.com", token_secret: token}
  health:
    metrics: [{name: errors, query: 'sum(errors)', max: 1}]
traffic:
  router: {provider: proxy, settings: {admin: "http://127.0.0.1:9901", pinned_for: 5m}}
`

// What is listed is in the catalog as in the build, and nothing else is.
func TestCatalog(t *testing.T) {
	h, _ := testHost(t, nil)
	cat := h.Catalog()
	for _, s := range Routers() {
		if e, ok := config.Lookup(cat.Routers, s.Name); !ok || !e.InBuild || e.Conditional != s.Traits.Conditional || e.Check == nil {
			t.Errorf("router %s: %+v", s.Name, e)
		}
	}
	for _, s := range Metrics() {
		if e, ok := config.Lookup(cat.Metrics, s.Name); !ok || !e.InBuild || e.OwnTracks != s.Traits.OwnTracks {
			t.Errorf("metric system %s: %+v", s.Name, e)
		}
	}
	for _, s := range Plugins() {
		if e, ok := config.Lookup(cat.Plugins, s.Name); !ok || !e.InBuild || e.Scales != s.Traits.Scales || (e.Router != nil) != s.Traits.Router {
			t.Errorf("plugin %s: %+v", s.Name, e)
		}
	}
	if e, ok := config.Lookup(cat.Routers, "aws-alb"); !ok || e.InBuild {
		t.Errorf("router aws-alb: %+v, expected that it is known and not in the build", e)
	}
	var names []string
	for _, s := range Stores() {
		names = append(names, s.Scheme)
	}
	if !slices.Contains(names, "file") || len(cat.Stores) < len(names) {
		t.Errorf("stores %v", names)
	}
}

func TestConnect(t *testing.T) {
	h, _ := testHost(t, nil)
	cfg := load(t, h, example)
	w, err := h.Connect(runner.World{NewID: func() string { return "kept" }}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if w.NewID() != "kept" || w.Router("") == nil || !w.Traits.Conditional || w.Metrics["prometheus"] == nil {
		t.Errorf("the world lacks something: %+v", w)
	}
	if b := w.Plugin(""); b.Deployer == nil || b.Scaler == nil {
		t.Errorf("the plugin lacks something: %+v", b)
	}
	if got := h.Catalog().PinnedFor(cfg); got != 5*time.Minute {
		t.Errorf("clients are pinned for %v, expected what the router's settings say", got)
	}
	for name, change := range map[string]func(*config.Config){
		"router":   func(c *config.Config) { c.Traffic.Router.Provider = "aws-alb" },
		"plugin":   func(c *config.Config) { c.Plugin.Name = "ecs" },
		"metric":   func(c *config.Config) { c.Rollout.Health.Metrics[0].Provider = "datadog" },
		"settings": func(c *config.Config) { c.Traffic.Router.Settings = config.Settings{"admin": "nowhere"} },
	} {
		t.Run(name, func(t *testing.T) {
			other := load(t, h, example)
			change(&other)
			if _, err := h.Connect(runner.World{}, other); providers.KindOf(err) != providers.Invalid {
				t.Errorf("got %v, expected that it is refused as invalid", err)
			}
		})
	}
}

// A secret is masked at the platform and known to the redactor before anybody
// gets it, and its value is in no error.
func TestSecrets(t *testing.T) {
	h, masked := testHost(t, map[string]string{"TOKEN": "hunter22"})
	cfg := load(t, h, example)
	got, err := h.env(cfg.Secrets).Secret(t.Context(), "token")
	if err != nil || got.Reveal() != "hunter22" {
		t.Fatalf("got %v, %v", got, err)
	}
	if !slices.Contains(*masked, "hunter22") || h.Redactor.Clean("a hunter22 b") != "a [redacted] b" {
		t.Errorf("masked %q, redactor gives %q", *masked, h.Redactor.Clean("a hunter22 b"))
	}
	if _, err := h.env(cfg.Secrets).Secret(t.Context(), "other"); providers.KindOf(err) != providers.NotFound {
		t.Errorf("got %v for a name that is not configured, expected not found", err)
	}
	h.Mask = func(providers.Secret) error { return errors.New("cannot mask") }
	if _, err := h.env(cfg.Secrets).Secret(t.Context(), "token"); err == nil {
		t.Error("a secret that could not be masked was handed out")
	}
	missing, _ := testHost(t, nil)
	err = missing.Resolve(t.Context(), cfg.Secrets)
	if providers.KindOf(err) != providers.NotFound || !strings.HasPrefix(err.Error(), "secret token: ") || providers.HintOf(err) == "" {
		t.Errorf("got %v, expected that the missing secret is named, with a hint", err)
	}
}

// A process makes each source once, and asks it each time.
func TestSourcesAreKept(t *testing.T) {
	made, vars := 0, map[string]string{"TOKEN": "hunter22"}
	spec := env.Spec()
	spec.New = func(e providers.Env) (secret.Source, error) { made++; return env.New(e) }
	given := providers.Env{Getenv: func(name string) string { return vars[name] }}
	kept := &Sources{}
	for _, want := range []string{"hunter22", "hunter23"} {
		vars["TOKEN"] = want
		source, err := kept.get(spec, given)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := source.Resolve(t.Context(), "TOKEN"); err != nil || got.Reveal() != want {
			t.Errorf("%q, %v, expected %q", got.Reveal(), err, want)
		}
	}
	if made != 1 {
		t.Errorf("made %d times", made)
	}
	other := &Sources{}
	if _, err := other.get(spec, providers.Env{}); err == nil {
		t.Error("a source without an environment was made")
	}
	if _, err := other.get(spec, given); err != nil {
		t.Errorf("the failure was kept: %v", err)
	}
}

func TestOpenStore(t *testing.T) {
	h, _ := testHost(t, nil)
	if _, err := h.OpenStore("file:state"); err != nil {
		t.Error(err)
	}
	_, err := h.OpenStore("ftp://127.0.0.1/state")
	if providers.KindOf(err) != providers.Invalid || !strings.Contains(providers.HintOf(err), "file") {
		t.Errorf("got %v, expected that the address is refused and the schemes are named", err)
	}
}

func TestProbe(t *testing.T) {
	long := strings.Repeat("x", gate.ProbeLimit+100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		case "/elsewhere":
			t.Error("the redirect was followed")
		case "/long":
			_, _ = fmt.Fprint(w, long)
		case "/slow":
			<-r.Context().Done()
		default:
			_, _ = fmt.Fprintf(w, "canary=%s agent=%s", r.Header.Get("x-canary"), r.UserAgent())
		}
	}))
	defer server.Close()
	get := func(path string, timeout time.Duration) (int, string, error) {
		status, body, err := probe(t.Context(), runner.Probe{URL: server.URL + path, Header: map[string]string{"x-canary": "always"}, Timeout: timeout})
		return status, string(body), err
	}
	if status, body, err := get("/", time.Minute); err != nil || status != 200 || body != "canary=always agent=manent-probe" {
		t.Errorf("got %d, %q, %v", status, body, err)
	}
	if status, _, err := get("/moved", time.Minute); err != nil || status != http.StatusFound {
		t.Errorf("got %d, %v for a redirect, expected the redirect itself", status, err)
	}
	if status, body, err := get("/long", time.Minute); err != nil || status != 200 || len(body) != gate.ProbeLimit {
		t.Errorf("got %d, %d bytes, %v, expected %d bytes", status, len(body), err, gate.ProbeLimit)
	}
	if _, _, err := get("/slow", time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v for no answer in time", err)
	}
	strict := httptest.NewTLSServer(http.NotFoundHandler())
	defer strict.Close()
	if _, _, err := probe(t.Context(), runner.Probe{URL: strict.URL, Timeout: time.Minute}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v, expected that an unknown certificate is refused", err)
	}
}

func TestCommand(t *testing.T) {
	var said []string
	h, _ := testHost(t, nil)
	h.Say = func(line string) { said = append(said, line) }
	h.Redactor.Add(providers.NewSecret("hunter22"))
	values, err := h.command(t.Context(), runner.Command{
		Run: `echo "$MANENT_VERSION hunter22"; echo host=b1 >> "$MANENT_OUTPUT"`,
		Env: map[string]string{"MANENT_COMMAND": "copy", "MANENT_VERSION": "2.0"}, Timeout: time.Minute,
	})
	if err != nil || values["host"] != "b1" || !slices.Equal(said, []string{"  2.0 [redacted]"}) {
		t.Errorf("got %v, %v, said %q", values, err, said)
	}
	_, err = h.command(t.Context(), runner.Command{Run: "exit 3", Env: map[string]string{"MANENT_COMMAND": "copy"}, Timeout: time.Minute})
	if err == nil || !strings.Contains(err.Error(), "command copy: ended with exit code 3") {
		t.Errorf("got %v, expected the command's name and code", err)
	}
}
