package brock

import (
	"context"
	"fmt"
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
// It returns ErrExist if there is something under the name dir, and ErrReadOnly for a store
// that this process only reads. After another error, as for a full disk, what was written is
// removed. After a crash there may be files in dir that Open refuses or takes for nothing at
// all (use MustExist): remove them.
func (db *DB) Checkpoint(ctx context.Context, dir string) error {
	if err := workable(ctx, db); err != nil {
		return err
	}
	if err := db.tree.Checkpoint(ctx, dir); err != nil {
		return fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	return nil
}
