// Package memory is a store that lives in the process, for tests. It keeps
// the contract to the letter and can misbehave on purpose, call by call, the
// way networks and processes do. It must not know who uses it.
//
// A Store is one process's handle; Again opens another handle on the same
// contents, which is how a test starts a second process or starts one anew
// after a crash. Faults come from the handle's Hook, asked once per call:
//
//	s := memory.New()
//	s.Hook = memory.At("put", 3, memory.KillAfter) // dies in its third write
//	run(s)                                         // from there on every call answers ErrKilled
//	run(s.Again())                                 // the next process finds what landed
//
// A test that enumerates every crash counts the calls of one undisturbed run
// (Hook may count and answer None) and then runs once per call and Fault.
package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
)

var (
	_ store.Store     = (*Store)(nil)
	_ store.Historian = (*Store)(nil)
)

// Fault is what befalls one call.
type Fault uint8

// The faults. On a read, which applies nothing, Unanswered, Lost and Late are
// the same.
const (
	None       Fault = iota
	Refused          // not applied, and the store says so: Unavailable
	Lost             // not applied, but the caller cannot know: Unknown
	Unanswered       // applied, but the caller cannot know: Unknown
	Late             // Unknown; applied after the next call of any handle, if its condition holds then
	KillBefore       // the process dies before the call
	KillAfter        // the process dies after the call was applied
)

// String returns the fault's name, for subtests.
func (f Fault) String() string {
	return [...]string{"none", "refused", "lost", "unanswered", "late", "killed before", "killed after"}[f]
}

// Faults are all faults that a crash enumeration goes through.
func Faults() []Fault { return []Fault{Refused, Lost, Unanswered, Late, KillBefore, KillAfter} }

// ErrKilled is in the chain of every answer to a process that has died: what
// it does after that is not to count.
var ErrKilled = errors.New("the process was killed")

// At is a hook that makes the k-th call (from 1) of an operation ("get",
// "put", "object", "list", "log"; "" for any) meet a fault. It is used for one
// handle only, since it counts.
func At(op string, k int64, fault Fault) func(string, string) Fault {
	var calls atomic.Int64
	return func(called, _ string) Fault {
		if (op == "" || op == called) && calls.Add(1) == k {
			return fault
		}
		return None
	}
}

// Store is one process's handle. It is safe for concurrent use.
type Store struct {
	// Hook decides what befalls a call, given its operation and key; nil
	// for nothing. Set it before the first call. It is called without locks
	// held and may be called from several goroutines.
	Hook func(op, key string) Fault

	world *world
	dead  atomic.Bool
}

// world is the contents, shared by all handles.
type world struct {
	mu      sync.Mutex
	keys    map[string]*entry
	late    []func()
	version uint64
}

type entry struct {
	data     []byte
	revision store.Revision
	objects  map[string][]byte
	log      []store.Entry
}

// New returns an empty store.
func New() *Store { return &Store{world: &world{keys: map[string]*entry{}}} }

// Again returns another, unharmed handle on the same contents.
func (s *Store) Again() *Store { return &Store{world: s.world} }

// Settle lands every write that is still late.
func (s *Store) Settle() {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.world.land(len(s.world.late))
}

// Objects returns the names of a key's side objects, sorted.
func (s *Store) Objects(key string) []string {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return slices.Sorted(maps.Keys(s.world.entry(key).objects))
}

