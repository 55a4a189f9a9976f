package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root   = "../../.."
	module = "github.com/brockdb/brock"
)

// source is a Go file of the module. Files for all systems are read alike.
type source struct {
	pkg     string // directory within the module; "." is the root
	name    string // path within the module
	test    bool
	ast     *ast.File
	imports []string
}

// pos is where a node is, for messages.
func (s *source) pos(fset *token.FileSet, n ast.Node) string {
	return s.name + ":" + strconv.Itoa(fset.Position(n.Pos()).Line)
}

// testOnly packages are imported by tests alone: they may use the system.
func testOnly(pkg string) bool {
	for _, dir := range []string{"internal/test/arch", "internal/test/kit", "internal/test/history", "internal/test/model", "internal/test/metamorphic", "internal/test/store"} {
		if pkg == dir || strings.HasPrefix(pkg, dir+"/") {
			return true
		}
	}
	return false
}

// load parses every Go file of the module; directories with a go.mod of their
// own are other modules.
func load(t *testing.T) (*token.FileSet, []*source) {
	t.Helper()
	fset := token.NewFileSet()
	var sources []*source
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".go") {
			return
		}
		f, err := parser.ParseFile(fset, filepath.Join(root, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		s := &source{pkg: path.Dir(name), name: name, test: strings.HasSuffix(name, "_test.go"), ast: f}
		for _, i := range f.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			s.imports = append(s.imports, p)
		}
		sources = append(sources, s)
	})
	return fset, sources
}

// walk calls fn with the path of each file of the module.
func walk(t *testing.T, fn func(name string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if !d.IsDir() {
			fn(name)
			return nil
		}
		base := d.Name()
		if name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata") {
			return fs.SkipDir
		}
		if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil && name != "." {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// lines reads a list: a line is "key: rest", # begins a comment.
func lines(t *testing.T, name string) (keys, rests []string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		key, rest, ok := strings.Cut(line, ":")
		if !ok {
			t.Fatalf("%s:%d: a line is \"key: rest\"", name, i+1)
		}
		keys, rests = append(keys, strings.TrimSpace(key)), append(rests, strings.TrimSpace(rest))
	}
	return keys, rests
}

// exceptions are the lines of exceptions.txt, "rule what: reason". The test
// fails in the end if one was not needed.
type exceptions struct {
	reasons map[string]string
	used    map[string]bool
}

func loadExceptions(t *testing.T, rules ...string) *exceptions {
	t.Helper()
	x := &exceptions{reasons: map[string]string{}, used: map[string]bool{}}
	keys, rests := lines(t, "exceptions.txt")
	for i, key := range keys {
		rule, _, _ := strings.Cut(key, " ")
		if !slices.Contains(allRules, rule) {
			t.Errorf("exceptions.txt: %q is no rule; there are %s", rule, strings.Join(allRules, ", "))
		}
		if rests[i] == "" {
			t.Errorf("exceptions.txt: %s needs a reason", key)
		}
		if slices.Contains(rules, rule) {
			x.reasons[key] = rests[i]
		}
	}
	t.Cleanup(func() {
		for key := range x.reasons {
			if !x.used[key] && !t.Failed() {
				t.Errorf("exceptions.txt: %q is not needed any more: remove the line", key)
			}
		}
	})
	return x
}

func (x *exceptions) allow(rule, what string) bool {
	key := rule + " " + what
	_, ok := x.reasons[key]
	x.used[key] = true
	return ok
}
