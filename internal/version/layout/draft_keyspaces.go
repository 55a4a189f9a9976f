package layout

import (
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
)

// changeKeyspaces adds, replaces and drops keyspaces. No number comes back.
func (d *draft) changeKeyspaces(e *Edit) error {
	if len(e.SetKeyspaces) == 0 && len(e.DropKeyspaces) == 0 && len(e.KeyspaceFloors) == 0 && e.NextKeyspace == 0 {
		return nil
	}
	// The usual case, and fast: a store may have a million keyspaces.
	if k, ok := e.addedKeyspace(d.nextKeyspace); ok {
		return d.addKeyspace(k)
	}
	d.keyspaces, d.grown = slices.Clone(d.keyspaces), nil
	// A number is new if no edit before this one used it. This one may set several
	// keyspaces, in any order.
	unused := d.nextKeyspace
	for i := range e.SetKeyspaces {
		if err := d.setKeyspace(&e.SetKeyspaces[i], unused); err != nil {
			return err
		}
	}
	for _, id := range e.DropKeyspaces {
		at, found := d.findKeyspace(id)
		if !found {
			return conflictError("keyspace %d dropped, which is not there", id)
		}
		d.keyspaces = slices.Delete(d.keyspaces, at, at+1)
	}
	for _, f := range e.KeyspaceFloors {
		at, found := d.findKeyspace(f.ID)
		switch {
		case !found:
			return conflictError("the floor of keyspace %d rises, which is not there", f.ID)
		case f.Version < d.keyspaces[at].floor:
			return conflictError("the floor of keyspace %d goes back to %d after %d", f.ID, f.Version, d.keyspaces[at].floor)
		}
		d.keyspaces[at].floor = f.Version
	}
	if e.NextKeyspace > uint64(entry.MaxKeyspaceID)+1 {
		return conflictError("keyspace number %d", e.NextKeyspace)
	}
	d.nextKeyspace = max(d.nextKeyspace, e.NextKeyspace)
	return d.distinctNames(e)
}

// addKeyspace adds a keyspace with a new number, in time that doesn't depend on how many there are.
func (d *draft) addKeyspace(k Keyspace) error {
	if err := k.checkName(); err != nil {
		return err
	}
	var ok bool
	if d.keyspaces, d.grown, ok = d.grown.appendKeyspace(d.keyspaces, k); !ok {
		return conflictError("keyspace %d has the name of another one", k.ID)
	}
	d.nextKeyspace = uint64(k.ID) + 1
	return nil
}

// checkName returns an error if k has no proper name.
func (k *Keyspace) checkName() error {
	if k.ID == entry.DefaultKeyspace || k.Name == "" || len(k.Name) > MaxKeyspaceName {
		return conflictError("keyspace %d has a name of %d bytes", k.ID, len(k.Name))
	}
	return nil
}

// setKeyspace replaces a keyspace, or adds one. Numbers below unused belong to keyspaces that are
// there or were dropped.
func (d *draft) setKeyspace(k *Keyspace, unused uint64) error {
	if err := k.checkName(); err != nil {
		return err
	}
	at, found := d.findKeyspace(k.ID)
	switch {
	case found:
		d.keyspaces[at].Name, d.keyspaces[at].Options = k.Name, k.Options
		return nil
	case uint64(k.ID) < unused:
		// Entries of the dropped one may still be in runs, and would come back.
		return conflictError("keyspace %d added, which was dropped", k.ID)
	}
	fresh := *k
	// A floor comes in KeyspaceFloors only.
	fresh.floor = 0
	d.keyspaces = slices.Insert(d.keyspaces, at, fresh)
	d.nextKeyspace = max(d.nextKeyspace, uint64(k.ID)+1)
	return nil
}

// distinctNames checks that no two keyspaces have one name. Only those that the edit
// has set can have made it so.
func (d *draft) distinctNames(e *Edit) error {
	set := make(map[string]entry.KeyspaceID, len(e.SetKeyspaces))
	for _, k := range e.SetKeyspaces {
		set[k.Name] = k.ID
	}
	for _, k := range d.keyspaces {
		if id, found := set[k.Name]; found && id != k.ID {
			return conflictError("keyspaces %d and %d have one name", k.ID, id)
		}
	}
	return nil
}
