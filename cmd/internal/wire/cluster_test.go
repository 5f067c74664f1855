package wire

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/manent/action/providers/api/kubernetes/kubetest"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
)

// TestClusterContext: the settings of the one cluster go before the plugin's,
// so that each environment can name its context.
func TestClusterContext(t *testing.T) {
	file := kubetest.Kubeconfig(t, "https://127.0.0.1:1", "x", nil)
	cfg := config.Config{
		Plugin:   config.Provider{Name: "kubernetes", Settings: config.Settings{"service": "shop", "http_route": "web", "kubeconfig": file, "context": "test"}},
		Clusters: []config.Cluster{{Name: "eu", Settings: config.Settings{"context": "eu"}}},
	}
	w, err := Host{Dir: filepath.Dir(file)}.Connect(runner.World{}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Plugin("").Check(t.Context()); err == nil || !strings.Contains(err.Error(), `no context "eu", it has ["test"]`) {
		t.Errorf("%v, want the cluster's context", err)
	}
}
