package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/manent/action"

// source is one Go file. Paths have slashes and begin at the module's root.
type source struct {
	path      string
	dir       string
	syntax    *ast.File
	lines     int
	test      bool // ends in _test.go
	generated bool
}

// tree is all Go files of the module, whatever their build constraints.
type tree struct {
	fset  *token.FileSet
	files []source
	all   fs.FS
}

// read reads the project once for all tests, which only look at it.
var read = sync.OnceValues(func() (tree, error) {
	root := os.DirFS("../..")
	if _, err := fs.Stat(root, "go.mod"); err != nil {
		return tree{}, fmt.Errorf("the project's root is not two folders above this test: %w", err)
	}
	return parse(root)
})

func here(t *testing.T) tree {
	t.Helper()
	project, err := read()
	if err != nil {
		t.Fatal(err)
	}
	if len(project.files) < 30 {
		t.Fatalf("found %d Go files, expected the whole project", len(project.files))
	}
	return project
}

func load(t *testing.T, root fs.FS) tree {
	t.Helper()
	project, err := parse(root)
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func parse(root fs.FS) (tree, error) {
	out := tree{fset: token.NewFileSet(), all: root}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && outside(entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		syntax, err := parser.ParseFile(out.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		out.files = append(out.files, source{
			path: name, dir: path.Dir(name), syntax: syntax, lines: bytes.Count(text, []byte("\n")),
			test: strings.HasSuffix(name, "_test.go"), generated: ast.IsGenerated(syntax),
		})
		return nil
	})
	return out, err
}

// outside reports whether a folder is no part of the module: zz_ folders are
// scratch that .gitignore names.
func outside(folder string) bool {
	return folder == "testdata" || folder == "vendor" || strings.HasPrefix(folder, ".") || strings.HasPrefix(folder, "zz_")
}

// dirs returns the folders with Go files that are not tests, sorted.
func (t tree) dirs() []string {
	var out []string
	for _, f := range t.files {
		if !f.test && !slices.Contains(out, f.dir) {
			out = append(out, f.dir)
		}
	}
	slices.Sort(out)
	return out
}

// in returns the files of a folder.
func (t tree) in(dir string) []source {
	var out []source
	for _, f := range t.files {
		if f.dir == dir {
			out = append(out, f)
		}
	}
	return out
}

// imports maps the name by which a file knows each package of the module, or
// of the standard library, to the import's path; inside the module it is the
// folder.
func (f source) imports() map[string]string {
	out := map[string]string{}
	for _, spec := range f.syntax.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has accepted it, so it cannot happen
		}
		name := path.Base(target)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "_" || name == "." {
			name += target
		}
		out[name] = target
	}
	return out
}

// folder is the folder of an import of the module; ok is false for others.
func folder(target string) (dir string, ok bool) {
	if target == module {
		return ".", true
	}
	return strings.CutPrefix(target, module+"/")
}

// standard reports whether an import is of the standard library.
func standard(target string) bool {
	first, _, _ := strings.Cut(target, "/")
	return !strings.Contains(first, ".")
}

// check fails the test with what is wrong, each with the reason.
func check(t *testing.T, problems []string) {
	t.Helper()
	slices.Sort(problems)
	for _, p := range slices.Compact(problems) {
		t.Error(p)
	}
}
