package git

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/gitcli"
	"github.com/manent/action/providers/store"
)

const (
	refRoot  = "refs/manent/"
	document = "state.json"
)

func refOf(key string) (string, error) {
	path, err := store.EscapeKey(key)
	return refRoot + path, err
}

func keyOf(ref string) (string, bool) {
	return store.UnescapeKey(strings.TrimPrefix(ref, refRoot))
}

// head is what a ref points to; no commit when it does not exist.
type head struct {
	commit string
	root   []gitcli.Entry // its tree's top folder
	data   []byte         // its document
}

// sync fetches a ref, reads its document and notes it as seen. The first
// fetch is shallow; later ones bring all that came since, so that descent can
// be told.
func (s *Store) sync(ctx context.Context, ref string) (now head, err error) {
	seen := s.seen[ref]
	var depth []string
	if seen.commit == "" {
		depth = []string{"--depth=1"}
	}
	there, err := s.fetch(ctx, s.scratch, ref, depth...)
	switch {
	case err != nil:
		return head{}, err
	case !there && seen.commit != "":
		return head{}, tampered(fmt.Errorf("ref %s is gone, commit %s was seen there", ref, seen.commit))
	case !there, seen.commit != "" && gitcli.RefIn(s.scratch, ref) == seen.commit: // which saves a process
		return seen, nil
	}
	found, err := s.show(ctx, ref+"^{commit}", ref+"^{tree}", ref+":"+document)
	if err != nil {
		return head{}, err
	}
	commit, tree, doc := found[0], found[1], found[2]
	if commit.Kind != "commit" || tree.Kind != "tree" || doc.Kind != "blob" {
		return head{}, refused(fmt.Errorf("ref %s holds no %s", ref, document))
	}
	if err := s.checkDescent(ctx, ref, seen.commit, commit); err != nil {
		return head{}, err
	}
	now = head{commit: commit.ID, data: doc.Data}
	if now.root, err = gitcli.ParseTree(tree.Data); err == nil {
		s.seen[ref] = now
	}
	return now, err
}

// checkDescent refuses a commit that has not grown from the one seen before.
func (s *Store) checkDescent(ctx context.Context, ref, seen string, commit gitcli.Object) error {
	header, _, _ := bytes.Cut(commit.Data, []byte("\n\n")) // the message may say what it likes
	if seen == "" || commit.ID == seen || bytes.Contains(header, []byte("\nparent "+seen+"\n")) {
		return nil
	}
	descends, err := s.descends(ctx, seen, commit.ID)
	if err == nil && !descends {
		err = tampered(fmt.Errorf("ref %s moved from %s to %s, which does not descend from it", ref, seen, commit.ID))
	}
	return err
}

// fetch brings a ref into a repository; false when the remote has none.
func (s *Store) fetch(ctx context.Context, dir, ref string, depth ...string) (bool, error) {
	args := append([]string{"fetch", "--quiet", "--no-tags"}, depth...)
	args = append(args, gitcli.RemoteName, "+"+ref+":"+ref)
	var failed error
	for range 2 { // a second time if the ref came up in between
		if failed = s.cli.Run(ctx, dir, nil, args...).Fault(); failed == nil {
			return true, nil
		}
		refs, err := s.cli.Refs(ctx, dir, ref)
		if err != nil || refs[ref] == "" {
			return false, err
		}
	}
	return false, failed
}

// descends reports whether a commit has another among its ancestors.
func (s *Store) descends(ctx context.Context, ancestor, commit string) (bool, error) {
	if r := s.cli.Run(ctx, s.scratch, nil, "merge-base", "--is-ancestor", ancestor, commit); r.Code != 1 {
		return r.Code == 0, r.Fault()
	}
	return false, nil
}

// show reads objects of the scratch repository, no larger than a document.
func (s *Store) show(ctx context.Context, names ...string) ([]gitcli.Object, error) {
	found, err := s.cli.Show(ctx, s.scratch, names...)
	for _, o := range found {
		if o.Size > store.MaxDocument {
			return nil, refused(fmt.Errorf("%w: %d bytes, expected at most %d", store.ErrTooLarge, o.Size, store.MaxDocument))
		}
	}
	return found, err
}

func refused(err error) error { return &providers.Fault{Kind: providers.Invalid, Err: err} }

func tampered(err error) error {
	return &providers.Fault{
		Kind: providers.Invalid, Err: err,
		Hint: "the state ref was rewound or replaced by hand; find out who can push to it, compare the state with the router, then start manent anew",
	}
}
