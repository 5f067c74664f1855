package main

import (
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// forge serves the bare repository remote.git as a forge does, over HTTP with
// Git's own backend. Its address is $FORGE. What the file door holds is how it
// answers a push: a status and a text, nothing to let it in. "all 401 …" is
// for every request.
func forge(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(ts.Exec("git", "--exec-path"))
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(ts.ReadFile("stdout")), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + ts.Getenv("WORK"), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x"},
	}
	if _, err := exec.LookPath(backend.Path); err != nil {
		ts.Fatalf("%v", err)
	}
	path := ts.MkAbs("door")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		door, err := os.ReadFile(path)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		text, all := strings.CutPrefix(strings.TrimSpace(string(door)), "all ")
		push := strings.Contains(r.URL.String(), "git-receive-pack")
		if status := map[string]int{"401": 401, "403": 403, "404": 404}[strings.SplitN(text, " ", 2)[0]]; status != 0 && (all || push) {
			if status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", `Basic realm="forge"`)
			}
			http.Error(w, text, status)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	ts.Defer(server.Close)
	ts.Setenv("FORGE", server.URL+"/remote.git")
}
