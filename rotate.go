package brock

import (
	"context"
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/engine"
	"github.com/brockdb/brock/internal/version/manifest"
)

// RotateOptions says what RotateKey changes. The zero value is good: new files are under a new
// data key from then on.
type RotateOptions struct {
	// Keys is the provider from now on, also for Options.Keys of the next Open; nil = as before.
	// It also wraps the existing data keys. The provider before it has to unwrap them first.
	Keys KeyProvider
	// Rewrite also encrypts existing data under the new key, by compactions and collections, and
	// then removes the older data keys. A backup or checkpoint that was made before still needs
	// the older keys, and has them in its own files.
	Rewrite bool
	// Master changes no data key: all are unwrapped, and wrapped again under the master key that
	// is current now. One small file is written. Rewrite is ignored.
	Master bool
}

// RotateKey gives an encrypted store a new data key, which is durable on return: what is written
// from then on is under it. Others may read and write meanwhile. With Rewrite it returns when
// nothing is under an older key any more. If ctx ends before, or the store is closed or killed,
// the rewriting goes on in the background, also after the next Open; TreeMetrics.OldKeyBytes has
// what is left of it.
//
// Until RotateKey has returned nil, both master keys may be needed, the one before and the one
// that is current now; call it again after an error. It waits until no Checkpoint or Backup is
// under way, and with Rewrite until each open transaction has ended that holds more than
// MaxMemory. It returns ErrKey if a key can't be wrapped or unwrapped, ErrInvalid if files are
// under 64 data keys and it may not Rewrite, ErrUnsupported for a plain store, which EncryptStore
// encrypts, ErrNoSpace if there is no disk space to rewrite more, ErrCorrupt if damage keeps it
// from that, and ErrReadOnly. With 64 data keys in use, Rewrite first rewrites what is under old
// ones, and then all.
func (db *DB) RotateKey(ctx context.Context, o RotateOptions) error {
	if err := checkWork(ctx, db); err != nil {
		return err
	}
	return db.engine.Keys.Rotate(ctx, engine.Rotation{Keys: o.Keys, Rewrite: o.Rewrite, Master: o.Master})
}

// EncryptStore makes an encrypted store of the plain one in o.Dir, under o.Keys. No process
// may have it open. What is in memory is written to files, and the manifest and SUPER are
// encrypted, which takes little time; from then on Open needs o.Keys. The files that are there
// stay plain until compactions and collections have replaced them, which the next Open begins:
// TreeMetrics.OldKeyBytes has how much is left, and DB.RotateKey with Rewrite waits for it. A crash
// leaves the plain store or the encrypted one.
//
// What was plain may be found on the medium long after its file was removed. To be sure, make a
// new store on another disk. EncryptStore returns ErrKey if the store is encrypted already, or the
// provider fails, and the errors of Open. Of o it uses what Open uses: as Open does, it drops
// history of the default keyspace that KeyspaceDefaults.Versions doesn't keep.
func EncryptStore(ctx context.Context, o Options) error {
	keys := o.Keys
	if err := checkContext(ctx); err != nil {
		return err
	}
	if keys == nil || o.Mode != ReadWrite {
		return fmt.Errorf("encrypt %s: %w: it wants Keys, and Mode ReadWrite", o.Dir, ErrInvalid)
	}
	// It is opened as what it is now, a plain store. The keys come in when Close has written the
	// last (atEnd), still under the locks.
	o.Keys, o.MustExist = nil, true
	op, err := newOpening(o)
	if err != nil {
		return err
	}
	db, err := op.openStore(ctx)
	if errors.Is(err, ErrKey) {
		err = fmt.Errorf("%w: it is encrypted already", ErrKey)
	}
	if err == nil {
		if err = db.Flush(ctx); err == nil {
			op.options.Keys, op.at.Keys = keys, op.openKeyring
			db.atEnd = func() error { return manifest.EncryptStore(op.at) }
		}
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		return fmt.Errorf("encrypt %s: %w", op.at.Dir, err)
	}
	return nil
}
