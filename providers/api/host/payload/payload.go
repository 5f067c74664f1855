// Package payload is files on their way to other machines: a file, a folder or
// an archive of the workspace, bounded in size, with a SHA-256 of each. It must
// not know where they go, nor any contract.
package payload

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// item is a file or folder of the source.
type item struct {
	path string // with slashes
	mode fs.FileMode
	size int64
	time time.Time
	sum  string // SHA-256 in hex, "" of a folder
}

// Limits bound a source.
type Limits struct {
	Bytes  int64 // of all files, unpacked
	Count  int   // of files and folders
	Unpack bool  // what ends in .tar, .tar.gz, .tgz or .zip
}

// Source is what is to be copied, read once for its digests.
type Source struct {
	Size      int64  // of all files, bytes
	Count     int    // of files and folders
	Inventory []byte // sorted lines: "SHA-256  ./path" of files, "mode ./path" (st_mode in hex) of all
	Digest    string // SHA-256 of Inventory, in hex

	root    *os.Root
	only    string // the one file of it that counts, "" for all
	items   []item
	scratch string // folder to remove, "" for none
}

// Close removes what was unpacked.
func (s *Source) Close() {
	_ = s.root.Close()
	if s.scratch != "" {
		_ = os.RemoveAll(s.scratch)
	}
}

// Open reads the source of a name in a folder. Nothing outside of that folder
// can be reached by it, and nothing in it may be a link or a device. A single
// file is a source with one file. Errors say what was refused.
func Open(ctx context.Context, dir, name string, s Limits) (*Source, error) {
	workspace, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = workspace.Close() }()
	out, err := locate(ctx, workspace, path.Clean(name), s)
	if err != nil {
		return nil, err
	}
	if err = out.scan(ctx, s); err != nil {
		out.Close()
		return nil, err
	}
	return out, nil
}

// locate opens the folder that holds what is to be copied.
func locate(ctx context.Context, workspace *os.Root, name string, s Limits) (*Source, error) {
	info, err := workspace.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		root, err := workspace.OpenRoot(name)
		return &Source{root: root}, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no file, folder or archive", name)
	}
	file, err := workspace.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if unpack := unpackerOf(name); unpack != nil && s.Unpack {
		return unpacked(ctx, file, unpack, s)
	}
	root, err := workspace.OpenRoot(path.Dir(name))
	return &Source{root: root, only: path.Base(name)}, err
}

// scan lists what is there and reads every file once.
func (s *Source) scan(ctx context.Context, limits Limits) error {
	start := "."
	if s.only != "" {
		start = s.only
	}
	err := fs.WalkDir(s.root.FS(), start, func(name string, entry fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil || name == "." {
			return err
		}
		it, err := s.look(name, entry)
		if err != nil {
			return err
		}
		s.Size += it.size
		s.items = append(s.items, it)
		switch {
		case len(s.items) > limits.Count:
			return fmt.Errorf("more than %d files and folders (max_files)", limits.Count)
		case s.Size > limits.Bytes:
			return fmt.Errorf("more than %d bytes (max_size)", limits.Bytes)
		case it.mode.IsRegular():
			s.items[len(s.items)-1].sum, err = s.sum(it)
		}
		return err
	})
	if err == nil && !slices.ContainsFunc(s.items, func(it item) bool { return it.mode.IsRegular() }) {
		err = errors.New("there is no file in it")
	}
	s.finish()
	return err
}

func (s *Source) look(name string, entry fs.DirEntry) (item, error) {
	info, err := entry.Info()
	if err != nil {
		return item{}, err
	}
	if err := checkName(name); err != nil {
		return item{}, err
	}
	it := item{path: name, mode: info.Mode(), size: info.Size(), time: info.ModTime()}
	switch {
	case info.IsDir():
		it.mode, it.size = fs.ModeDir|info.Mode().Perm()|0o700, 0 // the target has to write in it
	case info.Mode().Type() == fs.ModeSymlink:
		return it, fmt.Errorf("%s is a symbolic link, expected files and folders only (cp -L, tar -h)", name)
	case !info.Mode().IsRegular():
		return it, fmt.Errorf("%s is neither a file nor a folder", name)
	default:
		it.mode = info.Mode().Perm()
	}
	return it, nil
}

// checkName refuses names that leave a folder, or that programs of the target
// would write in another way.
func checkName(name string) error {
	odd := func(r rune) bool { return unicode.IsControl(r) || r == '\\' }
	if !fs.ValidPath(name) || !utf8.ValidString(name) || strings.ContainsFunc(name, odd) {
		return fmt.Errorf("the name %q leaves the source, or has control characters or backslashes", name)
	}
	return nil
}

func (s *Source) sum(it item) (string, error) {
	file, err := s.root.Open(it.path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	if _, err = io.CopyN(hash, file, it.size); err != nil {
		return "", fmt.Errorf("%s changed while it was read: %w", it.path, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// finish counts, and writes the list of files as the target's own programs would.
func (s *Source) finish() {
	s.Count = len(s.items)
	var lines []string
	for _, it := range s.items {
		raw := 0o040000 | uint32(it.mode.Perm())
		if it.mode.IsRegular() {
			raw = 0o100000 | uint32(it.mode.Perm())
			lines = append(lines, it.sum+"  ./"+it.path+"\n")
		}
		lines = append(lines, fmt.Sprintf("%x ./%s\n", raw, it.path))
	}
	slices.Sort(lines)
	s.Inventory = []byte(strings.Join(lines, ""))
	sum := sha256.Sum256(s.Inventory)
	s.Digest = hex.EncodeToString(sum[:])
}

// WriteTar writes a tar archive of the file "inventory" and the folder "files",
// from the source as it is by now: whoever reads it has to compare.
func (s *Source) WriteTar(to io.Writer) error {
	w := tar.NewWriter(to)
	list := &tar.Header{Typeflag: tar.TypeReg, Name: "inventory", Mode: 0o644, Size: int64(len(s.Inventory))}
	if err := w.WriteHeader(list); err != nil {
		return err
	}
	if _, err := w.Write(s.Inventory); err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "files/", Mode: 0o755}); err != nil {
		return err
	}
	for _, it := range s.items {
		if err := s.writeItem(w, it); err != nil {
			return err
		}
	}
	return w.Close()
}

func (s *Source) writeItem(w *tar.Writer, it item) error {
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: "files/" + it.path, Mode: int64(it.mode.Perm()), Size: it.size,
		ModTime: it.time.Truncate(time.Second),
	}
	if it.mode.IsDir() {
		header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
		return w.WriteHeader(header)
	}
	file, err := s.root.Open(it.path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	if _, err = io.CopyN(w, file, it.size); errors.Is(err, io.EOF) {
		return fmt.Errorf("%s became shorter while it was copied", it.path)
	}
	return err
}
