package brock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/brockdb/brock/internal/layout"
)

// MaxKeyspaceName is the length of the longest name of a keyspace, in bytes.
const MaxKeyspaceName = layout.MaxKeyspaceName

var (
	errKeyspaceName    = fmt.Errorf("brock: a keyspace's name has 1 to %d bytes: %w", MaxKeyspaceName, ErrInvalid)
	errKeyspaceForeign = fmt.Errorf("brock: keyspace of another store: %w", ErrInvalid)
	errTwoOptions      = fmt.Errorf("brock: more than one KeyspaceOptions: %w", ErrInvalid)
)

// keyspaces are the named keyspaces of a store.
type keyspaces struct {
	mu     sync.Mutex // held while one is made, changed or dropped, which syncs; guards:
	byName map[string]*Keyspace
}

// load takes up the keyspaces that the tree knows.
func (l *keyspaces) load(db *DB) {
	l.byName = make(map[string]*Keyspace)
	for _, k := range db.tree.Keyspaces() {
		l.add(db, &k)
	}
}

func (l *keyspaces) add(db *DB, k *layout.Keyspace) *Keyspace {
	ks := &Keyspace{db: db, name: k.Name, state: newKeyspaceState(k.ID, loadedOptions(&k.Options), &db.encoding)}
	l.byName[k.Name] = ks
	return ks
}

// Keyspace opens the keyspace of that name, any bytes up to MaxKeyspaceName, or
// makes it: durably, with these options or, without any, with
// Options.KeyspaceDefaults. A keyspace that is there keeps its options unless
// some are given: these replace them, as SetOptions does. Zero fields are those
// of Options.KeyspaceDefaults.
//
// In a read-only store it is ErrKeyspaceNotFound if there is none of that name,
// and ErrReadOnly if other options are given.
func (db *DB) Keyspace(name string, o ...KeyspaceOptions) (*Keyspace, error) {
	if err := db.usable(); err != nil {
		return nil, err
	}
	if name == "" || len(name) > MaxKeyspaceName {
		return nil, errKeyspaceName
	}
	options, err := db.opts.chosenOptions(o)
	if err != nil {
		return nil, err
	}
	db.keyspaces.mu.Lock()
	defer db.keyspaces.mu.Unlock()
	ks := db.keyspaces.byName[name]
	switch {
	case ks != nil && (len(o) == 0 || ks.Options() == options):
		return ks, nil
	case ks != nil:
		return ks, ks.setOptionsLocked(options)
	case db.commits == nil:
		return nil, ErrKeyspaceNotFound
	}
	k, err := db.tree.CreateKeyspace(name, recordedOptions(&options))
	if err != nil {
		return nil, err
	}
	return db.keyspaces.add(db, &k), nil
}

// chosenOptions are what a caller has given, defaults filled in.
func (opts *Options) chosenOptions(o []KeyspaceOptions) (KeyspaceOptions, error) {
	if len(o) > 1 {
		return KeyspaceOptions{}, errTwoOptions
	}
	if len(o) == 0 {
		return opts.KeyspaceDefaults, nil
	}
	options := o[0].over(&opts.KeyspaceDefaults)
	return options, options.validate("")
}

// Keyspaces yields the named keyspaces in the order of their names.
func (db *DB) Keyspaces() iter.Seq[*Keyspace] {
	return func(yield func(*Keyspace) bool) {
		for _, k := range db.keyspaces.list() {
			if !yield(k) {
				return
			}
		}
	}
}

func (l *keyspaces) list() []*Keyspace {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]*Keyspace, 0, len(l.byName))
	for _, k := range l.byName {
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b *Keyspace) int { return cmp.Compare(a.name, b.name) })
	return list
}

// SetOptions changes the options, durably, for what is written from now on and
// for what is retained from now on: history that is gone stays gone. Zero fields
// are those of Options.KeyspaceDefaults.
func (k *Keyspace) SetOptions(o KeyspaceOptions) error {
	if err := k.usable(); err != nil {
		return err
	}
	options, err := k.db.opts.chosenOptions([]KeyspaceOptions{o})
	if err != nil {
		return err
	}
	k.db.keyspaces.mu.Lock()
	defer k.db.keyspaces.mu.Unlock()
	return k.setOptionsLocked(options)
}

func (k *Keyspace) setOptionsLocked(o KeyspaceOptions) error {
	db := k.db
	if err := db.writable(); err != nil {
		return err
	}
	if err := k.state.usable(); err != nil {
		return err
	}
	if err := db.tree.SetKeyspace(k.state.id, recordedOptions(&o)); err != nil {
		return err
	}
	k.state.keep(o, &db.encoding)
	return nil
}

// Drop ends the keyspace with all that is in it, at once and durably, whatever
// its size; the space is given back in the background. Its name is free for a
// new keyspace, which has nothing of it. Open transactions go on reading it as it
// was, but can't commit any more: one that writes to it gets ErrKeyspaceNotFound, as
// every later call does, a Serializable one that addressed it ErrConflict. A crash meanwhile leaves it whole or dropped.
//
// Drop first makes durable what was committed before it. Once it has begun, ctx
// is not looked at. ErrNoSpace leaves the keyspace as it was, though calls
// meanwhile may have found it dropped. After an error other than that and ctx's
// the next Open tells whether it is there; until then nothing can be written to it.
func (k *Keyspace) Drop(ctx context.Context) error {
	if err := k.usable(); err != nil {
		return err
	}
	db := k.db
	if err := db.writable(); err != nil {
		return err
	}
	db.keyspaces.mu.Lock()
	defer db.keyspaces.mu.Unlock()
	if ctx != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	// From here on the leader lets nothing pass that writes to it. What it let
	// pass is in the journal, and is durable before the drop is.
	err := db.commits.Do(func() error {
		if k.state.dropped.Swap(true) {
			return ErrKeyspaceNotFound
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := db.commits.Sync(context.Background()); err != nil {
		return err
	}
	if err := db.tree.DropKeyspace(k.state.id); err != nil {
		if errors.Is(err, ErrNoSpace) && !errors.Is(err, ErrStopped) {
			k.state.dropped.Store(false) // nothing of it was written
		}
		return err
	}
	delete(db.keyspaces.byName, k.name)
	return nil
}
