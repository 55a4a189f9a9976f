package brock

// Keyspace is a named set of keys with options of its own: what others call a bucket
// or a column family. The same key in two keyspaces is two keys. DB and a new Txn
// address the default keyspace, which has no name. One transaction may read and
// write any number of keyspaces (Txn.In) and commits them together. A Keyspace may be
// used by any number of goroutines.
//
// After Drop its methods return ErrKeyspaceNotFound.
type Keyspace struct {
	db    *DB
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

// Name returns the keyspace's name.
func (k *Keyspace) Name() string {
	if k.state == nil {
		return ""
	}
	return k.state.Name
}

// Options returns the options in force, defaults filled in.
func (k *Keyspace) Options() KeyspaceOptions {
	if k.state == nil {
		return KeyspaceOptions{}
	}
	return *k.state.options.Load()
}
