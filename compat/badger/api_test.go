package badger

import (
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// notOffered are the exported names of Badger that belong to its engine: programs don't use them.
var notOffered = []string{
	"InitDiscardStats", "Manifest", "ReplayManifestFile", "TableManifest",
	"PrintHistogram", "KeyRegistry embeds sync.RWMutex",
	"FILE_ATTRIBUTE_TEMPORARY", "FILE_FLAG_DELETE_ON_CLOSE", // of its file locks
}

// ownNames are those that Badger doesn't have.
var ownNames = []string{
	"func (*Iterator) Err()(error)", "func (Options) WithLimitTxnSize(bool)(Options)", "Options.LimitTxnSize bool",
}

// The exported names of each package are Badger's, with its signatures and fields.
func TestSignaturesAreThoseOfBadger(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/dgraph-io/badger/v4").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{".", "options"} {
		theirs := exported(t, filepath.Join(strings.TrimSpace(string(out)), dir))
		ours := exported(t, dir)
		for _, name := range theirs {
			if !slices.Contains(ours, name) && !slices.ContainsFunc(notOffered, func(s string) bool { return strings.Contains(name, s) }) {
				t.Errorf("%s: not here: %s", dir, name)
			}
		}
		for _, name := range ours {
			if !slices.Contains(theirs, name) && !slices.Contains(ownNames, name) {
				t.Errorf("%s: not in Badger: %s", dir, name)
			}
		}
		if len(theirs) < 7 || dir == "." && len(theirs) < 250 {
			t.Errorf("%s: %d names", dir, len(theirs))
		}
	}
}

// exported returns the exported declarations of a package as text, fields of structs too.
func exported(t *testing.T, dir string) (names []string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	check(t, err)
	set := token.NewFileSet()
	text := func(n any) string {
		var b strings.Builder
		check(t, printer.Fprint(&b, set, n))
		return strings.Join(strings.Fields(strings.ReplaceAll(b.String(), "interface{}", "any")), " ")
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "test_extensions.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		check(t, err)
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				names = append(names, funcText(d, text)...)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					names = append(names, specTexts(d.Tok, spec, text)...)
				}
			}
		}
	}
	return names
}

func funcText(d *ast.FuncDecl, text func(any) string) []string {
	if !d.Name.IsExported() {
		return nil
	}
	receiver := ""
	if d.Recv != nil {
		receiver = text(d.Recv.List[0].Type)
		if !ast.IsExported(strings.TrimPrefix(receiver, "*")) {
			return nil
		}
		receiver = "(" + receiver + ") "
	}
	return []string{"func " + receiver + d.Name.Name + fieldTypes(d.Type.Params, text) + fieldTypes(d.Type.Results, text)}
}

// fieldTypes returns the types of parameters or results, without their names.
func fieldTypes(list *ast.FieldList, text func(any) string) string {
	if list == nil {
		return "()"
	}
	var types []string
	for _, f := range list.List {
		for range max(len(f.Names), 1) {
			types = append(types, text(f.Type))
		}
	}
	return "(" + strings.Join(types, ", ") + ")"
}

func specTexts(kind token.Token, spec ast.Spec, text func(any) string) (names []string) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			if n.IsExported() {
				names = append(names, kind.String()+" "+n.Name)
			}
		}
	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			return nil
		}
		fields, ok := s.Type.(*ast.StructType)
		if !ok {
			return append(names, "type "+s.Name.Name)
		}
		names = append(names, "type "+s.Name.Name)
		for _, f := range fields.Fields.List {
			for _, n := range f.Names {
				if n.IsExported() {
					names = append(names, s.Name.Name+"."+n.Name+" "+text(f.Type))
				}
			}
			if embedded := text(f.Type); len(f.Names) == 0 && strings.HasPrefix(embedded, "sync.") {
				names = append(names, s.Name.Name+" embeds "+embedded)
			}
		}
	}
	return names
}
