package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
)

// lockPoll is how often a held lock is tried again. A lock is held for the
// few milliseconds of one write.
const lockPoll = 5 * time.Millisecond

// lock takes the lock of a folder, until the context ends.
func lock(ctx context.Context, root *os.Root) (unlock func(), err error) {
	f, err := root.OpenFile(lockFile, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		held, err := tryLock(f)
		if err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("lock: %w", err)
		}
		if held {
			return func() { _ = f.Close() }, nil // closing gives the lock back
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("lock held by another process: %w", ctx.Err())
		case <-time.After(lockPoll):
		}
	}
}

func readFile(root *os.Root, name string) ([]byte, error) {
	if err := regular(root, name); err != nil {
		return nil, err
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return store.ReadAll(f)
}

// regular refuses what is no file of this store, before it is opened: a pipe
// would block, and a link is nothing that this store makes.
func regular(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory: %w", name, fs.ErrNotExist)
	case !info.Mode().IsRegular():
		return &providers.Fault{
			Kind: providers.Invalid, Err: fmt.Errorf("%s is not a regular file (%s)", name, info.Mode()),
			Hint: "the state directory holds regular files only: remove it, and restore the file where it replaced one",
		}
	}
	return nil
}

// writeFile replaces a file whole. The temporary name is fixed, since the
// lock is held: what a crash leaves is overwritten by the next write.
func writeFile(root *os.Root, name string, data []byte) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	temporary := path.Join(path.Dir(name), "%tmp") // no escaped name is this
	if err := writeSynced(root, temporary, data); err != nil {
		return err
	}
	if err := root.Rename(temporary, name); err != nil {
		return err
	}
	if err := syncDir(root, path.Dir(name)); err != nil {
		return &providers.Fault{Kind: providers.Unknown, Err: fmt.Errorf("sync after rename: %w", err)}
	}
	return nil
}

func writeSynced(root *os.Root, name string, data []byte) error {
	if err := regular(root, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]string, error) {
	op := "list " + quote(prefix)
	if err := ctx.Err(); err != nil {
		return nil, fault(op, err)
	}
	root, err := s.top()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault(op, err)
	}
	defer func() { _ = root.Close() }()
	folders, bad := folders(root)
	var keys []string
	for _, folder := range folders {
		if key, ok := keyOf(folder); ok && store.Below(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	if bad != nil {
		return keys, fault(op, bad)
	}
	return keys, nil
}

// folders returns the folders that hold a document, whatever that is: to read
// it is Get's. A folder that cannot be read is an error besides the others: a
// key left out would be an environment nobody looks after.
func folders(root *os.Root) (found []string, err error) {
	var bad []error
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // went while we were looking
		case err != nil && name == ".":
			return err
		case err != nil:
			bad = append(bad, fmt.Errorf("%s: %w", name, err))
			return fs.SkipDir
		case !entry.IsDir() || strings.Count(name, "/") < 2:
			return nil
		}
		_, err = root.Lstat(path.Join(name, document))
		if err == nil {
			found = append(found, name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			bad = append(bad, fmt.Errorf("%s: %w", name, err))
		}
		return fs.SkipDir
	})
	return found, errors.Join(append(bad, err)...)
}

// keyOf is the key of a folder; false for one this store did not make.
func keyOf(folder string) (string, bool) {
	var escaped strings.Builder
	for i := 0; i < len(folder); i++ {
		if folder[i] == '%' && i+2 < len(folder) {
			if c, err := strconv.ParseUint(folder[i+1:i+3], 16, 8); err == nil && 'A' <= c && c <= 'Z' {
				escaped.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		escaped.WriteByte(folder[i])
	}
	key, ok := store.UnescapeKey(escaped.String())
	if !ok {
		return "", false
	}
	again, err := folderOf(key)
	return key, err == nil && again == folder
}

func quote(s string) string { return strconv.Quote(s) }

func invalid(op string, err error) error {
	return &providers.Fault{Provider: "file", Op: op, Kind: providers.Invalid, Err: err}
}

// fault names an error's provider and operation and classifies it. An error
// of the file system that is not a refusal is Unavailable: nothing was
// renamed yet. What comes after the rename says Unknown itself.
func fault(op string, err error) error {
	f := &providers.Fault{Provider: "file", Op: op, Kind: providers.Unavailable, Err: err}
	var inner *providers.Fault
	switch {
	case errors.As(err, &inner):
		f.Kind, f.Err, f.Hint = inner.Kind, inner.Err, inner.Hint
	case providers.Lost(err):
		f.Kind = providers.Unknown
	case errors.Is(err, store.ErrTooLarge):
		f.Kind = providers.Invalid
	case errors.Is(err, fs.ErrPermission):
		f.Kind, f.Hint = providers.Denied, "the directory must be writable by the user that runs manent"
	case strings.Contains(err.Error(), "path escapes from parent"): // os.Root has no exported error for it
		f.Kind, f.Hint = providers.Invalid, "a symbolic link inside the state directory leads out of it; remove the link"
	}
	return f
}
