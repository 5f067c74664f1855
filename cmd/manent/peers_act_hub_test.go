//go:build peers

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/manent/action/providers/api/github/githubtest"
	"github.com/manent/action/state"
)

// gitHub is GitHub with one repository, shop/web. The files of its workflows are
// what manent generate writes, in a checkout whose origin is served by git's
// own backend to whoever has the token of a job. Jobs are run by act on this
// machine. What stands in for the platform, since act has none of it:
//
//   - the API is a fake, held to GitHub's published description;
//   - which job starts, in which order, with which results of those before it,
//     and whether a reviewer lets it through, is decided by workflowRun;
//   - one run at a time (concurrency) is how the tests begin them;
//   - a cancel and a lost runner are signals of the test's own to the step's
//     process, for act ends it with SIGKILL and knows no result "cancelled";
//   - actions/checkout is act's own copy of the checkout, the action's commit
//     is a folder, and manent is on the runner, as --binary-path says: a
//     release is downloaded in the action's own tests.
//
// What differs from GitHub's runner: act gives each step a terminal, and its
// schema is older than one key of the generated files, see adapted.
type gitHub struct {
	*shop
	t          *testing.T
	kit        *actKit
	api        *githubtest.Server
	url        string // of the server
	checkout   string
	repository string // bare
	last       int64  // id of a run
	files      int    // written for act
}

// The workflows.
const (
	rolloutFile = "manent-web-prod.yml"
	decideFile  = "manent-decide.yml"
	retireFile  = "manent-traffic-retire.yml"
)

// shopKey is a secret of the repository, which a step of the rollout needs.
const shopKey = "key-of-the-shop"

// hub brings everything up and generates the workflows of a configuration.
func (k *actKit) hub(t *testing.T, configuration string, flags ...string) *gitHub {
	t.Helper()
	h := &gitHub{shop: newShop(t), t: t, kit: k, api: githubtest.New(t), last: 100}
	h.binary = k.binary
	h.proxy()
	h.repository, h.checkout = filepath.Join(h.dir, "remote", githubtest.Repo), filepath.Join(h.dir, "checkout")
	h.git("init", "--quiet", "--bare", h.repository)
	h.git("init", "--quiet", "--initial-branch", "main", h.checkout)
	h.url = h.serveGit(filepath.Join(h.dir, "remote"), "x-access-token", githubtest.Token)
	h.git("-C", h.checkout, "remote", "add", "origin", h.url+"/"+githubtest.Repo)
	h.vars["LOG"], h.vars["KEY"] = filepath.Join(h.dir, "access.log"), shopKey
	if err := os.MkdirAll(filepath.Join(h.checkout, "envconfig/shop/web"), 0o755); err != nil {
		t.Fatal(err)
	}
	h.config = h.write("checkout/envconfig/shop/web/prod.yml", configuration)
	cmd := h.command(t.Context(), append([]string{
		"generate", "github", "-c", "envconfig/shop/web/prod.yml", "--action", pin, "--runs-on", "ubuntu-latest", "--binary-path", k.binary, "--out", ".",
	}, flags...)...)
	cmd.Dir = h.checkout
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	h.git("-C", h.checkout, "add", ".")
	h.git("-C", h.checkout, "-c", "user.name=ada", "-c", "user.email=ada@example.test", "commit", "--quiet", "-m", "roll out with manent")
	return h
}

// document reads the state where the repository has it.
func (h *gitHub) document() (state.Document, error) {
	cmd := exec.CommandContext(h.t.Context(), "git", "--git-dir", h.repository, "show", "refs/manent/shop/web/prod:state.json")
	var doc state.Document
	data, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	return doc, err
}

// rollout is the rollout of the document.
func (h *gitHub) rollout() *state.Rollout {
	h.t.Helper()
	doc, err := h.document()
	if err != nil || doc.Rollout == nil {
		h.t.Fatalf("no rollout, %v", err)
	}
	return doc.Rollout
}

// ends demands how the rollout stands, and where new requests go.
func (h *gitHub) ends(status state.Status, slot string) {
	h.t.Helper()
	if r := h.rollout(); r.Status != status {
		h.t.Errorf("version %s is %s, expected %s", r.Version, r.Status, status)
	}
	h.servesOnly(slot)
}

// weights are the proxy's.
func (h *gitHub) weights() string {
	h.t.Helper()
	_, weights := h.admin(http.MethodGet, "/v1/state", "", "")
	return weights
}

// byHand changes the weights as somebody would who is not manent.
func (h *gitHub) byHand(a, b int) {
	h.t.Helper()
	revision, _ := h.admin(http.MethodGet, "/v1/state", "", "")
	h.admin(http.MethodPut, "/v1/weights", revision, fmt.Sprintf(`{"a": %d, "b": %d}`, a, b))
}

// admin asks the proxy, and returns the weights that it then has.
func (h *gitHub) admin(method, path, revision, body string) (newer, weights string) {
	h.t.Helper()
	request, err := http.NewRequestWithContext(h.t.Context(), method, h.vars["ADMIN"]+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("If-Match", revision)
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var has struct{ Weights map[string]float64 }
	if err := json.NewDecoder(answer.Body).Decode(&has); err != nil || answer.StatusCode != http.StatusOK {
		h.t.Fatalf("the proxy answers %s, %v", answer.Status, err)
	}
	return answer.Header.Get("ETag"), fmt.Sprintf("%v %v", has.Weights["a"], has.Weights["b"])
}
