package external

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/process"
)

// MaxAnswer is the number of bytes an answer may have.
const MaxAnswer = 1 << 20

// Options say how a program is started.
type Options struct {
	Provider string            // named in errors
	Command  []string          // the program and its arguments
	Dir      string            // where it starts
	Env      []string          // its environment, NAME=value, without what the request adds
	Settings map[string]string // handed on in each request
	Targets  []Target
	Redactor *providers.Redactor
	Grace    time.Duration // between SIGTERM and SIGKILL, 0 for that of process.Ask
	// Secrets gives the values for the request and for the environment.
	Secrets func(context.Context) (request map[string]string, env []string, err error)
}

// Client starts a program once for each request. It keeps nothing.
type Client struct{ opts Options }

// New makes a client.
func New(opts Options) *Client {
	opts.Redactor = cmp.Or(opts.Redactor, &providers.Redactor{})
	return &Client{opts}
}

// Call is one request.
type Call struct {
	Method  string
	Params  any
	Timeout time.Duration
	Vars    map[string]string // MANENT_… variables for its environment
	Log     func(line string) // takes what it logs; may be nil

	Protocol int // 0 for this build's; another to see what a program makes of it
}

// Do asks and returns the result, which is of the type T that Methods names.
// Errors are *providers.Fault: the program's own kind if it answered with a
// well-formed error, Unknown for everything else that is not a result, and
// what process.Ask says of a program that could not be started.
func Do[T any](ctx context.Context, c *Client, call Call) (T, error) {
	result, err := c.exchange(ctx, call, parser{result: reflect.TypeFor[T](), redact: c.redact})
	out, _ := result.(T)
	return out, err
}

// exchange asks, and reads the answer by a parser that gets the request's id.
func (c *Client) exchange(ctx context.Context, call Call, p parser) (any, error) {
	id, err := newID()
	if err != nil {
		return nil, c.fault(call.Method, providers.Unavailable, err)
	}
	request := Request{
		Protocol: cmp.Or(call.Protocol, Protocol), ID: id, Request: call.Method, Params: call.Params,
		Settings: c.opts.Settings, Targets: c.opts.Targets,
	}
	reply, err := c.send(ctx, call, request)
	if err != nil {
		return nil, err
	}
	p.id = id
	result, no, err := p.parse(reply.Out, reply.Exit)
	switch {
	case err != nil:
		return nil, c.doubt(call.Method, reply, err)
	case no != nil:
		return nil, c.refused(call.Method, *no)
	}
	return result, nil
}

func newID() (string, error) {
	raw := make([]byte, 8)
	_, err := rand.Read(raw)
	return hex.EncodeToString(raw), err
}

// send starts the program with a request.
func (c *Client) send(ctx context.Context, call Call, request Request) (process.Reply, error) {
	env, err := c.environ(ctx, call, &request)
	if err != nil {
		return process.Reply{}, err
	}
	data, err := json.Marshal(request)
	if err != nil {
		return process.Reply{}, c.fault(call.Method, providers.Invalid, err)
	}
	return c.start(ctx, call, env, append(data, '\n'))
}

// environ adds the secrets and variables of a call.
func (c *Client) environ(ctx context.Context, call Call, request *Request) ([]string, error) {
	env := slices.Clone(c.opts.Env)
	if c.opts.Secrets != nil {
		inRequest, inEnv, err := c.opts.Secrets(ctx)
		if err != nil {
			return nil, &providers.Fault{Provider: c.opts.Provider, Op: "request " + call.Method, Kind: providers.KindOf(err), Err: err}
		}
		request.Secrets = inRequest
		env = append(env, inEnv...)
	}
	for _, name := range slices.Sorted(maps.Keys(call.Vars)) {
		if !strings.HasPrefix(name, "MANENT_") || strings.ContainsAny(name, "=\x00") || strings.Contains(call.Vars[name], "\x00") {
			return nil, c.fault(call.Method, providers.Invalid, fmt.Errorf("variable %q, expected MANENT_… without a zero byte", name))
		}
		env = append(env, name+"="+call.Vars[name])
	}
	return append(env, fmt.Sprintf("MANENT_PROTOCOL=%d", Protocol), "MANENT_REQUEST="+call.Method), nil
}

// raw starts the program with any input.
func (c *Client) raw(ctx context.Context, call Call, in []byte) (process.Reply, error) {
	env, err := c.environ(ctx, call, &Request{})
	if err != nil {
		return process.Reply{}, err
	}
	return c.start(ctx, call, env, in)
}

func (c *Client) start(ctx context.Context, call Call, env []string, in []byte) (process.Reply, error) {
	return process.Ask(ctx, process.Program{
		Provider: c.opts.Provider, Name: "request " + call.Method, Args: c.opts.Command, Dir: c.opts.Dir, Env: env,
		In: in, Limit: MaxAnswer, Timeout: call.Timeout, Log: call.Log, Secrets: c.opts.Redactor, Grace: c.opts.Grace,
	})
}

// doubt is an answer that counts for nothing: nobody can say whether the
// request was carried out.
func (c *Client) doubt(method string, r process.Reply, err error) error {
	text := fmt.Sprintf("%v; exit code %d", err, r.Exit)
	for _, logged := range slices.Backward(r.Tail) {
		if logged != "" {
			text += "; it last logged: " + logged
			break
		}
	}
	return &providers.Fault{
		Provider: c.opts.Provider, Op: "request " + method, Kind: providers.Unknown, Err: errors.New(cut(c.redact(text))),
		Hint: "see what the program logs, and docs/external.md for what an answer has to be",
	}
}

// Refused is an error inside a result as the program's own word.
func (c *Client) Refused(method string, e Error) error { return c.refused(method, e) }

// refused is the program's own word.
func (c *Client) refused(method string, e Error) error {
	kind, _ := kindOf(e.Kind)
	return &providers.Fault{
		Provider: c.opts.Provider, Op: "request " + method, Kind: kind,
		Err: &Refusal{Text: e.Message, Drift: e.Drift}, Hint: e.Hint, After: e.wait(),
	}
}

// Refusal is what a program said with its no.
type Refusal struct {
	Text  string
	Drift *Drift // what was found instead, nil unless it said
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Text }

func (c *Client) fault(method string, kind providers.Kind, err error) error {
	return &providers.Fault{Provider: c.opts.Provider, Op: "request " + method, Kind: kind, Err: err}
}

// redact makes a text one line without secrets.
func (c *Client) redact(text string) string {
	text = line(c.opts.Redactor.Clean(text))
	return c.opts.Redactor.Clean(text) // what was dropped may have stood inside a secret
}
