package arch

import (
	"slices"
	"strings"
	"testing"
)

// TestLayers compares what packages import with layers.txt. A line may name
// only packages of lines above it, so the file itself proves that there is no
// cycle. Tests may import what they like.
func TestLayers(t *testing.T) {
	_, sources := load(t)
	have := map[string]map[string]bool{} // package -> imported packages of the module
	for _, s := range sources {
		if have[s.pkg] == nil {
			have[s.pkg] = map[string]bool{}
		}
		if s.test {
			continue
		}
		for _, imp := range s.imports {
			if within, ok := inModule(imp); ok {
				have[s.pkg][within] = true
			}
		}
	}
	packages, rests := lines(t, "layers.txt")
	for i, pkg := range packages {
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

// inModule turns an import path into a directory of the module.
func inModule(imp string) (string, bool) {
	if imp == module {
		return ".", true
	}
	return strings.CutPrefix(imp, module+"/")
}
