package tree

import (
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/view"
)

// Keyspaces lists the keyspaces that have a name, ascending by number. The list
// must not be written to.
func (t *Tree) Keyspaces() []layout.Keyspace { return t.layout().Keyspaces() }

// CreateKeyspace makes a keyspace with a number that no other ever had. It is
// durable on return. A name that is taken is errs.ErrInvalid.
func (t *Tree) CreateKeyspace(name string, o layout.KeyspaceOptions) (layout.Keyspace, error) {
	k := layout.Keyspace{Name: name, Options: o}
	err := t.recordKeyspaces(func(l *layout.Layout) (*layout.Edit, error) {
		next := l.NextKeyspace()
		if next > uint64(entry.MaxKeyspaceID) {
			return nil, fmt.Errorf("%d keyspaces were made, and their numbers are used up: %w", next-1, errs.ErrUnsupported)
		}
		k.ID = entry.KeyspaceID(next)
		// It has been empty for ever, but history that is asked for is kept from now on.
		begin := t.Visible()
		t.views.Floors.Add(k.ID, begin)
		return &layout.Edit{
			SetKeyspaces:   []layout.Keyspace{k},
			KeyspaceFloors: []layout.KeyspaceFloor{{ID: k.ID, Version: begin}},
			LastVersion:    max(begin, l.LastVersion()), // that of a Spill is recorded before it is published
		}, nil
	})
	if err != nil {
		if k.ID != entry.DefaultKeyspace {
			t.views.Floors.Remove(k.ID)
		}
		return layout.Keyspace{}, err
	}
	return k, nil
}

// SetKeyspace replaces the options of a keyspace. What is retained from now on
// follows them; what is gone stays gone. It is durable on return.
func (t *Tree) SetKeyspace(id entry.KeyspaceID, o layout.KeyspaceOptions) error {
	return t.recordKeyspaces(func(l *layout.Layout) (*layout.Edit, error) {
		k := l.Keyspace(id)
		if k == nil {
			return nil, errs.ErrKeyspaceNotFound
		}
		o.Unknown = k.Options.Unknown
		return &layout.Edit{SetKeyspaces: []layout.Keyspace{{ID: id, Name: k.Name, Options: o}}}, nil
	})
}

// DropKeyspace takes a keyspace out of the layout, which is all it takes: from
// then on its entries are garbage wherever they are, and whatever flush or merge
// meets them drops them. It is durable on return. Pins that were acquired before
// go on seeing the keyspace. The caller sees to it that nothing is written to it
// any more, and that what was committed before is durable.
func (t *Tree) DropKeyspace(id entry.KeyspaceID) error {
	err := t.recordKeyspaces(func(l *layout.Layout) (*layout.Edit, error) {
		if l.Keyspace(id) == nil {
			return nil, errs.ErrKeyspaceNotFound
		}
		return &layout.Edit{DropKeyspaces: []entry.KeyspaceID{id}}, nil
	})
	if err != nil {
		return err
	}
	t.views.Floors.Remove(id)
	t.drops.Add(1)
	noteDropped(t.views, id)
	t.tasks.kick()
	return nil
}

// recordKeyspaces records an edit that changes no files. One that a full disk
// refuses is ErrNoSpace, and all is as before.
func (t *Tree) recordKeyspaces(make func(*layout.Layout) (*layout.Edit, error)) error {
	if t.cfg.ReadOnly {
		return errs.ErrReadOnly
	}
	defer t.views.Reclaim()
	t.recording.Lock()
	defer t.recording.Unlock()
	if t.views.Closed() {
		return errs.ErrClosed
	}
	edit, err := make(t.layout())
	if err != nil {
		return err
	}
	l, err := t.log.Append(edit)
	if err != nil {
		if !errors.Is(err, layout.ErrConflictingEdit) && !isFull(err) {
			t.life.fail(err)
		}
		return err
	}
	t.views.Install(func(next *view.View) { next.Layout = l })
	return nil
}
