package arch

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// measure returns the values of each kind, by name of a package, type, file or
// function, and beside them the "lines" of code of each package and of "all".
func measure(t *testing.T) map[string]map[string]int {
	values := map[string]map[string]int{"knot": knots(t)}
	for _, k := range []string{"share", "methods", "file", "function", "complexity"} {
		values[k] = map[string]int{}
	}
	fset, sources := load(t)
	all, methods := 0, map[string]map[string]bool{}
	for _, s := range sources {
		if s.test || !core(s.pkg) {
			continue
		}
		code, total := countLines(t, s.name)
		all += code
		values["share"][s.pkg] += code
		values["file"][s.name] = total
		for _, d := range s.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			name := s.pkg + "." + fn.Name.Name
			if recv := receiver(fn); recv != "" {
				typ := s.pkg + "." + recv
				name = typ + "." + fn.Name.Name
				if methods[typ] == nil {
					methods[typ] = map[string]bool{}
				}
				methods[typ][fn.Name.Name] = true // once, however many systems have one
			}
			// Files for several systems may have a function each: the worst counts.
			size := fset.Position(fn.Body.Rbrace).Line - fset.Position(fn.Body.Lbrace).Line + 1
			values["function"][name] = max(values["function"][name], size)
			values["complexity"][name] = max(values["complexity"][name], complexity(fn))
		}
	}
	values["lines"] = maps.Clone(values["share"])
	values["lines"]["all"] = all
	for pkg, code := range values["lines"] {
		values["share"][pkg] = (100*code + all - 1) / all
	}
	delete(values["share"], "all")
	complex := 0
	for _, n := range values["complexity"] {
		if n > complexAbove {
			complex++
		}
	}
	values["complex"] = map[string]int{"all": complex}
	for typ, names := range methods {
		values["methods"][typ] = len(names)
	}
	return values
}

// complexAbove is the complexity above which a function counts as complex.
const complexAbove = 15

// core reports whether a package is part of the product.
func core(pkg string) bool { return !testOnly(pkg) && pkg != "internal/test/faultfs" }

// countLines counts the lines of a file, and those that are neither empty nor
// only a comment.
func countLines(t *testing.T, name string) (code, all int) {
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		all++
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			code++
		}
	}
	return code, all
}

// receiver is the name of a method's type; "" for a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	typ := fn.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	switch generic := typ.(type) {
	case *ast.IndexExpr:
		typ = generic.X
	case *ast.IndexListExpr:
		typ = generic.X
	}
	return typ.(*ast.Ident).Name
}

// complexity is McCabe's cyclomatic complexity ("A Complexity Measure", IEEE TSE
// 1976, sec. II), with && and || as branches of their own.
func complexity(fn *ast.FuncDecl) int {
	n := 1
	ast.Inspect(fn.Body, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}
