// Package host runs programs, replaces files and opens connections on one
// machine: this one, or another over SSH.
//
// Programs are given as argument vectors and never as text put together from
// data. Host keys are always verified; there is no setting that says
// otherwise. The package must not know what a program or a file is for, nor
// any contract.
package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/manent/action/providers"
)

// MaxOutput is how much of each output stream of a program is read, in bytes.
// A program that prints more is an error.
const MaxOutput = 1 << 20

// Host is one machine. It may be used for one call after the other, not from
// several goroutines. Errors are *providers.Fault without a Provider, which is
// the caller's to set.
type Host interface {
	// Run runs a program to its end. An exit code other than 0 is a result,
	// not an error. Errors: Invalid when it could not be started or printed
	// too much; Unknown when nobody can say how far it came: the context
	// ended, the connection was lost, somebody killed it. When the context
	// ends the program gets SIGTERM and is not waited for much longer.
	Run(ctx context.Context, c Command) (Result, error)

	// Dial opens a connection from the machine: 127.0.0.1 is the machine's
	// own loopback address, also over SSH. Unavailable says that nothing
	// accepts there; Unknown that the machine itself did not answer.
	Dial(ctx context.Context, network, address string) (net.Conn, error)

	// Close ends the connection to the machine.
	Close() error
}

// Command is a program with its arguments.
type Command struct {
	Args  []string // program and arguments, at least one
	Stdin []byte
	Input io.Reader // instead of Stdin, for what is too much to hold; read until its end, an error or that of the program
}

// input is what the program reads.
func (c Command) input() io.Reader {
	if c.Input != nil {
		return c.Input
	}
	return bytes.NewReader(c.Stdin)
}

// Result is what a program left.
type Result struct {
	Exit   int // exit code, 0–255
	Stdout []byte
	Stderr []byte
}

// Access is how other machines are reached over SSH.
type Access struct {
	User       string
	Port       int                 // where the host's name has none
	Key        providers.SecretRef // private key in PEM, without a passphrase
	Password   providers.SecretRef // tried after the key
	KnownHosts string              // path of a known_hosts file, or its lines
}

// Check says what is missing to reach another machine. It does no I/O.
func (a Access) Check() error {
	switch {
	case a.User == "":
		return errors.New("ssh_user is missing")
	case a.Key == "" && a.Password == "":
		return errors.New("ssh_key_secret or ssh_password_secret is missing")
	case strings.TrimSpace(a.KnownHosts) == "":
		return errors.New("known_hosts is missing: host keys are always verified")
	case a.Port < 1 || a.Port > 65535:
		return fmt.Errorf("ssh_port %d, expected 1–65535", a.Port)
	}
	return nil
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// CheckNames refuses names that Open does not take, and those that are there
// twice. setting is where they are from.
func CheckNames(setting string, names []string) error {
	for i, name := range names {
		bare := name
		if h, _, err := net.SplitHostPort(name); err == nil {
			bare = h
		}
		if _, err := netip.ParseAddr(bare); err != nil && !hostName.MatchString(bare) {
			return fmt.Errorf("%s: %q, expected a host, or host:port", setting, name)
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("%s: %q is there twice", setting, name)
		}
	}
	return nil
}

// Open connects to the named machine; "" is this one and needs no Access.
func Open(ctx context.Context, env providers.Env, a Access, name string) (Host, error) {
	if name == "" {
		return Local{}, nil
	}
	return dialSSH(ctx, env, a, name)
}

func fault(kind providers.Kind, op string, err error, hint string) error {
	return &providers.Fault{Op: op, Kind: kind, Err: err, Hint: hint}
}

func checkArgs(args []string) error {
	if len(args) == 0 || args[0] == "" {
		return errors.New("no program given")
	}
	for _, arg := range args {
		if strings.ContainsRune(arg, 0) {
			return fmt.Errorf("argument %q has a zero byte", arg)
		}
	}
	return nil
}

// limited keeps the first MaxOutput bytes of what is written to it and takes
// the rest without keeping it, so that the program does not block.
type limited struct {
	data []byte
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	room := MaxOutput - len(l.data)
	if len(p) > room {
		l.over = true
	}
	l.data = append(l.data, p[:min(len(p), room)]...)
	return len(p), nil
}

// collect makes a result, or says that there was too much output.
func collect(op string, exit int, stdout, stderr *limited) (Result, error) {
	if stdout.over || stderr.over {
		return Result{}, fault(providers.Invalid, op, fmt.Errorf("printed more than %d bytes", MaxOutput), "")
	}
	return Result{Exit: exit, Stdout: stdout.data, Stderr: stderr.data}, nil
}
