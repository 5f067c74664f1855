package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/gitcli"
	"github.com/manent/action/providers/store"
)

const (
	pushTries = 5
	pushPause = 50 * time.Millisecond // before the second try, doubled each time
)

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, change store.Change, expect store.Revision) (store.Revision, error) {
	op := fmt.Sprintf("put %q", key)
	ref, err := refOf(key)
	if err = cmp.Or(err, change.Check()); err != nil {
		return "", invalid(op, err)
	}
	ctx, end, err := s.begin(ctx)
	defer end()
	if err != nil {
		return "", s.fault(op, err)
	}
	if s.seen[ref].commit != string(expect) {
		now, err := s.sync(ctx, ref)
		if err != nil {
			return "", s.fault(op, err)
		}
		if now.commit != string(expect) {
			return "", s.fault(op, moved(now.commit, string(expect)))
		}
	}
	made, err := s.commit(ctx, change, s.seen[ref])
	if err == nil {
		err = s.push(ctx, ref, made.commit, string(expect))
	}
	if err != nil {
		return "", s.fault(op, err)
	}
	s.seen[ref] = made
	return store.Revision(made.commit), nil
}

// push moves the remote ref from expect to the commit, under that condition.
// Only a line that says so is believed; whatever else git answers, the ref is
// read again, since a push may land and its answer be lost, and since "up to
// date" is not proof of having won. While the ref has not moved, a push that
// nobody refused is tried again: another's may hold the ref's lock.
func (s *Store) push(ctx context.Context, ref, commit, expect string) error {
	pause := pushPause
	for try := 1; ; try++ {
		r := s.cli.Run(ctx, s.scratch, nil, "push", "--porcelain", "--force-with-lease="+ref+":"+expect, gitcli.RemoteName, commit+":"+ref)
		failed := r.Fault()
		if failed == nil && landed(r.Out, commit+":"+ref) {
			return nil
		}
		if failed == nil {
			failed = errors.New("push did not say that the ref has moved")
		}
		refs, err := s.cli.Refs(ctx, s.scratch, ref)
		switch now := refs[ref]; {
		case err != nil && providers.KindOf(failed).Definite():
			return failed
		case err != nil:
			return fmt.Errorf("%w; reading the ref: %w", failed, err)
		case now == commit:
			return nil
		case now != expect:
			return s.overtaken(ctx, ref, commit, expect)
		case try == pushTries || providers.KindOf(failed).Definite():
			return failed
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause *= 2
	}
}

// landed looks for the line of --porcelain that says the ref was moved or
// made: "<flag>\t<from>:<to>\t<summary>".
func landed(out []byte, refspec string) bool {
	for line := range strings.Lines(string(out)) {
		fields := strings.SplitN(line, "\t", 3)
		if len(fields) == 3 && (fields[0] == " " || fields[0] == "*") && fields[1] == refspec {
			return true
		}
	}
	return false
}

// overtaken: the ref holds another commit. Either ours never landed, which is
// a conflict, or it did and has been built upon, which is a success.
func (s *Store) overtaken(ctx context.Context, ref, commit, expect string) error {
	now, err := s.sync(ctx, ref)
	if err != nil {
		return err
	}
	if now.commit != "" {
		if ours, err := s.descends(ctx, commit, now.commit); err != nil || ours { // a commit descends from itself
			return err
		}
	}
	return moved(now.commit, expect)
}

func moved(found, expect string) error {
	return &providers.Fault{Kind: providers.Conflict, Err: fmt.Errorf("ref is at %q, expected %q", found, expect)}
}
