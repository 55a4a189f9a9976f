package brock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/jobs"
	"github.com/brockdb/brock/internal/version/layout"
)

// MaxKeyspaceName is the greatest length of a keyspace's name, in bytes.
const MaxKeyspaceName = 255

// This is layout.MaxKeyspaceName: if they differ, the index is out of range, and doesn't compile.
var _ = [1]int{}[MaxKeyspaceName-layout.MaxKeyspaceName]

var (
	errKeyspaceName    = fmt.Errorf("brock: a keyspace's name has 1 to %d bytes: %w", MaxKeyspaceName, ErrInvalid)
	errKeyspaceForeign = fmt.Errorf("brock: keyspace of another store: %w", ErrInvalid)
	errTwoOptions      = fmt.Errorf("brock: more than one KeyspaceOptions: %w", ErrInvalid)
)

// keyspaces are the named keyspaces of a store. Readers take no lock: they see one list or the next.
type keyspaces struct {
	turn  jobs.Turn                   // held while a keyspace is made, changed or dropped, which syncs
	named atomic.Pointer[[]*Keyspace] // in the order of names; the list is never changed, only replaced
}

// loadFrom makes the list of the keyspaces that the tree has. Those that are on the list stay, with the
// options that the tree knows, or are dropped.
func (l *keyspaces) loadFrom(db *DB) {
	l.turn.Always()
	defer l.turn.Leave()
	before := l.sortedByName()
	var next []*Keyspace
	for _, k := range db.engine.Keyspaces.List() {
		ks := l.findByName(k.Name)
		// Compare numbers: a name may have been dropped and made anew, but a number is never used
		// again. A keyspace that is still there must stay the same pointer, as users hold it.
		if ks == nil || ks.at.ID != k.ID {
			ks = newKeyspace(db, k.ID, k.Name, loadedOptions(&k.Options))
		} else {
			ks.setOptions(loadedOptions(&k.Options))
		}
		next = append(next, ks)
	}
	slices.SortFunc(next, byName)
	l.named.Store(&next)
	for _, ks := range before {
		if l.findByName(ks.Name()) != ks { // another one may have the name now
			ks.at.Dropped.Store(true)
		}
	}
}

// sortedByName returns the keyspaces in the order of their names.
func (l *keyspaces) sortedByName() []*Keyspace {
	if p := l.named.Load(); p != nil {
		return *p
	}
	return nil
}

func byName(a, b *Keyspace) int { return cmp.Compare(a.Name(), b.Name()) }

// findByName returns the keyspace of this name, also if it is just being dropped; nil if there is none.
func (l *keyspaces) findByName(name string) *Keyspace {
	list := l.sortedByName()
	i, found := slices.BinarySearchFunc(list, name, func(ks *Keyspace, name string) int { return cmp.Compare(ks.Name(), name) })
	if !found {
		return nil
	}
	return list[i]
}

// addKeyspace puts ks on the list.
func (l *keyspaces) addKeyspace(ks *Keyspace) {
	i, _ := slices.BinarySearchFunc(l.sortedByName(), ks, byName)
	next := slices.Insert(slices.Clone(l.sortedByName()), i, ks)
	l.named.Store(&next)
}

// removeKeyspace takes ks off the list.
func (l *keyspaces) removeKeyspace(ks *Keyspace) {
	next := slices.DeleteFunc(slices.Clone(l.sortedByName()), func(k *Keyspace) bool { return k == ks })
	l.named.Store(&next)
}

// Keyspace returns the keyspace of this name: 1 to MaxKeyspaceName bytes of any kind.
// If there is none, it is created, durably, with the options given or else with
// Options.KeyspaceDefaults. If there is one and options are given, they replace its
// own, as SetOptions does. Zero fields mean Options.KeyspaceDefaults.
//
// The lookup of a keyspace that exists waits for nothing. Calls that create, change or drop
// keyspaces wait for each other.
//
// A read-only store returns ErrKeyspaceNotFound if there is none of this name, and
// ErrReadOnly if other options are given. For a name or options that are not possible it
// returns ErrInvalid, on a full disk ErrNoSpace, and else ErrRefused, ErrStopped or ErrClosed;
// then nothing was created or changed.
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
	asIs := func(ks *Keyspace) bool { return len(o) == 0 || ks.Options() == options }
	// Without the turn, which is held over syncs: a lookup waits for nobody (docs/guarantees.md).
	// One that is being dropped is not returned; its name may be free soon, so wait for that.
	if ks := db.keyspaces.findByName(name); ks != nil && !ks.at.Dropped.Load() && asIs(ks) {
		return ks, nil
	}
	db.keyspaces.turn.Always()
	defer db.keyspaces.turn.Leave()
	// Again: another call may have made, changed or dropped it while this one waited.
	ks := db.keyspaces.findByName(name)
	switch {
	case ks != nil && asIs(ks):
		return ks, nil
	case ks != nil:
		return ks, ks.setOptionsLocked(options)
	case db.commits == nil:
		return nil, ErrKeyspaceNotFound
	}
	// The lock is held over the sync, so that a name is created once.
	k, err := db.engine.Keyspaces.Create(name, recordedOptions(&options))
	if err != nil {
		return nil, err
	}
	ks = newKeyspace(db, k.ID, k.Name, loadedOptions(&k.Options))
	db.keyspaces.addKeyspace(ks)
	return ks, nil
}

