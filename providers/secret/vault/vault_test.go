package vault

import (
	"maps"
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/identity/identitytest"
	"github.com/manent/action/providers/api/vault/vaulttest"
	"github.com/manent/action/providers/secret"
	"github.com/manent/action/providers/secret/secrettest"
)

func start(t *testing.T) (*vaulttest.Server, secret.Source) {
	t.Helper()
	jobs := identitytest.New(t)
	server := vaulttest.New(t, jobs)
	vars := jobs.GitHub()
	maps.Copy(vars, server.Vars())
	source, err := Spec().New(providers.Env{Getenv: func(name string) string { return vars[name] }, Redactor: &providers.Redactor{}})
	if err != nil {
		t.Fatal(err)
	}
	return server, source
}

func TestConformance(t *testing.T) {
	for _, mount := range []string{"kv/", "secret/data/"} {
		t.Run(mount, func(t *testing.T) {
			secrettest.Run(t, secrettest.Suite{TextOnly: true, Setup: func(t *testing.T) secrettest.Vault {
				server, source := start(t)
				return secrettest.Vault{
					Source: source,
					Put: func(key, value string) string {
						server.Put(mount+"shop/"+key, map[string]any{"value": value, "other": "0ther"})
						return mount + "shop/" + key + "#value"
					},
					Missing:   mount + "shop/missing#value",
					Malformed: []string{"secret/data/x", "secret/data/x#", "#x", "x#y", "/secret/data/x#y", "secret//x#y", "secret/../sys/x#y", "secret/./x#y", "v1/secret/x#y", "secret/x?version=1#y", "s3cr3t"},
					Logged:    func() string { return "" },
				}
			}})
		})
	}
}

func TestFields(t *testing.T) {
	server, source := start(t)
	server.Put("secret/data/shop", map[string]any{"password": "hunter22", "port": 9200, "list": []string{"a"}, "none": nil})
	server.Put("secret/data/gone", nil)
	server.Put("kv/shop", map[string]any{"data": "of version 1", "metadata": "too"})
	server.Put("kv/like", map[string]any{"data": map[string]any{"x": "y"}, "metadata": map[string]any{"owner": "me"}})
	server.Put("kv/a b/ü", map[string]any{"x#y": "odd"})
	server.Deny("secret/data/others")
	for ref, want := range map[string]string{
		"secret/data/shop#password": "hunter22", "secret/data/shop#port": "9200", "kv/shop#data": "of version 1", "kv/a b/ü#x#y": "odd",
	} {
		if got, err := source.Resolve(t.Context(), ref); err != nil || got.Reveal() != want {
			t.Errorf("%s: %q, error %v", ref, got.Reveal(), err)
		}
	}
	for ref, kind := range map[string]providers.Kind{
		"secret/data/shop#list": providers.Invalid, "secret/data/shop#none": providers.Invalid, "secret/data/shop#Password": providers.NotFound,
		"secret/shop#password": providers.NotFound, "secret/data/gone#x": providers.NotFound, "kv/like#x": providers.NotFound, "secret/data/others#x": providers.Denied,
	} {
		got, err := source.Resolve(t.Context(), ref)
		if err == nil || providers.KindOf(err) != kind || providers.HintOf(err) == "" || !got.Empty() || strings.Contains(err.Error(), "hunter22") || !strings.HasPrefix(err.Error(), "vault: ") {
			t.Errorf("%s: %v of kind %v, hint %q", ref, err, providers.KindOf(err), providers.HintOf(err))
		}
	}
}

// TestTokenEndsBetweenResolutions: the next resolution has another token.
func TestTokenEndsBetweenResolutions(t *testing.T) {
	server, source := start(t)
	server.Put("kv/shop", map[string]any{"password": "hunter22"})
	for i := range 3 {
		for range 2 {
			if got, err := source.Resolve(t.Context(), "kv/shop#password"); err != nil || got.Reveal() != "hunter22" {
				t.Fatalf("resolution %d: %q, error %v", i, got.Reveal(), err)
			}
		}
		if logins, _ := server.Counts(); logins != i+1 {
			t.Errorf("%d logins, expected %d", logins, i+1)
		}
		server.Revoke()
	}
}

func TestNoAddress(t *testing.T) {
	_, err := New(providers.Env{})
	if providers.KindOf(err) != providers.Invalid || providers.HintOf(err) == "" {
		t.Errorf("error %v", err)
	}
}
