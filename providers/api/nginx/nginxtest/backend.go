package nginxtest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// Backend is one version of an application: it answers with its name.
type Backend struct {
	Address string
	Name    string
	Served  atomic.Int64 // requests so far
	Handler http.Handler // nil: 200 and the name
	server  *httptest.Server
}

// StartBackend starts one until the test ends.
func StartBackend(t testing.TB, name string, handler http.Handler) *Backend {
	t.Helper()
	b := &Backend{Name: name, Handler: handler}
	b.server = httptest.NewServer(b)
	b.Address = strings.TrimPrefix(b.server.URL, "http://")
	t.Cleanup(b.Stop)
	return b
}

// ServeHTTP implements http.Handler.
func (b *Backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.Served.Add(1)
	w.Header().Set("X-Slot", b.Name)
	if b.Handler != nil {
		b.Handler.ServeHTTP(w, r)
		return
	}
	_, _ = w.Write([]byte(b.Name))
}

// Stop ends it: connections are refused from then on.
func (b *Backend) Stop() {
	b.server.CloseClientConnections()
	b.server.Close()
}
