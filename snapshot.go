package brock

import (
	"context"
	"errors"
	"io"
	"runtime"
	"time"
)

// Snapshot returns the newest version. It waits for the commits that are being written at this
// moment, and for nothing else, and costs as little as an empty commit. With Mode Follow it is
// Refresh, too.
//
// It returns ErrClosed, and with Mode Follow the errors of Refresh. Once nothing can be written any
// more (ErrStopped), a Snapshot can be read, but its Backup and Checkpoint return that error.
func (db *DB) Snapshot() (*Snapshot, error) {
	var caller [1]uintptr
	runtime.Callers(2, caller[:])
	ctx := context.Background()
	if _, err := db.Refresh(ctx); err != nil {
		return nil, err
	}
	s := &Snapshot{db: db}
	err := db.engine.Lifetime.Do(ctx, func(ctx context.Context) (err error) {
		s.pin, s.moment, err = db.source.Pin(ctx)
		return err
	})
	if s.refused = err; errors.Is(err, ErrStopped) {
		s.pin, err = db.engine.Views.Acquire(0) // reads go on
	}
	if err != nil {
		return nil, err
	}
	s.version, s.made = uint64(s.pin.Version()), db.report.clockTime()
	if s.moment != nil {
		s.made = time.UnixMilli(s.moment.Milli)
	}
	s.pin.SetOrigin(caller[0] - 1) // the line of the call, as of transactions begun by hand
	s.cleanup = runtime.AddCleanup(s, (*leak).releaseLeaked, &leak{report: db.report, pin: s.pin})
	return s, nil
}

// store returns the store. That of what DB.Snapshot returns with an error is not open.
func (s *Snapshot) store() *DB {
	if s == nil || s.db == nil {
		return new(DB)
	}
	return s.db
}

// Close ends the Snapshot. Transactions and copies that were begun go on. It may be called more than
// once, also at the same time.
func (s *Snapshot) Close() {
	if s == nil { // what DB.Snapshot returns with an error can be closed, too
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pin != nil {
		s.pin.Release()
		s.pin = nil
		s.cleanup.Stop()
	}
}

// Version returns the version, also after Close.
func (s *Snapshot) Version() uint64 {
	if s == nil {
		return 0
	}
	return s.version
}

// Time returns when the Snapshot was made, by the store's clock.
func (s *Snapshot) Time() time.Time {
	if s == nil {
		return time.Time{}
	}
	return s.made
}

// View is DB.ViewContext with a transaction that reads the Snapshot. Expiry is by the time of the
// call: what has expired since is gone.
func (s *Snapshot) View(ctx context.Context, fn func(txn *Txn) error) error {
	return s.store().main.ViewContext(ctx, TxnOptions{from: s}, fn)
}

// Begin is DB.Begin with a read-only transaction that reads the Snapshot.
func (s *Snapshot) Begin(ctx context.Context) (*Txn, error) {
	return beginByHand(ctx, s.store(), &TxnOptions{from: s})
}

// Backup is DB.Backup of the Snapshot. It has exactly the Snapshot's version: no later commit, and all
// history that was retained when the Snapshot was made. With o.Since it is an increment for a backup
// of the same version or an older one. It can be the Since of any later backup.
//
// It waits for no flush. What the memtables had is written to files in memory: that takes about as
// much memory, until Backup returns. It also returns ErrKey if the Snapshot has files under a data
// key that RotateKey has removed since.
func (s *Snapshot) Backup(ctx context.Context, w io.Writer, o BackupOptions) (*BackupInfo, error) {
	return writeBackup(ctx, s.store(), s, w, o)
}

// Checkpoint is DB.Checkpoint of the Snapshot. What it has, the memory that it takes and further
// errors are as with Backup. Segments of the journal that were not flushed when the Snapshot was made
// are copied, and the others linked.
func (s *Snapshot) Checkpoint(ctx context.Context, dir string) error {
	return writeCheckpoint(ctx, s.store(), s, dir)
}
