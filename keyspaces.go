package brock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/entry"
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
	errDefaultDrop     = fmt.Errorf("brock: the default keyspace can't be dropped, but cleared: %w", ErrInvalid)
	errDefaultOptions  = fmt.Errorf("brock: options of the default keyspace are set by Options.KeyspaceDefaults: %w", ErrInvalid)
	errTwoOptions      = fmt.Errorf("brock: more than one KeyspaceOptions: %w", ErrInvalid)
)

// keyspaces are the named keyspaces of a store. Readers take no lock: they see one map or the next.
type keyspaces struct {
	turn  jobs.Turn             // held while a keyspace is made, changed or dropped, which syncs
	named atomic.Pointer[names] // never changed, only replaced
}

// names has keyspaces by name, each in one of several maps. A keyspace that is made begins a map, which
// takes in the smaller ones: so each moves O(log n) times, and readers of the maps need no lock.
type names []map[string]*Keyspace

// mergedNames is up to how many names are in one map, however they came.
const mergedNames = 64

// find returns the keyspace of a name; nil if there is none.
func (n names) find(name string) *Keyspace {
	for _, m := range n {
		if ks := m[name]; ks != nil {
			return ks
		}
	}
	return nil
}

// all yields the keyspaces, in any order.
func (n names) all(yield func(*Keyspace) bool) {
	for _, m := range n {
		for _, ks := range m {
			if !yield(ks) {
				return
			}
		}
	}
}

// with returns the names and that of ks, which is not among them.
func (n names) with(ks *Keyspace) names {
	m := map[string]*Keyspace{ks.at.Name: ks}
	for len(n) > 0 && len(n[len(n)-1]) <= max(len(m), mergedNames) {
		maps.Copy(m, n[len(n)-1])
		n = n[:len(n)-1]
	}
	return append(slices.Clip(n), m)
}

// loadLocked makes the names of the keyspaces that the engine has. Those that are there stay, with the
// options that the engine knows, or are dropped. The caller has the turn.
func (l *keyspaces) loadLocked(db *DB) {
	before, next := l.byName(), make(map[string]*Keyspace)
	for _, k := range db.engine.Keyspaces.List() {
		ks, o := before.find(k.Name), loadedOptions(&k.Options)
		// Compare numbers: a name may have been dropped and made anew, but a number is never used
		// again. A keyspace that is still there must stay the same pointer, as users hold it.
		if ks == nil || ks.at.ID != k.ID {
			ks = newKeyspace(db, k.ID, k.Name, o)
		} else if ks.Options() != o {
			ks.setOptions(o)
		}
		next[k.Name] = ks
	}
	l.named.Store(&names{next})
	for ks := range before.all {
		if next[ks.at.Name] != ks { // another one may have the name now
			ks.at.Dropped.Store(true)
		}
	}
}

// byName returns the keyspaces, also those that are just being dropped.
func (l *keyspaces) byName() names {
	if p := l.named.Load(); p != nil {
		return *p
	}
	return nil
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
	if err := checkOpen(db); err != nil {
		return nil, err
	}
	if name == "" || len(name) > MaxKeyspaceName {
		return nil, errKeyspaceName
	}
	options, err := db.opts.chosenOptions(o)
	if err != nil {
		return nil, err
	}
	find := func() *Keyspace {
		ks := db.keyspaces.byName().find(name)
		if ks == nil || ks.at.Dropped.Load() || len(o) > 0 && ks.Options() != options {
			return nil
		}
		return ks
	}
	// Without the turn, which is held over syncs: a lookup waits for nobody (docs/guarantees.md).
	// One that is being dropped is not returned; its name may be free soon, so wait for that.
	if ks := find(); ks != nil {
		return ks, nil
	}
	db.keyspaces.turn.Always()
	defer db.keyspaces.turn.Leave()
	// Again: another call may have made, changed or dropped it while this one waited.
	if ks := find(); ks != nil {
		return ks, nil
	}
	return db.keyspaces.ensureLocked(db, name, options)
}

// ensureLocked makes a keyspace, or gives these options to the one that there is.
func (l *keyspaces) ensureLocked(db *DB, name string, o KeyspaceOptions) (*Keyspace, error) {
	ks := l.byName().find(name)
	switch {
	case ks != nil && ks.at.Dropped.Load():
		// Its Drop ended in ErrStopped: nobody knows whether it is there, and none can be made.
		return nil, cmp.Or(db.Err(), ErrStopped)
	case ks != nil:
		return ks, ks.setOptionsLocked(o)
	case db.commits == nil:
		return nil, ErrKeyspaceNotFound
	}
	// The lock is held over the sync, so that a name is created once.
	var made layout.Keyspace
	err := db.commits.CommitEdit(context.Background(), 0, func(v entry.Version) (err error) {
		made, err = db.engine.Keyspaces.Create(v, name, recordedOptions(&o))
		return err
	})
	if err != nil {
		return nil, err
	}
	ks = newKeyspace(db, made.ID, name, loadedOptions(&made.Options))
	next := l.byName().with(ks)
	l.named.Store(&next)
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
	options := o[0].overDefaults(&opts.KeyspaceDefaults)
	return options, options.validateKeyspace("")
}

// Keyspaces yields the named keyspaces in order of their names, as they are when the loop
// begins. It waits for nobody.
func (db *DB) Keyspaces() iter.Seq[*Keyspace] {
	return func(yield func(*Keyspace) bool) {
		byName := func(a, b *Keyspace) int { return cmp.Compare(a.Name(), b.Name()) }
		slices.Values(slices.SortedFunc(db.keyspaces.byName().all, byName))(yield)
	}
}

// SetOptions changes the options, durably: how later writes are kept, and which
// versions are retained from now on. History that is gone stays gone. Zero fields
// mean Options.KeyspaceDefaults. It returns ErrKeyspaceNotFound after a drop, and otherwise
// the errors of DB.Keyspace; then the options are as before. For the default keyspace, whose
// options are not stored, it returns ErrInvalid.
func (k *Keyspace) SetOptions(o KeyspaceOptions) error {
	if err := k.checkExists(); err != nil {
		return err
	}
	if k.at.ID == entry.DefaultKeyspace {
		return errDefaultOptions
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
	if err := checkWritable(db); err != nil {
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
// any more, and the next Open finds the keyspace whole or dropped. For the default keyspace it
// returns ErrInvalid: see Clear.
func (k *Keyspace) Drop(ctx context.Context) error {
	if err := k.checkExists(); err != nil {
		return err
	}
	if k.at.ID == entry.DefaultKeyspace {
		return errDefaultDrop
	}
	db := k.db
	if err := checkWork(ctx, db); err != nil {
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
	if err := db.commits.CommitEdit(context.Background(), 0, func(v entry.Version) error { return db.engine.Keyspaces.Drop(v, k.at.ID) }); err != nil {
		// After ErrStopped nobody knows what the next Open will find.
		k.at.Dropped.Store(errors.Is(err, ErrStopped))
		return err
	}
	// Last: until the drop is durable, nobody may make another one of this name.
	db.keyspaces.loadLocked(db)
	return nil
}
