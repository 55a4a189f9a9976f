package arch

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// TestEveryCallHasAClass: each method of a file system that can fail is declared by what
// pageio.MarkErrors returns, which says what its error leaves behind. One that is only embedded would pass its error
// on without a class, and such an error stops the store.
func TestEveryCallHasAClass(t *testing.T) {
	_, sources := load(t)
	for iface, wrapper := range map[string]string{"FS": "markingFS", "File": "markingFile", "Dirs": "markingDirs"} {
		fallible := methodsThatFail(sources, "vfs", iface)
		if len(fallible) == 0 {
			t.Errorf("no method of vfs.%s is known to fail", iface)
		}
		declared := methodsOf(sources, "internal/disk/pageio", wrapper)
		for _, m := range fallible {
			if !slices.Contains(declared, m) {
				t.Errorf("vfs.%s.%s can fail, and pageio.%s doesn't declare it: its error has no class", iface, m, wrapper)
			}
		}
	}
}

// ofIO is the method of each interface of package io that package vfs embeds.
var ofIO = map[string]string{"ReaderAt": "ReadAt", "WriterAt": "WriteAt", "Closer": "Close"}

// methodsThatFail are the methods of an interface whose last result is an error.
func methodsThatFail(sources []*source, pkg, name string) (methods []string) {
	for _, s := range sources {
		if s.pkg != pkg || s.test {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != name {
				return true
			}
			iface, ok := spec.Type.(*ast.InterfaceType)
			if !ok {
				return false
			}
			for _, m := range iface.Methods.List {
				switch typ := m.Type.(type) {
				case *ast.FuncType:
					if typ.Results == nil {
						continue
					}
					last := typ.Results.List[len(typ.Results.List)-1]
					if id, ok := last.Type.(*ast.Ident); ok && id.Name == "error" {
						methods = append(methods, m.Names[0].Name)
					}
				case *ast.SelectorExpr:
					methods = append(methods, ofIO[typ.Sel.Name])
				}
			}
			return false
		})
	}
	return methods
}

// methodsOf are the methods that a package declares for a type.
func methodsOf(sources []*source, pkg, name string) (methods []string) {
	for _, s := range sources {
		if s.pkg != pkg || s.test {
			continue
		}
		for _, d := range s.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			if id, ok := fn.Recv.List[0].Type.(*ast.Ident); ok && id.Name == name {
				methods = append(methods, fn.Name.Name)
			}
		}
	}
	return methods
}

// TestErrorsOfTheSystemHaveAClass: a package that talks to the system itself marks the errors.
func TestErrorsOfTheSystemHaveAClass(t *testing.T) {
	_, sources := load(t)
	x := loadExceptions(t, "class")
	system, marks := map[string]bool{}, map[string]bool{}
	for _, s := range sources {
		if s.test || testOnly(s.pkg) {
			continue
		}
		for _, imp := range s.imports {
			system[s.pkg] = system[s.pkg] || imp == "os" || imp == "syscall" || strings.HasPrefix(imp, "golang.org/x/sys")
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && (sel.Sel.Name == "MarkRefused" || sel.Sel.Name == "MarkErrors") {
				marks[s.pkg] = true
			}
			return true
		})
	}
	for pkg := range system {
		if system[pkg] && !marks[pkg] && !x.allow("class", pkg) {
			t.Errorf("%s asks the system itself, and does not mark its errors by errs.MarkRefused or pageio.MarkErrors: they would stop the store (or a line \"class %s: reason\" in exceptions.txt)", pkg, pkg)
		}
	}
}
