package arch

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestEverythingIsDocumented wants a comment for each package and each exported
// name; a group of constants or variables may share one.
func TestEverythingIsDocumented(t *testing.T) {
	fset, sources := load(t)
	documented := map[string]bool{}
	for _, s := range sources {
		if s.ast.Doc != nil && !s.test {
			documented[s.pkg] = true
		}
	}
	for _, s := range sources {
		if s.test {
			continue
		}
		if !documented[s.pkg] {
			t.Errorf("package %s has no comment: say in one sentence what it owns", s.pkg)
			documented[s.pkg] = true
		}
		for _, d := range s.ast.Decls {
			for _, n := range undocumented(d) {
				t.Errorf("%s: %s has no comment: say what its user must know", s.pos(fset, n), n.Name)
			}
		}
	}
}

func undocumented(d ast.Decl) (names []*ast.Ident) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && receiverExported(d) {
			names = append(names, d.Name)
		}
	case *ast.GenDecl:
		if d.Tok == token.IMPORT || d.Doc != nil {
			return nil
		}
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() && spec.Doc == nil && spec.Comment == nil {
					names = append(names, spec.Name)
				}
			case *ast.ValueSpec:
				for _, n := range spec.Names {
					if n.IsExported() && spec.Doc == nil && spec.Comment == nil {
						names = append(names, n)
					}
				}
			}
		}
	}
	return names
}

func receiverExported(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	typ := d.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinksResolve follows the relative links of all Markdown files.
func TestLinksResolve(t *testing.T) {
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".md") {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			to, _, _ := strings.Cut(m[1], "#")
			if to == "" || strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, path.Join(path.Dir(name), to))); err != nil {
				t.Errorf("%s links to %s, which is not there", name, to)
			}
		}
	})
}

var byteRow = regexp.MustCompile(`^\| (\d+) \| (\d+) \|`)

// TestByteTablesAreContiguous adds up the byte tables of the documents: each
// field begins where the one before ends.
func TestByteTablesAreContiguous(t *testing.T) {
	tables := 0
	walk(t, func(name string) {
		if path.Dir(name) != "docs" || !strings.HasSuffix(name, ".md") {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		next := -1
		for i, line := range strings.Split(string(text), "\n") {
			m := byteRow.FindStringSubmatch(line)
			switch {
			case strings.HasPrefix(line, "| offset | size |"):
				tables++
				next = 0
			case m == nil && !strings.HasPrefix(line, "|"):
				next = -1
			case m != nil && next >= 0:
				offset, _ := strconv.Atoi(m[1])
				size, _ := strconv.Atoi(m[2])
				if offset != next {
					t.Errorf("%s:%d: the field begins at %d, the one before ends at %d", name, i+1, offset, next)
				}
				next = offset + size
			}
		}
	})
	if tables == 0 {
		t.Error("no byte table found")
	}
}

// TestReadmeIsTrue holds the README's code against the example that runs it,
// and its test command against the one of the gate.
func TestReadmeIsTrue(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	readme := read("README.md")
	blocks := strings.Split(readme, "```go\n")[1:]
	if len(blocks) == 0 {
		t.Error("README.md has no code")
	}
	example := read("readme_test.go")
	for _, b := range blocks {
		code, _, _ := strings.Cut(b, "```")
		if !strings.Contains(example, code) {
			t.Errorf("readme_test.go does not run this code of README.md:\n%s", code)
		}
	}
	m := regexp.MustCompile(`(?m)^    go test (.+)$`).FindStringSubmatch(readme)
	if m == nil {
		t.Fatal("README.md has no test command")
	}
	if want := "modules=(" + m[1] + ")"; !strings.Contains(read(".ci/run"), want) {
		t.Errorf(".ci/run does not test what README.md says: %s", want)
	}
	if want := "go test " + m[1]; !strings.Contains(read("Makefile"), want) {
		t.Errorf("Makefile does not test as README.md says: %s", want)
	}
}

var testName = regexp.MustCompile("`([a-z][a-z0-9/]*)\\.((?:Test|Fuzz|Example|Benchmark)\\w*)`")

// TestNamedTestsExist looks up each test that a document names, as in
// `internal/frame.TestGolden`: a promise without a test is a hope. Tests of
// other modules of the repository count too.
func TestNamedTestsExist(t *testing.T) {
	named := 0
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".md") {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testName.FindAllStringSubmatch(string(text), -1) {
			named++
			if !hasTest(t, m[1], m[2]) {
				t.Errorf("%s names %s.%s, which is not there", name, m[1], m[2])
			}
		}
	})
	if named == 0 {
		t.Error("no document names a test")
	}
}

func hasTest(t *testing.T, pkg, name string) bool {
	if pkg == "brock" {
		pkg = "."
	}
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}

var fileName = regexp.MustCompile(`\b(?:[a-z]+/)*[a-z_0-9]+\.go\b`)

// TestNamedFilesExist looks up each Go file that a document names, from the root
// or from internal.
func TestNamedFilesExist(t *testing.T) {
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".md") {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range fileName.FindAllString(string(text), -1) {
			_, err := os.Stat(filepath.Join(root, file))
			if err != nil {
				_, err = os.Stat(filepath.Join(root, "internal", file))
			}
			if err != nil && strings.Contains(file, "/") {
				t.Errorf("%s names %s, which is not there", name, file)
			}
		}
	})
}
