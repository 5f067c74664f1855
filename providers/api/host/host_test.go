package host

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
)

func TestLocalRun(t *testing.T) {
	res, err := Local{}.Run(t.Context(), Command{Args: []string{"sh", "-c", `cat; echo "$1" >&2; exit 3`, "sh", "it's"}, Stdin: []byte("in")})
	if err != nil || res.Exit != 3 || string(res.Stdout) != "in" || string(res.Stderr) != "it's\n" {
		t.Errorf("%d %q %q, %v", res.Exit, res.Stdout, res.Stderr, err)
	}
}

func TestLocalRunRefused(t *testing.T) {
	tests := []struct {
		name string
		args []string
		kind providers.Kind
		text string
	}{
		{"nothing", nil, providers.Invalid, "no program"},
		{"zero byte", []string{"echo", "a\x00b"}, providers.Invalid, "zero byte"},
		{"no such program", []string{"manent-no-such-program"}, providers.Invalid, "not found"},
		{"no such path", []string{"/no/such/program"}, providers.Invalid, "no such file"},
		{"too much output", []string{"head", "-c", "1048577", "/dev/zero"}, providers.Invalid, "printed more"},
		{"killed", []string{"sh", "-c", "kill -KILL $$"}, providers.Unknown, "killed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Local{}.Run(t.Context(), Command{Args: tt.args})
			kind(t, err, tt.kind, tt.text)
		})
	}
}

func TestLocalRunEndsWithContext(t *testing.T) {
	there := fifo(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := Local{}.Run(ctx, Command{Args: []string{"sh", "-c", `trap 'echo caught >"$1"; exit 0' TERM; echo ready >"$1"; while :; do sleep 0.01; done`, "sh", there}})
		done <- err
	}()
	await(t, there)
	cancel()
	if got := await(t, there); got != "caught\n" {
		t.Errorf("the program said %q, want that it caught SIGTERM", got)
	}
	err := <-done
	kind(t, err, providers.Unknown, "context canceled")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v does not wrap context.Canceled", err)
	}
}

func TestLocalDial(t *testing.T) {
	listener := listen(t)
	conn, err := Local{}.Dial(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	_ = listener.Close()
	_, err = Local{}.Dial(t.Context(), "tcp", listener.Addr().String())
	kind(t, err, providers.Unavailable, "refused")
	if err := (Local{}).Close(); err != nil {
		t.Error(err)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestAccessCheck(t *testing.T) {
	whole := Access{User: "deploy", Port: 22, Key: "key", KnownHosts: "known_hosts"}
	if err := whole.Check(); err != nil {
		t.Error(err)
	}
	for text, spoil := range map[string]func(*Access){
		"ssh_user":                    func(a *Access) { a.User = "" },
		"ssh_key_secret or ssh_passw": func(a *Access) { a.Key = "" },
		"known_hosts":                 func(a *Access) { a.KnownHosts = " \n" },
		"ssh_port 0":                  func(a *Access) { a.Port = 0 },
		"ssh_port 65536":              func(a *Access) { a.Port = 65536 },
	} {
		a := whole
		spoil(&a)
		if err := a.Check(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %q", a, err, text)
		}
	}
}

func TestQuote(t *testing.T) {
	for want, args := range map[string][]string{
		"nginx -s reload":             {"nginx", "-s", "reload"},
		"''":                          {""},
		`'it'\''s' '$(x)' '` + "`y`'": {"it's", "$(x)", "`y`"},
		"'A=b' /a/b.c:8 '~' '*'":      {"A=b", "/a/b.c:8", "~", "*"},
	} {
		if got := Quote(args...); got != want {
			t.Errorf("Quote(%q) = %s, want %s", args, got, want)
		}
	}
}

// FuzzQuote asks a real shell what it makes of quoted arguments.
func FuzzQuote(f *testing.F) {
	for _, seed := range []string{"", "a b", "it's", "$HOME `id` $(id)", "\\", "a\nb", "-n", "*", "~", "ä\xff", "\"", "!", "#c", "a;b&c|d<e>f"} {
		f.Add(seed, "x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if strings.ContainsRune(a+b, 0) {
			return // no argument can hold it; Run refuses it
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		res, err := Local{}.Run(ctx, Command{Args: []string{"sh", "-c", "printf '%s\\0' " + Quote("x", a, b)}})
		if want := "x\x00" + a + "\x00" + b + "\x00"; err != nil || string(res.Stdout) != want {
			t.Errorf("the shell made %q of it, want %q: %v %s", res.Stdout, want, err, res.Stderr)
		}
	})
}
