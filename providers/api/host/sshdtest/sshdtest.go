// Package sshdtest runs a real sshd for tests: the installed program, as the
// current user, with keys of its own, on loopback. Connections to it can be
// cut. It must not be used outside of tests; a test that uses it is behind the
// build tag peers.
package sshdtest

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/manent/action/providers/api/host/hosttest"
)

// Server is an sshd with a wire in front of it.
type Server struct {
	Address    string // host:port that clients connect to
	User       string // who may log in
	Key        string // with this private key, in PEM
	KnownHosts string // line for Address

	t      testing.TB
	direct string // where sshd itself listens
	mu     sync.Mutex
	down   bool
	conns  []net.Conn
}

// Keys makes the key of a user, for several servers: the private one in PEM,
// and the public one.
func Keys(t testing.TB) (private string, public ssh.PublicKey) {
	t.Helper()
	public, private = newKey(t)
	return private, public
}

// Start runs an sshd until the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	private, public := Keys(t)
	s := StartFor(t, public)
	s.Key = private
	return s
}

// StartFor runs an sshd for who has this key. What it runs gets these
// variables, NAME=value without spaces or quotes.
func StartFor(t testing.TB, userKey ssh.PublicKey, env ...string) *Server {
	t.Helper()
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // sshd wants it for its unprivileged half
			t.Fatal(err)
		}
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{User: me.Username, t: t}
	dir := t.TempDir()
	hostKey, hostPEM := newKey(t)
	write(t, filepath.Join(dir, "host_key"), hostPEM)
	write(t, filepath.Join(dir, "authorized_keys"), string(ssh.MarshalAuthorizedKey(userKey)))
	s.run(dir, env)
	s.listen(hostKey)
	return s
}

func newKey(t testing.TB) (ssh.PublicKey, string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	return key, string(pem.EncodeToMemory(block))
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run starts sshd; it wants its own absolute path.
func (s *Server) run(dir string, env []string) {
	s.t.Helper()
	s.direct = hosttest.FreeAddress(s.t)
	config := filepath.Join(dir, "sshd_config")
	_, port, _ := net.SplitHostPort(s.direct)
	write(s.t, config, fmt.Sprintf(`Port %s
ListenAddress 127.0.0.1
HostKey %s/host_key
AuthorizedKeysFile %s/authorized_keys
PidFile %s/sshd.pid
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
MaxStartups 100
SetEnv HOME=%s %s
`, port, dir, dir, dir, dir, strings.Join(env, " "))) // HOME: bash reads ~/.bashrc here, which may take long or print
	program, err := exec.LookPath("sshd")
	if err != nil {
		program = "/usr/sbin/sshd" // not in everybody's PATH
	}
	log := filepath.Join(dir, "log")
	hosttest.Daemon(s.t, func() string {
		said, _ := os.ReadFile(log)
		return string(said)
	}, program, "-D", "-f", config, "-E", log)
	hosttest.Await(s.t, s.direct)
}

// listen opens the wire's near end.
func (s *Server) listen(hostKey ssh.PublicKey) {
	s.t.Helper()
	l := hosttest.Listen(s.t)
	s.Address = l.Addr().String()
	s.KnownHosts = knownhosts.Line([]string{s.Address}, hostKey)
	s.t.Cleanup(func() { _ = l.Close(); s.Cut() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go s.carry(near)
		}
	}()
}

func (s *Server) carry(near net.Conn) {
	far, err := new(net.Dialer).DialContext(s.t.Context(), "tcp", s.direct)
	s.mu.Lock()
	if err != nil || s.down {
		s.mu.Unlock()
		_ = near.Close()
		return
	}
	s.conns = append(s.conns, near, far)
	s.mu.Unlock()
	go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
	_, _ = io.Copy(near, far)
	_ = near.Close()
}

// Cut ends all connections that there are, as a broken network does.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
}

// Down lets nobody in until the returned function is called.
func (s *Server) Down() (up func()) {
	set := func(down bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.down = down
	}
	set(true)
	return func() { set(false) }
}
