package google_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/bearer"
	"github.com/manent/action/providers/api/google"
	"github.com/manent/action/providers/api/google/googletest"
	"github.com/manent/action/providers/httpx"
)

// client has only what a machine of Google's gives, or a file.
func client(t *testing.T, vars map[string]string) *bearer.Client {
	t.Helper()
	c, err := google.New(providers.Env{Getenv: func(name string) string { return vars[name] }},
		google.Options{Provider: "test", Transport: here{}, Backoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// here answers every call with what it was authorized by.
type here struct{}

func (here) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	_, _ = fmt.Fprint(w, r.Header.Get("Authorization"))
	return w.Result(), nil
}

// TestMachine: the token of the machine's own service account. The library
// reads its address from the environment of the process.
func TestMachine(t *testing.T) {
	machine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Metadata-Flavor") != "Google" {
			http.Error(w, "Missing Metadata-Flavor:Google header.", http.StatusForbidden)
			return
		}
		w.Header().Set("Metadata-Flavor", "Google")
		switch r.URL.Path {
		case "/computeMetadata/v1/project/project-id":
			_, _ = fmt.Fprint(w, "shop")
		case "/computeMetadata/v1/instance/service-accounts/default/token":
			_, _ = fmt.Fprint(w, `{"access_token":"of-the-machine","expires_in":3600,"token_type":"Bearer"}`)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(machine.Close)
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(machine.URL, "http://"))
	t.Setenv("HOME", t.TempDir())
	t.Setenv("APPDATA", t.TempDir())
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	resp, err := client(t, nil).Send(t.Context(), httpx.Request{Method: http.MethodGet, URL: "https://run.googleapis.com/"})
	if err != nil || string(resp.Body) != "Bearer of-the-machine" {
		t.Errorf("%v, error %v", resp, err)
	}
}

func TestBadFiles(t *testing.T) {
	key := `"client_email":"a@b","private_key":"s3cr3t-key","private_key_id":"1","token_uri":"https://oauth2.googleapis.com/token"`
	for name, tc := range map[string]struct {
		text string
		kind providers.Kind
	}{
		"not JSON":            {"s3cr3t-key", providers.Invalid},
		"no type":             {`{` + key + `}`, providers.Invalid},
		"another type":        {`{"type":"gdch_service_account",` + key + `}`, providers.Invalid},
		"client of a browser": {`{"installed":{"client_id":"a","client_secret":"s3cr3t-key","redirect_uris":["http://localhost"]}}`, providers.Invalid},
		"no key in it":        {`{"type":"service_account",` + key + `}`, providers.Unknown},
		"incomplete":          {`{"type":"external_account","audience":"a"}`, providers.Invalid},
		"too long":            {`{"type":"service_account","x":"` + strings.Repeat("s3cr3t-key", 10000) + `"}`, providers.Denied},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file.json")
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := client(t, map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": path}).
				Send(t.Context(), httpx.Request{Method: http.MethodGet, URL: "https://run.googleapis.com/", Op: "service"})
			if err == nil || providers.KindOf(err) != tc.kind || strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("error %v of kind %v, want %v", err, providers.KindOf(err), tc.kind)
			}
		})
	}
}

// TestProviderIsNamed: the fault names who asked, and what for.
func TestProviderIsNamed(t *testing.T) {
	g := googletest.New(t)
	g.Refuse("unauthorized_client")
	vars := g.GitHub()
	c, err := google.New(providers.Env{Getenv: func(name string) string { return vars[name] }}, google.Options{Provider: "cloudrun", Transport: g})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Send(t.Context(), httpx.Request{Method: http.MethodGet, URL: "https://run.googleapis.com/", Op: "read service web"})
	if want := "cloudrun: read service web: login at sts.googleapis.com: status 400: "; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want one that begins with %q", err, want)
	}
}
