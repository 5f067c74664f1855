package external

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/manent/action/providers"
)

// Program is a program as the settings declare it. Before its first request it
// is asked to describe itself; when that is something else, it is asked for
// nothing.
type Program struct {
	*Client
	Capabilities []string // that it is used for
	Traits       Traits   // of its router, if it is used for one
	Timeout      time.Duration
	Log          func(line string) // takes what it logs; may be nil

	mu    sync.Mutex
	fits  bool // it has described itself as declared
	wrong error
}

// Call is a request with the program's timeout.
func (p *Program) Call(method string, params any) Call {
	return Call{Method: method, Params: params, Timeout: p.Timeout, Log: p.Log}
}

// Describe asks the program what it is.
func (p *Program) Describe(ctx context.Context) (Description, error) {
	return Do[Description](ctx, p.Client, p.Call(Describe, None{}))
}

// Check asks the program to describe itself and compares that with what is
// declared. Once it has fitted, or has not, it is not asked again; when it gave
// no answer, it is.
func (p *Program) Check(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fits || p.wrong != nil {
		return p.wrong
	}
	d, err := p.Describe(ctx)
	if err != nil {
		return err
	}
	if problems := d.Differences(p.Capabilities, p.Traits); len(problems) > 0 {
		p.wrong = &providers.Fault{
			Provider: p.opts.Provider, Op: "request " + Describe, Kind: providers.Invalid,
			Err:  fmt.Errorf("program %q is not what the settings say: %s", d.Name, strings.Join(problems, "; ")),
			Hint: "correct the settings, or the program; nothing was asked of it",
		}
	}
	p.fits = p.wrong == nil
	return p.wrong
}

// Ask sends a request to a program that is as declared.
func Ask[T any](ctx context.Context, p *Program, call Call) (T, error) {
	if err := p.Check(ctx); err != nil {
		var none T
		return none, err
	}
	return Do[T](ctx, p.Client, call)
}

// Doubt is about an answer that makes no sense.
func (c *Client) Doubt(method string, err error) error {
	return &providers.Fault{
		Provider: c.opts.Provider, Op: "request " + method, Kind: providers.Unknown, Err: fmt.Errorf("the answer makes no sense: %w", err),
		Hint: "correct the program, see docs/external.md",
	}
}

// Secrets resolves secrets for each request: as variables of the program, or
// inside the request.
func Secrets(env providers.Env, refs map[string]providers.SecretRef, inRequest bool) func(context.Context) (map[string]string, []string, error) {
	return func(ctx context.Context) (map[string]string, []string, error) {
		request, variables := map[string]string{}, []string{}
		for _, name := range slices.Sorted(maps.Keys(refs)) {
			value, err := refs[name].Resolve(ctx, env)
			if err != nil {
				return nil, nil, fmt.Errorf("secret %s: %w", refs[name], err)
			}
			if inRequest {
				request[name] = value.Reveal()
			} else {
				variables = append(variables, name+"="+value.Reveal())
			}
		}
		return request, variables, nil
	}
}
