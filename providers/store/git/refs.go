package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/gitcli"
	"github.com/manent/action/providers/store"
)

const (
	refRoot  = "refs/manent/"
	madeRoot = "refs/made/" // where commits of this store's own wait in the scratch repository
	document = "state.json"
)

func refOf(key string) (string, error) {
	path, err := store.EscapeKey(key)
	return refRoot + path, err
}

func keyOf(ref string) (string, bool) {
	path, ok := strings.CutPrefix(ref, refRoot)
	if !ok {
		return "", false
	}
	return store.UnescapeKey(path)
}

// version is what a ref points to; no commit when it does not exist.
type version struct {
	commit string
	data   []byte
}

// sync fetches a ref, reads its document and notes it as seen. The first
// fetch is shallow; later ones bring all that came since, so that descent can
// be told.
func (s *Store) sync(ctx context.Context, ref string) (version, error) {
	seen := s.seen[ref]
	var depth []string
	if seen == "" {
		depth = []string{"--depth=1"}
	}
	there, err := s.fetch(ctx, s.scratch, ref, depth...)
	if err != nil {
		return version{}, err
	}
	if !there {
		if seen != "" {
			return version{}, tampered(fmt.Errorf("ref %s is gone, commit %s was seen there", ref, seen))
		}
		return version{}, nil
	}
	found, err := s.show(ctx, ref+"^{commit}", ref+":"+document)
	if err != nil {
		return version{}, err
	}
	commit, doc := found[0], found[1]
	if commit.kind != "commit" || doc.kind != "blob" {
		return version{}, refused(fmt.Errorf("ref %s holds no %s", ref, document))
	}
	if seen != "" && commit.id != seen && !bytes.Contains(commit.data, []byte("\nparent "+seen+"\n")) {
		descends, err := s.descends(ctx, seen, commit.id)
		if err != nil {
			return version{}, err
		}
		if !descends {
			return version{}, tampered(fmt.Errorf("ref %s moved from %s to %s, which does not descend from it", ref, seen, commit.id))
		}
	}
	s.seen[ref] = commit.id
	return version{commit: commit.id, data: doc.data}, nil
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
		if err != nil {
			return false, err
		}
		if refs[ref] == "" {
			return false, nil
		}
	}
	return false, failed
}

// descends reports whether a commit has another among its ancestors.
func (s *Store) descends(ctx context.Context, ancestor, commit string) (bool, error) {
	r := s.cli.Run(ctx, s.scratch, nil, "merge-base", "--is-ancestor", ancestor, commit)
	if r.Code == 1 {
		return false, nil
	}
	return r.Code == 0, r.Fault()
}

// object is one answer of cat-file; no kind when there is no such object.
type object struct {
	id, kind string
	data     []byte
}

// show reads objects of the scratch repository, by one process.
func (s *Store) show(ctx context.Context, names ...string) ([]object, error) {
	r := s.cli.Run(ctx, s.scratch, []byte(strings.Join(names, "\n")+"\n"), "cat-file", "--batch")
	if err := r.Fault(); err != nil {
		return nil, err
	}
	out := r.Out
	objects := make([]object, len(names))
	for i := range objects {
		head, rest, _ := bytes.Cut(out, []byte("\n"))
		fields := strings.Fields(string(head))
		if len(fields) == 0 {
			return nil, errors.New("cat-file ended early")
		}
		out = rest
		if len(fields) != 3 || fields[2] == "missing" {
			continue
		}
		size, err := strconv.Atoi(fields[2])
		switch {
		case err != nil || size < 0:
			return nil, fmt.Errorf("cat-file answered %q", head)
		case size > store.MaxDocument:
			return nil, refused(fmt.Errorf("%w: %d bytes, expected at most %d", store.ErrTooLarge, size, store.MaxDocument))
		case len(rest) < size+1:
			return nil, errors.New("cat-file ended early")
		}
		objects[i] = object{id: fields[0], kind: fields[1], data: rest[:size:size]}
		out = rest[size+1:]
	}
	return objects, nil
}

func refused(err error) error { return &providers.Fault{Kind: providers.Invalid, Err: err} }

func tampered(err error) error {
	return &providers.Fault{
		Kind: providers.Invalid, Err: err,
		Hint: "the state ref was rewound or replaced by hand; find out who can push to it, compare the state with the router, then start manent anew",
	}
}
