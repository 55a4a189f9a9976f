package commit

import (
	"slices"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/entry"
)

// Keyspace is a keyspace that can be dropped.
type Keyspace struct {
	ID      entry.KeyspaceID
	Name    string
	Dropped atomic.Bool // set when its drop begins; cleared only if that fails and the store goes on
}

// Keyspaces is the set of droppable keyspaces that a transaction uses.
type Keyspaces struct {
	list []*Keyspace
	seen map[*Keyspace]bool // the set of list once it is longer than searched; else nil
}

// maxSearched is how many keyspaces are searched one by one. Most transactions use fewer, and for them
// a map would cost more.
const maxSearched = 16

// Add adds a keyspace once.
func (k *Keyspaces) Add(ks *Keyspace) {
	n := len(k.list)
	switch {
	// Calls in a row mostly use one keyspace.
	case n > 0 && k.list[n-1] == ks, k.seen[ks]:
		return
	case n <= maxSearched && slices.Contains(k.list, ks):
		return
	case n == maxSearched:
		k.seen = make(map[*Keyspace]bool, 2*maxSearched)
		for _, ks := range k.list {
			k.seen[ks] = true
		}
	}
	if k.list = append(k.list, ks); k.seen != nil {
		k.seen[ks] = true
	}
}

// List returns the keyspaces, in the order in which they were added. It must not be written to.
func (k *Keyspaces) List() []*Keyspace { return k.list }

// Len returns the number of keyspaces.
func (k *Keyspaces) Len() int { return len(k.list) }

// Reset empties k and keeps its memory, of which Memory tells.
func (k *Keyspaces) Reset() {
	clear(k.list)
	k.list, k.seen = k.list[:0], nil
}

// Memory is how many bytes of memory k takes, about.
func (k *Keyspaces) Memory() int { return 8*cap(k.list) + 16*len(k.seen) }

// findDropped returns a keyspace that was dropped; nil if none was.
func (k *Keyspaces) findDropped() *Keyspace {
	for _, ks := range k.list {
		if ks.Dropped.Load() {
			return ks
		}
	}
	return nil
}
