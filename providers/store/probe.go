package store

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/manent/action/providers"
)

// ProbeKey is the key Probe writes to. A sweep over a store's keys skips it.
//
// It is always the same, so that however often doctor runs one small document
// is left in the store and nothing has to be deleted, for which the contract
// has no call and a token need not have the right.
const ProbeKey = "manent/probe/doctor"

// probeTries bounds the attempts when another probe works on the same key.
const probeTries = 5

// Probe proves that a store keeps its promise: it reads back what was
// written, and refuses a create over an existing key and a write from a stale
// revision. Every write has another body, since a store may rightly take
// identical bytes for no change. The answer is nil, a *providers.Fault of
// kind Invalid that names what the store ignored, or the store's own fault.
func Probe(ctx context.Context, s Store, key string) error {
	stale, current, err := probeWrites(ctx, s, key)
	if err != nil {
		return err
	}
	if err := refuses(ctx, s, key, "", "a create over a key that exists"); err != nil {
		return err
	}
	if err := refuses(ctx, s, key, stale, "a write from a stale revision"); err != nil {
		return err
	}
	if _, now, err := s.Get(ctx, key); err != nil {
		return err
	} else if now != current {
		return probeFault(key, fmt.Errorf("revision %q after refused writes, expected %q: a refused write has landed or another probe runs", now, current))
	}
	return nil
}

// probeWrites makes two good writes and returns their revisions.
func probeWrites(ctx context.Context, s Store, key string) (stale, current Revision, err error) {
	for range probeTries {
		var found Revision
		if _, found, err = s.Get(ctx, key); err != nil {
			return "", "", err
		}
		if stale, err = s.Put(ctx, key, probeChange(), found); providers.IsConflict(err) {
			continue // another probe was faster
		} else if err != nil {
			return "", "", err
		}
		change := probeChange()
		if current, err = s.Put(ctx, key, change, stale); providers.IsConflict(err) {
			continue
		} else if err != nil {
			return "", "", err
		}
		return stale, current, readsBack(ctx, s, key, change.Data, current)
	}
	return "", "", fmt.Errorf("probe of %s: %d tries: %w", key, probeTries, err)
}

func readsBack(ctx context.Context, s Store, key string, want []byte, revision Revision) error {
	data, found, err := s.Get(ctx, key)
	if err != nil {
		return err
	}
	if string(data) != string(want) || found != revision {
		return probeFault(key, fmt.Errorf("%d bytes at revision %q read back, expected the %d bytes written at %q", len(data), found, len(want), revision))
	}
	return nil
}

func refuses(ctx context.Context, s Store, key string, expect Revision, what string) error {
	_, err := s.Put(ctx, key, probeChange(), expect)
	if err == nil {
		return probeFault(key, fmt.Errorf("the store took %s", what))
	}
	if providers.IsConflict(err) {
		return nil
	}
	return err
}

func probeChange() Change {
	return Change{Data: []byte("{\"probe\":\"" + rand.Text() + "\"}\n"), Note: "probe"}
}

func probeFault(key string, err error) error {
	return &providers.Fault{
		Provider: "store", Op: "probe " + key, Kind: providers.Invalid, Err: err,
		Hint: "this store cannot keep two runs apart; use a store with conditional writes (Git, or S3 with If-Match and If-None-Match)",
	}
}
