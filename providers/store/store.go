// Package store is the contract of where the state document lives: bytes
// under a key with compare-and-set, beside immutable side objects. It must
// not know what the bytes mean; that is state/checkpoint's.
package store

import (
	"context"
	"time"

	"github.com/manent/action/providers"
)

// Revision is the store's own version of a key (a commit id, an ETag). "" is
// the revision of a key that does not exist.
type Revision string

// Store keeps documents.
//
// Only the store's own answer makes a Conflict; anything lost on the way is
// Unknown or Unavailable, and the change may have landed all the same: the
// caller re-reads and compares. Errors are *providers.Fault. Documents are at
// most MaxDocument bytes; a larger one is refused, reading as well as writing.
type Store interface {
	// Get returns the document and its revision, and (nil, "", nil) for a
	// key that does not exist.
	Get(ctx context.Context, key string) ([]byte, Revision, error)

	// Put replaces the document if its revision still is expect ("" = it must
	// not exist), together with its side objects. It returns the new
	// revision. Two Puts from one revision: exactly one succeeds. Side
	// objects of a refused Put may stay, unreferenced.
	Put(ctx context.Context, key string, change Change, expect Revision) (Revision, error)

	// Object returns a side object, NotFound when there is none.
	Object(ctx context.Context, key, name string) ([]byte, error)

	// List returns the keys below a prefix of whole segments ("shop",
	// "shop/web"; "" for all), sorted. Keys may come with an error that
	// names what could not be looked at; they are good all the same.
	List(ctx context.Context, prefix string) ([]string, error)
}

// Change is one write.
type Change struct {
	Data    []byte            // the document
	Note    string            // what it records: the commit message in Git
	Objects map[string][]byte // side objects to add, by name ("readings/<rollout>/<stage>/3.json")
	Drop    []string          // prefixes of side objects no longer needed ("readings/<rollout>/"); best effort once the document has landed
}

// MaxDocument bounds a document and a side object, in bytes.
const MaxDocument = 4 << 20

// Historian is implemented by a store that keeps every version.
type Historian interface {
	// Log returns the newest n writes of a key, newest first.
	Log(ctx context.Context, key string, n int) ([]Entry, error)
}

// Entry is one write of the history.
type Entry struct {
	Revision Revision
	At       time.Time
	Note     string
}

// Spec describes one store. Scheme is what a state address begins with:
// "git", "s3", "file". Open takes the whole address.
type Spec struct {
	Scheme  string
	Summary string
	Example string
	Open    func(env providers.Env, address string) (Store, error)
}