// chosenOptions returns the options that a caller has given, defaults filled in.
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

// Keyspaces yields the named keyspaces in order of their names, as they are when the loop
// begins. It waits for nobody.
func (db *DB) Keyspaces() iter.Seq[*Keyspace] {
	return func(yield func(*Keyspace) bool) {
		slices.Values(db.keyspaces.sortedByName())(yield)
	}
}

// SetOptions changes the options, durably: how later writes are kept, and which
// versions are retained from now on. History that is gone stays gone. Zero fields
// mean Options.KeyspaceDefaults. It returns ErrKeyspaceNotFound after a drop, and otherwise
// the errors of DB.Keyspace; then the options are as before.
func (k *Keyspace) SetOptions(o KeyspaceOptions) error {
	if err := k.usable(); err != nil {
		return err
	}
	options, err := k.db.opts.chosenOptions([]KeyspaceOptions{o})
	if err != nil {
		return err
	}
	k.db.keyspaces.turn.Always()
	defer k.db.keyspaces.turn.Leave()
	return k.setOptionsLocked(options)
}

func (k *Keyspace) setOptionsLocked(o KeyspaceOptions) error {
	db := k.db
	if err := db.writable(); err != nil {
		return err
	}
	if k.at.Dropped.Load() {
		return ErrKeyspaceNotFound
	}
	if err := db.engine.Keyspaces.Set(k.at.ID, recordedOptions(&o)); err != nil {
		return err
	}
	// Only now, as the edit is durable: after an error the old options are in force, here and at
	// the next Open.
	k.setOptions(o)
	return nil
}

// Drop removes the keyspace and all that is in it, at once and durably, whatever its
// size. Its disk space is freed in the background, and its name is free for a new,
// empty keyspace. Open transactions still read the keyspace as it was, but Commit
// returns ErrKeyspaceNotFound if the transaction wrote to it, and ErrConflict if the
// transaction is Serializable and addressed it. A crash leaves the keyspace whole or
// dropped.
//
// Drop first makes durable what was committed before. ctx can end it only before it begins.
// After an error that is not ErrStopped the keyspace is as it was, though calls at the same
// time may have returned ErrKeyspaceNotFound. After ErrStopped nothing is written to the store
// any more, and the next Open finds the keyspace whole or dropped.
func (k *Keyspace) Drop(ctx context.Context) error {
	if err := k.usable(); err != nil {
		return err
	}
	db := k.db
	if err := workable(ctx, db); err != nil {
		return err
	}
	if err := db.keyspaces.turn.Take(ctx); err != nil {
		return err
	}
	defer db.keyspaces.turn.Leave()
	// From here on the leader lets nothing pass that writes to it. What it let
	// pass is in the journal, and is durable before the drop is.
	err := db.commits.Do(ctx, func() error {
		// Between two groups: a commit is checked either before the mark, and is dropped with the
		// rest, or after it, and is refused.
		if k.at.Dropped.Swap(true) {
			return ErrKeyspaceNotFound
		}
		return nil
	})
	if err != nil {
		return err
	}
	// Not ctx: others have been refused because of the mark, so it is kept for as short as possible
	// and never given up half-way.
	if err := db.commits.Sync(context.Background()); err != nil {
		k.at.Dropped.Store(false) // the drop was not begun
		return err
	}
	if err := db.engine.Keyspaces.Drop(k.at.ID); err != nil {
		// After ErrStopped nobody knows what the next Open will find.
		k.at.Dropped.Store(errors.Is(err, ErrStopped))
		return err
	}
	// Last: until the drop is durable, nobody may make another one of this name.
	db.keyspaces.removeKeyspace(k)
	return nil
}
