package arch

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// allRules names the rules that exceptions.txt may lift: for a package, or for
// "package.variable".
var allRules = []string{"system", "unsafe", "panic", "init", "var", "log", "now", "timer", "go", "sleep", "draw", "mapped", "guard", "class", "hurry", "named"}

// cures say what to do instead.
var cures = map[string]string{
	"system": "only vfs, pageio, offheap and commands talk to the operating system: take a vfs.FS",
	"unsafe": "unsafe needs a line with its reason in exceptions.txt",
	"panic":  "what a caller, a disk or a file can cause is an error; a broken invariant goes through package invariant",
	"init":   "nothing happens at import: make it in a constructor",
	"var":    "package variables are shared by all stores: put it in a struct; tables and pools need a line in exceptions.txt",
	"log":    "take a *slog.Logger or report an event",
	"now":    "time comes in through Options: take a func() time.Time",
	"timer":  "timers live in package jobs: a quiet store has none",
	"go":     "goroutines start in jobs or commit, and who starts one waits for it",
	"mapped": "only run and segment read mapped files, and say who has a guard on: ask them",
	"guard":  "bytes of a caller, and values, may lie in a mapped file: begin with defer pageio.Guard, or say what has one on, or why these bytes do not",
	"draw":   "tests draw seeds with package draw, so that BROCK_SEED repeats them",
	"hurry":  "a busy machine is slow: a test that waits does so with package deadline, and fails for nothing that took long",
	"named":  "a comment on a function or type begins with its name, or it tells of an older one",
	"sleep":  "wait for what you mean (a channel, synctest.Wait), not for time",
}

// draws are functions of math/rand/v2 that draw anew each time.
var draws = []string{"Float64", "Int", "Int64", "Int64N", "IntN", "N", "Perm", "Shuffle", "Uint32", "Uint32N", "Uint64", "Uint64N"}

func TestRules(t *testing.T) {
	fset, sources := load(t)
	// failure_test.go has the rule "class".
	x := loadExceptions(t, slices.DeleteFunc(slices.Clone(allRules), func(rule string) bool { return rule == "class" })...)
	for _, s := range sources {
		c := &checker{t: t, fset: fset, source: s, exceptions: x}
		c.imports()
		c.declarations()
		ast.Inspect(s.ast, c.node)
	}
}

// checker looks at one file.
type checker struct {
	t    *testing.T
	fset *token.FileSet
	*source
	exceptions *exceptions
	took       []string // names to which time.Since was assigned
}

func (c *checker) forbid(rule, what string, n ast.Node) {
	if !c.exceptions.allow(rule, what) {
		c.t.Errorf("%s: %s: %s (or a line \"%s %s: reason\" in exceptions.txt)", c.pos(c.fset, n), rule, cures[rule], rule, what)
	}
}

// free files are not part of the product: most rules are not for them.
func (c *checker) free() bool { return c.test || testOnly(c.pkg) }

func (c *checker) imports() {
	for i, imp := range c.source.imports {
		n := c.ast.Imports[i]
		switch {
		case c.free():
		case imp == "os" || strings.HasPrefix(imp, "os/") || imp == "syscall" || strings.HasPrefix(imp, "golang.org/x/sys"):
			c.forbid("system", c.pkg, n)
		case imp == "unsafe":
			c.forbid("unsafe", c.pkg, n)
		case imp == "log":
			c.forbid("log", c.pkg, n)
		}
	}
}

func (c *checker) declarations() {
	if c.free() {
		return
	}
	for _, d := range c.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.Name == "init" {
				c.forbid("init", c.pkg, d)
			}
			c.guard(d)
			c.named(d.Name, d.Doc)
		case *ast.GenDecl:
			if d.Tok == token.TYPE && len(d.Specs) == 1 {
				c.named(d.Specs[0].(*ast.TypeSpec).Name, d.Doc)
			}
			if d.Tok != token.VAR {
				continue
			}
			for _, spec := range d.Specs {
				c.variable(spec.(*ast.ValueSpec))
			}
		}
	}
}

// named wants a comment to begin with the name that it stands above.
func (c *checker) named(name *ast.Ident, doc *ast.CommentGroup) {
	if doc == nil {
		return
	}
	first, _, _ := strings.Cut(doc.Text(), " ")
	if first = strings.TrimRight(first, ":,.\n"); first != "" && strings.TrimSuffix(first, "'s") != name.Name {
		c.forbid("named", c.pkg+"."+name.Name, name)
	}
}

// variable lets errors and assertions (var _ I = T{}) pass.
func (c *checker) variable(v *ast.ValueSpec) {
	for _, name := range v.Names {
		if name.Name == "_" || strings.HasPrefix(name.Name, "Err") || strings.HasPrefix(name.Name, "err") {
			continue
		}
		c.forbid("var", c.pkg+"."+name.Name, name)
	}
}

