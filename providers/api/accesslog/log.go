package accesslog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Log is one log: the file that is written, and what was rotated away from it.
type Log struct {
	Path  string   // of the file that is written
	Files []string // the same and the rotated ones, in the order to read; may not exist
}

// Find returns the logs that patterns name, relative ones from dir. A pattern
// is a path or, with * ? [, a glob. Rotated files (NAME.1, NAME.2.gz,
// NAME-20261130, NAME-20261130.gz) belong to the log they were rotated from;
// named by a plain path one is a log of its own. A path that does not exist
// is a log without files.
func Find(dir string, patterns []string) ([]Log, error) {
	var paths []string
	for _, p := range patterns {
		if !filepath.IsAbs(p) {
			p = filepath.Join(dir, p)
		}
		if !strings.ContainsAny(p, "*?[") {
			paths = append(paths, filepath.Clean(p))
			continue
		}
		found, err := filepath.Glob(p)
		if err != nil {
			return nil, fmt.Errorf("%q is not a pattern of paths", p)
		}
		for _, f := range found {
			paths = append(paths, original(f))
		}
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	logs := make([]Log, 0, len(paths))
	for _, p := range paths {
		files, err := rotated(p)
		if err != nil {
			return nil, err
		}
		logs = append(logs, Log{Path: p, Files: files})
	}
	return logs, nil
}

// rotation matches what logrotate and its like put behind a name.
var rotation = regexp.MustCompile(`(\.\d{1,4}|[.-]\d{8}([-T]?\d{2,6})?)(\.gz)?$`)

// original is the path without what rotation puts behind it.
func original(path string) string {
	if i := rotation.FindStringIndex(path); i != nil {
		return path[:i[0]]
	}
	return path
}

// rotated lists a log's files: first the one that is written, so that a
// rotation meanwhile shows the same file twice rather than none.
func rotated(path string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	type aged struct {
		path string
		at   time.Time
	}
	var old []aged
	base := filepath.Base(path)
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), base)
		if at := rotation.FindStringIndex(rest); !ok || at == nil || at[0] != 0 {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // rotated away this instant
		}
		old = append(old, aged{filepath.Join(filepath.Dir(path), e.Name()), info.ModTime()})
	}
	slices.SortFunc(old, func(a, b aged) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.path, b.path)) })
	files := []string{path}
	for _, o := range old {
		files = append(files, o.path)
	}
	// While a rotated file is being compressed it is there twice.
	return slices.DeleteFunc(files, func(f string) bool {
		plain, gz := strings.CutSuffix(f, ".gz")
		return gz && slices.Contains(files, plain)
	}), nil
}
