package haproxy

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/haproxy/haproxytest"
	"github.com/manent/action/providers/httpx"
)

// login is a context with the credentials of the stand-in.
func login(t *testing.T) context.Context {
	t.Helper()
	ctx, err := Login(t.Context(), providers.NewSecret(haproxytest.User+":"+haproxytest.Password+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

func connect(t *testing.T, url, version string) Instance {
	t.Helper()
	list, err := Connect(httpx.Options{Retries: -1}, []string{url}, false, version, "shop")
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

func wantKind(t *testing.T, err error, kind providers.Kind, text string) {
	t.Helper()
	if err == nil || providers.KindOf(err) != kind || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v of kind %v, want kind %v with %q", err, providers.KindOf(err), kind, text)
	}
}

const configuration = `defaults
backend shop
  balance leastconn
  server web1 10.0.0.1:8080 check weight 100 maxconn 30 cookie c1
  server web2 10.0.0.2:8080
`

// Both versions of the API tell and do the same.
func TestVersions(t *testing.T) {
	for _, version := range []string{V2, V3} {
		t.Run(version, func(t *testing.T) {
			api, memory := haproxytest.InMemory(t, version, configuration)
			ctx, c := login(t), connect(t, api.URL, version)
			now, err := c.Configuration(ctx, 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]int{"web1": 100, "web2": 1}, now.Weights); diff != "" || now.Version != 1 {
				t.Errorf("version %d, weights (-want +got):\n%s", now.Version, diff)
			}
			reload, err := c.Apply(ctx, now, []Change{{"web2", 50}, {"web1", 0}})
			if err != nil || reload != "" {
				t.Fatalf("reload %q, %v", reload, err)
			}
			if diff := cmp.Diff(map[string]int{"web1": 0, "web2": 50}, memory.Weights("shop")); diff != "" {
				t.Errorf("in force (-want +got):\n%s", diff)
			}
			if !strings.Contains(api.Text(), "server web1 10.0.0.1:8080 check weight 0 maxconn 30 cookie c1\n") {
				t.Errorf("the file became\n%s", api.Text())
			}
			_, err = c.SetWeight(ctx, now.Servers["web1"], 9, 1)
			wantKind(t, err, providers.Conflict, "set weight 9 of server shop/web1: status 409")
			_, err = c.SetWeight(ctx, now.Servers["web1"], 9, 0)
			wantKind(t, err, providers.Invalid, "status 400")
			if algorithm, err := c.Algorithm(ctx); algorithm != "leastconn" || err != nil {
				t.Errorf("algorithm %q, %v", algorithm, err)
			}
			running, err := c.Running(ctx)
			if err != nil || !running["web2"].Up() || running["web2"].Weight != 50 {
				t.Errorf("running %+v, %v", running, err)
			}
			_, err = c.Reload(ctx, "2026-11-30-1")
			wantKind(t, err, providers.NotFound, "status 404")
		})
	}
}

// A server that is sent without a weight would make HAProxy reload.
func TestServerIsNotSentAsItIs(t *testing.T) {
	if _, err := json.Marshal(Server{Name: "web1"}); err == nil {
		t.Error("a server without a weight was encoded")
	}
}

// Answers that make no sense are never taken for servers without traffic.
func TestUnexpectedAnswers(t *testing.T) {
	const server = `{"name":"web1","admin_state":"ready","operational_state":"up"}`
	tests := map[string]struct {
		answers map[string]string // by the end of the path
		kind    providers.Kind
		text    string
	}{
		"no version":          {map[string]string{"version": "0"}, providers.Unknown, "version 0"},
		"version is text":     {map[string]string{"version": `"x"`}, providers.Unknown, "JSON"},
		"server has no name":  {map[string]string{"version": "4", "configuration/backends/shop/servers": `[{"weight":3}]`}, providers.Unknown, "a server without a name"},
		"weight out of range": {map[string]string{"version": "4", "configuration/backends/shop/servers": `[{"name":"web1","weight":1000}]`}, providers.Unknown, "server web1 has weight 1000"},
		"statistics lack it":  {map[string]string{"version": "4", "configuration/backends/shop/servers": `[]`, "runtime/backends/shop/servers": "[" + server + "]", "native": `{"stats":[]}`}, providers.Unknown, "no statistics of server web1"},
		"statistics have more": {map[string]string{"version": "4", "configuration/backends/shop/servers": `[]`, "runtime/backends/shop/servers": "[" + server + "]",
			"native": `{"stats":[{"name":"web2","stats":{"weight":1}}]}`}, providers.Unknown, "server web2 is in the statistics"},
		"statistics without weight": {map[string]string{"version": "4", "configuration/backends/shop/servers": `[]`, "runtime/backends/shop/servers": "[" + server + "]",
			"native": `{"stats":[{"name":"web1","stats":{}}]}`}, providers.Unknown, "without a weight"},
		"statistics failed": {map[string]string{"version": "4", "configuration/backends/shop/servers": `[]`, "runtime/backends/shop/servers": "[]",
			"native": `{"error":"runtime: option is not available","stats":[]}`}, providers.Unavailable, "option is not available"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for end, body := range tt.answers {
					if strings.HasSuffix(r.URL.Path, "/"+end) {
						_, _ = w.Write([]byte(body))
						return
					}
				}
				w.WriteHeader(http.StatusTeapot)
			}))
			t.Cleanup(server.Close)
			c := connect(t, server.URL, V3)
			_, err := c.Configuration(login(t), 0, []string{"web1"})
			if err == nil {
				_, err = c.Running(login(t))
			}
			wantKind(t, err, tt.kind, tt.text)
		})
	}
}

