package tree

import (
	"fmt"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/garbage"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/view"
)

// keyspaces makes, changes and drops keyspaces: each is one edit that changes no files.
type keyspaces struct {
	views     *view.Set
	installer *installer
	tasks     *tasks
}

// create makes a keyspace with a number that no other ever had. It is
// durable on return. A name that is taken is errs.ErrInvalid.
func (k *keyspaces) create(name string, o layout.KeyspaceOptions) (layout.Keyspace, error) {
	made := layout.Keyspace{Name: name, Options: o}
	err := k.installer.record(func(l *layout.Layout) (*layout.Edit, error) {
		next := l.NextKeyspace()
		if next > uint64(entry.MaxKeyspaceID) {
			return nil, fmt.Errorf("%d keyspaces were made, and their numbers are used up: %w", next-1, errs.ErrUnsupported)
		}
		made.ID = entry.KeyspaceID(next)
		// It has been empty for ever, but history that is asked for is kept from now on.
		begin := k.views.Visible()
		k.views.Floors.Add(made.ID, begin)
		return &layout.Edit{
			SetKeyspaces:   []layout.Keyspace{made},
			KeyspaceFloors: []layout.KeyspaceFloor{{ID: made.ID, Version: begin}},
			LastVersion:    max(begin, l.LastVersion()), // that of a Spill is recorded before it is published
		}, nil
	})
	if err != nil {
		if made.ID != entry.DefaultKeyspace {
			k.views.Floors.Remove(made.ID)
		}
		return layout.Keyspace{}, err
	}
	return made, nil
}

// set replaces the options of a keyspace. What is retained from now on
// follows them; what is gone stays gone. It is durable on return.
func (k *keyspaces) set(id entry.KeyspaceID, o layout.KeyspaceOptions) error {
	return k.installer.record(func(l *layout.Layout) (*layout.Edit, error) {
		old := l.Keyspace(id)
		if old == nil {
			return nil, errs.ErrKeyspaceNotFound
		}
		o.Unknown = old.Options.Unknown
		return &layout.Edit{SetKeyspaces: []layout.Keyspace{{ID: id, Name: old.Name, Options: o}}}, nil
	})
}

// drop takes a keyspace out of the layout, which is all it takes: from
// then on its entries are garbage wherever they are, and whatever flush or compaction
// meets them drops them. It is durable on return. Pins that were acquired before
// go on seeing the keyspace. The caller sees to it that nothing is written to it
// any more, and that what was committed before is durable.
func (k *keyspaces) drop(id entry.KeyspaceID) error {
	err := k.installer.record(func(l *layout.Layout) (*layout.Edit, error) {
		if l.Keyspace(id) == nil {
			return nil, errs.ErrKeyspaceNotFound
		}
		return &layout.Edit{DropKeyspaces: []entry.KeyspaceID{id}}, nil
	})
	if err != nil {
		return err
	}
	k.views.Floors.Remove(id)
	// Work that goes on has begun without knowing of it: see installer.change.
	k.installer.drops.Add(1)
	garbage.NoteDropped(k.views, id)
	k.tasks.kick() // the estimate is new
	return nil
}
