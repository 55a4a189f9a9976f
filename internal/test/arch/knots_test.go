package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// listed is what go list tells of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// knots is, for each package of the core, the size of its largest knot: files
// that refer to each other's package-level identifiers, methods and fields in a
// circle, so that none can be understood alone. Tests don't count.
func knots(t *testing.T) map[string]int {
	fset := token.NewFileSet()
	exports, packages := map[string]string{}, []listed{}
	for _, p := range list(t) {
		exports[p.ImportPath] = p.Export
		if pkg, ok := inModule(p.ImportPath); ok && core(pkg) {
			packages = append(packages, p)
		}
	}
	// Imports come from the compiler's export data: without the types of other
	// packages, fields behind an atomic.Pointer or a slices.IndexFunc are unknown.
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	sizes := map[string]int{}
	for _, p := range packages {
		pkg, _ := inModule(p.ImportPath)
		sizes[pkg] = largestCircle(references(t, fset, imports, p))
	}
	return sizes
}

func list(t *testing.T) (packages []listed) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v: %s", err, exit.Stderr)
		}
		t.Skipf("there is no go command: %v", err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

// references maps each file of a package to the files whose identifiers it uses.
func references(t *testing.T, fset *token.FileSet, imports types.Importer, p listed) map[string]map[string]bool {
	graph := map[string]map[string]bool{}
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files, graph[name] = append(files, f), map[string]bool{}
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: imports}
	pkg, err := conf.Check(p.ImportPath, fset, files, info)
	if err != nil {
		t.Fatal(err)
	}
	file := func(pos token.Pos) string { return filepath.Base(fset.Position(pos).Filename) }
	for id, obj := range info.Uses {
		local := obj.Parent() != nil && obj.Parent() != pkg.Scope() // methods and fields have no parent
		if obj.Pkg() != pkg || local || !obj.Pos().IsValid() {
			continue
		}
		if from, to := file(id.Pos()), file(obj.Pos()); from != to {
			graph[from][to] = true
		}
	}
	return graph
}

// largestCircle is the size of the largest strongly connected component (Tarjan,
// "Depth-First Search and Linear Graph Algorithms", SIAM J. Comput. 1972, sec. 4).
func largestCircle(graph map[string]map[string]bool) (largest int) {
	index, low, onStack := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	var visit func(v string)
	visit = func(v string) {
		index[v] = len(index) + 1
		low[v] = index[v]
		stack, onStack[v] = append(stack, v), true
		for w := range graph[v] {
			if index[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if onStack[w] {
				low[v] = min(low[v], index[w])
			}
		}
		if low[v] != index[v] {
			return
		}
		for size := 1; ; size++ { // v is the root of a component: all above it on the stack
			w := stack[len(stack)-1]
			stack, onStack[w] = stack[:len(stack)-1], false
			if w == v {
				largest = max(largest, size)
				return
			}
		}
	}
	for v := range graph {
		if index[v] == 0 {
			visit(v)
		}
	}
	return largest
}

// The measures measure: a circle of three files beside one of two, and a file
// that only refers to them.
func TestLargestCircle(t *testing.T) {
	graph := map[string]map[string]bool{
		"a": {"b": true}, "b": {"c": true}, "c": {"a": true, "d": true},
		"d": {"e": true}, "e": {"d": true}, "f": {"a": true, "d": true},
	}
	if n := largestCircle(graph); n != 3 {
		t.Errorf("the largest circle has %d files, want 3", n)
	}
	if n := largestCircle(map[string]map[string]bool{"a": {}, "b": {"a": true}}); n != 1 {
		t.Errorf("without a circle: %d, want 1", n)
	}
}
