package checkpoint

import (
	"bytes"
	"slices"

	"github.com/manent/action/state"
)

// merge appends to doc the decisions that found has beyond base, provided
// that nothing else in found differs from base but the stamp of the write.
// It reports false, with doc untouched, when anything else does.
func merge(base []byte, key string, doc, found *state.Document) bool {
	was, err := Decode(base, key)
	if err != nil || was.Rollout == nil || found.Rollout == nil || doc.Rollout == nil || doc.Rollout.ID != was.Rollout.ID {
		return false
	}
	n := len(was.Rollout.Decisions)
	if len(found.Rollout.Decisions) < n {
		return false
	}
	less, rollout := *found, *found.Rollout
	rollout.Decisions = rollout.Decisions[:n]
	less.Schema, less.Seq, less.Nonce, less.Written, less.Note = was.Schema, was.Seq, was.Nonce, was.Written, was.Note
	less.Rollout = &rollout
	if !same(was, &less) {
		return false
	}
	doc.Rollout.Decisions = append(slices.Clip(doc.Rollout.Decisions), found.Rollout.Decisions[n:]...)
	return true
}

func same(a, b *state.Document) bool {
	left, err := Encode(a)
	if err != nil {
		return false
	}
	right, err := Encode(b)
	return err == nil && bytes.Equal(left, right)
}
