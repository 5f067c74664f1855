package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// badGlobals finds init functions and package-level variables that code could
// change: both make a test depend on what ran before it, and hide from a
// reader what a call depends on.
func badGlobals(project tree) []string {
	var out []string
	for _, f := range project.files {
		if f.test || f.generated {
			continue
		}
		for _, decl := range f.syntax.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					out = append(out, f.path+" has an init function: what is registered is listed in cmd/internal/wire, what is computed is computed where it is needed")
				}
			case *ast.GenDecl:
				if d.Tok == token.VAR && !embedded(d) {
					out = append(out, badVars(f, d)...)
				}
			}
		}
	}
	return out
}

func badVars(f source, decl *ast.GenDecl) []string {
	var out []string
	for _, spec := range decl.Specs {
		vars, ok := spec.(*ast.ValueSpec)
		if !ok || embedded(&ast.GenDecl{Doc: vars.Doc}) {
			continue
		}
		for i, name := range vars.Names {
			if name.Name != "_" && (i >= len(vars.Values) || !constant(f, name.Name, vars.Values[i])) {
				out = append(out, fmt.Sprintf("%s: variable %s could be changed by any code of the package: make it a constant, a function or a field (allowed are errors, compiled patterns and templates, embedded files, assertions)", f.path, name.Name))
			}
		}
	}
	return out
}

// embedded reports whether the compiler fills the variable from a file.
func embedded(decl *ast.GenDecl) bool {
	return decl.Doc != nil && slices.ContainsFunc(decl.Doc.List, func(c *ast.Comment) bool {
		return strings.HasPrefix(c.Text, "//go:embed ")
	})
}

// constant reports whether a variable is one only because Go has no constants
// of its type, or in the program itself the version that the linker sets.
func constant(f source, name string, value ast.Expr) bool {
	if _, text := value.(*ast.BasicLit); text {
		return f.syntax.Name.Name == "main" && name == "version"
	}
	call, ok := value.(*ast.CallExpr)
	if !ok {
		return false
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := selector.X.(*ast.Ident)
	if !ok {
		return false
	}
	switch f.imports()[pkg.Name] + "." + selector.Sel.Name {
	case "errors.New", "fmt.Errorf", "regexp.MustCompile", "text/template.Must", "html/template.Must":
		return true
	}
	return false
}

func TestNoGlobals(t *testing.T) { check(t, badGlobals(here(t))) }
