//go:build peers

package accesslog

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/manent/action/providers/api/host/hosttest"
)

// Formats as nginx gets them, with the parser of each.
var nginxLogs = map[string]struct {
	directive string
	parser    func() (Parser, error)
}{
	"article": {
		`log_format article '` + canary + `';`,
		func() (Parser, error) { return Nginx(canary, nginxFields()) },
	},
	"combined": {
		`log_format combined2 '$remote_addr - $remote_user [$time_local] "$request" $status "$http_user_agent" $backend $request_time';`,
		func() (Parser, error) {
			f := nginxFields()
			f.Time = "time_local"
			return Nginx(`$remote_addr - $remote_user [$time_local] "$request" $status "$http_user_agent" $backend $request_time`, f)
		},
	},
	"json": {
		`log_format json escape=json '{"time":"$msec","status":"$status","track":"$backend","took":"$request_time","agent":"$http_user_agent","id":"$http_x_user_id"}';`,
		func() (Parser, error) {
			return JSON(Fields{Time: "time", Status: "status", Track: "track", Duration: "took", Unit: time.Second})
		},
	},
}

// TestRealNginx lets clients send what they like and finds every request of
// every track in each of the formats.
func TestRealNginx(t *testing.T) {
	dir := t.TempDir()
	url := startNginx(t, dir)
	send := func(backend, path, agent, user string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Canary", backend)
		r.Header.Set("User-Agent", agent)
		r.Header.Set("X-User-Id", user)
		r.SetBasicAuth(user, "x")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	began := time.Now()
	for _, client := range []string{"plain", `a "quoted" one`, `\" 200 stable 0.001`, `x [30/Nov/2026:13:00:00 +0100] "GET / HTTP/1.1" 500 "-" stable 9`, "größe\t", `{"status":"500"}`} {
		send("always", "/ok", client, client)
		send("always", "/fail", client, client)
		send("", "/ok", client, client)
		send("", "/missing", client, client)
	}
	for name, l := range nginxLogs {
		t.Run(name, func(t *testing.T) {
			parse, err := l.parser()
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, name+".log")
			written(t, path, 24)
			tracks := map[string]*Stats{"canary": NewStats(), "stable": NewStats()}
			x, err := Log{Files: []string{path}}.Read(t.Context(), began.Add(-2*time.Second), time.Time{}, parse, func(e Entry) { tracks[e.Track].Add(e) })
			if err != nil || x.Malformed > 0 || x.Lines != 24 {
				t.Fatalf("error %v, extent %+v", err, x)
			}
			c, s := tracks["canary"], tracks["stable"]
			if c.Requests != 12 || c.Errors != 6 || c.Timed != 12 || s.Requests != 12 || s.ClientErrors != 6 || s.Errors != 0 {
				t.Errorf("canary %+v, stable %+v", *c, *s)
			}
		})
	}
}

// written waits for the log: nginx writes a line after it has answered.
func written(t *testing.T, path string, lines int) {
	t.Helper()
	hosttest.Until(t, "the log is written", func() bool {
		text, err := os.ReadFile(path)
		return err == nil && bytes.Count(text, []byte("\n")) >= lines
	})
}

func startNginx(t *testing.T, dir string) string {
	t.Helper()
	addr := hosttest.FreeAddress(t)
	formats, logs := "", ""
	for name, n := range nginxLogs {
		formats += n.directive + "\n"
		logs += fmt.Sprintf("access_log %s/%s.log %s;\n", dir, name, map[string]string{"article": "article", "combined": "combined2", "json": "json"}[name])
	}
	temp := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temp += fmt.Sprintf("%s_temp_path %s/%s;\n", kind, dir, kind)
	}
	conf := put(t, filepath.Join(dir, "nginx.conf"), fmt.Sprintf(`daemon off; master_process off; pid %s/pid; error_log stderr;
events {}
http {
%s
map $http_x_canary $backend { always canary; default stable; }
%s
server { listen %s; %s
  location /ok { return 200; } location /fail { return 503; } location / { return 404; } }
}`, dir, temp, formats, addr, logs))
	cmd := exec.CommandContext(t.Context(), "nginx", "-e", "stderr", "-p", dir, "-c", conf)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	hosttest.Await(t, addr)
	return "http://" + addr
}
