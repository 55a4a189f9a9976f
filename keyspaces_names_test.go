package brock

import (
	"fmt"
	"testing"
)

// TestNames: each name stays to be found, in few maps, and names that were read before don't change.
func TestNames(t *testing.T) {
	const count = 3000
	var n, half names
	for i := range count {
		if i == count/2 {
			half = n
		}
		ks := new(Keyspace)
		ks.at.Name = fmt.Sprint(i)
		n = n.with(ks)
		if len(n) > 7 { // 64 in one, and 128, 256, ... in others
			t.Fatalf("%d names are in %d maps", i+1, len(n))
		}
	}
	seen := make(map[string]bool)
	for ks := range n.all {
		seen[ks.at.Name] = true
	}
	for i := range count {
		name := fmt.Sprint(i)
		if ks := n.find(name); ks == nil || ks.at.Name != name || !seen[name] {
			t.Errorf("keyspace %s was not found", name)
		}
		if found := half.find(name) != nil; found != (i < count/2) {
			t.Errorf("keyspace %s in the names of before: %v", name, found)
		}
	}
	if n.find("other") != nil {
		t.Error("a keyspace was found that is not there")
	}
}
