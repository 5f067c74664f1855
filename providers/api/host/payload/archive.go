package payload

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
)

// unpacker reads an archive and adds each of its entries.
type unpacker func(file *os.File, add func(entry, io.Reader) error) error

// entry is one thing in an archive.
type entry struct {
	name string
	mode fs.FileMode
	time time.Time
}

// unpackerOf is nil for what is no archive by its name.
func unpackerOf(name string) unpacker {
	switch name = strings.ToLower(name); {
	case strings.HasSuffix(name, ".tar"):
		return func(file *os.File, add func(entry, io.Reader) error) error { return untar(file, add) }
	case strings.HasSuffix(name, ".tar.gz"), strings.HasSuffix(name, ".tgz"):
		return func(file *os.File, add func(entry, io.Reader) error) error {
			plain, err := gzip.NewReader(file)
			if err != nil {
				return err
			}
			return untar(plain, add)
		}
	case strings.HasSuffix(name, ".zip"):
		return unzip
	}
	return nil
}

func untar(from io.Reader, add func(entry, io.Reader) error) error {
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case h.Typeflag == tar.TypeXGlobalHeader:
			continue
		case h.Typeflag == tar.TypeLink:
			return fmt.Errorf("%s is a link, expected files and folders only", h.Name)
		}
		if err := add(entry{h.Name, h.FileInfo().Mode(), h.ModTime}, r); err != nil {
			return err
		}
	}
}

func unzip(file *os.File, add func(entry, io.Reader) error) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	r, err := zip.NewReader(file, info.Size())
	if err != nil {
		return err
	}
	for _, f := range r.File {
		content, err := f.Open()
		if err != nil {
			return err
		}
		err = add(entry{f.Name, f.Mode(), f.Modified}, content)
		if err = errors.Join(err, content.Close()); err != nil {
			return err
		}
	}
	return nil
}

// unpacked is an archive's content in a folder of its own.
func unpacked(ctx context.Context, file *os.File, unpack unpacker, s Limits) (*Source, error) {
	dir, err := os.MkdirTemp("", "manent-copy-")
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	out := &Source{root: root, scratch: dir}
	left, count := s.Bytes, 0
	err = unpack(file, func(e entry, content io.Reader) error {
		if count++; count > s.Count {
			return fmt.Errorf("more than %d files and folders (max_files)", s.Count)
		}
		n, err := out.add(e, io.LimitReader(content, left+1))
		if left -= n; left < 0 {
			return fmt.Errorf("more than %d bytes (max_size)", s.Bytes)
		}
		return errors.Join(err, ctx.Err())
	})
	if err != nil {
		out.Close()
		return nil, err
	}
	return out, nil
}

// add puts one entry into the folder. A name that is there twice is refused.
func (s *Source) add(e entry, content io.Reader) (int64, error) {
	name := path.Clean(strings.TrimSuffix(e.name, "/"))
	if strings.HasPrefix(e.name, "/") {
		return 0, fmt.Errorf("%s leaves the source: its path is absolute", e.name)
	}
	if err := checkName(name); err != nil {
		return 0, err
	}
	switch {
	case e.mode.IsDir():
		if err := s.root.MkdirAll(name, 0o755); err != nil || name == "." {
			return 0, err
		}
		return 0, s.root.Chmod(name, e.mode.Perm()|0o700)
	case !e.mode.IsRegular():
		return 0, fmt.Errorf("%s is neither a file nor a folder", e.name)
	}
	if err := s.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return 0, err
	}
	file, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(file, content)
	err = errors.Join(err, file.Chmod(e.mode.Perm()|0o400), file.Close()) // to be read again
	if err == nil {
		err = s.root.Chtimes(name, e.time, e.time)
	}
	return n, err
}
