package arch

import (
	"fmt"
	"go/ast"
	"slices"
	"testing"
)

// Budgets of size, measured on the best codebases of this field: what is
// longer is harder to read than to split.
const (
	maxFile     = 500
	maxFunc     = 80
	maxProvider = 600

	medianFile = 150
	medianFunc = 12
	p90Func    = 40
)

// funcLines is the length of a function, from its first line to its last.
func funcLines(project tree, fn *ast.FuncDecl) int {
	return project.fset.Position(fn.End()).Line - project.fset.Position(fn.Pos()).Line + 1
}

// badSizes holds the hard stops. The first is for tests too: a long test
// function is a table, a long file of tests is a package with too many duties.
func badSizes(project tree) []string {
	var out []string
	folders := map[string]int{}
	for _, f := range project.files {
		if f.generated {
			continue
		}
		if f.lines > maxFile {
			out = append(out, fmt.Sprintf("%s has %d lines, expected at most %d: split it by subject", f.path, f.lines, maxFile))
		}
		if f.test {
			continue
		}
		folders[f.dir] += f.lines
		for _, decl := range f.syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && funcLines(project, fn) > maxFunc {
				out = append(out, fmt.Sprintf("%s: %s has %d lines, expected at most %d: it has more than one task", f.path, fn.Name.Name, funcLines(project, fn), maxFunc))
			}
		}
	}
	for dir, lines := range folders {
		if partOf(dir) == provider && lines > maxProvider {
			out = append(out, fmt.Sprintf("%s has %d lines without tests, expected at most %d: move the client of its system to providers/api", dir, lines, maxProvider))
		}
	}
	return out
}

// sizes are the lengths of files and functions that are neither tests nor
// generated, sorted.
func sizes(project tree) (files, funcs []int) {
	for _, f := range project.files {
		if f.test || f.generated || partOf(f.dir) == helper {
			continue
		}
		files = append(files, f.lines)
		for _, decl := range f.syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				funcs = append(funcs, funcLines(project, fn))
			}
		}
	}
	slices.Sort(files)
	slices.Sort(funcs)
	return files, funcs
}

// at returns the value below which this part of a sorted list is; 0 of none.
func at(sorted []int, quantile float64) int {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(quantile*float64(len(sorted)-1))]
}

func badQuantiles(project tree) []string {
	files, funcs := sizes(project)
	var out []string
	for _, q := range []struct {
		what        string
		got, budget int
	}{
		{"the median file", at(files, 0.5), medianFile},
		{"the median function", at(funcs, 0.5), medianFunc},
		{"nine of ten functions", at(funcs, 0.9), p90Func},
	} {
		if q.got > q.budget {
			out = append(out, fmt.Sprintf("%s has %d lines, expected at most %d: the project as a whole is getting harder to read", q.what, q.got, q.budget))
		}
	}
	return out
}

func TestSizes(t *testing.T) {
	project := here(t)
	files, funcs := sizes(project)
	t.Logf("%d files: median %d, 90 %% %d, longest %d lines", len(files), at(files, 0.5), at(files, 0.9), at(files, 1))
	t.Logf("%d functions: median %d, 90 %% %d, 99 %% %d, longest %d lines", len(funcs), at(funcs, 0.5), at(funcs, 0.9), at(funcs, 0.99), at(funcs, 1))
	check(t, badSizes(project))
	check(t, badQuantiles(project))
}
