package host

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/manent/action/providers"
)

// fakeSSHD is an SSH server that runs what it is told in sh, on this machine.
type fakeSSHD struct {
	t        *testing.T
	listener net.Listener
	hostKeys []ssh.Signer
	user     ssh.PublicKey // whose key logs in
	password string
	prompt   bool // the password by a prompt only
	forward  bool

	mu    sync.Mutex
	conns []net.Conn
}

func newKey(t *testing.T) (ssh.Signer, string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	return signer, string(pem.EncodeToMemory(block))
}

// startSSHD returns a server and an access that it lets in, but for what
// spoil changed.
func startSSHD(t *testing.T, spoil func(*fakeSSHD, *Access)) (*fakeSSHD, Access, providers.Env) {
	t.Helper()
	hostKey, _ := newKey(t)
	user, private := newKey(t)
	listener := listen(t)
	s := &fakeSSHD{t: t, listener: listener, hostKeys: []ssh.Signer{hostKey}, user: user.PublicKey(), password: "correct horse", forward: true}
	t.Cleanup(func() { _ = listener.Close(); s.cut() })
	access := Access{
		User: "deploy", Port: listener.Addr().(*net.TCPAddr).Port, Key: "key",
		KnownHosts: knownhosts.Line([]string{listener.Addr().String()}, hostKey.PublicKey()),
	}
	if spoil != nil {
		spoil(s, &access)
	}
	go s.serve()
	secrets := map[string]string{"key": private, "password": "correct horse", "wrong": "battery staple"}
	env := providers.Env{Secret: func(_ context.Context, name string) (providers.Secret, error) {
		if secrets[name] == "" {
			return providers.Secret{}, errors.New("no such secret")
		}
		return providers.NewSecret(secrets[name]), nil
	}}
	return s, access, env
}

func (s *fakeSSHD) serve() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns = append(s.conns, conn)
		s.mu.Unlock()
		go s.login(conn)
	}
}

// cut ends all connections as a broken network does.
func (s *fakeSSHD) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
}

func (s *fakeSSHD) login(conn net.Conn) {
	config := &ssh.ServerConfig{PublicKeyCallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if c.User() == "deploy" && string(key.Marshal()) == string(s.user.Marshal()) {
			return nil, nil
		}
		return nil, errors.New("no")
	}}
	right := func(password string) error {
		if password == s.password {
			return nil
		}
		return errors.New("no")
	}
	config.KeyboardInteractiveCallback = func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
		answers, err := ask("", "", []string{"Name: ", "Password: "}, []bool{true, false})
		if err != nil || answers[0] != "" { // a shown answer must not be the password
			return nil, errors.New("no")
		}
		return nil, right(answers[1])
	}
	if !s.prompt {
		config.PasswordCallback = func(_ ssh.ConnMetadata, p []byte) (*ssh.Permissions, error) { return nil, right(string(p)) }
	}
	for _, key := range s.hostKeys {
		config.AddHostKey(key)
	}
	server, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		_ = conn.Close()
		return
	}
	defer func() { _ = server.Close() }()
	go ssh.DiscardRequests(requests)
	for c := range channels {
		switch c.ChannelType() {
		case "session":
			go s.session(c)
		case "direct-tcpip":
			go s.tunnel(c)
		default:
			_ = c.Reject(ssh.UnknownChannelType, "no")
		}
	}
}

func (s *fakeSSHD) session(c ssh.NewChannel) {
	channel, requests, err := c.Accept()
	if err != nil {
		return
	}
	var cmd *exec.Cmd
	for r := range requests {
		switch r.Type {
		case "exec":
			var text struct{ Command string }
			_ = ssh.Unmarshal(r.Payload, &text)
			cmd = exec.CommandContext(s.t.Context(), "sh", "-c", text.Command)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = channel, channel, channel.Stderr()
			err := cmd.Start()
			_ = r.Reply(err == nil, nil)
			go func() {
				_ = cmd.Wait()
				_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(cmd.ProcessState.ExitCode())}))
				_ = channel.Close()
			}()
		case "signal":
			_ = cmd.Process.Signal(os.Interrupt)
		default:
			_ = r.Reply(false, nil)
		}
	}
}

