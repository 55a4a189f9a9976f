package arch

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// read is a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// documents calls fn with each Markdown file of the repository, those of its
// other modules included.
func documents(t *testing.T, fn func(name, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(p, ".md"):
			return nil
		}
		name, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		fn(name, read(t, name))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// maxDocumentLine is the longest line of a document, in characters.
const maxDocumentLine = 100

// TestDocumentsAreWrapped keeps the lines of documents short, so that diffs can
// be read. Tables, code and links that are too long by themselves may be longer.
func TestDocumentsAreWrapped(t *testing.T) {
	documents(t, func(name, text string) {
		fenced := false
		for i, line := range strings.Split(text, "\n") {
			if strings.HasPrefix(strings.TrimLeft(line, " "), "```") {
				fenced = !fenced
			}
			code := fenced || strings.HasPrefix(line, "    ")
			if n := utf8.RuneCountInString(line); n > maxDocumentLine && !code && !strings.HasPrefix(line, "|") && strings.Contains(strings.TrimLeft(line, "- "), " ") {
				t.Errorf("%s:%d has %d characters: wrap it at %d", name, i+1, n, maxDocumentLine)
			}
		}
	})
}

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

// TestLinksResolve follows the relative links of all Markdown files, to the
// heading if they name one.
func TestLinksResolve(t *testing.T) {
	documents(t, func(name, text string) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			to, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			file := name
			if to != "" {
				file = path.Join(path.Dir(name), to)
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s links to %s, which is not there", name, to)
				continue
			}
			if anchor != "" && !anchors(read(t, file))[anchor] {
				t.Errorf("%s links to %s, which has no heading #%s", name, file, anchor)
			}
		}
	})
}

// anchors are the names that links have for the headings of a text.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, line := range strings.Split(text, "\n") {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			name := strings.ToLower(strings.TrimSpace(heading))
			names[strings.ReplaceAll(noAnchor.ReplaceAllString(name, ""), " ", "-")] = true
		}
	}
	return names
}

var noAnchor = regexp.MustCompile(`[^\w\- ]`)

var byteRow = regexp.MustCompile(`^\| (\d+)(?:–(\d+))? \|`)

// TestByteTablesAreContiguous adds up the byte tables of the documents: each
// field begins where the one before ends.
func TestByteTablesAreContiguous(t *testing.T) {
	tables := 0
	documents(t, func(name, text string) {
		if path.Dir(name) != "docs" {
			return
		}
		next := -1
		for i, line := range strings.Split(text, "\n") {
			m := byteRow.FindStringSubmatch(line)
			switch {
			// Tables of a header page name the bytes that a kind of file fills in.
			case strings.HasPrefix(line, "| bytes |") && !strings.HasSuffix(line, "of the header page |"):
				tables++
				next = 0
			case m == nil && !strings.HasPrefix(line, "|"):
				next = -1
			case m != nil && next >= 0:
				first, _ := strconv.Atoi(m[1])
				last, err := strconv.Atoi(m[2])
				if err != nil {
					last = first // one byte
				}
				if first != next {
					t.Errorf("%s:%d: the field begins at %d, the one before ends before %d", name, i+1, first, next)
				}
				next = last + 1
			}
		}
	})
	if tables == 0 {
		t.Error("no byte table found")
	}
}

// codeIn names the test file that runs the Go code of a document. That of a module's README is in some
// file of the module.
var codeIn = map[string]string{
	"README.md":     "readme_test.go",
	"docs/guide.md": "docs/guide_test.go",
}

// TestCodeOfDocumentsRuns holds each block of Go code in a document against the
// file that runs it: the block stands there as it is, or indented as the
// body of a function.
func TestCodeOfDocumentsRuns(t *testing.T) {
	found := map[string]bool{}
	documents(t, func(name, text string) {
		blocks := strings.Split(text, "```go\n")[1:]
		if len(blocks) == 0 {
			return
		}
		found[name] = true
		var files []string
		if file := codeIn[name]; file != "" {
			files = []string{file}
		} else if dir := path.Dir(name); dir != "." && dir != "docs" {
			files = goFiles(t, dir)
		} else {
			t.Errorf("%s has Go code: name the test file that runs it in codeIn", name)
			return
		}
		for _, b := range blocks {
			code, _, _ := strings.Cut(b, "```")
			if !slices.ContainsFunc(files, func(file string) bool { return strings.Contains(unindented(read(t, file)), unindented(code)) }) {
				t.Errorf("no test runs this code of %s:\n%s", name, code)
			}
		}
	})
	for name := range codeIn {
		if !found[name] {
			t.Errorf("%s has no Go code", name)
		}
	}
}

