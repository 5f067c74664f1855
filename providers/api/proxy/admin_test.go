package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
)

// admin calls the admin interface as a process of this machine.
func admin(p *Proxy, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), method, "http://127.0.0.1:9901"+path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:5555"
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		switch header[i] {
		case "Host":
			r.Host = header[i+1]
		case "Remote":
			r.RemoteAddr = header[i+1]
		default:
			r.Header.Set(header[i], header[i+1])
		}
	}
	rec := httptest.NewRecorder()
	p.Admin().ServeHTTP(rec, r)
	return rec
}

func tag(p *Proxy) string { return `"` + p.State().Revision + `"` }

func TestAdminRefuses(t *testing.T) {
	const good = `{"a":50,"b":50}`
	tests := []struct {
		name   string
		method string
		path   string
		body   string
		header []string
		status int
	}{
		{"no If-Match", "PUT", "/v1/weights", good, []string{"If-Match", ""}, 428},
		{"any revision", "PUT", "/v1/weights", good, []string{"If-Match", "*"}, 428},
		{"weak revision", "PUT", "/v1/weights", good, []string{"If-Match", `W/"x"`}, 428},
		{"stale", "PUT", "/v1/weights", good, []string{"If-Match", `"before-1"`}, 412},
		{"sum", "PUT", "/v1/weights", `{"a":50,"b":49.99}`, nil, 422},
		{"unknown slot", "PUT", "/v1/weights", `{"a":50,"b":50,"c":0}`, nil, 422},
		{"slot missing", "PUT", "/v1/weights", `{"a":100}`, nil, 422},
		{"negative", "PUT", "/v1/weights", `{"a":-1,"b":101}`, nil, 422},
		{"too fine", "PUT", "/v1/weights", `{"a":50.005,"b":49.995}`, nil, 422},
		{"too fine but 100", "PUT", "/v1/weights", `{"a":99.9999,"b":0.0001}`, nil, 422},
		{"null", "PUT", "/v1/weights", `null`, nil, 400},
		{"list", "PUT", "/v1/weights", `[50,50]`, nil, 400},
		{"text", "PUT", "/v1/weights", `{"a":"50","b":"50"}`, nil, 400},
		{"cut off", "PUT", "/v1/weights", `{"a":50,"b":5`, nil, 400},
		{"two values", "PUT", "/v1/weights", good + good, nil, 400},
		{"empty", "PUT", "/v1/weights", "", nil, 400},
		{"too long", "PUT", "/v1/weights", strings.Repeat(" ", maxAdminBody) + good, nil, 413},
		{"form", "PUT", "/v1/weights", "a=50&b=50", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		{"plain text", "PUT", "/v1/weights", good, []string{"Content-Type", "text/plain"}, 415},
		{"no type", "PUT", "/v1/weights", good, []string{"Content-Type", ""}, 415},
		{"rebound name", "PUT", "/v1/weights", good, []string{"Host", "attacker.test:9901"}, 403},
		{"rebound address", "PUT", "/v1/weights", good, []string{"Host", "192.0.2.1:9901"}, 403},
		{"name like loopback", "PUT", "/v1/weights", good, []string{"Host", "127.0.0.1.attacker.test"}, 403},
		{"no host", "PUT", "/v1/weights", good, []string{"Host", ""}, 403},
		{"another machine", "PUT", "/v1/weights", good, []string{"Remote", "192.0.2.9:1"}, 403},
		{"another origin", "PUT", "/v1/weights", good, []string{"Origin", "http://attacker.test"}, 403},
		{"null origin", "PUT", "/v1/weights", good, []string{"Origin", "null"}, 403},
		{"another site", "GET", "/v1/state", "", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"read rebound", "GET", "/v1/state", "", []string{"Host", "attacker.test"}, 403},
		{"metrics rebound", "GET", "/metrics", "", []string{"Host", "attacker.test"}, 403},
		{"method", "POST", "/v1/weights", good, nil, 405},
		{"path", "GET", "/v1", "", nil, 404},
		{"testers' slot", "PUT", "/v1/testers", `{"on":true,"header":"x","value":"y","slot":"c"}`, nil, 422},
		{"testers' header", "PUT", "/v1/testers", `{"on":true,"header":"x y","value":"y","slot":"b"}`, nil, 422},
		{"testers' value", "PUT", "/v1/testers", `{"on":true,"header":"x","value":"never","slot":"b"}`, nil, 422},
		{"testers' key", "PUT", "/v1/testers", `{"on":true,"headers":"x"}`, nil, 400},
		{"testers null", "PUT", "/v1/testers", `null`, nil, 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, _ := start(t, Options{})
			before := p.State()
			header := append([]string{"If-Match", tag(p)}, tt.header...)
			resp := admin(p, tt.method, tt.path, tt.body, header...)
			if resp.Code != tt.status {
				t.Errorf("status %d, want %d: %s", resp.Code, tt.status, resp.Body)
			}
			if after := p.State(); after.Revision != before.Revision || after.Weights[SlotB] != 0 || after.Testers.On {
				t.Errorf("refused, and yet the state is %+v", after)
			}
		})
	}
}

