package salvage

import (
	"testing"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/layout"
)

// TestNewNamesAreUnique: the new name of a keyspace is no other's, also if users have chosen names
// of the same form.
func TestNewNamesAreUnique(t *testing.T) {
	taken := []string{"salvaged-5", "salvaged-5-", "salvaged-5--"}
	for range 50 { // in whatever order the map is walked
		v := &survey{keyspaces: map[entry.KeyspaceID]layout.Keyspace{}}
		for i, name := range taken {
			id := entry.KeyspaceID(i + 1)
			v.keyspaces[id] = layout.Keyspace{ID: id, Name: name}
		}
		if got := v.name(5); got != "salvaged-5---" {
			t.Fatalf("keyspace 5 gets the name %q", got)
		}
	}
}