func (s *fakeSSHD) tunnel(c ssh.NewChannel) {
	if !s.forward {
		_ = c.Reject(ssh.Prohibited, "administratively prohibited")
		return
	}
	var to struct {
		Host     string
		Port     uint32
		From     string
		FromPort uint32
	}
	_ = ssh.Unmarshal(c.ExtraData(), &to)
	conn, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.ParseIP(to.Host), Port: int(to.Port)})
	if err != nil {
		_ = c.Reject(ssh.ConnectionFailed, "refused")
		return
	}
	channel, requests, err := c.Accept()
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	go func() { _, _ = io.Copy(conn, channel); _ = conn.CloseWrite() }()
	_, _ = io.Copy(channel, conn)
	_ = channel.Close()
}

func TestSSH(t *testing.T) {
	_, access, env := startSSHD(t, nil)
	h, err := Open(t.Context(), env, access, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })

	res, err := h.Run(t.Context(), Command{Args: []string{"sh", "-c", `cat; echo "$1" >&2; exit 3`, "sh", "it's $HOME"}, Stdin: []byte("in")})
	if err != nil || res.Exit != 3 || string(res.Stdout) != "in" || string(res.Stderr) != "it's $HOME\n" {
		t.Errorf("%d %q %q, %v", res.Exit, res.Stdout, res.Stderr, err)
	}
	_, err = h.Run(t.Context(), Command{Args: []string{"head", "-c", "1048577", "/dev/zero"}})
	kind(t, err, providers.Invalid, "printed more")

	path := managedFile(t, "old")
	if err := ReplaceFile(t.Context(), h, Change{Path: path, Expect: Digest([]byte("old")), Data: []byte("new"), Check: "true"}); err != nil {
		t.Error(err)
	}
	seen, err := ReadFile(t.Context(), h, path)
	if err != nil || string(seen.Data) != "new" {
		t.Errorf("read %q, %v", seen.Data, err)
	}
}

