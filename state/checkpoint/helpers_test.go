package checkpoint_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/manent/action/providers/store"
	"github.com/manent/action/providers/store/memory"
	"github.com/manent/action/state"
	"github.com/manent/action/state/checkpoint"
)

const key = "shop/web/prod"

var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// nonces gives N000001, N000002, … over all sessions of a test.
func nonces() func() string {
	var n atomic.Int64
	return func() string { return fmt.Sprintf("N%06d", n.Add(1)) }
}

func clock() time.Time { return start }

func open(s store.Store, nonce func() string) *checkpoint.Session {
	return checkpoint.Open(s, key, clock, nonce)
}

// loaded returns a session and the document it has loaded.
func loaded(t *testing.T, s store.Store, nonce func() string) (*checkpoint.Session, *state.Document) {
	t.Helper()
	session := open(s, nonce)
	doc, err := session.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return session, doc
}

func save(t *testing.T, session *checkpoint.Session, doc *state.Document, note string) {
	t.Helper()
	if err := session.Save(t.Context(), doc, note, nil, nil); err != nil {
		t.Fatal(err)
	}
}

// running puts a rollout that holds the environment into a document.
func running(doc *state.Document) *state.Document {
	if len(doc.Passes) == 0 {
		doc.Passes = []state.Pass{{}}
	}
	doc.Rollout = &state.Rollout{
		ID: "r1", Version: "2.0", Status: state.Running, Attempt: 1, Started: start,
		Config: json.RawMessage(`{"project":"shop"}`),
	}
	return doc
}

// seeded is a store whose document has one running rollout.
func seeded(t *testing.T, nonce func() string) *memory.Store {
	t.Helper()
	place := memory.New()
	session, doc := loaded(t, place, nonce)
	save(t, session, running(doc), "begun")
	return place
}

// stubborn is a store whose Put answers with a fixed error and writes nothing.
type stubborn struct {
	store.Store
	err   error
	calls int
}

func (s *stubborn) Put(context.Context, string, store.Change, store.Revision) (store.Revision, error) {
	s.calls++
	return "", s.err
}
