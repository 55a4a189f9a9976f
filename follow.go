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
	"github.com/brockdb/brock/internal/keyring"
	"github.com/brockdb/brock/internal/manifest"
)

// Refresh moves a store that was opened with Mode Follow to the newest version of its
// writer, and returns that version. All commits that were durable when Refresh was called
// are visible when it returns. Refresh also syncs the writer's files, and shows the
// Buffered commits that are in them: of these, the newest one may show only when another
// commit has followed it, or a DB.Sync of the writer. Transactions that are open keep their
// own version.
//
// Refresh reads only what the writer has appended since the last call. After an error the
// store stays at its version: a *CorruptionError for damage, ErrForeign if the files are of
// another store now, ErrInvalid if the entries that the writer has not flushed take more
// than MemoryLimit. Concurrent calls wait for each other. When ctx ends, Refresh returns its
// error before the next step. In other Modes the newest version is always visible, and
// Refresh only returns it.
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

// announcing is how long Open of a follower waits for a writer that is making the store, or that
// holds the lock for a moment to find out whether there are followers.
const announcing = time.Second

// announce takes a shared lock of SUPER, before anything is read. While a follower holds
// it, the writer does not recycle journal files.
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
			return errs.Ended(ctx)
		case <-time.After(time.Millisecond):
		}
	}
}

// loadFollowed is manifest.Load of a store that another process may be making or writing:
// a file that is being written can look damaged, so it tries again.
func (o *opening) loadFollowed(ctx context.Context) (log *manifest.Log, err error) {
	for deadline := time.Now().Add(announcing); ; {
		log, err = manifest.Load(o.manifestOptions())
		refused := errors.Is(err, ErrKey) && !errors.Is(err, keyring.ErrAbsent) // the writer may just have removed an absent key
		if err == nil || refused || errors.Is(err, ErrNotExist) || errors.Is(err, ErrFormat) || errors.Is(err, ErrInvalid) || !time.Now().Before(deadline) {
			return log, err
		}
		select {
		case <-ctx.Done():
			return nil, errs.Ended(ctx)
		case <-time.After(lockPoll):
		}
	}
}

// refresh takes the list of keyspaces from the View that was just installed.
func (l *keyspaces) refresh(db *DB) {
	l.turn.Always()
	defer l.turn.Leave()
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