func TestSSHLogin(t *testing.T) {
	other, _ := newKey(t)
	tests := []struct {
		name  string
		spoil func(*fakeSSHD, *Access)
		kind  providers.Kind
		text  string // "" = lets in
	}{
		{"key", func(*fakeSSHD, *Access) {}, 0, ""},
		{"password", func(_ *fakeSSHD, a *Access) { a.Key, a.Password = "", "password" }, 0, ""},
		{"password by prompt", func(s *fakeSSHD, a *Access) { s.prompt, a.Key, a.Password = true, "", "password" }, 0, ""},
		{"password after the key", func(s *fakeSSHD, a *Access) { s.user, a.Password = other.PublicKey(), "password" }, 0, ""},
		{"known_hosts from a file", func(s *fakeSSHD, a *Access) {
			file := filepath.Join(s.t.TempDir(), "known_hosts")
			write(s.t, file, "# a comment\n"+a.KnownHosts+"\n")
			a.KnownHosts = file
		}, 0, ""},
		{"hashed known_hosts", func(s *fakeSSHD, a *Access) {
			name := knownhosts.HashHostname(knownhosts.Normalize(s.listener.Addr().String()))
			a.KnownHosts = name + " " + strings.SplitN(a.KnownHosts, " ", 2)[1]
		}, 0, ""},
		{"wrong key", func(s *fakeSSHD, _ *Access) { s.user = other.PublicKey() }, providers.Denied, `login of user "deploy" was refused`},
		{"wrong user", func(_ *fakeSSHD, a *Access) { a.User = "root" }, providers.Denied, "refused"},
		{"wrong password", func(_ *fakeSSHD, a *Access) { a.Key, a.Password = "", "wrong" }, providers.Denied, "refused"},
		{"unknown host", func(_ *fakeSSHD, a *Access) { a.KnownHosts = knownhosts.Line([]string{"other"}, other.PublicKey()) }, providers.Denied, "not in known_hosts"},
		{"another host key", func(s *fakeSSHD, _ *Access) { s.hostKeys = []ssh.Signer{other} }, providers.Denied, "another key"},
		{"revoked host key", func(_ *fakeSSHD, a *Access) {
			a.KnownHosts += "\n@revoked " + strings.Join(append([]string{"*"}, strings.Fields(a.KnownHosts)[1:]...), " ")
		}, providers.Denied, "revoked"},
		{"no such secret", func(_ *fakeSSHD, a *Access) { a.Key = "missing" }, providers.Invalid, "no such secret"},
		{"secret is no key", func(_ *fakeSSHD, a *Access) { a.Key = "wrong" }, providers.Invalid, "not a private key"},
		{"no known_hosts file", func(_ *fakeSSHD, a *Access) { a.KnownHosts = "/no/such/file" }, providers.Invalid, "no such file"},
		{"outside the workspace", func(_ *fakeSSHD, a *Access) { a.KnownHosts = "../known_hosts" }, providers.Invalid, "leaves the workspace"},
		{"nothing listens", func(s *fakeSSHD, _ *Access) { _ = s.listener.Close() }, providers.Unavailable, "refused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, access, env := startSSHD(t, tt.spoil)
			h, err := Open(t.Context(), env, access, "127.0.0.1")
			if tt.text != "" {
				kind(t, err, tt.kind, tt.text)
				if err != nil && (strings.Contains(err.Error(), "battery") || strings.Contains(err.Error(), "horse")) {
					t.Errorf("the error tells the secret: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			_ = h.Close()
		})
	}
}

// A server with several kinds of host key shows the one that is known.
func TestSSHHostKeyKinds(t *testing.T) {
	other, err := ssh.NewSignerFromKey(newECDSA(t))
	if err != nil {
		t.Fatal(err)
	}
	_, access, env := startSSHD(t, func(s *fakeSSHD, _ *Access) { s.hostKeys = append([]ssh.Signer{other}, s.hostKeys...) })
	h, err := Open(t.Context(), env, access, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	_ = h.Close()
	_, access, env = startSSHD(t, func(s *fakeSSHD, _ *Access) { s.hostKeys = []ssh.Signer{other} })
	_, err = Open(t.Context(), env, access, "127.0.0.1")
	kind(t, err, providers.Denied, "no key of the kind")
}

func TestSSHRunLost(t *testing.T) {
	s, access, env := startSSHD(t, nil)
	h, err := Open(t.Context(), env, access, s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	there, never := fifo(t), fifo(t)
	done := make(chan error, 1)
	run := func(ctx context.Context) {
		_, err := h.Run(ctx, Command{Args: []string{"sh", "-c", `echo >"$1"; read -r x <"$2"`, "sh", there, never}})
		done <- err
	}
	go run(t.Context())
	await(t, there)
	s.cut()
	kind(t, <-done, providers.Unknown, "the connection was lost")
	_, err = h.Run(t.Context(), Command{Args: []string{"true"}})
	kind(t, err, providers.Unavailable, "")

	h, err = Open(t.Context(), env, access, s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go run(ctx)
	await(t, there)
	cancel()
	kind(t, <-done, providers.Unknown, "context canceled")
	_, err = h.Run(ctx, Command{Args: []string{"true"}})
	kind(t, err, providers.Unknown, "context canceled")
}

// A server that accepts connections and says nothing is given up.
func TestSSHSilent(t *testing.T) {
	listener := listen(t)
	t.Cleanup(func() { _ = listener.Close() })
	_, access, env := startSSHD(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			cancel()
			_, _ = io.Copy(io.Discard, conn)
		}
	}()
	_, err := Open(ctx, env, access, listener.Addr().String())
	kind(t, err, providers.Unknown, "context canceled")
}

func TestSSHDial(t *testing.T) {
	_, access, env := startSSHD(t, nil)
	h, err := Open(t.Context(), env, access, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	listener := listen(t)
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_, _ = conn.Write([]byte("hello"))
			_ = conn.Close()
		}
	}()
	conn, err := h.Dial(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); string(got) != "hello" {
		t.Errorf("read %q, %v", got, err)
	}
	_ = conn.Close()
	_ = listener.Close()
	_, err = h.Dial(t.Context(), "tcp", listener.Addr().String())
	kind(t, err, providers.Unavailable, "refused")
	_ = h.Close() // as when the machine is gone
	_, err = h.Dial(t.Context(), "tcp", listener.Addr().String())
	kind(t, err, providers.Unknown, "connect from")
	_, access, env = startSSHD(t, func(s *fakeSSHD, _ *Access) { s.forward = false })
	closed, err := Open(t.Context(), env, access, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closed.Close() })
	_, err = closed.Dial(t.Context(), "tcp", listener.Addr().String())
	kind(t, err, providers.Denied, "prohibited")
}

func newECDSA(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
