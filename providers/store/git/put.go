package git

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/gitcli"
	"github.com/manent/action/providers/store"
)

const (
	identity  = "manent <manent@localhost>"
	trailer   = "\n\nManent-Write: " // makes every commit another one, whatever it holds
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
	if s.seen[ref] != string(expect) {
		head, err := s.sync(ctx, ref)
		if err != nil {
			return "", s.fault(op, err)
		}
		if head.commit != string(expect) {
			return "", s.fault(op, moved(head.commit, string(expect)))
		}
	}
	commit, err := s.commit(ctx, ref, change, string(expect))
	if err == nil {
		err = s.push(ctx, ref, commit, string(expect))
	}
	if err != nil {
		return "", s.fault(op, err)
	}
	s.seen[ref] = commit
	return store.Revision(commit), nil
}

// commit makes the commit in the scratch repository, by one process. Names
// are escaped and need no quoting.
func (s *Store) commit(ctx context.Context, ref string, change store.Change, parent string) (string, error) {
	var in bytes.Buffer
	now := time.Now().Unix()
	fmt.Fprintf(&in, "commit %s\nmark :1\n", madeRoot+strings.TrimPrefix(ref, refRoot))
	fmt.Fprintf(&in, "author %s %d +0000\ncommitter %s %d +0000\n", identity, now, identity, now)
	blob(&in, []byte(change.Note+trailer+rand.Text()+"\n"))
	if parent != "" {
		fmt.Fprintf(&in, "from %s\n", parent)
	}
	for _, prefix := range change.Drop {
		path, err := store.EscapePrefix(prefix)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&in, "D %s\n", strings.TrimSuffix(path, "/"))
	}
	for _, name := range slices.Sorted(maps.Keys(change.Objects)) {
		path, err := store.EscapeName(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&in, "M 100644 inline %s\n", path)
		blob(&in, change.Objects[name])
	}
	fmt.Fprintf(&in, "M 100644 inline %s\n", document)
	blob(&in, change.Data)
	in.WriteString("\nget-mark :1\ndone\n")
	r := s.cli.Run(ctx, s.scratch, in.Bytes(), "fast-import", "--quiet", "--force", "--done")
	return strings.TrimSpace(string(r.Out)), r.Fault()
}

func blob(in *bytes.Buffer, data []byte) {
	fmt.Fprintf(in, "data %d\n", len(data))
	in.Write(data)
	in.WriteByte('\n')
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
	head, err := s.sync(ctx, ref)
	if err != nil {
		return err
	}
	switch head.commit {
	case commit:
		return nil
	case "":
		return moved("", expect)
	}
	ours, err := s.descends(ctx, commit, head.commit)
	if err == nil && !ours {
		err = moved(head.commit, expect)
	}
	return err
}

func moved(found, expect string) error {
	return &providers.Fault{Kind: providers.Conflict, Err: fmt.Errorf("ref is at %q, expected %q", found, expect)}
}