// goFiles returns the Go files of a directory and those below it.
func goFiles(t *testing.T, dir string) (files []string) {
	err := fs.WalkDir(os.DirFS(root), dir, func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".go") {
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var indent = regexp.MustCompile(`(?m)^\t+`)

func unindented(code string) string { return "\n" + indent.ReplaceAllString(code, "") }

// apiName finds names of the public API, such as `Txn.Get`, in a document.
// Names of other stores begin with a small letter there, as in `db.Get`.
var apiName = regexp.MustCompile("`(DB|Keyspace|Txn|Iterator|Item|Batch|Writer|Entry|Options|TxnOptions|IteratorOptions|KeyspaceOptions|Maintenance|Tuning|Retention|Metrics|TreeMetrics|Events)\\.([A-Z]\\w*)")

// TestNamedAPIExists looks up each method and field that a document names, but
// for decisions, which tell what was, and for what has the API of another store.
func TestNamedAPIExists(t *testing.T) {
	known := map[string]bool{}
	method := regexp.MustCompile(`^func \(\w+ \*?(\w+)\) (\w+)\(`)
	field := regexp.MustCompile(`^type (\w+) struct, (\w+) `)
	for _, line := range strings.Split(read(t, "api.txt"), "\n") {
		for _, r := range []*regexp.Regexp{method, field} {
			if m := r.FindStringSubmatch(line); m != nil {
				known[m[1]+"."+m[2]] = true
			}
		}
	}
	documents(t, func(name, text string) {
		if strings.HasPrefix(name, "docs/adr/") || strings.HasPrefix(name, "compat/") {
			return
		}
		for _, m := range apiName.FindAllStringSubmatch(text, -1) {
			if api := m[1] + "." + m[2]; !known[api] {
				t.Errorf("%s names %s, which is not in api.txt", name, api)
			}
		}
	})
}

// TestReadmeIsTrue holds the README's test command against the one of the gate,
// and its version of Go against the modules'.
func TestReadmeIsTrue(t *testing.T) {
	modules := []string{"go.work"}
	for _, m := range regexp.MustCompile(`(?m)^\t(\./?\S*)$`).FindAllStringSubmatch(read(t, "go.work"), -1) {
		modules = append(modules, path.Join(m[1], "go.mod"))
	}
	if len(modules) < 10 {
		t.Fatalf("go.work has the modules %q only", modules)
	}
	for _, name := range modules {
		v := regexp.MustCompile(`(?m)^go (\d+\.\d+)\.\d+$`).FindStringSubmatch(read(t, name))
		if v == nil {
			t.Fatalf("%s does not say which version of Go it needs", name)
		}
		if want := "With Go " + v[1]; !strings.Contains(read(t, "README.md"), want) {
			t.Errorf("%s needs Go %s, and README.md does not say %q", name, v[1], want)
		}
	}
	m := regexp.MustCompile(`(?m)^    go test -timeout \w+ (.+)$`).FindStringSubmatch(read(t, "README.md"))
	if m == nil {
		t.Fatal("README.md has no test command, or it has no time limit")
	}
	command := strings.TrimSpace(m[0])
	for name, want := range map[string][]string{
		".ci/run":         {"modules=(" + m[1] + ")", strings.TrimSuffix(command, m[1]) + `"${modules[@]}"`},
		"Makefile":        {command},
		"docs/testing.md": {command},
	} {
		for _, want := range want {
			if !strings.Contains(read(t, name), want) {
				t.Errorf("%s does not test as README.md says: %s", name, want)
			}
		}
	}
}

var testName = regexp.MustCompile("`([a-z][a-z0-9/]*)\\.((?:Test|Fuzz|Example|Benchmark)\\w*)`")

// TestNamedTestsExist looks up each test that a document names, as in
// `internal/vlog/frame.TestGolden`: a promise without a test is a hope. Tests of
// other modules of the repository count too.
func TestNamedTestsExist(t *testing.T) {
	named := 0
	documents(t, func(name, text string) {
		for _, m := range testName.FindAllStringSubmatch(text, -1) {
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

var (
	testCommand = regexp.MustCompile("(?m)go test [^`#\n]*")
	testPackage = regexp.MustCompile(`\./[a-z0-9/]+[a-z0-9]|\./[a-z0-9/]+\.\.\.`)
	testPattern = regexp.MustCompile(`-(?:run|bench|fuzz) '?([^' ]+)`)
	skipped     = regexp.MustCompile(`\^((?:Test|Fuzz)\w+)(\$?)`)
)

// TestCommandsFindTests looks into the packages that a command of a document or of the gate names:
// what it asks to run is there. So is what the gate leaves out, in any package: a skip that no test
// needs any more hides the one that gets its name.
func TestCommandsFindTests(t *testing.T) {
	found := 0
	check := func(name, text string) {
		for _, command := range testCommand.FindAllString(strings.ReplaceAll(text, "\\\n", " "), -1) {
			packages := testPackage.FindAllString(command, -1)
			for _, m := range testPattern.FindAllStringSubmatch(command, -1) {
				pattern, _, _ := strings.Cut(m[1], "/")
				r, err := regexp.Compile(pattern)
				if err != nil || pattern == "^$" || pattern == "." || len(packages) == 0 {
					continue
				}
				found++
				if !slices.ContainsFunc(packages, func(pkg string) bool { return slices.ContainsFunc(testsIn(t, pkg), r.MatchString) }) {
					t.Errorf("%s: no test of %v is for %s", name, packages, m[0])
				}
			}
		}
	}
	documents(t, check)
	gate := read(t, ".ci/run")
	check(".ci/run", gate)
	all := testsIn(t, "./...")
	for _, m := range skipped.FindAllStringSubmatch(gate, -1) {
		if r := regexp.MustCompile(m[0]); !slices.ContainsFunc(all, r.MatchString) {
			t.Errorf(".ci/run names %s, which is not there", m[0])
		}
	}
	if found == 0 {
		t.Error("no document has a command that runs tests")
	}
}

var testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)

// testsIn lists the tests of a package, or of all below it if it ends in "...".
func testsIn(t *testing.T, pkg string) (names []string) {
	dir, below := strings.CutSuffix(pkg, "...")
	err := filepath.WalkDir(filepath.Join(root, dir), func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && filepath.Clean(p) != filepath.Join(root, dir) && (!below || d.Name() == "testdata" || d.Name() == ".git"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(p, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(p)
		for _, m := range testFunction.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return names
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

// TestNamedFilesExist looks up each Go file that a document names, from the root,
// from internal, or from the document's directory.
func TestNamedFilesExist(t *testing.T) {
	documents(t, func(name, text string) {
		for _, file := range fileName.FindAllString(text, -1) {
			found := slices.ContainsFunc([]string{".", "internal", path.Dir(name)}, func(dir string) bool {
				_, err := os.Stat(filepath.Join(root, dir, file))
				return err == nil
			})
			if !found && strings.Contains(file, "/") {
				t.Errorf("%s names %s, which is not there", name, file)
			}
		}
	})
}

var goName = regexp.MustCompile("`([A-Za-z]\\w*\\.[A-Za-z]\\w*)`")

// TestNamedFunctionsExist looks up each method, field, function and type that ARCHITECTURE.md
// names, as in `leader.write`, `Set.mu` and `policy.Decide`.
func TestNamedFunctionsExist(t *testing.T) {
	_, sources := load(t)
	known := map[string]bool{}
	for _, s := range sources {
		for _, d := range s.ast.Decls {
			addNames(known, s.ast.Name.Name, d)
		}
	}
	for _, m := range goName.FindAllStringSubmatch(read(t, "ARCHITECTURE.md"), -1) {
		if !known[m[1]] && path.Ext(m[1]) != ".go" && path.Ext(m[1]) != ".txt" {
			t.Errorf("ARCHITECTURE.md names %s, which is not there", m[1])
		}
	}
}

// addNames adds what d declares: package.Name, Type.method and Type.field.
func addNames(known map[string]bool, pkg string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		known[pkg+"."+d.Name.Name] = true
		if d.Recv != nil {
			ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					known[id.Name+"."+d.Name.Name] = true
				}
				return true
			})
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			typ, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			known[pkg+"."+typ.Name.Name] = true
			if fields, ok := typ.Type.(*ast.StructType); ok {
				for _, f := range fields.Fields.List {
					for _, name := range f.Names {
						known[typ.Name.Name+"."+name.Name] = true
					}
				}
			}
		}
	}
}
