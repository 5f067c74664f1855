package bearer

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
)

// TestLoginFollowsNoRedirect, also under the client of a library.
func TestLoginFollowsNoRedirect(t *testing.T) {
	visited := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visited++ }))
	t.Cleanup(other.Close)
	for _, code := range []int{301, 302, 303, 307, 308} {
		first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1), code)
		}))
		t.Cleanup(first.Close)
		over := NewLogin(httpx.New(httpx.Options{}), func(providers.Secret) error { return nil }, func(*httpx.Response) Refusal { return Refusal{} })
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, first.URL, strings.NewReader("assertion=token"))
		if err != nil {
			t.Fatal(err)
		}
		library := http.Client{Transport: over}
		resp, err := library.Do(request)
		if err != nil || resp.StatusCode != code {
			t.Fatalf("%d: %v, %v, want the redirect as the answer", code, resp, err)
		}
		_ = resp.Body.Close()
		if over.Fault(t.Context(), "p") == nil {
			t.Errorf("%d: no fault", code)
		}
	}
	if visited > 0 {
		t.Errorf("%d requests at another host", visited)
	}
}
