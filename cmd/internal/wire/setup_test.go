package wire

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/manent/action/providers"
)

func TestParseOrigin(t *testing.T) {
	for address, want := range map[string]origin{
		"https://github.com/shop/web.git":              {"github.com", "shop/web"},
		"https://[redacted]@github.com/shop/web":       {"github.com", "shop/web"},
		"git@github.com:shop/web.git":                  {"github.com", "shop/web"},
		"github.com:/shop/web":                         {"github.com", "shop/web"},
		"ssh://[redacted]@ssh.github.com:443/shop/web": {"github.com", "shop/web"},
		"ssh://git@Git.example.test:2222/a/b/c.git":    {"git.example.test", "a/b/c"},
		"https://git.example.test:8443/a/b/":           {"git.example.test:8443", "a/b"},
	} {
		if got, err := parseOrigin(address); got != want || err != nil {
			t.Errorf("%s: %+v, error %v", address, got, err)
		}
	}
	for _, address := range []string{"/srv/git/web.git", "../web", "file:///srv/web", "", "https://", `C:\web`} {
		if got, err := parseOrigin(address); err == nil {
			t.Errorf("%q is %+v", address, got)
		}
	}
}

// TestTokensStayAtHome: a token is not sent to a server that the checkout has
// nothing to do with.
func TestTokensStayAtHome(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{{"init", "-q"}, {"remote", "add", "origin", "git@git.example.test:shop/web.git"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	h := Host{Dir: dir, Redactor: &providers.Redactor{}, Getenv: func(name string) string {
		return map[string]string{"GH_TOKEN": "hunter2", "GITLAB_TOKEN": "hunter2"}[name]
	}}
	for _, named := range []string{"", "shop/web"} {
		_, err := h.GitHubSetup(t.Context(), named)
		if providers.KindOf(err) != providers.Invalid || err == nil || !strings.Contains(providers.HintOf(err), "GITHUB_API_URL=https://git.example.test/api/v3") {
			t.Errorf("%q: error %v, hint %q", named, err, providers.HintOf(err))
		}
	}
	g, err := h.GitLabSetup(t.Context(), "")
	if err != nil || g.Project != "shop/web" {
		t.Fatalf("%+v, error %v", g, err)
	}
	if h.Redactor.Clean("hunter2") == "hunter2" {
		t.Error("the token would be shown")
	}
}
