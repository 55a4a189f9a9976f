package brock

import (
	"context"
	"fmt"
	"runtime"

	"github.com/brockdb/brock/internal/copies/follow"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/vfs"
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
	if err := checkRead(ctx, db); err != nil {
		return 0, err
	}
	if db.source.Follower == nil {
		return db.Version(), nil
	}
	err = db.engine.Lifetime.Do(ctx, func(ctx context.Context) error {
		v, err := db.source.Follower.Refresh(ctx)
		version = uint64(v)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("refresh: %w", err)
	}
	// After the View is in place. A lookup in between finds a keyspace that the View lacks, which
	// absentFrom sees.
	db.keyspaces.turn.Always()
	defer db.keyspaces.turn.Leave()
	db.keyspaces.loadLocked(db)
	return version, nil
}

// checkFollowable returns ErrUnsupported where a writer can't remove or cut a file that a follower
// has open.
func (o *opening) checkFollowable() error {
	switch runtime.GOOS {
	case "windows", "js", "wasip1":
		if o.options.FS == nil || o.options.FS == vfs.OS() {
			return fmt.Errorf("%w: Mode Follow on %s: files can't be removed while they are open", ErrUnsupported, runtime.GOOS)
		}
	}
	return nil
}

// loadManifest is manifest.Load. Another process may be making or writing the store that is followed.
func (o *opening) loadManifest(ctx context.Context) (log *manifest.Log, err error) {
	if o.options.Mode != Follow {
		return manifest.Load(o.at)
	}
	err = follow.TryAgain(ctx, func() (err error) {
		log, err = manifest.Load(o.at)
		return err
	})
	return log, err
}

// beginFollowing makes the first View of a store that another process may be writing.
func (o *opening) beginFollowing() (*follow.Follower, error) {
	keys := func(context.Context) (end func()) { return func() {} }
	if o.keyring != nil {
		keys = o.keyring.During
	}
	f := follow.New(follow.Config{
		Store: o.fileStore(), Log: o.log, Files: o.engine.Files, Views: o.engine.Views, Keys: keys,
		TableBytes: int(o.options.Tuning.MemtableSize), Memory: o.options.MemoryLimit,
	})
	if _, err := f.Refresh(context.Background()); err != nil {
		_ = o.engine.Close()
		f.Close()
		return nil, err
	}
	return f, nil
}
