// Package file keeps state documents in a directory: for one machine, or for
// several that share a file system with working locks. It must not know what
// a document means.
//
// A document is <dir>/<escaped key>/state.json, its objects lie beside it.
// Compare-and-set is a lock on <dir>/<escaped key>/lock, held for one call;
// the revision is the sha256 of the contents. A write goes to a temporary
// file that is synced and renamed, so a crash leaves the old document or the
// new one. All access goes through os.Root: a symbolic link that leads out of
// the directory is refused by the operating system's own path walk.
package file

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
)

var _ store.Store = (*Store)(nil)

const (
	document = "state.json"
	lockFile = "lock"
	nameMax  = 255 // bytes in one file name, on all common file systems
)

// Store is a directory of documents.
type Store struct {
	base string // a directory that is trusted
	dir  string // below it, with forward slashes
	log  func(format string, args ...any)
}

// Spec describes the store to the wiring.
func Spec() store.Spec {
	return store.Spec{
		Scheme:  "file",
		Summary: "a directory, for one machine or a shared file system with locks",
		Example: "file:.manent",
		Open:    func(env providers.Env, address string) (store.Store, error) { return Open(env, address) },
	}
}

// Open takes file:<dir>. A relative directory starts at env.Dir and stays
// inside; an absolute one is taken as it is. Nothing is created before the
// first write.
func Open(env providers.Env, address string) (*Store, error) {
	dir, ok := strings.CutPrefix(address, "file:")
	if !ok || dir == "" {
		return nil, invalid("open", fmt.Errorf("address %q, expected file:<dir>", address))
	}
	log := env.Log
	if log == nil {
		log = func(string, ...any) {}
	}
	if dir = filepath.FromSlash(dir); filepath.IsAbs(dir) {
		return &Store{base: filepath.Clean(dir), dir: ".", log: log}, nil
	}
	if !filepath.IsLocal(dir) {
		return nil, invalid("open", fmt.Errorf("directory %q leads out of the workspace", dir))
	}
	return &Store{base: cmp.Or(env.Dir, "."), dir: filepath.ToSlash(filepath.Clean(dir)), log: log}, nil
}

// top opens the directory, fs.ErrNotExist when there is none.
func (s *Store) top() (*os.Root, error) {
	base, err := os.OpenRoot(s.base)
	if err != nil {
		return nil, err
	}
	defer func() { _ = base.Close() }()
	return base.OpenRoot(s.dir)
}

// make makes the directory and a key's folder in it, and opens the folder.
func (s *Store) make(folder string) (*os.Root, error) {
	if err := os.MkdirAll(s.base, 0o755); err != nil {
		return nil, err
	}
	base, err := os.OpenRoot(s.base)
	if err != nil {
		return nil, err
	}
	defer func() { _ = base.Close() }()
	if err := base.MkdirAll(path.Join(s.dir, folder), 0o755); err != nil {
		return nil, err
	}
	return base.OpenRoot(path.Join(s.dir, folder))
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string) ([]byte, store.Revision, error) {
	data, err := s.read(ctx, key, document)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fault("get "+quote(key), err)
	}
	return data, revision(data), nil
}

// Object implements store.Store.
func (s *Store) Object(ctx context.Context, key, name string) ([]byte, error) {
	op := "object " + quote(name) + " of " + quote(key)
	escaped, err := store.EscapeName(name)
	if err != nil {
		return nil, invalid(op, err)
	}
	data, err := s.read(ctx, key, fold(escaped))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &providers.Fault{Provider: "file", Op: op, Kind: providers.NotFound, Err: errors.New("no such object")}
	}
	if err != nil {
		return nil, fault(op, err)
	}
	return data, nil
}

// read returns a file of a key's folder, fs.ErrNotExist when it, the folder
// or the whole directory is missing.
func (s *Store) read(ctx context.Context, key, name string) ([]byte, error) {
	folder, err := folderOf(key)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	root, err := s.top()
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	return readFile(root, path.Join(folder, name))
}

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, change store.Change, expect store.Revision) (store.Revision, error) {
	op := "put " + quote(key)
	folder, err := folderOf(key)
	if err == nil {
		err = change.Check()
	}
	if err != nil {
		return "", invalid(op, err)
	}
	if err := ctx.Err(); err != nil {
		return "", fault(op, err)
	}
	root, err := s.make(folder)
	if err != nil {
		return "", fault(op, err)
	}
	defer func() { _ = root.Close() }()
	unlock, err := lock(ctx, root)
	if err != nil {
		return "", fault(op, err)
	}
	defer unlock()
	if err := replace(root, change, expect); err != nil {
		return "", fault(op, err)
	}
	s.drop(root, change.Drop)
	return revision(change.Data), nil
}

// replace does the write itself, under the lock: objects first, so that no
// document names one that is not there.
func replace(root *os.Root, change store.Change, expect store.Revision) error {
	if err := expected(root, expect); err != nil {
		return err
	}
	for name, data := range change.Objects {
		escaped, err := store.EscapeName(name)
		if err != nil {
			return err
		}
		if err := writeFile(root, fold(escaped), data); err != nil {
			return err
		}
	}
	return writeFile(root, document, change.Data)
}

// drop removes objects once the document has landed. What cannot be removed
// stays, named by nothing: that is reported and no error of the write.
func (s *Store) drop(root *os.Root, prefixes []string) {
	for _, prefix := range prefixes {
		escaped, err := store.EscapePrefix(prefix)
		if err == nil {
			err = root.RemoveAll(fold(strings.TrimSuffix(escaped, "/")))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.log("file: objects below %s stay: %v", prefix, err)
		}
	}
}

func expected(root *os.Root, expect store.Revision) error {
	data, err := readFile(root, document)
	var found store.Revision
	switch {
	case err == nil:
		found = revision(data)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if found != expect {
		return &providers.Fault{Kind: providers.Conflict, Err: fmt.Errorf("revision is %q, expected %q", found, expect)}
	}
	return nil
}

func revision(data []byte) store.Revision {
	sum := sha256.Sum256(data)
	return store.Revision(hex.EncodeToString(sum[:]))
}

// folderOf is the folder of a key, with forward slashes.
func folderOf(key string) (string, error) {
	escaped, err := store.EscapeKey(key)
	if err != nil {
		return "", &providers.Fault{Kind: providers.Invalid, Err: err}
	}
	for _, segment := range strings.Split(fold(escaped), "/") {
		if len(segment) > nameMax {
			return "", &providers.Fault{Kind: providers.Invalid, Err: fmt.Errorf("key %q: a segment takes %d bytes as a file name, expected at most %d", key, len(segment), nameMax)}
		}
	}
	return fold(escaped), nil
}

// fold escapes capital letters as well, for file systems that take A for a.
func fold(escaped string) string {
	var out strings.Builder
	for i := range len(escaped) {
		if c := escaped[i]; 'A' <= c && c <= 'Z' {
			fmt.Fprintf(&out, "%%%02x", c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}
