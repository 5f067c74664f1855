// Package handoff writes the files by which a job hands text to its pipeline's
// platform. It touches regular files only: to open a pipe blocks until
// somebody reads, and a device must not be replaced. It must not know what the
// text says.
package handoff

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Check refuses what is there and is no regular file. Nothing there is none.
func Check(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is a %v, expected a regular file or none", path, info.Mode().Type())
	}
	return nil
}

// Read returns the first bytes of a file, at most most, "" of none.
func Read(path string, most int64) (string, error) {
	if err := Check(path); err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(f, most))
	return string(text), err
}

// Append adds to a file, which it makes where there is none.
func Append(path, text string) error {
	if err := Check(path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Replace writes a file so that a reader sees the old one or the new one.
func Replace(path, text string) error {
	if err := Check(path); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".manent-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone after the rename
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
