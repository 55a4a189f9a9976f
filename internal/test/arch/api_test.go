package arch

import (
	"bytes"
	"flag"
	"go/ast"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write api.txt anew")

// TestSurface compares the exported names of the root package with api.txt, so
// that no change of them goes unseen. go test ./internal/test/arch -update writes it.
func TestSurface(t *testing.T) {
	fset, sources := load(t)
	structs := structsOf(sources)
	var surface []string
	for _, s := range sources {
		if s.pkg == "." && !s.test {
			for _, d := range s.ast.Decls {
				surface = append(surface, exported(t, fset, structs, d)...)
			}
		}
	}
	if len(surface) == 0 {
		t.Skip("there is no root package yet")
	}
	slices.Sort(surface)
	got := strings.Join(slices.Compact(surface), "\n") + "\n"
	name := filepath.Join(root, "api.txt")
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("%v: make it with go test ./internal/test/arch -update", err)
	}
	old := strings.Split(string(want), "\n")
	for _, line := range strings.Split(got, "\n") {
		if !slices.Contains(old, line) {
			t.Errorf("new in the exported surface, not in api.txt: %s", line)
		}
	}
	for _, line := range old {
		if !slices.Contains(strings.Split(got, "\n"), line) {
			t.Errorf("in api.txt and no longer exported: %s", line)
		}
	}
	if t.Failed() {
		t.Log("If it is meant: go test ./internal/test/arch -update, and a line in CHANGELOG.md")
	}
}

// structsOf returns the structs below the root package, by package and name as in "report.Work". The
// root exports the fields of those that it has aliases of.
func structsOf(sources []*source) map[string]*ast.StructType {
	structs := make(map[string]*ast.StructType)
	for _, s := range sources {
		for _, d := range s.ast.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || s.test || s.pkg == "." {
				continue
			}
			for _, spec := range g.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok {
					if typ, ok := spec.Type.(*ast.StructType); ok {
						structs[s.ast.Name.Name+"."+spec.Name.Name] = typ
					}
				}
			}
		}
	}
	return structs
}

// TestHiddenFieldsAreExplained wants the comment of an alias of an internal struct to list its fields:
// pkg.go.dev doesn't show them.
func TestHiddenFieldsAreExplained(t *testing.T) {
	_, sources := load(t)
	structs := structsOf(sources)
	for _, s := range sources {
		if s.pkg != "." || s.test {
			continue
		}
		for _, d := range s.ast.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			spec := g.Specs[0].(*ast.TypeSpec)
			of, ok := spec.Type.(*ast.SelectorExpr)
			if !ok || !spec.Assign.IsValid() || !slices.ContainsFunc(s.imports, func(imp string) bool {
				return strings.Contains(imp, "/internal/") && strings.HasSuffix(imp, "/"+of.X.(*ast.Ident).Name)
			}) {
				continue
			}
			alias, ok := structs[of.X.(*ast.Ident).Name+"."+of.Sel.Name]
			if !ok { // a number, which has no fields
				continue
			}
			listed := regexp.MustCompile(`(?m)^\t((?:\w+, )*\w+) `).FindAllStringSubmatch(g.Doc.Text(), -1)
			var fields, names []string
			for _, f := range alias.Fields.List {
				for _, n := range f.Names {
					if n.IsExported() {
						fields = append(fields, n.Name)
					}
				}
			}
			for _, l := range listed {
				names = append(names, strings.Split(l[1], ", ")...)
			}
			if !slices.Equal(names, fields) {
				t.Errorf("the comment of %s lists the fields %q, and it has %q", spec.Name.Name, names, fields)
			}
		}
	}
}

// exported lists what a declaration exports, a line for each name, field and method.
func exported(t *testing.T, fset *token.FileSet, structs map[string]*ast.StructType, d ast.Decl) (list []string) {
	text := func(n ast.Node) string {
		var b bytes.Buffer
		if err := (&printer.Config{Mode: printer.RawFormat}).Fprint(&b, fset, n); err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(b.String()), " ")
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() || !receiverExported(d) {
			return nil
		}
		f := *d
		f.Doc, f.Body = nil, nil
		list = append(list, text(&f))
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					list = append(list, exportedType(text, structs, spec)...)
				}
			case *ast.ValueSpec:
				for _, n := range spec.Names {
					if n.IsExported() {
						list = append(list, strings.TrimSpace(d.Tok.String()+" "+n.Name+" "+typeText(text, spec.Type)))
					}
				}
			}
		}
	}
	return list
}

func typeText(text func(ast.Node) string, typ ast.Expr) string {
	if typ == nil {
		return ""
	}
	return text(typ)
}

func exportedType(text func(ast.Node) string, structs map[string]*ast.StructType, spec *ast.TypeSpec) (list []string) {
	head := "type " + spec.Name.Name
	if spec.TypeParams != nil {
		var params []string
		for _, p := range spec.TypeParams.List {
			for _, n := range p.Names {
				params = append(params, n.Name+" "+text(p.Type))
			}
		}
		head += "[" + strings.Join(params, ", ") + "]"
	}
	fields := func(kind string, fl *ast.FieldList, sep string) {
		list = append(list, head+" "+kind)
		for _, f := range fl.List {
			if len(f.Names) == 0 {
				list = append(list, head+" "+kind+", "+text(f.Type))
			}
			for _, n := range f.Names {
				if n.IsExported() {
					list = append(list, head+" "+kind+", "+n.Name+sep+strings.TrimPrefix(text(f.Type), "func"))
				}
			}
		}
	}
	if spec.Assign.IsValid() {
		list = append(list, head+" = "+text(spec.Type))
		if typ := structs[text(spec.Type)]; typ != nil {
			fields("struct", typ.Fields, " ")
		}
		return list
	}
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		fields("struct", typ.Fields, " ")
	case *ast.InterfaceType:
		fields("interface", typ.Methods, "")
	default:
		list = append(list, head+" "+text(typ))
	}
	return list
}