func TestAdminChanges(t *testing.T) {
	p, _ := start(t, Options{})
	for _, host := range []string{"127.0.0.1:9901", "localhost:9901", "[::1]:9901", "[::1]", "127.0.0.1"} {
		if resp := admin(p, "GET", "/v1/state", "", "Host", host); resp.Code != http.StatusOK || resp.Header().Get("ETag") != tag(p) {
			t.Errorf("host %s: %d, %v", host, resp.Code, resp.Header())
		}
	}
	first := p.State().Revision
	resp := admin(p, "PUT", "/v1/weights", `{"a":66.67,"b":33.33}`, "If-Match", tag(p))
	var got State
	if err := json.Unmarshal(resp.Body.Bytes(), &got); err != nil || resp.Code != http.StatusOK {
		t.Fatalf("%d %s, %v", resp.Code, resp.Body, err)
	}
	if got.Weights[SlotA] != 66.67 || got.Weights[SlotB] != 33.33 || got.Revision == first || got.Revision != p.State().Revision {
		t.Errorf("state %+v", got)
	}
	if resp := admin(p, "PUT", "/v1/weights", `{"a":66.67,"b":33.33}`, "If-Match", tag(p), "Content-Type", "application/json; charset=utf-8"); resp.Code != http.StatusOK || p.State().Revision != got.Revision {
		t.Errorf("the same again: %d, revision %s, want 200 and %s", resp.Code, p.State().Revision, got.Revision)
	}
	for _, body := range []string{`{"on":true,"header":"X-Canary","value":"always","slot":"b"}`, `{"on":false,"header":"left","slot":"b"}`} {
		before := p.State().Revision
		if resp := admin(p, "PUT", "/v1/testers", body, "If-Match", tag(p)); resp.Code != http.StatusOK || p.State().Revision == before {
			t.Errorf("%s: %d %s", body, resp.Code, resp.Body)
		}
	}
	if got := p.State().Testers; got != (Testers{}) {
		t.Errorf("testers %+v after off, want nothing left", got)
	}
}

