package gitcli

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/manent/action/providers"
)

// TestNoRedirectIsFollowed: git would send the token to wherever the remote's
// host points, also when the checkout wants redirects followed.
func TestNoRedirectIsFollowed(t *testing.T) {
	const token = "t0ken-of-the-first"
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			var second atomic.Int32
			other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { second.Add(1) }))
			defer other.Close()
			host := strings.TrimPrefix(other.URL, "http://")
			var authorized atomic.Int32
			first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") == "Basic "+base64.StdEncoding.EncodeToString([]byte("x-access-token:"+token)) {
					authorized.Add(1)
				}
				w.Header().Set("Location", "http://ann:passw0rd@"+host+"/moved/info/refs?service=git-upload-pack&sig=s1gned")
				w.WriteHeader(status)
			}))
			defer first.Close()
			config := filepath.Join(t.TempDir(), "config")
			text := "[http]\n\tfollowRedirects = true\n[http \"" + first.URL + "/\"]\n\tfollowRedirects = true\n"
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			c := client(t.TempDir(), map[string]string{TokenVariable: token, "GIT_CONFIG_GLOBAL": config})
			c.address = first.URL + "/o/r.git"
			dir, err := c.Scratch(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.RemoveAll(dir) }()

			refs, err := c.Refs(t.Context(), dir, "refs/manent/*")
			if refs != nil || providers.KindOf(err) != providers.Invalid || err == nil || !strings.Contains(err.Error(), "redirect") {
				t.Errorf("refs %v, error %v of kind %v, expected a refused redirect", refs, err, providers.KindOf(err))
			}
			hint := providers.HintOf(err)
			if !strings.Contains(hint, "host "+host+";") {
				t.Errorf("hint %q, expected the host %s", hint, host)
			}
			for _, secret := range []string{token, "passw0rd", "s1gned", "moved"} {
				if strings.Contains(err.Error()+hint, secret) {
					t.Errorf("%q is in %v, hint %q", secret, err, hint)
				}
			}
			if second.Load() != 0 || authorized.Load() == 0 {
				t.Errorf("%d requests at the second host, %d authorized ones at the first", second.Load(), authorized.Load())
			}
		})
	}
}
