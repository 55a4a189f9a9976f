package brock

import (
	"context"
	"fmt"
)

// Checkpoint makes a store in dir, which must not exist: a copy as of one version, that
// of its begin or a later one, while others go on reading and writing. It is durable when
// Checkpoint returns nil, and has everything committed before the call, also what is
// Buffered, with all keyspaces and all history that is retained. Its keys and values are
// all in dir, also those of a ValueDir. Open it as any store: it has the same options
// stored, goes its own way, and needs nothing of this one.
//
// Files that never change are shared by hard links, so that a checkpoint in the same
// file system takes little time and no disk space, until either store replaces what they
// share. Elsewhere they are copied, and verified, as they are for a store that is InMemory:
// its checkpoint is made on the disk. Commits go on meanwhile; what is in memory is
// flushed first.
//
// It returns ErrExist if there is something under the name dir. After another error, as
// for a full disk, what was written is removed. After a crash there may be files in dir
// that Open refuses or takes for nothing at all (use MustExist): remove them.
func (db *DB) Checkpoint(ctx context.Context, dir string) error {
	if err := workable(ctx, db); err != nil {
		return err
	}
	if err := db.tree.Checkpoint(ctx, dir); err != nil {
		return fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	return nil
}
