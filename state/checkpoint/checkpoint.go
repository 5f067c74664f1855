// Package checkpoint reads and writes the state document over a store: it
// encodes, checks and migrates it, counts the writes, and finds out what
// became of a write that was refused, failed or never answered. It also holds
// the rules of the lease and of the history, as pure functions on the
// document.
//
// It must not know what a rollout does next (runner) nor which store it works
// over.
package checkpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
	"github.com/manent/action/state"
)

// tries bounds how often one write is sent to a store that does not answer,
// and how often one is rebased. There is no pause between them: the stores
// wait themselves where waiting helps.
const tries = 4

// Nonce returns a new random nonce, 26 letters and digits.
func Nonce() string { return rand.Text() }

// Session is one process's dealings with one document. It remembers the last
// write it has seen and refuses any older one. It is safe for concurrent use,
// the documents given to it are not.
type Session struct {
	store store.Store
	key   string
	now   func() time.Time
	nonce func() string

	mu       sync.Mutex
	loaded   bool
	base     []byte // the document as last loaded or saved; nil for none
	revision store.Revision
	at       mark   // of base
	newest   mark   // the newest write seen, loaded or not
	doubt    []mark // writes upon base that nobody could tell of
}

// mark names one write.
type mark struct {
	seq   uint64
	nonce string
}

// version is one write as it was found in the store.
type version struct {
	doc      *state.Document
	data     []byte
	revision store.Revision
}

// Open starts a session on project/application/environment. now and nonce
// stamp each write; Nonce is the nonce source outside of tests.
func Open(s store.Store, key string, now func() time.Time, nonce func() string) *Session {
	return &Session{store: s, key: key, now: now, nonce: nonce}
}

// Key returns the document's key.
func (s *Session) Key() string { return s.key }

// Load reads the document; a key that does not exist gives an empty one with
// Seq 0. Errors are the store's own faults, and a *providers.Fault of kind
// Invalid for a document that is damaged, of a newer schema or older than one
// that this session has seen.
func (s *Session) Load(ctx context.Context) (*state.Document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	s.adopt(*found)
	return found.doc, nil
}

// Last returns a copy of the document as last loaded or saved, without asking
// the store. It is an error before the first Load.
func (s *Session) Last() (*state.Document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.loaded:
		return nil, errors.New("checkpoint: nothing was loaded")
	case s.base == nil:
		return &state.Document{Schema: state.Schema, Key: s.key}, nil
	}
	return Decode(s.base, s.key)
}

// read gets and decodes the document without making it the base.
func (s *Session) read(ctx context.Context) (*version, error) {
	data, revision, err := s.store.Get(ctx, s.key)
	if err != nil {
		return nil, err
	}
	found := &state.Document{Schema: state.Schema, Key: s.key}
	if revision != "" {
		if found, err = Decode(data, s.key); err != nil {
			return nil, err
		}
	}
	if err := s.rewound(found); err != nil {
		return nil, err
	}
	s.newest = markOf(found)
	return &version{found, data, revision}, nil
}

// rewound refuses a document that is not at least the newest seen: someone
// has put an older or another one in its place.
func (s *Session) rewound(found *state.Document) error {
	if found.Seq > s.newest.seq || markOf(found) == s.newest {
		return nil
	}
	err := fmt.Errorf("write %d found after write %d was seen", found.Seq, s.newest.seq)
	if found.Seq == s.newest.seq {
		err = fmt.Errorf("write %d found with nonce %q after it was seen with %q", found.Seq, found.Nonce, s.newest.nonce)
	}
	return &providers.Fault{
		Provider: "state", Op: s.key, Kind: providers.Invalid, Err: err,
		Hint: "the state was rewound or replaced by hand; find out who can write it, compare it with the router, then start manent anew",
	}
}

func (s *Session) adopt(v version) {
	s.loaded, s.base, s.revision = true, v.data, v.revision
	s.at, s.newest, s.doubt = markOf(v.doc), markOf(v.doc), nil
}

