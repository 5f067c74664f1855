package nginxplus_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/nginxplus"
	"github.com/manent/action/providers/api/nginxplus/nginxplustest"
	"github.com/manent/action/providers/httpx"
)

func client(t *testing.T, h http.Handler) *api.Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return api.New(httpx.New(httpx.Options{Provider: "nginx-plus", Backoff: 1, NoRedirects: true}), "nginx-plus", srv.URL+"/api/", "app", 0)
}

func TestSet(t *testing.T) {
	n := nginxplustest.New(t, nginxplustest.Add(3, "10.0.0.1:80", 5), nginxplustest.Add(4, "10.0.0.2:80", 1))
	c := client(t, n)
	for _, step := range []struct {
		units, weight int
		drain         bool
	}{{7, 7, false}, {0, 7, true}, {0, 7, true}, {2, 2, false}} {
		servers, _, err := c.Servers(t.Context())
		if err == nil {
			err = c.Set(t.Context(), servers[0], step.units)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := n.Server("10.0.0.1:80"); got.Weight != step.weight || got.Drain != step.drain {
			t.Errorf("units %d gave %+v", step.units, got)
		}
	}
	if got := n.Server("10.0.0.2:80"); got.Weight != 1 {
		t.Errorf("the other server has %+v", got)
	}
	err := c.Set(t.Context(), api.Server{ID: "9", Address: "10.0.0.1:80"}, 1)
	if !errors.Is(err, api.ErrGone) || providers.KindOf(err) != providers.NotFound {
		t.Errorf("an id that is gone: %v", err)
	}
	err = c.Set(t.Context(), api.Server{ID: "4", Address: "10.0.0.1:80"}, 9)
	if !providers.IsConflict(err) || !strings.Contains(err.Error(), `id 4 is server "10.0.0.2:80" now`) {
		t.Errorf("an id of another: %v", err)
	}
}

// Of the API's answer only what is expected gets anywhere.
func TestAnswers(t *testing.T) {
	entry := `{"id":0,"server":"10.0.0.1:80","weight":1,"parent":7,"host":"h"}`
	for name, tt := range map[string]struct {
		versions, servers, live string
		text                    string
	}{
		"good":            {`[1,9]`, `[` + entry + `]`, `{"peers":[]}`, ""},
		"no versions":     {`[]`, `[]`, `{"peers":[]}`, "versions []"},
		"version 0":       {`[0,9]`, `[]`, `{"peers":[]}`, "versions [0 9]"},
		"not a list":      {`{"a":1}`, `[]`, `{"peers":[]}`, "not the expected JSON"},
		"null servers":    {`[9]`, `null`, `{"peers":[]}`, "no list of servers"},
		"no peers":        {`[9]`, `[]`, `{}`, "no list of peers"},
		"servers as map":  {`[9]`, `{"peers":[]}`, `{"peers":[]}`, "not the expected JSON"},
		"no weight":       {`[9]`, `[{"id":0,"server":"x:80"}]`, `{"peers":[]}`, `server "x:80" with id "0" and weight 0`},
		"weight as text":  {`[9]`, `[{"id":0,"server":"x:80","weight":"1"}]`, `{"peers":[]}`, "not the expected JSON"},
		"no id":           {`[9]`, `[{"server":"x:80","weight":1}]`, `{"peers":[]}`, `id ""`},
		"null id":         {`[9]`, `[{"id":null,"server":"x:80","weight":1}]`, `{"peers":[]}`, `id ""`},
		"id that is path": {`[9]`, `[{"id":"../1","server":"x:80","weight":1}]`, `{"peers":[]}`, "not the expected JSON"},
		"no server":       {`[9]`, `[{"id":0,"weight":1}]`, `{"peers":[]}`, `server ""`},
	} {
		t.Run(name, func(t *testing.T) {
			c := client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body := tt.live
				switch {
				case r.URL.Path == "/api/":
					body = tt.versions
				case !strings.HasSuffix(tt.versions, "9]") || tt.versions[1] == '0':
					nginxplustest.Refuse(w, http.StatusNotFound, "UnknownVersion", "not this one")
					return
				case strings.HasSuffix(r.URL.Path, "/servers/"):
					body = tt.servers
				}
				_, _ = fmt.Fprint(w, body)
			}))
			got, unseen, err := c.Servers(t.Context())
			if tt.live == "{}" {
				err = unseen
			}
			if tt.text == "" {
				want := []api.Server{{ID: "0", Address: "10.0.0.1:80", Host: "h", Parent: "7", Weight: 1}}
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
				return
			}
			if err == nil || providers.KindOf(err) != providers.Unknown || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v of kind %v, want unknown with %q", err, providers.KindOf(err), tt.text)
			}
		})
	}
}

