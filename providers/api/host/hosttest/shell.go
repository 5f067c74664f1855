package hosttest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/manent/action/providers/api/host"
)

// Shell is a machine whose programs are real ones of this machine, for what
// runs scripts there. Its fields are set before use.
type Shell struct {
	Root   string                         // folder that stands for Prefix in every argument
	Prefix string                         // absolute path, as settings name it; "" for none
	Bin    string                         // folder of programs that come before those of PATH; "" for none
	Env    []string                       // NAME=VALUE for the programs
	Fate   func(Call) Fate                // nil: all are Done; Short cuts the input off and loses the answer
	Answer func(Call) (host.Result, bool) // answers instead of the programs, where it says so; may be nil

	mu   sync.Mutex
	open map[string]bool
}

var _ host.Host = (*Shell)(nil)

// Listens says whether something accepts at an address from now on.
func (s *Shell) Listens(address string, yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[string]bool{}
	}
	s.open[address] = yes
}

// Run implements host.Host.
func (s *Shell) Run(ctx context.Context, c host.Command) (host.Result, error) {
	if err := ctx.Err(); err != nil {
		return host.Result{}, unknown(err)
	}
	call := callOf(c)
	if s.Answer != nil {
		if res, ok := s.Answer(call); ok {
			return res, nil
		}
	}
	lost := unknown(errors.New("the connection was lost"))
	switch s.fate(call) {
	case Lost, Late:
		return host.Result{}, lost
	case Hang:
		<-ctx.Done()
		return host.Result{}, unknown(ctx.Err())
	case Down:
		return host.Result{}, down()
	case Mute:
		_, _ = s.run(ctx, c)
		return host.Result{}, lost
	case Short:
		if c.Input == nil {
			c.Input = bytes.NewReader(c.Stdin)
		}
		c.Input = io.LimitReader(c.Input, 1500)
		_, _ = s.run(ctx, c)
		return host.Result{}, lost
	}
	return s.run(ctx, c)
}

func (s *Shell) run(ctx context.Context, c host.Command) (host.Result, error) {
	args := append([]string{"env"}, s.Env...)
	if s.Bin != "" {
		args = append(args, "PATH="+s.Bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	for _, arg := range c.Args {
		if s.Prefix != "" && (arg == s.Prefix || strings.HasPrefix(arg, s.Prefix+"/")) {
			arg = s.Root + strings.TrimPrefix(arg, s.Prefix)
		}
		args = append(args, arg)
	}
	c.Args = args
	return host.Local{}.Run(ctx, c)
}

// Dial implements host.Host: the other end of a connection says nothing.
func (s *Shell) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, unknown(err)
	}
	if s.fate(Call{Kind: "connect", Path: address}) == Hang {
		<-ctx.Done()
		return nil, unknown(ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open[address] {
		return nil, down()
	}
	near, far := net.Pipe()
	_ = far.Close()
	return near, nil
}

// Close implements host.Host.
func (s *Shell) Close() error { return nil }

func (s *Shell) fate(c Call) Fate {
	if s.Fate == nil {
		return Done
	}
	return s.Fate(c)
}
