package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// Bounds of what is read: all files together, and the documents in them.
const (
	maxBytes     = 1 << 20
	maxDocuments = 100
	maxDepth     = 64
)

// Document is one of a file.
type Document struct {
	Source string // "deploy/web.yml, document 2"
	Body   map[string]any
}

// Read reads files and folders (their *.yml, *.yaml and *.json, not what is
// below) inside dir, the workspace. No path leads out of it.
func Read(dir string, paths []string) ([]Document, error) {
	if dir == "" {
		dir = "."
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, unread("the workspace", dir, err)
	}
	defer func() { _ = root.Close() }() // only read
	var out []Document
	left := int64(maxBytes)
	for _, given := range paths {
		files, err := expandFolder(root, path.Clean(strings.TrimSpace(given)))
		if err != nil {
			return nil, unread(given, dir, err)
		}
		for _, file := range files {
			data, err := readFile(root, file, left)
			if err != nil {
				return nil, unread(file, dir, err)
			}
			left -= int64(len(data))
			docs, err := Parse(file, data)
			if err != nil {
				return nil, err
			}
			if out = append(out, docs...); len(out) > maxDocuments {
				return nil, fmt.Errorf("more than %d objects in the manifests", maxDocuments)
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no object in %s", strings.Join(paths, ", "))
	}
	return out, nil
}

// unread says in words why something cannot be read. What is not there is
// fs.ErrNotExist.
func unread(what, dir string, err error) error {
	var system *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return absent{what: what, dir: dir}
	case errors.As(err, &system):
		return fmt.Errorf("%s in %s cannot be read: %w", what, dir, system.Err)
	}
	return err
}

// absent is a file or folder that is not there.
type absent struct{ what, dir string }

// Error says where it was looked for.
func (e absent) Error() string {
	return fmt.Sprintf("there is no file or folder %s in %s", e.what, e.dir)
}

// Unwrap implements errors.Is.
func (absent) Unwrap() error { return fs.ErrNotExist }

func expandFolder(root *os.Root, name string) ([]string, error) {
	info, err := root.Stat(name)
	if err != nil || !info.IsDir() {
		return []string{name}, err
	}
	entries, err := fs.ReadDir(root.FS(), name) // sorted
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		switch path.Ext(e.Name()) {
		case ".yml", ".yaml", ".json":
			out = append(out, path.Join(name, e.Name()))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("folder %s has no *.yml, *.yaml or *.json", name)
	}
	return out, nil
}

func readFile(root *os.Root, name string, most int64) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file, expected manifests", name)
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s: the manifests are together larger than %d bytes", name, maxBytes)
	}
	return data, err
}

// Parse reads the documents of a file; empty ones are left out.
func Parse(file string, data []byte) ([]Document, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var out []Document
	for n := 1; ; n++ {
		source := file
		if n > 1 {
			source = fmt.Sprintf("%s, document %d", file, n)
		}
		var raw any
		err := dec.Decode(&raw)
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", source, err)
		case n > maxDocuments:
			return nil, fmt.Errorf("%s: more than %d documents", file, maxDocuments)
		case raw == nil:
			continue
		}
		size := 0
		clean, err := normal(raw, "", 0, &size)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
		body, ok := clean.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: expected an object of Kubernetes", source)
		}
		out = append(out, Document{Source: source, Body: body})
	}
}

// normal makes what JSON has of what YAML gave: each value a copy of its own,
// so that changing one that an alias repeats changes no other.
func normal(v any, at string, depth int, size *int) (any, error) {
	if *size++; depth > maxDepth || *size > maxBytes {
		return nil, fmt.Errorf("%s is nested too deep or repeated too often", at)
	}
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			one, err := normal(item, at+"."+key, depth+1, size)
			if err != nil {
				return nil, err
			}
			out[key] = one
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			one, err := normal(item, fmt.Sprintf("%s[%d]", at, i), depth+1, size)
			if err != nil {
				return nil, err
			}
			out[i] = one
		}
		return out, nil
	case int:
		return int64(v), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%s is no finite number", at)
		}
		return v, nil
	case string, bool, int64, nil:
		return v, nil
	}
	return nil, fmt.Errorf("%s is a %T, expected text (in quotes), a number, true, false, a list or a map with text as keys", strings.TrimPrefix(at, "."), v)
}

var (
	validName   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
	placeholder = regexp.MustCompile(`\{\{[^{}]*\}\}|\{[a-z]+\}`)
)

// expand is a copy with the placeholders of all texts filled in. That happens
// in what was parsed, so that no value can become more than a text. Braces
// with another name in them, and double ones, stay: texts are full of them.
func expand(v any, values map[string]string) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			out[key] = expand(item, values)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = expand(item, values)
		}
		return out
	case string:
		return placeholder.ReplaceAllStringFunc(v, func(found string) string {
			if value, ok := values[strings.Trim(found, "{}")]; ok && !strings.HasPrefix(found, "{{") {
				return value
			}
			return found
		})
	}
	return v
}
