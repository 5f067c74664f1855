package proxy

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"testing"
)

// bare is what the proxy's overhead is measured against.
func bare(target *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite:       func(pr *httputil.ProxyRequest) { pr.SetURL(target); pr.SetXForwarded() },
		Transport:     &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
		FlushInterval: -1,
		BufferPool:    &buffers{},
	}
}

// nowhere is a client without a network.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header            { return n.header }
func (n *nowhere) Write(data []byte) (int, error) { return len(data), nil }
func (n *nowhere) WriteHeader(int)                {}
func (n *nowhere) FlushError() error              { return nil }

func BenchmarkChoose(b *testing.B) {
	p, _ := start(b, Options{Weights: percent(500)})
	r, _ := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://shop.test/", nil)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p.choose(p.table.Load(), r)
		}
	})
}