func markOf(doc *state.Document) mark { return mark{seq: doc.Seq, nonce: doc.Nonce} }

// Save writes the document over the one last loaded or saved, and stamps it
// (schema, key, seq, nonce, written, note) once it is known to have landed.
// Side objects are written with it, dropped prefixes removed.
//
// After any failure the truth is read back and compared. nil means landed;
// *Conflict means another process's write was found there; *Unsure means that
// nobody can say yet; any other error means the write was refused and nothing
// changed.
func (s *Session) Save(ctx context.Context, doc *state.Document, note string, objects map[string][]byte, drop []string) error {
	return s.save(ctx, doc, store.Change{Note: note, Objects: objects, Drop: drop}, false)
}

// SaveOutcome is Save for what has already happened and must not be lost: if
// what was found differs from the base only by appended decisions, they are
// appended to doc and it is written again.
func (s *Session) SaveOutcome(ctx context.Context, doc *state.Document, note string, objects map[string][]byte, drop []string) error {
	return s.save(ctx, doc, store.Change{Note: note, Objects: objects, Drop: drop}, true)
}

func (s *Session) save(ctx context.Context, doc *state.Document, change store.Change, rebase bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.loaded {
		return errors.New("checkpoint: save before load")
	}
	note := change.Note
	next, err := s.prepare(doc, note, &change)
	var last error
	for range tries {
		if err != nil {
			return err
		}
		found, failed := s.write(ctx, next, change)
		switch {
		case failed == nil:
			*doc = *next
			return nil
		case found == nil && final(failed):
			s.doubt = append(s.doubt, markOf(next))
			return failed
		case found == nil:
			err = nil // unchanged so far: the same bytes once more
		case slices.Contains(s.doubt, markOf(found.doc)), rebase && merge(s.base, s.key, doc, found.doc):
			s.adopt(*found) // an earlier write of our own, landed late, or decisions alone
			next, err = s.prepare(doc, note, &change)
		default:
			return conflict(s.key, s.at.seq, found.doc, failed)
		}
		last = failed
	}
	s.doubt = append(s.doubt, markOf(next))
	return unsure(s.key, next.Seq, last)
}

// prepare stamps a copy of the document and encodes it.
func (s *Session) prepare(doc *state.Document, note string, change *store.Change) (*state.Document, error) {
	next := *doc
	next.Schema, next.Key, next.Seq = state.Schema, s.key, s.at.seq+1
	next.Nonce, next.Written, next.Note = s.nonce(), s.now().UTC(), note
	data, err := Encode(&next)
	if err != nil {
		return nil, err
	}
	change.Data, change.Note = data, fmt.Sprintf("#%d %s", next.Seq, note)
	return &next, nil
}

// write sends the document once. After a failure it reads the truth back:
// no error when the write is there after all, the version that was found when
// it is another one, nil when nothing has changed or nobody can tell.
func (s *Session) write(ctx context.Context, next *state.Document, change store.Change) (*version, error) {
	revision, failed := s.store.Put(ctx, s.key, change, s.revision)
	if failed == nil {
		s.adopt(version{next, change.Data, revision})
		return nil, nil
	}
	found, err := s.read(ctx)
	switch {
	case err != nil && providers.KindOf(err) == providers.Invalid:
		return nil, err
	case err != nil:
		return nil, unsure(s.key, next.Seq, fmt.Errorf("%w; reading it back: %w", failed, err))
	case markOf(found.doc) == markOf(next):
		s.adopt(*found)
		return nil, nil
	case markOf(found.doc) == s.at:
		return nil, failed
	}
	return found, failed
}

// final reports whether sending the same write again is pointless: nobody can
// tell, or the store has decided. A conflict with what has not changed is
// not: the store will change its mind or be asked until the tries are over.
func final(err error) bool {
	if _, ok := errors.AsType[*Unsure](err); ok {
		return true
	}
	kind := providers.KindOf(err)
	return kind.Definite() && kind != providers.Conflict
}
