package engine

import (
	"fmt"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/version/layout"
)

// Keyspaces makes, changes and drops keyspaces: each is one edit that changes no files.
type Keyspaces struct {
	*state
}

// List lists the keyspaces that have a name, ascending by number. The list must not be written to.
func (k *Keyspaces) List() []layout.Keyspace { return k.views.Current().Layout.Keyspaces() }

// Create makes a keyspace with a number that no other keyspace ever had, as version v. It is durable
// on return. It returns errs.ErrInvalid for a name that is taken. It runs in the place of a commit
// leader, as Drop does.
func (k *Keyspaces) Create(v entry.Version, name string, o layout.KeyspaceOptions) (layout.Keyspace, error) {
	made := layout.Keyspace{Name: name, Options: o}
	err := k.recordEdit(func(l *layout.Layout) (*layout.Edit, error) {
		next := l.NextKeyspace()
		// A number is never given again: old files may have entries of a dropped keyspace under it.
		if next > uint64(entry.MaxKeyspaceID) {
			return nil, fmt.Errorf("%d keyspaces were made, and their numbers are used up: %w", next-1, errs.ErrUnsupported)
		}
		made.ID = entry.KeyspaceID(next)
		// History is kept from this version on.
		begin := k.views.Visible()
		edit := k.newCommit(v, layout.KeyspaceChange{ID: made.ID, Name: name})
		edit.SetKeyspaces = []layout.Keyspace{made}
		edit.KeyspaceFloors = []layout.KeyspaceFloor{{ID: made.ID, Version: begin}}
		return edit, nil
	})
	if err != nil {
		return layout.Keyspace{}, err
	}
	return made, nil
}

// Set replaces the options of a keyspace. The new Retention holds from now on; history that was
// dropped before does not come back. The change is durable on return.
func (k *Keyspaces) Set(id entry.KeyspaceID, o layout.KeyspaceOptions) error {
	return k.recordEdit(func(l *layout.Layout) (*layout.Edit, error) {
		old := l.Keyspace(id)
		if old == nil {
			return nil, errs.ErrKeyspaceNotFound
		}
		// A later release has written these options. A change by this one must not lose them.
		o.Unknown = old.Options.Unknown
		return &layout.Edit{SetKeyspaces: []layout.Keyspace{{ID: id, Name: old.Name, Options: o}}}, nil
	})
}

// Advance commits nothing as version v, durably. It runs in the place of a commit leader, as Drop does.
func (k *Keyspaces) Advance(v entry.Version) error {
	return k.recordEdit(func(*layout.Layout) (*layout.Edit, error) {
		return k.newCommit(v, layout.KeyspaceChange{}), nil
	})
}

// Discard raises the floor of a keyspace to version v, unless it is there already. It is durable on
// return. It returns errs.ErrInvalid if v is not durable yet.
func (k *Keyspaces) Discard(id entry.KeyspaceID, v entry.Version) error {
	if newest := max(k.views.Current().Layout.LastVersion(), k.unflushed.journal.DurableEnd().LastVersion); v > newest {
		return fmt.Errorf("discard before version %d, the newest is %d: %w", v, newest, errs.ErrInvalid)
	}
	if v <= k.views.Floors.Of(id) {
		return nil
	}
	err := k.recordEdit(func(l *layout.Layout) (*layout.Edit, error) {
		edit := &layout.Edit{LastVersion: max(v, l.LastVersion())}
		if id == entry.DefaultKeyspace {
			edit.Floor = max(v, l.Floor())
			return edit, nil
		}
		at := l.Keyspace(id)
		if at == nil {
			return nil, errs.ErrKeyspaceNotFound
		}
		edit.KeyspaceFloors = []layout.KeyspaceFloor{{ID: id, Version: max(v, at.Floor())}}
		return edit, nil
	})
	if err == nil {
		k.tasks.kickAll() // more is garbage now
	}
	return err
}

// Drop removes a keyspace from the layout, as version v. From then on its entries are garbage: each flush or
// compaction that meets them drops them. The drop is durable on return. Pins that were acquired
// before still see the keyspace. The caller makes sure that nothing more is written to it, and
// that earlier commits are durable.
func (k *Keyspaces) Drop(v entry.Version, id entry.KeyspaceID) error {
	err := k.recordEdit(func(l *layout.Layout) (*layout.Edit, error) {
		gone := l.Keyspace(id)
		if gone == nil {
			return nil, errs.ErrKeyspaceNotFound
		}
		edit := k.newCommit(v, layout.KeyspaceChange{ID: id, Name: gone.Name, Dropped: true})
		edit.DropKeyspaces = []entry.KeyspaceID{id}
		return edit, nil
	})
	if err != nil {
		return err
	}
	k.views.WeighDropped(id)
	k.tasks.kickAll() // the estimates of garbage have changed
	return nil
}
