package brock

// Keyspace is a named part of a store with keys, options and an end of its own:
// what others call a bucket or a column family. Its keys never meet those of
// another keyspace, or of the default one, which is what DB and a fresh Txn
// address; but one transaction reads and writes any number of keyspaces
// (Txn.In), as one commit. A Keyspace is safe for concurrent use.
//
// After a Drop its calls return ErrKeyspaceNotFound.
type Keyspace struct {
	db    *DB
	name  string
	state *keyspaceState
}

// usable returns nil while the keyspace is there.
func (k *Keyspace) usable() error {
	if k.db == nil {
		return ErrClosed
	}
	if err := k.db.usable(); err != nil {
		return err
	}
	return k.state.usable()
}

// Name is the keyspace's name.
func (k *Keyspace) Name() string { return k.name }

// Options are the options in force, defaults filled in.
func (k *Keyspace) Options() KeyspaceOptions {
	if k.state == nil {
		return KeyspaceOptions{}
	}
	return *k.state.options.Load()
}
