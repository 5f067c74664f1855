// Package nginxtest runs a real NGINX for tests: the installed program, as the
// current user, in a directory of its own, on loopback ports. It must not be
// used outside of tests; a test that uses it is behind the build tag peers.
package nginxtest

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/manent/action/providers/api/host/hosttest"
)

// Nginx is an instance. It does not run before Start.
type Nginx struct {
	Dir     string   // prefix; everything is below it
	Command []string // program with its arguments: what nginx_command is for a router
	Address string   // 127.0.0.1:port for a server of the configuration, free so far
	Status  string   // another one, for a status location

	t testing.TB
}

// New prepares an instance with a number of workers and no server. Its http
// block includes conf.d/*.conf.
func New(t testing.TB, workers int) *Nginx {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx" // not in everybody's PATH
	}
	dir, err := os.MkdirTemp(os.TempDir(), "manent-nginx-") //nolint:usetesting // a test's name may hold what a path should not
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	n := &Nginx{
		Dir: dir, Address: hosttest.FreeAddress(t), Status: hosttest.FreeAddress(t), t: t,
		Command: []string{program, "-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e", filepath.Join(dir, "error.log")},
	}
	for _, sub := range []string{"conf.d", "manent", "tmp", "logs"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n.Write("nginx.conf", n.config(workers))
	return n
}

func (n *Nginx) config(workers int) string {
	text := fmt.Sprintf("worker_processes %d;\npid nginx.pid;\nerror_log error.log notice;\nevents { worker_connections 512; }\nhttp {\n", workers)
	for _, use := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		text += fmt.Sprintf("    %s_temp_path tmp/%s;\n", use, use)
	}
	text += "    access_log off;\n    include conf.d/*.conf;\n}\n"
	me, err := user.Current()
	if err != nil {
		n.t.Fatal(err)
	}
	if os.Getuid() == 0 { // else workers could not enter a test's directory
		text = fmt.Sprintf("user %s;\n", me.Username) + text
	}
	return text
}

// Path is the absolute path of a file below Dir.
func (n *Nginx) Path(name string) string { return filepath.Join(n.Dir, name) }

// Write writes a file below Dir, without a reload.
func (n *Nginx) Write(name, content string) {
	n.t.Helper()
	if err := os.WriteFile(n.Path(name), []byte(content), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

// Read returns a file below Dir.
func (n *Nginx) Read(name string) string {
	n.t.Helper()
	content, err := os.ReadFile(n.Path(name))
	if err != nil {
		n.t.Fatal(err)
	}
	return string(content)
}

// Adapt moves what manent generate nginx prints into this instance: its
// example server listens on Address and logs below logs.
func (n *Nginx) Adapt(once string) string {
	n.t.Helper()
	for old, here := range map[string]string{"listen 80;": "listen " + n.Address + ";", "/var/log/nginx/": n.Path("logs") + "/"} {
		if !strings.Contains(once, old) {
			n.t.Fatalf("the generated configuration lacks %q:\n%s", old, once)
		}
		once = strings.ReplaceAll(once, old, here)
	}
	return once
}

// Start runs the instance until the test ends, and waits until it answers on
// the addresses that its configuration has.
func (n *Nginx) Start() {
	n.t.Helper()
	n.Run("-t")
	hosttest.Daemon(n.t, func() string { return tail(n.Read("error.log")) }, n.Command[0], n.with("-g", "daemon off;")...)
	for _, address := range []string{n.Address, n.Status} {
		if strings.Contains(n.configured(), address) {
			hosttest.Await(n.t, address)
		}
	}
	hosttest.Until(n.t, "nginx wrote nginx.pid, which -s reload needs", func() bool {
		_, err := os.Stat(n.Path("nginx.pid"))
		return err == nil
	})
}

// with are the arguments of the program with more of them.
func (n *Nginx) with(args ...string) []string { return slices.Concat(n.Command[1:], args) }

func (n *Nginx) configured() string {
	files, err := filepath.Glob(n.Path("conf.d/*.conf"))
	if err != nil {
		n.t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		content, err := os.ReadFile(f)
		if err != nil {
			n.t.Fatal(err)
		}
		all.Write(content)
	}
	return all.String()
}

// Run runs the program with more arguments, such as -t or -s reload.
func (n *Nginx) Run(args ...string) {
	n.t.Helper()
	cmd := exec.CommandContext(n.t.Context(), n.Command[0], n.with(args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		n.t.Fatalf("nginx %v: %v\n%s", args, err, out)
	}
}

func tail(log string) string {
	lines := strings.Split(log, "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}
