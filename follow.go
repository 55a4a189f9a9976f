package brock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/manifest"
)

// Refresh moves a store that was opened with Mode Follow to the newest durable version of
// its writer, and returns that version. Everything that was durable when Refresh was
// called is visible when it returns. What was committed Buffered, and whatever else is in
// the writer's files whole, Refresh makes durable before it shows it. Transactions that
// are open go on to see their own version.
//
// Refresh reads what the writer has appended since the last one. It returns an error, and
// the store stays as it is, if that can't be read: a *CorruptionError for damage, ErrForeign
// if another store has taken the place of the files, ErrInvalid if what the writer has in
// memory takes more than MemoryLimit. Calls at the same time wait for each other; the end of
// ctx ends a call between two steps. In another Mode the newest version is always visible:
// Refresh returns it.
func (db *DB) Refresh(ctx context.Context) (version uint64, err error) {
	if ctx == nil {
		return 0, errNilContext
	}
	if err := db.usable(); err != nil {
		return 0, err
	}
	v, err := db.tree.Refresh(ctx)
	if err != nil {
		return 0, fmt.Errorf("refresh: %w", err)
	}
	db.keyspaces.refresh(db)
	return uint64(v), nil
}

// announcing is how long Open waits for a writer that is making the store, or tests just
// now whether anybody follows it.
const announcing = time.Second

// announce takes a shared lock of SUPER, before anything is read: while there is one, the
// writer uses no file again.
func (o *opening) announce(ctx context.Context) error {
	super := filepath.Join(o.dir, filename.Of(filename.Super, 0))
	for deadline := time.Now().Add(announcing); ; {
		lock, err := o.fs.LockFile(super, true)
		switch {
		case err == nil:
			o.locks = append(o.locks, lock)
			return nil
		case errors.Is(err, fs.ErrNotExist):
			if _, err := o.loadFollowed(ctx); err != nil {
				return err
			}
			continue // it was made just now
		case errors.Is(err, errors.ErrUnsupported):
			return fmt.Errorf("%w: Mode Follow needs locks of files, and files that can be removed while they are open: %w", ErrUnsupported, err)
		case !errors.Is(err, errs.ErrLocked) || !time.Now().Before(deadline):
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
}

// loadFollowed is manifest.Load of a store that another process may be making or writing:
// what looks like damage is looked at again.
func (o *opening) loadFollowed(ctx context.Context) (log *manifest.Log, err error) {
	for deadline := time.Now().Add(announcing); ; {
		log, err = manifest.Load(o.manifestOptions())
		if err == nil || errors.Is(err, ErrNotExist) || errors.Is(err, ErrFormat) || errors.Is(err, ErrInvalid) || !time.Now().Before(deadline) {
			return log, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockPoll):
		}
	}
}

// refresh takes up the keyspaces of the View, after it was installed.
func (l *keyspaces) refresh(db *DB) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gone := l.byName
	l.byName = make(map[string]*Keyspace)
	for _, k := range db.tree.Keyspaces() {
		var known *Keyspace
		for _, ks := range gone {
			if ks.state.ID == k.ID {
				known = ks
			}
		}
		if known == nil || known.state.Name != k.Name {
			l.add(db, &k)
			continue
		}
		known.state.keep(loadedOptions(&k.Options), &db.encoding)
		l.byName[k.Name] = known
		delete(gone, k.Name)
	}
	for _, ks := range gone {
		ks.state.Dropped.Store(true)
	}
}
