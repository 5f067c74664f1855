// Package git keeps state documents in a Git repository, one ref per key:
// refs/manent/<project>/<application>/<environment>, one commit per write,
// its parent the commit that was read. The tree holds state.json and the side
// objects under their own names. It must not know what a document means.
//
// The git program does the work, so that every way to authenticate that works
// for the checkout works here. It runs in an empty scratch repository of this
// store, never in the checkout: a fetch of one ref, and a push of one commit
// under the condition that the ref still is what was read.
package git

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/gitcli"
	"github.com/manent/action/providers/store"
)

var (
	_ store.Store     = (*Store)(nil)
	_ store.Historian = (*Store)(nil)
)

// callLimit bounds one call of the store, with all its git processes. It is
// shorter than the time after which another process may take a lease over.
const callLimit = 25 * time.Second

// Store is one repository's state refs. It is safe for concurrent use; its
// calls follow each other. Close removes the scratch repository.
type Store struct {
	cli  *gitcli.Client
	turn chan struct{} // holds a token while a call is at work

	scratch string          // bare repository of this store, made at the first call
	seen    map[string]head // the newest seen of a ref
}

// Spec describes the store to the wiring.
func Spec() store.Spec {
	return store.Spec{
		Scheme:  "git",
		Summary: "a Git repository, one ref per environment and one commit per write",
		Example: "git:https://git.example.com/ops/state.git",
		Open:    func(env providers.Env, address string) (store.Store, error) { return Open(env, address) },
	}
}

// Open takes "git", which is the origin of the checkout in env.Dir, or
// git:<remote of the checkout, URL or path>. No process runs before the first
// call.
func Open(env providers.Env, address string) (*Store, error) {
	name, ok := strings.CutPrefix(address, "git")
	if !ok || name != "" && (len(name) < 2 || name[0] != ':' || name[1] == '-') {
		return nil, invalid("open", fmt.Errorf("address %q, expected git or git:<remote or URL>", gitcli.RedactURL(address)))
	}
	return &Store{
		cli:  gitcli.New(env, strings.TrimPrefix(name, ":")),
		turn: make(chan struct{}, 1), seen: map[string]head{},
	}, nil
}

// Close removes the scratch repository. The store may be used again.
func (s *Store) Close() error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	dir := s.scratch
	s.scratch, s.seen = "", map[string]head{}
	if dir == "" {
		return nil
	}
	return os.RemoveAll(dir)
}

// begin waits for the store's turn and makes the scratch repository if there
// is none. The caller calls end in any case.
func (s *Store) begin(ctx context.Context) (context.Context, func(), error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	select {
	case <-ctx.Done():
		return ctx, cancel, ctx.Err()
	case s.turn <- struct{}{}:
	}
	end := func() { cancel(); <-s.turn }
	if err := ctx.Err(); err != nil { // select is free to take the turn all the same
		return ctx, end, err
	}
	if s.scratch == "" {
		dir, err := s.cli.Scratch(ctx)
		if err != nil {
			return ctx, end, err
		}
		s.scratch = dir
	}
	return ctx, end, nil
}

// Get implements store.Store. It refuses a ref that has moved, within this
// store's life, to a commit that does not descend from the one seen before.
func (s *Store) Get(ctx context.Context, key string) (data []byte, revision store.Revision, err error) {
	op := fmt.Sprintf("get %q", key)
	ref, err := refOf(key)
	if err != nil {
		return nil, "", invalid(op, err)
	}
	ctx, end, err := s.begin(ctx)
	defer end()
	if err != nil {
		return nil, "", s.fault(op, err)
	}
	now, err := s.sync(ctx, ref)
	if err != nil {
		return nil, "", s.fault(op, err)
	}
	return bytes.Clone(now.data), store.Revision(now.commit), nil
}

// Object implements store.Store. Objects are immutable, so one that this
// store has seen is not asked for again; it may have been dropped since.
func (s *Store) Object(ctx context.Context, key, name string) ([]byte, error) {
	op := fmt.Sprintf("object %q of %q", name, key)
	ref, err := refOf(key)
	path, nameErr := store.EscapeName(name)
	if err = cmp.Or(err, nameErr); err != nil {
		return nil, invalid(op, err)
	}
	ctx, end, err := s.begin(ctx)
	defer end()
	if err != nil {
		return nil, s.fault(op, err)
	}
	now := s.seen[ref]
	for fresh := false; ; fresh = true {
		if now.commit != "" {
			found, err := s.show(ctx, now.commit+":"+path)
			if err != nil {
				return nil, s.fault(op, err)
			}
			if found[0].Kind == "blob" {
				return found[0].Data, nil
			}
		}
		if fresh {
			return nil, s.fault(op, &providers.Fault{Kind: providers.NotFound, Err: errors.New("no such object")})
		}
		if now, err = s.sync(ctx, ref); err != nil {
			return nil, s.fault(op, err)
		}
	}
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]string, error) {
	op := fmt.Sprintf("list %q", prefix)
	ctx, end, err := s.begin(ctx)
	defer end()
	if err != nil {
		return nil, s.fault(op, err)
	}
	refs, err := s.cli.Refs(ctx, s.scratch, refRoot+"*")
	if err != nil {
		return nil, s.fault(op, err)
	}
	var keys []string
	for ref := range refs {
		if key, ok := keyOf(ref); ok && store.Below(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// fault gives an error its provider, operation and place.
func (s *Store) fault(op string, err error) error {
	if place := s.cli.Place(); place != "" {
		op += " at " + place
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v: %w", callLimit, err)
	}
	return &providers.Fault{Provider: "git", Op: op, Kind: providers.KindOf(err), Err: err, Hint: providers.HintOf(err)}
}

func invalid(op string, err error) error {
	return &providers.Fault{Provider: "git", Op: op, Kind: providers.Invalid, Err: err}
}
