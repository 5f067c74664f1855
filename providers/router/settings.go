package router

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/manent/action/providers"
)

// API are the settings that the routers with an HTTP API have alike.
type API struct {
	CAFile    string        // ca_file
	PinnedFor time.Duration // pinned_for
	Timeout   time.Duration // timeout
}

// Check refuses what no such router takes.
func (a API) Check() error {
	switch {
	case a.CAFile != "" && !filepath.IsAbs(a.CAFile) && !filepath.IsLocal(a.CAFile):
		return fmt.Errorf("ca_file: %q, expected a path inside the workspace or an absolute one", a.CAFile)
	case a.PinnedFor < 0:
		return fmt.Errorf("pinned_for: %v, expected 0 or more", a.PinnedFor)
	case a.Timeout < time.Second || a.Timeout > 15*time.Second:
		return fmt.Errorf("timeout: %v, expected 1s to 15s", a.Timeout)
	}
	return nil
}

// CAPath is where the file of ca_file is, "" without one.
func (a API) CAPath(workspace string) string {
	if a.CAFile == "" || filepath.IsAbs(a.CAFile) {
		return a.CAFile
	}
	return filepath.Join(workspace, a.CAFile)
}

// HasTargets refuses to ask a system about no members.
func HasTargets(members []Member) error {
	if len(members) > 0 {
		return nil
	}
	return &providers.Fault{
		Kind: providers.Invalid, Err: errors.New("the environment has no targets"),
		Hint: "give it targets with the labels slot: a and slot: b",
	}
}

// Log says each line once: a router looks at the same thing many times.
type Log struct {
	name string
	log  func(format string, args ...any)

	mu   sync.Mutex // the instances are asked at the same time
	said map[string]bool
}

// NewLog returns the log of the named router.
func NewLog(name string, env providers.Env) *Log {
	return &Log{name: name, log: env.Log, said: map[string]bool{}}
}

// Once logs a line that it has not logged yet.
func (l *Log) Once(format string, args ...any) {
	line := l.name + ": " + fmt.Sprintf(format, args...)
	l.mu.Lock()
	defer l.mu.Unlock() // the log too is one for all instances
	if !l.said[line] && l.log != nil {
		l.log("%s", line)
	}
	l.said[line] = true
}