// Plant replaces a document past the contract, as a foreign hand would:
// without a condition and of any size.
func (s *Store) Plant(key string, data []byte) error {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	_, err := s.world.put(key, clone(store.Change{Data: data}), s.world.entry(key).revision)
	return err
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string) (data []byte, revision store.Revision, err error) {
	err = s.call(ctx, "get", key, func() error {
		e := s.world.entry(key)
		if len(e.data) > store.MaxDocument {
			return invalid(fmt.Errorf("%w: %d bytes", store.ErrTooLarge, len(e.data)))
		}
		data, revision = bytes.Clone(e.data), e.revision
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return data, revision, nil
}

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, change store.Change, expect store.Revision) (revision store.Revision, err error) {
	if err := change.Check(); err != nil {
		return "", named("put", key, invalid(err))
	}
	change = clone(change)
	err = s.call(ctx, "put", key, func() error {
		revision, err = s.world.put(key, change, expect)
		return err
	})
	if err != nil {
		return "", err
	}
	return revision, nil
}

// Object implements store.Store.
func (s *Store) Object(ctx context.Context, key, name string) (data []byte, err error) {
	if _, err := store.EscapeName(name); err != nil {
		return nil, named("object", key, invalid(err))
	}
	err = s.call(ctx, "object", key, func() error {
		found, ok := s.world.entry(key).objects[name]
		if !ok {
			return &providers.Fault{Kind: providers.NotFound, Err: fmt.Errorf("no object %q", name)}
		}
		data = bytes.Clone(found)
		return nil
	})
	return data, err
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, prefix string) (keys []string, err error) {
	err = s.call(ctx, "list", "", func() error {
		for key, e := range s.world.keys {
			if e.revision != "" && store.Below(key, prefix) {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		return nil
	})
	return keys, err
}

// Log implements store.Historian.
func (s *Store) Log(ctx context.Context, key string, n int) (entries []store.Entry, err error) {
	err = s.call(ctx, "log", key, func() error {
		log := s.world.entry(key).log
		for i := len(log) - 1; i >= 0 && len(entries) < n; i-- {
			entries = append(entries, log[i])
		}
		return nil
	})
	return entries, err
}

// call applies do under the fault the hook decides. Writes that were late
// before this call land at its end.
func (s *Store) call(ctx context.Context, op, key string, do func() error) error {
	if _, err := store.EscapeKey(key); err != nil && op != "list" {
		return named(op, key, invalid(err))
	}
	fate := None
	if s.Hook != nil {
		fate = s.Hook(op, key)
	}
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return named(op, key, err)
	}
	if s.dead.Load() {
		return named(op, key, ErrKilled)
	}
	defer s.world.land(len(s.world.late))
	return named(op, key, s.suffer(fate, op, do))
}

func (s *Store) suffer(fate Fault, op string, do func() error) error {
	switch fate {
	case Refused:
		return &providers.Fault{Kind: providers.Unavailable, Err: errors.New("refused by the test")}
	case Lost:
		return errors.New("request lost by the test")
	case Unanswered:
		_ = do()
		return errors.New("answer lost by the test")
	case Late:
		if op == "put" {
			s.world.late = append(s.world.late, func() { _ = do() })
		}
		return errors.New("answer lost by the test, the call is on its way")
	case KillBefore, KillAfter:
		s.dead.Store(true)
		if fate == KillAfter {
			_ = do()
		}
		return ErrKilled
	}
	return do()
}

// land applies the n oldest late writes.
func (w *world) land(n int) {
	landing := w.late[:n]
	w.late = w.late[n:]
	for _, do := range landing {
		do()
	}
}

func (w *world) entry(key string) *entry {
	if e := w.keys[key]; e != nil {
		return e
	}
	return &entry{}
}

func (w *world) put(key string, change store.Change, expect store.Revision) (store.Revision, error) {
	e := w.entry(key)
	if e.revision != expect {
		return "", &providers.Fault{Kind: providers.Conflict, Err: fmt.Errorf("revision is %q, expected %q", e.revision, expect)}
	}
	if e.objects == nil {
		e.objects = map[string][]byte{}
		w.keys[key] = e
	}
	w.version++
	e.data, e.revision = change.Data, store.Revision(strconv.FormatUint(w.version, 10))
	e.log = append(e.log, store.Entry{Revision: e.revision, At: time.Now(), Note: change.Note})
	maps.DeleteFunc(e.objects, func(name string, _ []byte) bool {
		return slices.ContainsFunc(change.Drop, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
	maps.Copy(e.objects, change.Objects)
	return e.revision, nil
}

// clone copies the bytes, so that a caller may use its own again. A document
// of no bytes is not nil.
func clone(change store.Change) store.Change {
	change.Data = append([]byte{}, change.Data...)
	objects := make(map[string][]byte, len(change.Objects))
	for name, data := range change.Objects {
		objects[name] = append([]byte{}, data...)
	}
	change.Objects = objects
	return change
}

func invalid(err error) error { return &providers.Fault{Kind: providers.Invalid, Err: err} }

// named gives a fault its provider and operation; any other error is Unknown.
func named(op, key string, err error) error {
	if err == nil {
		return nil
	}
	fault, ok := errors.AsType[*providers.Fault](err)
	if !ok {
		fault = &providers.Fault{Err: err}
	}
	fault.Provider, fault.Op = "memory", fmt.Sprintf("%s %q", op, key)
	return fault
}
