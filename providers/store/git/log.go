package git

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/manent/action/providers/store"
)

// Log implements store.Historian. It works in a scratch repository of its own,
// since how deep the other one goes is what descent is told by.
func (s *Store) Log(ctx context.Context, key string, n int) ([]store.Entry, error) {
	op := fmt.Sprintf("history of %q", key)
	ref, err := refOf(key)
	if err != nil {
		return nil, invalid(op, err)
	}
	ctx, end, err := s.begin(ctx)
	defer end()
	if err != nil {
		return nil, s.fault(op, err)
	}
	entries, err := s.log(ctx, ref, n)
	if err != nil {
		return nil, s.fault(op, err)
	}
	return entries, nil
}

func (s *Store) log(ctx context.Context, ref string, n int) ([]store.Entry, error) {
	dir, err := s.cli.Scratch(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	there, err := s.fetch(ctx, dir, ref, fmt.Sprintf("--depth=%d", max(n, 1)))
	if err != nil || !there {
		return nil, err
	}
	r := s.cli.Run(ctx, dir, nil, "log", "-z", fmt.Sprintf("-n%d", max(n, 0)), "--format=%H %ct%n%B", ref)
	if err := r.Fault(); err != nil {
		return nil, err
	}
	var entries []store.Entry
	for text := range strings.SplitSeq(string(r.Out), "\x00") {
		head, message, _ := strings.Cut(text, "\n")
		id, seconds, ok := strings.Cut(head, " ")
		at, err := strconv.ParseInt(seconds, 10, 64)
		if !ok || err != nil {
			continue // the empty end, or what was cut off
		}
		if i := strings.LastIndex(message, trailer); i >= 0 {
			message = message[:i]
		}
		entries = append(entries, store.Entry{Revision: store.Revision(id), At: time.Unix(at, 0).UTC(), Note: message})
	}
	return entries, nil
}
