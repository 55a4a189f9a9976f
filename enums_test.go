package brock

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Each enumeration prints the name of its constant, and what a later release may add as a number.
// The constants are read from the source, so that a new one can't be forgotten.
func TestEnumsPrintTheirNames(t *testing.T) {
	makers := map[string]func(uint8) fmt.Stringer{
		"OpenMode":    func(i uint8) fmt.Stringer { return OpenMode(i) },
		"Recovery":    func(i uint8) fmt.Stringer { return Recovery(i) },
		"Durability":  func(i uint8) fmt.Stringer { return Durability(i) },
		"Compression": func(i uint8) fmt.Stringer { return Compression(i) },
		"Isolation":   func(i uint8) fmt.Stringer { return Isolation(i) },
		"MetricKind":  func(i uint8) fmt.Stringer { return MetricKind(i) },
		"ChangeKind":  func(i uint8) fmt.Stringer { return ChangeKind(i) },
	}
	constants, types := enumsOf(t)
	for name := range types {
		if makers[name] == nil {
			t.Errorf("%s is missing here", name)
		}
	}
	for name, maker := range makers {
		last := uint8(0)
		for constant, value := range constants[name] {
			last = max(last, value)
			got := maker(value).String()
			want := constant
			if name == "ChangeKind" { // in words
				got, want = strings.ReplaceAll(got, " ", ""), strings.ToLower(strings.TrimPrefix(constant, "Change"))
			}
			if got != want {
				t.Errorf("%s %d prints as %q, not %q", name, value, got, want)
			}
		}
		for _, i := range []uint8{last + 1, 255} {
			if got, want := maker(i).String(), fmt.Sprintf("%s(%d)", name, i); got != want {
				t.Errorf("%s prints as %q", want, got)
			}
		}
	}
	if got := fmt.Sprint(TxnOptions{Isolation: LastWriterWins, Durability: Buffered}); !strings.Contains(got, "LastWriterWins Buffered") {
		t.Errorf("options print as %s", got)
	}
}

// enumsOf returns the exported types of the package that are a uint8, and their constants.
func enumsOf(t *testing.T) (constants map[string]map[string]uint8, types map[string]bool) {
	t.Helper()
	constants, types = map[string]map[string]uint8{}, map[string]bool{}
	files, err := filepath.Glob("*.go")
	must(t, err)
	inspect := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			if id, ok := n.Type.(*ast.Ident); ok && id.Name == "uint8" && n.Name.IsExported() {
				types[n.Name.Name] = true
			}
		case *ast.ValueSpec:
			of, ok := n.Type.(*ast.Ident)
			if !ok || !n.Names[0].IsExported() || len(n.Values) != 1 {
				return true
			}
			if v, ok := n.Values[0].(*ast.BasicLit); ok {
				if constants[of.Name] == nil {
					constants[of.Name] = map[string]uint8{}
				}
				var value uint8
				_, err := fmt.Sscan(v.Value, &value)
				if err == nil {
					constants[of.Name][n.Names[0].Name] = value
				}
			}
		}
		return true
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		must(t, err)
		ast.Inspect(file, inspect)
	}
	return constants, types
}