// 202 without the id of a reload: nobody knows when it is in force.
func TestNoReloadID(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	t.Cleanup(server.Close)
	_, err := connect(t, server.URL, V2).SetWeight(login(t), Server{Name: "web1"}, 1, 1)
	wantKind(t, err, providers.Unknown, "without a Reload-ID")
}

func TestKeeps(t *testing.T) {
	expire := int64(60_000)
	tests := map[string]struct {
		backend Backend
		rules   []string
		what    string
		lasts   time.Duration
	}{
		"nothing":            {Backend{}, nil, "", 0},
		"cookie":             {Backend{Cookie: &Cookie{Name: "C", MaxLife: 90}}, nil, "cookie C", 90 * time.Second},
		"rules":              {Backend{StickTable: &StickTable{Expire: &expire}}, []string{"store-request", "match"}, "stick rules", time.Minute},
		"rules of elsewhere": {Backend{}, []string{"on"}, "stick rules", 0},
		"the longer counts":  {Backend{Cookie: &Cookie{Name: "C", MaxLife: 90}, StickTable: &StickTable{Expire: &expire}}, []string{"on"}, "cookie C and stick rules", 90 * time.Second},
		"one without an end": {Backend{Cookie: &Cookie{Name: "C"}, StickTable: &StickTable{Expire: &expire}}, []string{"on"}, "cookie C and stick rules", 0},
	}
	for name, tt := range tests {
		if what, lasts := tt.backend.Keeps(tt.rules); what != tt.what || lasts != tt.lasts {
			t.Errorf("%s: %q for %v, want %q for %v", name, what, lasts, tt.what, tt.lasts)
		}
	}
}

func TestLogin(t *testing.T) {
	for _, secret := range []string{"", "admin", ":x", "admin:"} {
		if _, err := Login(t.Context(), providers.NewSecret(secret)); providers.KindOf(err) != providers.Invalid || err == nil {
			t.Errorf("%q: %v", secret, err)
		}
	}
	_, err := connect(t, "http://127.0.0.1:1", V3).Version(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the context has no login") {
		t.Errorf("a call without a login: %v", err)
	}
}

// Whatever a server has besides its weight comes back as it was.
func FuzzServer(f *testing.F) {
	f.Add(`{"name":"web1","weight":3,"address":"::1","port":8080,"check":"enabled","x":{"y":[1,2.50]}}`)
	f.Add(`{"name":"web1","slowstart":12345678901234567890}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		var s Server
		if json.Unmarshal([]byte(text), &s) != nil {
			return
		}
		sent, err := json.Marshal(s.with(7))
		if err != nil {
			t.Fatal(err)
		}
		var was, now map[string]any
		if json.Unmarshal([]byte(text), &was) != nil || json.Unmarshal(sent, &now) != nil {
			t.Fatalf("%s became %s", text, sent)
		}
		if was == nil {
			was = map[string]any{}
		}
		was["weight"] = 7.0
		if diff := cmp.Diff(was, now); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	})
}