// guard looks for functions of the public package that copy or compare bytes without a
// guard of their own.
func (c *checker) guard(d *ast.FuncDecl) {
	if c.pkg != "." || d.Body == nil {
		return
	}
	name := c.pkg + "."
	if d.Recv != nil {
		receiver := d.Recv.List[0].Type
		if star, ok := receiver.(*ast.StarExpr); ok {
			receiver = star.X
		}
		name += receiver.(*ast.Ident).Name + "."
	}
	var touches ast.Node
	guarded := false
	ast.Inspect(d.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		fn, _ := call.Fun.(*ast.Ident)
		sel, _ := call.Fun.(*ast.SelectorExpr)
		switch {
		case isCall(call, "pageio", "Guard"):
			guarded = true
		case fn != nil && (fn.Name == "copy" || fn.Name == "append" && call.Ellipsis.IsValid()),
			isCall(call, "pending", "AppendKey"),
			sel != nil && isCall(call, "bytes", sel.Sel.Name):
			touches = call
		}
		return true
	})
	if touches != nil && !guarded {
		c.forbid("guard", name+d.Name.Name, touches)
	}
}

func isCall(call *ast.CallExpr, pkg string, names ...string) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains(names, sel.Sel.Name) {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == pkg
}

// hurry looks for tests that fail because something took its time. In a synctest bubble, time is
// the test's own.
func (c *checker) hurry(n ast.Node) {
	if !c.free() || c.pkg == "internal/test/kit/deadline" || slices.Contains(c.source.imports, "testing/synctest") {
		return
	}
	hurries := false
	switch n := n.(type) {
	case *ast.CommClause:
		hurries = n.Comm != nil && calls(n.Comm, "time.After") && fails(n.Body...)
	case *ast.AssignStmt:
		for i, name := range n.Lhs {
			if id, ok := name.(*ast.Ident); ok && i < len(n.Rhs) && calls(n.Rhs[i], "time.Since") {
				c.took = append(c.took, id.Name)
			}
		}
	case *ast.IfStmt:
		if n.Init != nil {
			c.hurry(n.Init)
		}
		hurries = c.tookLong(n.Cond) && fails(n.Body)
	case *ast.CallExpr:
		hurries = isCall(n, "time", "AfterFunc") && fails(n.Args[1])
	}
	if hurries {
		c.forbid("hurry", c.name, n)
	}
}

// tookLong reports whether a condition asks if something took more than some time.
func (c *checker) tookLong(cond ast.Expr) bool {
	long, time := false, calls(cond, "time.Since")
	ast.Inspect(cond, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			time = time || slices.Contains(c.took, n.Name)
		case *ast.BinaryExpr:
			long = long || n.Op == token.GTR || n.Op == token.GEQ
		}
		return true
	})
	return long && time
}

// calls reports whether a function of a package is called within n.
func calls(n ast.Node, name string) (found bool) {
	pkg, fn, _ := strings.Cut(name, ".")
	ast.Inspect(n, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		found = found || ok && isCall(call, pkg, fn)
		return !found
	})
	return found
}

// fails reports whether the code can fail a test or end the process.
func fails[N ast.Node](code ...N) (found bool) {
	for _, n := range code {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				found = found || n.Name == "panic"
			case *ast.SelectorExpr:
				found = found || slices.Contains([]string{"Error", "Errorf", "errorf", "Fail", "FailNow", "Fatal", "Fatalf", "fatalf"}, n.Sel.Name)
			}
			return !found
		})
	}
	return found
}

func (c *checker) node(n ast.Node) bool {
	c.hurry(n)
	switch n := n.(type) {
	case *ast.GoStmt:
		if !c.free() {
			c.forbid("go", c.pkg, n)
		}
	case *ast.SelectorExpr:
		if n.Sel.Name == "Mapped" && !c.free() {
			c.forbid("mapped", c.pkg, n)
		}
		if id, ok := n.X.(*ast.Ident); ok && id.Name == "rand" && c.free() && slices.Contains(draws, n.Sel.Name) {
			c.forbid("draw", c.name, n)
		}
		// A mention is as good as a call: now := time.Now.
		if id, ok := n.X.(*ast.Ident); ok && id.Name == "time" && !c.free() {
			switch n.Sel.Name {
			case "Now", "Since", "Until":
				c.forbid("now", c.pkg, n)
			case "AfterFunc", "NewTimer", "NewTicker", "Tick", "After":
				c.forbid("timer", c.pkg, n)
			}
		}
	case *ast.CallExpr:
		if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "panic" && !c.free() {
			c.forbid("panic", c.pkg, n)
		}
		// In a synctest bubble, time is the test's own.
		if isCall(n, "time", "Sleep") && !slices.Contains(c.source.imports, "testing/synctest") {
			c.forbid("sleep", c.pkg, n)
		}
	}
	return true
}
