package arch

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var lower = flag.Bool("lower", false, "write ceilings.txt anew, with today's values")

// kind is one way of measuring the code.
type kind struct {
	name string
	aim  int    // the ceiling that all of the core should have
	what string // what is measured, for the head of its lines in ceilings.txt
	cure string
}

var kinds = []kind{
	{"share", 10, "percent of the core's code lines in one package", "move one of its concepts to a package of its own"},
	{"knot", 5, "files of a package that refer to each other's identifiers in a circle", "hand down values, or move what both need below both"},
	{"methods", 40, "methods of a type", "make a kind of work a type that is given what it needs"},
	{"file", 600, "lines of a file", "split it at an idea"},
	{"function", 80, "lines of a function's body", "give its parts names"},
	{"complexity", 20, "1 + branches of a function (if, for, case, &&, ||)", "keep the branching here and make the leaves functions"},
	{"complex", 5, "functions of the core with a complexity above 15", "keep the branching there and make the leaves functions"},
}

// slack is how far a ceiling may be above the value before it must be lowered:
// slack percent, and 1.
const slack = 10

// TestCeilings measures the core and compares it with ceilings.txt. What is
// above its ceiling fails, and also a ceiling that is far above its value, so
// that ceilings only fall. go test ./internal/test/arch -run Ceilings -lower writes
// the file: aims for all, and an exception with today's value for each package,
// type, file or function that is above its aim. With -v it lists all packages.
func TestCeilings(t *testing.T) {
	values := measure(t)
	for _, pkg := range slices.Sorted(maps.Keys(values["lines"])) {
		t.Logf("%-24s %6d lines of code, knot of %d", pkg, values["lines"][pkg], values["knot"][pkg])
	}
	if *lower {
		writeCeilings(t, values)
	}
	ceilings := map[string]int{} // "kind" or "kind name"
	keys, rests := lines(t, "ceilings.txt")
	for i, key := range keys {
		n, err := strconv.Atoi(rests[i])
		if err != nil {
			t.Errorf("ceilings.txt: %s: %v", key, err)
		}
		ceilings[key] = n
	}
	for _, k := range kinds {
		k.compare(t, values[k.name], ceilings)
		delete(ceilings, k.name)
	}
	for key := range ceilings {
		t.Errorf("ceilings.txt: there is no %q any more: remove the line", key)
	}
}

// compare checks all values of a kind, and removes the ceilings that it has used.
func (k kind) compare(t *testing.T, values map[string]int, ceilings map[string]int) {
	general, ok := ceilings[k.name]
	if !ok {
		t.Fatalf("ceilings.txt: there is no line for %s", k.name)
	}
	for name, n := range values {
		key := k.name + " " + name
		ceiling, excepted := ceilings[key]
		delete(ceilings, key)
		switch {
		case !excepted && n > general:
			t.Errorf("%s of %s is %d, at most %d (%s): %s", k.name, name, n, general, k.what, k.cure)
		case !excepted:
		case n <= general:
			t.Errorf("ceilings.txt: %s is %d now, no exception: remove the line", key, n)
		case n > ceiling:
			t.Errorf("%s of %s is %d, above its ceiling of %d (%s): %s", k.name, name, n, ceiling, k.what, k.cure)
		case n+n*slack/100+1 < ceiling:
			t.Errorf("ceilings.txt: %s is %d now: lower it from %d", key, n, ceiling)
		}
	}
}

const ceilingsHead = `# Ceilings of the code's shape: "kind: value" for all of the core, and
# "kind name: value" for a package, type, file or function that is above it.
# Values may only fall: TestCeilings fails above a ceiling and far below one.
# After a change for the better, lower them:
#
#	go test ./internal/test/arch -run Ceilings -lower
#
# Test support is not measured, nor are the modules below cmd and bench.
`

func writeCeilings(t *testing.T, values map[string]map[string]int) {
	var b strings.Builder
	b.WriteString(ceilingsHead)
	for _, k := range kinds {
		fmt.Fprintf(&b, "\n# %s\n%s: %d\n", k.what, k.name, k.aim)
		names := slices.Collect(maps.Keys(values[k.name]))
		slices.SortFunc(names, func(a, b string) int {
			return cmp.Or(values[k.name][b]-values[k.name][a], strings.Compare(a, b))
		})
		for _, name := range names {
			if n := values[k.name][name]; n > k.aim {
				fmt.Fprintf(&b, "%s %s: %d\n", k.name, name, n)
			}
		}
	}
	if err := os.WriteFile("ceilings.txt", []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
