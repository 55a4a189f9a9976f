package layout

import (
	"sync"

	"github.com/brockdb/brock/internal/base/entry"
)

// grown lets a layout add a keyspace without a copy of all others. Layouts of one history share the
// array of their keyspaces: each sees those up to its own length, and only the one that sees all of
// them may write the next place. Nothing else is ever changed in place.
type grown struct {
	mu    sync.Mutex     // guards:
	used  int            // places of the array that some layout has
	names map[string]int // places by name; nil: not needed yet
}

// appendKeyspace appends k to the keyspaces that a layout sees, whose array g is for; if g is nil, it moves them
// to an array of their own. It returns false if one of them has the name.
func (g *grown) appendKeyspace(list []Keyspace, k Keyspace) ([]Keyspace, *grown, bool) {
	if g == nil {
		list, g = moved(list)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.names == nil {
		g.names = make(map[string]int, g.used)
		for i := range list[:g.used] {
			g.names[list[:g.used][i].Name] = i
		}
	}
	// A place behind list belongs to another layout, which this one does not see.
	if at, found := g.names[k.Name]; found && at < len(list) {
		return list, g, false
	}
	switch {
	case g.used > len(list): // another layout has the next place
		list, g = moved(list)
	case len(list) == cap(list):
		names := g.names
		// The names move along with the keyspaces: places stay the same. The old array has no room,
		// so nobody adds to it again without moving.
		g.names = nil
		list, g = moved(list)
		g.names = names
	}
	if g.names != nil {
		g.names[k.Name] = len(list)
	}
	g.used++
	return append(list, k), g, true
}

// moved copies the keyspaces to an array with room for as many more.
func moved(list []Keyspace) ([]Keyspace, *grown) {
	return append(make([]Keyspace, 0, 2*len(list)+1), list...), &grown{used: len(list)}
}

// added returns the keyspace, with its floor, if e does nothing to keyspaces but add it behind all
// others.
func (e *Edit) added(next uint64) (k Keyspace, ok bool) {
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
