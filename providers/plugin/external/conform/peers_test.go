//go:build peers && unix

package conform

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/plugin/external"
)

// TestPeersDocumentedPlugin runs the plugin of docs/external.md, word for
// word, with the settings of the configuration there. It needs python3.
func TestPeersDocumentedPlugin(t *testing.T) {
	// What python3 is in PATH may be a slow script that finds the real one.
	python, err := exec.CommandContext(t.Context(), "python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Fatalf("python3: %v", err)
	}
	t.Setenv("PATH", filepath.Dir(string(python))+string(filepath.ListSeparator)+os.Getenv("PATH"))
	page, err := os.ReadFile("../../../../docs/external.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(language string) []byte {
		found := regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllSubmatch(page, -1)
		if len(found) != 1 {
			t.Fatalf("%d blocks of %s, expected one", len(found), language)
		}
		return found[0][1]
	}
	var cfg struct {
		Plugin struct{ Settings map[string]any }
	}
	if err := yaml.Unmarshal(block("yaml"), &cfg); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "gateway.py"), block("python"), 0o755); err != nil {
		t.Fatal(err)
	}
	env := providers.Env{Dir: dir, Getenv: os.Getenv, Secret: func(context.Context, string) (providers.Secret, error) {
		return providers.NewSecret("hunter2hunter2"), nil
	}}
	p, err := providers.Define("external", "", external.Open).Build(env, cfg.Plugin.Settings)
	if err != nil {
		t.Fatal(err)
	}
	passed := 0
	Run(t.Context(), p, Options{Exercise: true, Shares: [2]float64{5, 25}, Poll: 5 * time.Millisecond}, func(r Result) {
		if r.Err != nil || r.LeftOut != "" {
			t.Errorf("%s: error %v, left out %q", r.Name, r.Err, r.LeftOut)
		}
		passed++
	})
	if passed < 20 {
		t.Errorf("%d cases were run", passed)
	}
}
