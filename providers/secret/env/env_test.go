package env

import (
	"os"
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/secret/secrettest"
)

func TestConformance(t *testing.T) {
	secrettest.Run(t, secrettest.Suite{Setup: setup, NoNUL: true})
}

func setup(t *testing.T) secrettest.Vault {
	vars := map[string]string{}
	source, err := Spec().New(providers.Env{Getenv: func(name string) string { return vars[name] }})
	if err != nil {
		t.Fatal(err)
	}
	return secrettest.Vault{
		Source: source,
		Put: func(key, value string) string {
			name := "TEST_" + strings.ToUpper(key)
			vars[name] = value
			return name
		},
		Missing:   "TEST_NOBODY_SETS",
		Malformed: []string{"A B", "1A", "A=B", "A\n", "ä", "A-B", "a.b", strings.Repeat("A", 256)},
		Logged:    func() string { return "" },
	}
}

// TestSecretForItsName: somebody writes the secret where its name belongs.
func TestSecretForItsName(t *testing.T) {
	_, err := setup(t).Source.Resolve(t.Context(), "hunter2!")
	if err == nil || strings.Contains(err.Error()+providers.HintOf(err), "hunter2") {
		t.Errorf("error %v, hint %q", err, providers.HintOf(err))
	}
}

func TestProcessEnvironment(t *testing.T) {
	t.Setenv("MANENT_TEST_SECRET", "from the process")
	source, err := New(providers.Env{Getenv: os.Getenv})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := source.Resolve(t.Context(), "MANENT_TEST_SECRET"); err != nil || got.Reveal() != "from the process" {
		t.Errorf("%v, error %v", got, err)
	}
	if _, err := New(providers.Env{}); err == nil || providers.KindOf(err) != providers.Invalid {
		t.Errorf("error %v for no environment", err)
	}
}
