package nginx

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/host/hosttest"
)

func TestVersion(t *testing.T) {
	for said, want := range map[string]string{
		"nginx version: nginx/1.22.1\n":                         "1.22.1",
		"nginx version: openresty/1.29.6.1\n":                   "1.29.6",
		"nginx: [alert] a log\nnginx version: nginx/1.31.5 (x)": "1.31.5",
		"something else 1.2.3":                                  "",
	} {
		m := &hosttest.Machine{Program: func(args []string) host.Result {
			if strings.Join(args, " ") != "nginx -p /x -v" {
				return host.Result{Exit: 1, Stderr: []byte("unexpected arguments")}
			}
			return host.Result{Stderr: []byte(said)}
		}}
		s := Server{Host: m, Command: []string{"nginx", "-p", "/x"}}
		got, err := s.Version(t.Context())
		if want == "" {
			if providers.KindOf(err) != providers.Invalid {
				t.Errorf("%q: %v, want an error", said, err)
			}
			continue
		}
		if err != nil || got.String() != want {
			t.Errorf("%q: version %v, %v, want %s", said, got, err, want)
		}
		old := strings.HasPrefix(want, "1.22")
		if err := s.Since(t.Context(), Version{1, 29, 6}, "sticky cookie"); (err != nil) != old {
			t.Errorf("%s since 1.29.6: %v", want, err)
		} else if old && (providers.KindOf(err) != providers.Invalid || !strings.Contains(err.Error(), "1.22.1")) {
			t.Errorf("%s since 1.29.6: %v, want Invalid with the version", want, err)
		}
	}
}

func TestReplace(t *testing.T) {
	tests := []struct {
		name         string
		server       Server
		check, apply string
	}{
		{"default", Server{Command: []string{"nginx"}}, "nginx -t", "nginx -s reload"},
		{"arguments", Server{Command: []string{"sudo", "-n", "nginx", "-c", "/a b"}}, "sudo -n nginx -c '/a b' -t", "sudo -n nginx -c '/a b' -s reload"},
		{"reload command", Server{Command: []string{"nginx"}, Reload: "nginx -t && systemctl reload nginx"}, "", "nginx -t && systemctl reload nginx"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			asked := ""
			m := &hosttest.Machine{Apply: func(_, check, apply string, _ []byte) (int, string) {
				asked = check + "|" + apply
				return 0, ""
			}}
			tt.server.Host = m
			if err := tt.server.Replace(t.Context(), "/etc/x.conf", host.Absent, []byte("new")); err != nil {
				t.Fatal(err)
			}
			if asked != tt.check+"|"+tt.apply || string(m.File("/etc/x.conf")) != "new" {
				t.Errorf("asked %q, file %q", asked, m.File("/etc/x.conf"))
			}
		})
	}
}

func TestStatus(t *testing.T) {
	tests := []struct {
		name   string
		answer func(n int, w http.ResponseWriter)
		want   bool
		kind   providers.Kind
		text   string // of the error, "" for none
		asked  int
	}{
		{"all new", func(_ int, w http.ResponseWriter) { _, _ = fmt.Fprintln(w, "new") }, true, 0, "", 5},
		{"one old", func(n int, w http.ResponseWriter) {
			_, _ = fmt.Fprint(w, []string{"new", "new", "old", "new", "new"}[n])
		}, false, 0, "", 3},
		{"empty", func(int, http.ResponseWriter) {}, false, 0, "", 1},
		{"begins like it", func(_ int, w http.ResponseWriter) { _, _ = fmt.Fprint(w, "newer") }, false, 0, "", 1},
		{"not there", func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, false, providers.Unavailable, "status 404", 1},
		{"elsewhere", func(_ int, w http.ResponseWriter) {
			w.Header().Set("Location", "/status")
			w.WriteHeader(http.StatusFound)
		}, false, providers.Unavailable, "status 302", 1},
		{"too long", func(_ int, w http.ResponseWriter) { _, _ = fmt.Fprint(w, strings.Repeat("new\n", 2000)) }, false, providers.Unknown, "", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			asked := 0
			m := &hosttest.Machine{Network: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/status" || !r.Close {
					t.Errorf("%s, close %v: want /status over a connection of its own", r.URL, r.Close)
				}
				asked++
				tt.answer(asked-1, w)
			})}
			got, err := Server{Host: m}.Status(t.Context(), "http://127.0.0.1:8319/status", "new", 5)
			if got != tt.want || asked != tt.asked {
				t.Errorf("%v after %d answers, want %v after %d", got, asked, tt.want, tt.asked)
			}
			if (err != nil) != (tt.kind != 0 || tt.name == "too long") || (err != nil && (providers.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.text) || providers.HintOf(err) == "")) {
				t.Errorf("error %v of kind %v, want %v with %q and a hint", err, providers.KindOf(err), tt.kind, tt.text)
			}
		})
	}
}

func TestStatusUnreachable(t *testing.T) {
	m := &hosttest.Machine{}
	ok, err := Server{Host: m}.Status(t.Context(), "http://127.0.0.1:8319/status", "", 5)
	if ok || err == nil || providers.KindOf(err).Definite() {
		t.Errorf("%v, %v, want an error that is no answer", ok, err)
	}
}
