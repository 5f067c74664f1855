package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/manent/action/providers"
)

// connectTimeout bounds connecting and logging in.
const connectTimeout = 5 * time.Second

// remote is a machine over SSH.
type remote struct {
	conn   net.Conn
	client *ssh.Client
	name   string
}

func dialSSH(ctx context.Context, env providers.Env, a Access, name string) (Host, error) {
	address := address(name, a.Port)
	op := "ssh to " + address
	auth, err := authMethods(ctx, env, a)
	if err != nil {
		return nil, fault(providers.Invalid, op, err, "")
	}
	keys, err := readKnownHosts(env.Dir, a.KnownHosts)
	if err != nil {
		return nil, fault(providers.Invalid, op, err, "")
	}
	short, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(short, "tcp", address)
	if err != nil {
		return nil, unreached(ctx, op, err)
	}
	client, err := handshake(short, conn, address, &ssh.ClientConfig{
		User: a.User, Auth: auth,
		HostKeyCallback: keys, HostKeyAlgorithms: algorithms(keys, address),
	})
	if err != nil {
		_ = conn.Close()
		if ctx.Err() != nil {
			return nil, unreached(ctx, op, err)
		}
		return nil, loginFault(op, a.User, err)
	}
	return &remote{conn: conn, client: client, name: address}, nil
}

// unreached is the fault of a machine that did not answer: nothing was done
// there, unless it was the caller who gave up, who then has no answer at all.
func unreached(caller context.Context, op string, err error) error {
	if caller.Err() != nil {
		return fault(providers.Unknown, op, context.Cause(caller), "")
	}
	return fault(providers.Unavailable, op, err, "")
}

// address adds the port where a host has none of its own.
func address(name string, port int) string {
	if host, p, err := net.SplitHostPort(name); err == nil {
		return net.JoinHostPort(host, p)
	}
	return net.JoinHostPort(name, strconv.Itoa(port))
}

func authMethods(ctx context.Context, env providers.Env, a Access) ([]ssh.AuthMethod, error) {
	var methods []ssh.AuthMethod
	if a.Key != "" {
		key, err := a.Key.Resolve(ctx, env)
		if err != nil {
			return nil, err
		}
		signer, err := ssh.ParsePrivateKey([]byte(key.Reveal()))
		if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); locked {
			return nil, fmt.Errorf("the key in secret %q has a passphrase, expected one without", a.Key)
		}
		if err != nil { // without err: it may quote what it could not read
			return nil, fmt.Errorf("secret %q is not a private key in PEM form", a.Key)
		}
		methods = append(methods, ssh.PublicKeys(signer))
	}
	if a.Password != "" {
		password, err := a.Password.Resolve(ctx, env)
		if err != nil {
			return nil, err
		}
		methods = append(methods, ssh.Password(password.Reveal()), ssh.KeyboardInteractive(answer(password)))
	}
	return methods, nil
}

// answer gives the password to servers that ask for it by a prompt. Only a
// question whose answer is not shown gets it.
func answer(password providers.Secret) ssh.KeyboardInteractiveChallenge {
	return func(_, _ string, questions []string, echos []bool) ([]string, error) {
		answers := make([]string, len(questions))
		for i := range questions {
			if !echos[i] {
				answers[i] = password.Reveal()
			}
		}
		return answers, nil
	}
}

// handshake logs in; the deadline of ctx holds for the connection meanwhile.
func handshake(ctx context.Context, conn net.Conn, address string, config *ssh.ClientConfig) (*ssh.Client, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	c, channels, requests, err := ssh.NewClientConn(conn, address, config)
	if !stop() && err == nil {
		_ = c.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return ssh.NewClient(c, channels, requests), nil
}

// Run implements Host. The program is started by the user's login shell, which
// has to be a POSIX one.
func (r *remote) Run(ctx context.Context, c Command) (Result, error) {
	op := "run " + program(c.Args) + " on " + r.name
	if err := checkArgs(c.Args); err != nil {
		return Result{}, fault(providers.Invalid, op, err, "")
	}
	if ctx.Err() != nil {
		return Result{}, fault(providers.Unknown, op, context.Cause(ctx), "")
	}
	session, err := r.client.NewSession()
	if err != nil {
		return Result{}, fault(providers.Unavailable, op, err, "")
	}
	defer func() { _ = session.Close() }()
	var stdout, stderr limited
	session.Stdin, session.Stdout, session.Stderr = c.input(), &stdout, &stderr
	stop := context.AfterFunc(ctx, func() { r.abandon(session) })
	defer stop()
	err = session.Run(Quote(c.Args...))
	exit, ended := errors.AsType[*ssh.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return Result{}, fault(providers.Unknown, op, context.Cause(ctx), "")
	case err == nil:
		return collect(op, 0, &stdout, &stderr)
	case ended && exit.Signal() == "":
		return collect(op, exit.ExitStatus(), &stdout, &stderr)
	}
	return Result{}, fault(providers.Unknown, op, shorter(err), "")
}

// shorter replaces errors of the library that say little or quote a whole
// script.
func shorter(err error) error {
	_, missing := errors.AsType[*ssh.ExitMissingError](err)
	switch {
	case missing, errors.Is(err, io.EOF):
		return errors.New("the connection was lost before the program ended")
	case strings.HasPrefix(err.Error(), "ssh: command "):
		return errors.New("the server refused to run a program")
	}
	return err
}

// abandon tells the program to end and closes the connection. Nothing here may
// wait for a machine that no longer answers.
func (r *remote) abandon(session *ssh.Session) {
	_ = r.conn.SetDeadline(time.Now().Add(time.Second))
	_ = session.Signal(ssh.SIGTERM)
	_ = r.client.Close()
}

// Dial implements Host. The server has to allow forwarding to the address.
// Unavailable is the machine's word that nothing accepts there.
func (r *remote) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := r.client.DialContext(ctx, network, address)
	if err == nil {
		return conn, nil
	}
	op := "connect from " + r.name
	if ctx.Err() != nil {
		return nil, unreached(ctx, op, err)
	}
	refused, answered := errors.AsType[*ssh.OpenChannelError](err)
	switch {
	case !answered: // the machine itself is gone: what listens there is not known
		return nil, fault(providers.Unknown, op, shorter(err), "")
	case refused.Reason == ssh.Prohibited:
		return nil, fault(providers.Denied, op, err, "let sshd forward to "+address+" (AllowTcpForwarding, PermitOpen)")
	}
	return nil, fault(providers.Unavailable, op, err, "")
}

// Close implements Host.
func (r *remote) Close() error { return r.client.Close() }
