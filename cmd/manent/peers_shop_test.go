//go:build peers

package main

import (
	"encoding/json"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/manent/action/providers/api/host/sshdtest"
	"github.com/manent/action/providers/api/nginx/nginxtest"
	"github.com/manent/action/providers/metric/prometheus/prometheustest"
)

// The parts that a configuration of these tests is made of.
const (
	head = `
project: shop
application: web
environment: prod
state: $STATE
steps:
  - {name: copy, at: deploy, run: "true"}
`
	localNGINX = `
traffic:
  router:
    provider: nginx
    settings: {include_file: $INCLUDE, mode: $MODE, slot_a: [$SLOT_A], slot_b: [$SLOT_B], nginx_command: $NGINX, status_url: $NGINX_STATUS}
`
	remoteNGINX = `
secrets:
  - {name: ssh-key, ref: "env:SSH_KEY"}
traffic:
  router:
    provider: nginx
    settings:
      {include_file: $INCLUDE, mode: $MODE, slot_a: [$SLOT_A], slot_b: [$SLOT_B], nginx_command: $NGINX, status_url: $NGINX_STATUS,
       lb_hosts: ["$SSH"], ssh_user: $SSH_USER, ssh_key_secret: ssh-key, known_hosts: "$KNOWN_HOSTS"}
`
)

// nginx prepares a real NGINX in front of the service, in a mode. It runs
// from serve on.
func (s *shop) nginx(mode string) *nginxtest.Nginx {
	s.t.Helper()
	n := nginxtest.New(s.t, 2)
	command, err := json.Marshal(n.Command)
	if err != nil {
		s.t.Fatal(err)
	}
	for name, value := range map[string]string{
		"MODE": mode, "INCLUDE": n.Path("manent/split.conf"), "NGINX": string(command), "NGINX_STATUS": "http://" + n.Status + "/manent_status",
		"SLOT_A": strings.TrimPrefix(s.a.url, "http://"), "SLOT_B": strings.TrimPrefix(s.b.url, "http://"), "LOG": n.Path("logs/manent.log"),
	} {
		s.vars[name] = value
	}
	s.front = "http://" + n.Address
	return n
}

// serve starts NGINX as a user does: with what manent generate nginx prints.
func (s *shop) serve(n *nginxtest.Nginx) {
	s.t.Helper()
	n.Write("conf.d/once.conf", n.Adapt(s.exits(0, "generate", "nginx")))
	n.Write("manent/split.conf", s.exits(0, "generate", "nginx", "--initial"))
	n.Start()
}

// overSSH makes NGINX's machine another one, behind a real sshd.
func (s *shop) overSSH() {
	daemon := sshdtest.Start(s.t)
	s.vars["SSH"], s.vars["SSH_USER"], s.vars["KNOWN_HOSTS"] = daemon.Address, daemon.User, daemon.KnownHosts
	s.env = append(s.env, "SSH_KEY="+daemon.Key)
}

// prometheus runs a real Prometheus that reads the service's metrics.
func (s *shop) prometheus() {
	s.t.Helper()
	s.vars["PROMETHEUS"] = prometheustest.Scrape(s.t, 250*time.Millisecond, strings.TrimPrefix(s.a.url, "http://"), strings.TrimPrefix(s.b.url, "http://"))
}

// repository makes a bare repository for the state and returns its path.
func (s *shop) repository() string {
	s.t.Helper()
	path := filepath.Join(s.dir, "state.git")
	s.git("init", "--quiet", "--bare", path)
	s.vars["STATE"] = "git:" + path
	return path
}

func (s *shop) git(args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "git", args...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "HOME="+s.dir, "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// repositoryOverHTTP serves a repository for the state to whoever has the token.
func (s *shop) repositoryOverHTTP() string {
	s.t.Helper()
	path := s.repository()
	const token = "s3cr3t-t0ken-of-the-state"
	s.env = append(s.env, "MANENT_GIT_TOKEN="+token)
	s.vars["STATE"] = "git:" + s.serveGit(s.dir, "", token) + "/state.git"
	return path
}

// serveGit serves the bare repositories below a folder with git's own backend,
// to whoever has the password, and the name if one is demanded.
func (s *shop) serveGit(root, name, password string) string {
	s.t.Helper()
	backend := cgi.Handler{
		Path: filepath.Join(s.git("--exec-path"), "git-http-backend"),
		Env: []string{
			"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=manent",
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http.receivepack", "GIT_CONFIG_VALUE_0=true",
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who, secret, _ := r.BasicAuth(); secret != password || name != "" && who != name {
			w.Header().Set("WWW-Authenticate", `Basic realm="state"`)
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		one := backend
		one.Env = append(one.Env[:len(one.Env):len(one.Env)], "GIT_PROTOCOL="+r.Header.Get("Git-Protocol"))
		one.ServeHTTP(w, r)
	}))
	s.t.Cleanup(server.Close)
	return server.URL
}

// byHand gives the candidate a share that manent did not write, and reloads.
func byHand(n *nginxtest.Nginx, share string) {
	hashed := regexp.MustCompile(`[0-9.]+% b;`)
	text := n.Read("manent/split.conf")
	n.Write("manent/split.conf", hashed.ReplaceAllString(text, share+"% b;"))
	n.Run("-s", "reload")
}
