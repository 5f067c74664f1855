package gitcli

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // Git's own name of an object, not a protection
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// WriteObject writes a blob, tree or commit into a scratch repository, as a
// loose object, and returns its id. A process of git for each would cost more
// than the network. The format is in gitformat-loose(5).
func WriteObject(dir, kind string, data []byte) (id string, err error) {
	raw := append(fmt.Appendf(nil, "%s %d\x00", kind, len(data)), data...)
	sum := sha1.Sum(raw) //nolint:gosec // see above
	id = hex.EncodeToString(sum[:])
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	if _, err = z.Write(raw); err == nil {
		err = z.Close()
	}
	if err != nil {
		return "", err
	}
	folder := filepath.Join(dir, "objects", id[:2])
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	name := filepath.Join(folder, id[2:])
	if err := os.WriteFile(name+".new", packed.Bytes(), 0o600); err != nil {
		return "", err
	}
	return id, os.Rename(name+".new", name)
}

// RefIn returns the commit of a ref in a scratch repository, without a
// process, if the ref is in a file of its own; "" if not, or if there is none.
func RefIn(dir, ref string) string {
	text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(ref)))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// Entry is one entry of a tree.
type Entry struct {
	Mode string // FileMode, FolderMode, or what somebody else put there
	Name string
	ID   string
}

// Modes of entries.
const (
	FileMode   = "100644"
	FolderMode = "40000"
)

// ParseTree reads a tree object.
func ParseTree(data []byte) ([]Entry, error) {
	var entries []Entry
	for len(data) > 0 {
		head, rest, ok := bytes.Cut(data, []byte{0})
		mode, name, named := strings.Cut(string(head), " ")
		if !ok || !named || len(rest) < sha1.Size {
			return nil, errors.New("damaged tree object")
		}
		entries = append(entries, Entry{Mode: mode, Name: name, ID: hex.EncodeToString(rest[:sha1.Size])})
		data = rest[sha1.Size:]
	}
	return entries, nil
}

// WriteTree writes a tree object and returns its id. The order is Git's:
// by name, as if a folder's ended in a slash.
func WriteTree(dir string, entries []Entry) (id string, err error) {
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, func(a, b Entry) int { return strings.Compare(a.order(), b.order()) })
	var out bytes.Buffer
	for _, e := range sorted {
		raw, err := hex.DecodeString(e.ID)
		if err != nil {
			return "", fmt.Errorf("id of %q: %w", e.Name, err)
		}
		fmt.Fprintf(&out, "%s %s\x00%s", e.Mode, e.Name, raw)
	}
	return WriteObject(dir, "tree", out.Bytes())
}

func (e Entry) order() string {
	if e.Mode == FolderMode {
		return e.Name + "/"
	}
	return e.Name
}

// Folders are folders of one tree that are to be changed, by path, with all
// that lie above them. Top is the tree's own.
type Folders map[string][]Entry

// Top is the path of a tree's own folder.
const Top = "."

// Remove takes a file, or a folder with all that is in it, out of its folder.
func (f Folders) Remove(p string) {
	dir, name := path.Dir(p), path.Base(p)
	f[dir] = slices.DeleteFunc(slices.Clone(f[dir]), func(e Entry) bool { return e.Name == name })
	maps.DeleteFunc(f, func(below string, _ []Entry) bool { return below == p || strings.HasPrefix(below, p+"/") })
}

// Set puts an entry in the place of whatever is at a path.
func (f Folders) Set(p, mode, id string) {
	f.Remove(p)
	f[path.Dir(p)] = append(f[path.Dir(p)], Entry{Mode: mode, Name: path.Base(p), ID: id})
}

// Write writes the folders, the deepest first, and returns the id of the tree.
// Empty ones are left out, as Git has none.
func (f Folders) Write(dir string) (id string, err error) {
	names := slices.SortedFunc(maps.Keys(f), func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	for _, name := range names {
		if name == Top {
			continue
		}
		if len(f[name]) == 0 {
			f.Remove(name)
			continue
		}
		if id, err = WriteTree(dir, f[name]); err != nil {
			return "", err
		}
		f.Set(name, FolderMode, id)
	}
	return WriteTree(dir, f[Top])
}