// Each of the API's codes means something of its own; one that is not known
// means what its status does.
func TestCodes(t *testing.T) {
	for code, want := range map[string]struct {
		status int
		kind   providers.Kind
		hint   string
	}{
		"UpstreamNotFound":              {404, providers.NotFound, "the name of an upstream"},
		"UpstreamServerNotFound":        {404, providers.NotFound, "run this again"},
		"UnknownVersion":                {404, providers.Invalid, "api_version"},
		"PathNotFound":                  {404, providers.NotFound, "api_urls"},
		"UpstreamStatic":                {400, providers.Invalid, "zone"},
		"MethodDisabled":                {405, providers.Denied, "write=on"},
		"UpstreamServerWeightImmutable": {400, providers.Invalid, "SRV"},
		"UpstreamBadWeight":             {400, providers.Invalid, ""},
		"UpstreamOutOfMemory":           {400, providers.Unavailable, "memory"},
		"JsonError":                     {415, providers.Invalid, ""},
		"SomethingNew":                  {409, providers.Conflict, ""},
		"":                              {405, providers.Invalid, "write=on"},
	} {
		t.Run(code, func(t *testing.T) {
			c := client(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(want.status)
				_, _ = fmt.Fprintf(w, `{"error":{"status":%d,"text":"%s","code":"%s"}}`, want.status, "words of the server", code)
			}))
			_, _, err := c.Servers(t.Context())
			hint := providers.HintOf(err)
			if providers.KindOf(err) != want.kind || !strings.Contains(hint, want.hint) || !strings.Contains(err.Error(), code) {
				t.Errorf("error %v of kind %v with hint %q", err, providers.KindOf(err), hint)
			}
		})
	}
}

// What is no answer of the API says nothing about the upstream, and where it
// points to nothing is sent.
func TestNotItsOwn(t *testing.T) {
	for status, kind := range map[int]providers.Kind{
		301: providers.Unavailable, 302: providers.Unavailable, 308: providers.Unavailable, 400: providers.Unavailable, 404: providers.Unavailable,
		405: providers.Unavailable, 409: providers.Unavailable, 410: providers.Unavailable, 412: providers.Unavailable, 502: providers.Unavailable,
		401: providers.Denied, 403: providers.Denied, 429: providers.Throttled,
	} {
		for _, body := range []string{"<html>this is the proxy</html>", `{"code":404,"message":"of another API"}`, ""} {
			c := client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/elsewhere" {
					t.Error("a redirect was followed")
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(status)
				_, _ = fmt.Fprint(w, body)
			}))
			_, _, err := c.Servers(t.Context())
			if providers.KindOf(err) != kind || status < 500 && kind != providers.Throttled && providers.HintOf(err) == "" {
				t.Errorf("status %d with %q: %v of kind %v, hint %q, want %v", status, body, err, providers.KindOf(err), providers.HintOf(err), kind)
			}
			if err := c.Set(t.Context(), api.Server{ID: "1", Address: "x:80"}, 1); providers.KindOf(err) != kind {
				t.Errorf("a write, status %d with %q: %v", status, body, err)
			}
			if err := c.Writable(t.Context()); providers.KindOf(err) != kind {
				t.Errorf("the question whether it can be written, status %d with %q: %v", status, body, err)
			}
		}
	}
}

