// Package hosttest is a machine in memory for tests of what uses
// providers/api/host: it has managed files, and programs and a network that
// the test gives it. It can be told to lose calls and answers. It must not be
// used outside of tests.
package hosttest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
)

// Call is one call that arrives at the machine.
type Call struct {
	Kind string   // read, replace, program or connect
	Path string   // of the file; address for connect
	Args []string // of a program
}

// Fate is what becomes of a call.
type Fate uint8

// The fates.
const (
	Done  Fate = iota // carried out and answered
	Lost              // never arrives; the caller cannot know
	Mute              // carried out, the answer is lost
	Late              // never arrives now, but at Machine.Land
	Hang              // not answered until the context ends
	Short             // carried out, the answer is cut off
	Down              // refused: nothing listens
)

// Machine is the machine. Its fields are set before use; the files may be
// changed through Edit at any time.
type Machine struct {
	Apply   func(path, check, apply string, content []byte) (exit int, said string) // after a file was written: 0, 25 or 26 as in replace.sh
	Program func(args []string) host.Result                                         // any other program; nil for none
	Network http.Handler                                                            // what answers every connection; nil for nothing
	Fate    func(Call) Fate                                                         // nil: all are Done

	mu         sync.Mutex
	files      map[string][]byte
	unfinished map[string]bool
	late       []host.Command
}

var _ host.Host = (*Machine)(nil)

// Edit changes a file as a person would. It gets and returns nil for a file
// that is not there.
func (m *Machine) Edit(path string, change func([]byte) []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files == nil {
		m.files, m.unfinished = map[string][]byte{}, map[string]bool{}
	}
	if content := change(m.files[path]); content != nil {
		m.files[path] = content
	} else {
		delete(m.files, path)
	}
}

// Unfinished leaves a file as a killed replacement does.
func (m *Machine) Unfinished(path string) {
	m.Edit(path, func(b []byte) []byte { return b })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unfinished[path] = true
}

// File is a file's content, nil for none.
func (m *Machine) File(path string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.files[path]
}

// Land lets the late calls arrive.
func (m *Machine) Land() {
	m.mu.Lock()
	late := m.late
	m.late = nil
	m.mu.Unlock()
	for _, c := range late {
		m.do(c)
	}
}

// Run implements host.Host.
func (m *Machine) Run(ctx context.Context, c host.Command) (host.Result, error) {
	if err := ctx.Err(); err != nil {
		return host.Result{}, unknown(err)
	}
	switch m.fate(callOf(c)) {
	case Lost:
		return host.Result{}, unknown(errors.New("the connection was lost"))
	case Late:
		m.mu.Lock()
		defer m.mu.Unlock()
		m.late = append(m.late, c)
		return host.Result{}, unknown(errors.New("the connection was lost"))
	case Mute:
		m.do(c)
		return host.Result{}, unknown(errors.New("the connection was lost"))
	case Hang:
		<-ctx.Done()
		return host.Result{}, unknown(ctx.Err())
	case Short:
		res := m.do(c)
		if len(res.Stdout) == 0 { // what is left to be cut off is the exit code
			return host.Result{}, unknown(errors.New("the connection was lost"))
		}
		res.Stdout = res.Stdout[:len(res.Stdout)/2]
		return res, nil
	case Down:
		return host.Result{}, down()
	}
	return m.do(c), nil
}

// Dial implements host.Host.
func (m *Machine) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	switch m.fate(Call{Kind: "connect", Path: address}) {
	case Hang:
		<-ctx.Done()
		return nil, unknown(ctx.Err())
	case Done:
		if m.Network != nil {
			return pipe(m.Network), nil
		}
	}
	return nil, down()
}

// Close implements host.Host.
func (m *Machine) Close() error { return nil }

func (m *Machine) fate(c Call) Fate {
	if m.Fate == nil {
		return Done
	}
	return m.Fate(c)
}

func unknown(err error) error {
	return &providers.Fault{Op: "run sh", Kind: providers.Unknown, Err: err}
}

func down() error {
	return &providers.Fault{Op: "connect", Kind: providers.Unavailable, Err: errors.New("connection refused")}
}

// callOf recognises the scripts of package host by their $0.
func callOf(c host.Command) Call {
	if len(c.Args) > 4 && c.Args[0] == "sh" && c.Args[1] == "-c" {
		switch c.Args[3] {
		case "manent-read":
			return Call{Kind: "read", Path: c.Args[4]}
		case "manent-replace":
			return Call{Kind: "replace", Path: c.Args[4]}
		}
	}
	return Call{Kind: "program", Args: c.Args}
}

func (m *Machine) do(c host.Command) host.Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch call := callOf(c); {
	case call.Kind == "read" && len(c.Args) == 5:
		return m.read(call.Path)
	case call.Kind == "replace" && len(c.Args) == 9:
		return m.replace(call.Path, c.Args[5], c.Args[6], c.Args[7], c.Args[8], c.Stdin)
	case call.Kind == "program" && m.Program != nil:
		return m.Program(c.Args)
	}
	return host.Result{Exit: 127, Stderr: []byte("not found")}
}

func (m *Machine) digest(path string) string {
	content, ok := m.files[path]
	if !ok {
		return host.Absent
	}
	return host.Digest(content)
}

func (m *Machine) read(path string) host.Result {
	status := "done"
	if m.unfinished[path] {
		status = "unfinished"
	}
	return host.Result{Stdout: fmt.Appendf(nil, "%s %s\n%s", status, m.digest(path), m.files[path])}
}

func (m *Machine) replace(path, expect, sum, check, apply string, content []byte) host.Result {
	if host.Digest(content) != sum {
		return host.Result{Exit: 23, Stderr: []byte("the content arrived incomplete")}
	}
	if expect != host.Any && expect != m.digest(path) {
		return host.Result{Exit: 24, Stderr: []byte("the file is not what was read before")}
	}
	if m.Apply != nil {
		if exit, said := m.Apply(path, check, apply, content); exit != 0 {
			return host.Result{Exit: exit, Stderr: []byte(said)}
		}
	}
	if m.files == nil {
		m.files, m.unfinished = map[string][]byte{}, map[string]bool{}
	}
	m.files[path] = content
	delete(m.unfinished, path)
	return host.Result{}
}
