package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
)

// A look changes nothing, so that many machines are looked at at a time, and
// none for longer than the engine waits for the whole call.
const (
	lookers  = 20
	lookTime = 15 * time.Second
)

// Look asks every machine what it lacks, "" for nothing. A definite error of
// one is the call's. Else what some are known to lack is the answer, with the
// names of all that lack something or could not be asked. When none is known
// to, and some could not be asked, nobody can tell: that is an error too.
func (f Fleet) Look(ctx context.Context, machines []Machine, ask func(context.Context, host.Host, Machine) (string, error)) (reason string, err error) {
	if len(machines) == 0 {
		return "", &providers.Fault{Kind: providers.Invalid, Err: errors.New("the slot has no targets"), Hint: "give some the label slot"}
	}
	return seen(machines, Survey(ctx, f, machines, ask))
}

// Sight is what one machine was seen to be, or why it could not be seen.
type Sight[T any] struct {
	Of  T
	Err error
}

// Survey asks every machine, and returns what was seen in their order. All are
// asked at once, within the time that the engine waits for a call.
func Survey[T any](ctx context.Context, f Fleet, machines []Machine, ask func(context.Context, host.Host, Machine) (T, error)) []Sight[T] {
	out := make([]Sight[T], len(machines))
	f.Timeout = min(f.Timeout, lookTime)
	free := make(chan struct{}, lookers)
	var all sync.WaitGroup
	for i, m := range machines {
		all.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			if ctx.Err() != nil {
				out[i].Err = &providers.Fault{Kind: providers.Unknown, Err: context.Cause(ctx)}
				return
			}
			out[i].Err = f.on(ctx, m, func(ctx context.Context, h host.Host, m Machine) (err error) {
				out[i].Of, err = ask(ctx, h, m)
				return err
			})
		})
	}
	all.Wait()
	return out
}

// seen makes one answer of all.
func seen(machines []Machine, sights []Sight[string]) (string, error) {
	var said []string
	var failed, first error
	lacking := false
	for i, m := range machines {
		switch err := sights[i].Err; {
		case err != nil:
			said = append(said, fmt.Sprintf("%s could not be asked: %v", m.Host, err))
			if failed == nil {
				failed, first = fmt.Errorf("on %s: %w", m.Host, err), err
			} else {
				failed = fmt.Errorf("%w; on %s: %w", failed, m.Host, err)
			}
			if providers.KindOf(err).Definite() && !providers.KindOf(first).Definite() {
				first = err
			}
		case sights[i].Of != "":
			lacking = true
			said = append(said, m.Host+": "+sights[i].Of)
		}
	}
	switch {
	case lacking && (failed == nil || !providers.KindOf(first).Definite()):
		return strings.Join(said, "; "), nil
	case failed != nil:
		return "", &providers.Fault{Kind: providers.KindOf(first), Err: failed, Hint: providers.HintOf(first)}
	}
	return "", nil
}

// Accepts tells whether the machine itself can open a connection to a port of
// an address, 127.0.0.1 for its own. A refusal is a reason, and so is silence
// for 3 s of a machine that answers otherwise; an error is what could not be
// found out.
func Accepts(ctx context.Context, h host.Host, address string, port int) (reason string, err error) {
	return accepts(ctx, h, address, port, 3*time.Second)
}

func accepts(ctx context.Context, h host.Host, address string, port int, patience time.Duration) (reason string, err error) {
	to := net.JoinHostPort(address, strconv.Itoa(port))
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := h.Dial(short, "tcp", to)
	switch {
	case err == nil:
		return "", conn.Close()
	case ctx.Err() != nil:
		return "", &providers.Fault{Kind: providers.Unknown, Op: "connect to " + to, Err: context.Cause(ctx)}
	case short.Err() != nil:
		if _, err := h.Run(ctx, host.Command{Args: []string{"true"}}); err != nil {
			return "", err
		}
	case providers.KindOf(err) != providers.Unavailable:
		return "", err
	}
	return fmt.Sprintf("nothing accepts connections at %s", to), nil
}