// What says that a change is done, and shows no server or changes one that is
// not there, is not the API.
func TestPageOfSuccess(t *testing.T) {
	for _, body := range []string{"<html>log in</html>", `{"server":""}`, "{}", ""} {
		c := client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := "[9]"
			if r.Method == http.MethodPatch {
				answer = body
			}
			_, _ = fmt.Fprint(w, answer)
		}))
		for what, err := range map[string]error{"the question": c.Writable(t.Context()), "a write": c.Set(t.Context(), api.Server{ID: "1", Address: "x:80"}, 1)} {
			if err == nil || providers.KindOf(err) != providers.Unknown {
				t.Errorf("%s, answered %q: %v of kind %v", what, body, err, providers.KindOf(err))
			}
		}
	}
}

func TestMatch(t *testing.T) {
	s := func(id, address string) api.Server { return api.Server{ID: id, Address: address, Weight: 1} }
	static, child, holder, backup := s("2", "10.0.0.2:80"), s("3", "10.0.0.3:8080"), s("4", "green.internal:8080"), s("5", "10.0.0.5:80")
	static.Name, child.Host, child.Parent, backup.Backup = "blue.internal", "green.internal", "4", true
	all := []api.Server{s("1", "10.0.0.1:80"), static, child, holder, backup, s("6", "[fd00::1]:80"), s("7", "unix:/run/app.sock")}
	service := s("9", "10.0.0.9:3000")
	service.Host, service.Parent = "srv.internal", "8"
	all = append(all, s("8", "srv.internal"), service)
	for name, tt := range map[string]struct {
		names  []string
		found  map[string]int // id and place of the name
		others int
		text   string
	}{
		"address":            {[]string{"10.0.0.1:80"}, map[string]int{"1": 0}, 5, ""},
		"port 80":            {[]string{"10.0.0.1"}, map[string]int{"1": 0}, 5, ""},
		"brackets":           {[]string{"fd00::1", "[fd00::1]:81"}, map[string]int{"6": 0}, 5, "no server [fd00::1]:81"},
		"socket":             {[]string{"unix:/run/app.sock"}, map[string]int{"7": 0}, 5, ""},
		"name of directive":  {[]string{"blue.internal:80"}, map[string]int{"2": 0}, 5, ""},
		"resolved":           {[]string{"green.internal:8080"}, map[string]int{"3": 0, "4": 0}, 5, ""},
		"resolved from SRV":  {[]string{"srv.internal"}, map[string]int{"8": 0, "9": 0}, 5, ""},
		"another port":       {[]string{"10.0.0.1:81"}, nil, 6, "no server 10.0.0.1:81"},
		"backup":             {[]string{"10.0.0.5:80"}, nil, 6, "10.0.0.5:80 is a backup"},
		"two names, one not": {[]string{"10.0.0.9", "10.0.0.2"}, map[string]int{"2": 1}, 5, "no server 10.0.0.9"},
	} {
		t.Run(name, func(t *testing.T) {
			found, others, err := api.Match(all, tt.names)
			got := map[string]int{}
			for _, f := range found {
				if got[f.ID] = f.Of; f.Takes == (f.ID == "4" || f.ID == "8") {
					t.Errorf("server %s takes requests: %v", f.ID, f.Takes)
				}
			}
			if len(got) != len(tt.found) || len(got) > 0 && cmp.Diff(tt.found, got) != "" || len(others) != tt.others {
				t.Errorf("found %v and %d others, want %v and %d", got, len(others), tt.found, tt.others)
			}
			if (err != nil) != (tt.text != "") || err != nil && (!strings.Contains(err.Error(), tt.text) || providers.HintOf(err) == "") {
				t.Errorf("error %v, hint %q, want %q", err, providers.HintOf(err), tt.text)
			}
		})
	}
}
