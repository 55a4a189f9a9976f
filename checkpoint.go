package brock

import (
	"context"
	"fmt"
	"time"

	"github.com/brockdb/brock/internal/copies/checkpoint"
	"github.com/brockdb/brock/internal/version/manifest"
)

// Checkpoint makes a store in dir, which must not exist: a copy as of one version, while
// others go on reading and writing. It is durable when Checkpoint returns nil. It has
// everything committed before the call, also what is Buffered, and may have later commits,
// with all keyspaces and all history that is retained. Its keys and values are all in dir,
// also those of a ValueDir. Open it as any store. It has the options of keyspaces that are
// stored, and needs nothing of this store: each can be changed or removed without the other.
//
// What is in memory is flushed first. Files that never change are shared by hard links, so
// that a checkpoint in the same file system takes little time and no disk space, until either
// store replaces what they share. In another file system they are copied, and the copies are
// verified. The checkpoint of an InMemory store is made on the disk, by copying.
//
// A store that this process only reads can be copied, too, as Backup does. Then files that are
// not flushed or go on growing are copied, and the others linked.
//
// It returns ErrExist if there is something under the name dir, and ErrUnsupported for a store
// that was opened up to its damage (Options.Recover). After another error, as for a full disk,
// what was written is removed. After a crash there may be files in dir that Open refuses or takes
// for nothing at all (use MustExist): remove them.
func (db *DB) Checkpoint(ctx context.Context, dir string) error {
	return writeCheckpoint(ctx, db, nil, dir)
}

// writeCheckpoint is Checkpoint of a Snapshot; nil: of the newest version.
func writeCheckpoint(ctx context.Context, db *DB, from *Snapshot, dir string) error {
	if err := checkCopy(ctx, db); err != nil {
		return err
	}
	to := checkpoint.Target{FS: db.base, Dir: dir, NoLinks: db.opts.InMemory}
	err := manifest.CheckAbsent(to.FS, dir)
	if err == nil {
		err = useFiles(ctx, db, from, func(ctx context.Context, s checkpoint.Fileset) error { return checkpoint.Write(ctx, s, to) })
	}
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	db.lastBackup.Store(time.Now().UnixMilli())
	return nil
}

// checkCopy returns nil if the store can be copied.
func checkCopy(ctx context.Context, db *DB) error {
	if err := checkRead(ctx, db); err != nil {
		return err
	}
	if db.Loss() != nil {
		return fmt.Errorf("%w: a copy of a store that was opened up to its damage; salvage makes one", ErrUnsupported)
	}
	return nil
}
