package layout

import (
	"sync"

	"github.com/brockdb/brock/internal/base/entry"
)

// grown lets a layout add a keyspace without a copy of all others. Layouts of one history share the
// array of their keyspaces: each sees those up to its own length, and only the one that sees all of
// them may write the next place. Nothing else is ever changed in place.
type grown struct {
	mu    sync.Mutex      // guards:
	used  int             // places of the array that some layout has
	names map[string]bool // of the keyspaces in them
}

// appendKeyspace appends k to the keyspaces that a layout sees, whose array g is for. It moves them
// to an array of their own if there is no g, no room, or another layout has the next place. It
// returns false if one of them has the name.
func (g *grown) appendKeyspace(list []Keyspace, k Keyspace) ([]Keyspace, *grown, bool) {
	if g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
	}
	if g == nil || g.used > len(list) || len(list) == cap(list) {
		// Room for as many more: so the names are gathered anew after as many additions.
		list = append(make([]Keyspace, 0, 2*len(list)+1), list...)
		g = &grown{used: len(list), names: make(map[string]bool, 2*len(list))}
		for i := range list {
			g.names[list[i].Name] = true
		}
	}
	if g.names[k.Name] {
		return list, g, false
	}
	g.names[k.Name] = true
	g.used++
	return append(list, k), g, true
}

// AddedKeyspace returns the number and the floor of the keyspace that e adds to l, if e does nothing
// else to keyspaces or floors.
func (l *Layout) AddedKeyspace(e *Edit) (KeyspaceFloor, bool) {
	k, ok := e.addedKeyspace(l.nextKeyspace)
	return KeyspaceFloor{ID: k.ID, Version: k.floor}, ok && e.Floor == 0
}

// addedKeyspace returns the keyspace, with its floor, if e does nothing to keyspaces but add it
// behind all others.
func (e *Edit) addedKeyspace(next uint64) (k Keyspace, ok bool) {
	if len(e.SetKeyspaces) != 1 || len(e.DropKeyspaces) != 0 || len(e.KeyspaceFloors) > 1 || e.NextKeyspace != 0 {
		return k, false
	}
	k = e.SetKeyspaces[0]
	k.floor = 0
	for _, f := range e.KeyspaceFloors {
		if f.ID != k.ID {
			return k, false
		}
		k.floor = f.Version
	}
	return k, uint64(k.ID) >= next && k.ID != entry.DefaultKeyspace
}
