package arch

import (
	"slices"
	"strings"
	"testing"
)

// TestLayers compares what packages import with layers.txt. A line may name
// only packages of lines above it, so the file itself proves that there is no
// cycle. The packages of a wing stand together, so wings have no cycle either.
// Tests may import what they like, and nothing imports a package of tests alone.
func TestLayers(t *testing.T) {
	_, sources := load(t)
	have := map[string]map[string]bool{} // package -> imported packages of the module
	for _, s := range sources {
		if s.test {
			continue
		}
		if have[s.pkg] == nil {
			have[s.pkg] = map[string]bool{}
		}
		for _, imp := range s.imports {
			if within, ok := inModule(imp); ok {
				have[s.pkg][within] = true
			}
		}
	}
	packages, rests := lines(t, "layers.txt")
	var wings []string // in the order of the file
	for i, pkg := range packages {
		if w := wing(pkg); len(wings) == 0 || wings[len(wings)-1] != w {
			if slices.Contains(wings, w) {
				t.Errorf("layers.txt lists %s apart from the rest of %s: a wing would import a wing that imports it", pkg, w)
			}
			wings = append(wings, w)
		}
		if slices.Contains(packages[:i], pkg) {
			t.Errorf("layers.txt lists %s twice", pkg)
		}
		if have[pkg] == nil {
			t.Errorf("layers.txt lists %s, which has no Go files: remove the line", pkg)
			continue
		}
		allowed := strings.Fields(rests[i])
		for _, a := range allowed {
			if !slices.Contains(packages[:i], a) {
				t.Errorf("layers.txt: %s may import %s, which is not listed above it: imports point down", pkg, a)
			}
			if !have[pkg][a] {
				t.Errorf("layers.txt: %s no longer imports %s: remove it from the line", pkg, a)
			}
		}
		for imp := range have[pkg] {
			if !slices.Contains(allowed, imp) {
				t.Errorf("%s imports %s, which layers.txt doesn't allow: declare the small interface you need and let the root "+
					"join the two, or change layers.txt and ARCHITECTURE.md", pkg, imp)
			}
		}
	}
	for pkg := range have {
		if !slices.Contains(packages, pkg) {
			t.Errorf("layers.txt doesn't list %s: add a line with what it may import", pkg)
		}
	}
}

// wing is the directory of internal that a package is in. The public packages below the API
// count as base, since what needs them is in several wings; the API and the tests of documents are wings of their own.
func wing(pkg string) string {
	if pkg == "vfs" || pkg == "report" {
		return "base"
	}
	if below, ok := strings.CutPrefix(pkg, "internal/"); ok {
		pkg, _, _ = strings.Cut(below, "/")
	}
	return pkg
}

// inModule turns an import path into a directory of the module.
func inModule(imp string) (string, bool) {
	if imp == module {
		return ".", true
	}
	return strings.CutPrefix(imp, module+"/")
}