// TestRacingWritersOneWins: many from one revision.
func TestRacingWritersOneWins(t *testing.T) {
	p, _ := start(t, Options{})
	revision, won := tag(p), atomic.Int32{}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			switch resp := admin(p, "PUT", "/v1/weights", fmt.Sprintf(`{"a":%d,"b":%d}`, 99-i, 1+i), "If-Match", revision); resp.Code {
			case http.StatusOK:
				won.Add(1)
			case http.StatusPreconditionFailed:
			default:
				t.Errorf("status %d: %s", resp.Code, resp.Body)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || !strings.HasSuffix(p.State().Revision, "-1") {
		t.Errorf("%d writers won, revision %s, want 1 and the first", won.Load(), p.State().Revision)
	}
}

// TestSlowBody: a body that never ends is given up, without a server's help.
func TestSlowBody(t *testing.T) {
	p, _ := start(t, Options{})
	p.patience = 50 * time.Millisecond
	front := serve(t, p.Admin().ServeHTTP)
	conn := dial(t, front.Host)
	_, _ = fmt.Fprintf(conn, "PUT /v1/weights HTTP/1.1\r\nHost: %s\r\nIf-Match: %s\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{", front.Host, tag(p))
	_ = conn.SetReadDeadline(time.Now().Add(4 * time.Second))
	text, err := io.ReadAll(conn)
	if err != nil || !bytes.Contains(text, []byte(" 400 ")) {
		t.Errorf("%q, %v, want 400 and the connection closed", text, err)
	}
}

func TestLook(t *testing.T) {
	p, _ := start(t, Options{})
	p.slots[1].url.Host = "127.0.0.1:1" // nothing listens there
	var got State
	if err := json.Unmarshal(admin(p, "GET", "/v1/state", "").Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if a, b := got.Slots[SlotA].Up, got.Slots[SlotB].Up; a == nil || !*a || b == nil || *b {
		t.Errorf("slots %+v, want a up and b down", got.Slots)
	}
}

func TestMetrics(t *testing.T) {
	p, front := start(t, Options{Weights: percent(2500)})
	for range 8 {
		get(t, front)
	}
	eventually(t, func() bool { return count(p, SlotA, 200) == 6 && count(p, SlotB, 200) == 2 })
	text := admin(p, "GET", "/metrics", "").Body.String()
	for _, want := range []string{
		`manent_proxy_requests_total{code="200",track="a"} 6`, `manent_proxy_requests_total{code="200",track="b"} 2`,
		`manent_proxy_request_duration_seconds_count{track="b"} 2`, `manent_proxy_weight_percent{track="a"} 75`,
		`manent_proxy_requests_in_flight{track="a"} 0`, `manent_proxy_retried_total{track="b"} 0`, "manent_proxy_log_dropped_total 0",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
}

func TestClient(t *testing.T) {
	p, _ := start(t, Options{})
	front := serve(t, p.Admin().ServeHTTP)
	c := NewClient(httpx.Options{Provider: "proxy", Retries: -1}, front.String()+"/")
	seen, err := c.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.SetWeights(t.Context(), percent(100), seen.Revision); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SetWeights(t.Context(), percent(200), seen.Revision); !providers.IsConflict(err) {
		t.Errorf("stale: %v, want a conflict", err)
	}
	if _, err := c.SetTesters(t.Context(), Testers{On: true}, p.State().Revision); providers.KindOf(err) != providers.Invalid {
		t.Errorf("half an entry: %v, want invalid", err)
	}
	if _, err := c.SetWeights(t.Context(), map[string]float64{"a": 1}, p.State().Revision); providers.KindOf(err) != providers.Invalid {
		t.Errorf("half the weights: %v, want invalid", err)
	}
	for _, body := range []string{`{}`, `{"revision":"x"}`, `{"revision":"x","weights":{"a":1}}`, `{"weights":{"a":100,"b":0}}`} {
		other := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		if _, err := NewClient(httpx.Options{}, other.String()).State(t.Context()); err == nil || providers.KindOf(err) != providers.Unknown {
			t.Errorf("%s: %v, want unknown", body, err)
		}
	}
}

// FuzzAdminBody: whatever is sent, the weights stay two that make 100, the
// testers' entry stays usable, and only 200 changes anything.
func FuzzAdminBody(f *testing.F) {
	for _, seed := range []string{`{"a":50,"b":50}`, `{"a":1e2,"b":0}`, `{"on":true,"header":"x","value":"y","slot":"b"}`, `null`, `{"a":NaN}`, `[]`, "\x00", `{"a":99.99,"b":0.01}`} {
		f.Add("/v1/weights", seed)
		f.Add("/v1/testers", seed)
	}
	p, _ := start(f, Options{})
	f.Fuzz(func(t *testing.T, path, body string) {
		if path != "/v1/weights" && path != "/v1/testers" {
			return
		}
		before := p.State()
		resp := admin(p, "PUT", path, body, "If-Match", tag(p))
		after := p.State()
		if resp.Code != http.StatusOK && after.Revision != before.Revision {
			t.Errorf("status %d changed %+v to %+v", resp.Code, before, after)
		}
		if resp.Code >= 500 {
			t.Errorf("status %d: %s", resp.Code, resp.Body)
		}
		if _, err := hundredths(after.Weights); err != nil {
			t.Error(err)
		}
		if _, err := after.Testers.check(); err != nil {
			t.Error(err)
		}
	})
}
