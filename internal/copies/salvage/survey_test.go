package salvage

import (
	"fmt"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/version/layout"
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
		v.renameTwins()
		if got := v.newName(5); got != "salvaged-5---" {
			t.Fatalf("keyspace 5 gets the name %q", got)
		}
	}
}

// TestLossesNameTheirKeyspaces: a report has a range of each keyspace that the damage concerns, and
// of no other, whether or not the keyspaces at the bounds are known.
func TestLossesNameTheirKeyspaces(t *testing.T) {
	var told []string
	v := &survey{keyspaces: map[entry.KeyspaceID]layout.Keyspace{}, ids: []entry.KeyspaceID{0, 3, 300, 301, 70_000}}
	for _, id := range v.ids[1:] {
		v.keyspaces[id] = layout.Keyspace{ID: id, Name: fmt.Sprint("n", id)}
	}
	v.fn = func(c *errs.Corruption) {
		told = nil
		for _, r := range c.Keys {
			told = append(told, fmt.Sprintf("%s[%s,%q)", r.Keyspace, r.Lower, r.Upper))
		}
	}
	at := func(id entry.KeyspaceID, key string) []byte { return append(entry.AppendKeyspace(nil, id), key...) }
	for _, c := range []struct {
		lower, upper []byte
		want         string
	}{
		{nil, nil, `[,"") n3[,"") n300[,"") n301[,"") n70000[,"")`},
		{at(3, "a"), at(3, "a"), `n3[a,"a\x00")`},
		{at(0, "a"), at(3, ""), `[a,"") n3[,"\x00")`},
		{at(3, "a"), at(300, "b"), `n3[a,"") n300[,"b\x00")`},
		{at(4, "a"), at(299, "b"), ``},
		{at(299, "a"), at(301, "b"), `n300[,"") n301[,"b\x00")`},
		{at(302, "a"), nil, `n70000[,"")`},
		{nil, at(2, "a"), `[,"")`},
	} {
		if v.reportLostKeys(new(errs.Corruption), c.lower, c.upper); strings.Join(told, " ") != c.want {
			t.Errorf("from %q to %q: %s, want %s", c.lower, c.upper, strings.Join(told, " "), c.want)
		}
	}
}
