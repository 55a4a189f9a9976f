package brock

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/brockdb/brock/internal/backup"
	"github.com/brockdb/brock/internal/failure"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/vfs"
)

// BackupOptions says what Backup sends.
type BackupOptions struct {
	// Since is what Backup or VerifyBackup returned for the backup before. Then only an
	// increment is sent: the files that the store did not have at that time. nil = a full
	// backup.
	Since *BackupInfo
	// Compress compresses what is sent by zstd, 256 KiB at a time. What would not become
	// smaller by an eighth stays as it is.
	Compress bool
	// Progress, if it is not nil, is called at the begin, after each 4 MiB of files and at
	// the end, by the goroutine that called Backup.
	Progress func(BackupProgress)
}

// BackupProgress is how far a Backup is.
type BackupProgress struct {
	Bytes int64 // of files, as the store has them
	Total int64 // to be sent
}

// BackupInfo describes a backup: a stream that Backup has sent. It may be stored
// (MarshalBinary) to be the Since of the next one. Don't change it.
type BackupInfo struct {
	Version     uint64    // that the store has once it is restored
	Time        time.Time // when that was the newest version, by the store's clock
	Incremental bool      // it needs the backups before it
	Files       int       // of the store
	Sent        int       // files that are in the stream; the backups before it have the others
	StoreBytes  int64     // length of the store's files
	StreamBytes int64     // length of the stream

	info *backup.Info
}

func newBackupInfo(i *backup.Info) *BackupInfo {
	return &BackupInfo{
		Version: uint64(i.Version), Time: time.UnixMilli(i.Milli), Incremental: i.Follows != backup.Digest{},
		Files: len(i.Files), Sent: i.Sent, StoreBytes: i.StoreBytes(), StreamBytes: i.Bytes, info: i,
	}
}

// MarshalBinary returns bytes of which UnmarshalBinary makes the same BackupInfo: about 12
// for each file of the store, and 100 more. They hold neither keys nor values.
func (i *BackupInfo) MarshalBinary() ([]byte, error) {
	if i == nil || i.info == nil {
		return nil, fmt.Errorf("%w: no backup", ErrInvalid)
	}
	return i.info.Encode(), nil
}

// UnmarshalBinary reads what MarshalBinary has returned. It keeps nothing of p. For
// anything else it returns ErrForeign, ErrFormat or a *CorruptionError, and leaves i as it
// was.
func (i *BackupInfo) UnmarshalBinary(p []byte) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, pageio.SomeFile)
	if i == nil {
		return fmt.Errorf("%w: nil BackupInfo", ErrInvalid)
	}
	info, err := backup.DecodeInfo(p)
	if err == nil {
		*i = *newBackupInfo(info)
	}
	return err
}

// Backup sends the store to w as one stream: a copy as of one version, that of its begin
// or a later one, while others go on reading and writing. It has everything committed
// before the call, also what is Buffered, with all keyspaces and all history that is
// retained, and whatever changed since a backup before: deletes, drops and options
// included. Restore makes a store of it, VerifyBackup checks it.
//
// What is sent are the files of the store, each verified as it is sent, so an increment
// has the files that are new. Values are written once and stay in their files, but keys are
// rewritten by compactions: an increment has all keys again after a compaction of the
// whole store, and the values of what a collection has moved.
//
// Backup flushes what is in memory. It takes about 20 MB of memory, the indexes of one run
// and as much as the largest value. Files that the store replaces meanwhile stay on the
// disk until it returns. It returns ErrReadOnly for a read-only store, ErrForeign if o.Since is of another store, ErrInvalid if it is of a
// later version, a *CorruptionError for damage, and errors of w. After an error the stream
// has no end, and nobody takes it for a backup.
func (db *DB) Backup(ctx context.Context, w io.Writer, o BackupOptions) (*BackupInfo, error) {
	if err := workable(ctx, db); err != nil {
		return nil, err
	}
	if w == nil {
		return nil, fmt.Errorf("%w: nil writer", ErrInvalid)
	}
	options := backup.Options{Compress: o.Compress}
	if o.Since != nil {
		if options.Since = o.Since.info; options.Since == nil {
			return nil, &OptionError{Field: "Since", Reason: "is no backup"}
		}
	}
	if o.Progress != nil {
		options.Progress = func(p backup.Progress) { o.Progress(BackupProgress(p)) }
	}
	info, err := db.tree.Backup(ctx, w, options)
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	return newBackupInfo(info), nil
}

// Restore makes a store of what Backup has sent: of a full backup, and of the increments
// that follow it in r, if there are any, in the order in which they were made. Each must
// follow the one before. It describes the last one. Open the store as any other: it is
// the same as its source was at that version, with the same identity.
//
// The store is made in o.Dir, and o.ValueDir if that is set, which must be empty or not
// exist; o.FS counts, too. All else of o is not used: most options belong to an Open, and
// those of keyspaces, but for the default one's, are in the backup. All is durable when
// Restore returns nil.
//
// It returns ErrExist if there is something in a directory, ErrForeign for what is no
// backup, or is one of another store than those before it, ErrInvalid for an increment
// that doesn't follow, ErrFormat for a backup of a later release, and a *CorruptionError
// for one that is damaged or cut. Then, as after errors of r, of the disk and of ctx, what
// was written is removed. After a crash there may be files that Open refuses or takes for
// nothing at all (use MustExist), and another Restore says what to remove.
func Restore(ctx context.Context, r io.Reader, o Options) (*BackupInfo, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	switch {
	case r == nil:
		return nil, fmt.Errorf("%w: nil reader", ErrInvalid)
	case o.InMemory:
		return nil, &OptionError{Field: "InMemory", Reason: "nothing of the store would remain"}
	case o.Dir == "":
		return nil, &OptionError{Field: "Dir", Reason: "is empty"}
	}
	t := backup.Target{FS: o.FS, Dir: filepath.Clean(o.Dir), ValueDir: filepath.Clean(cmp.Or(o.ValueDir, o.Dir))}
	if t.FS == nil {
		t.FS = vfs.OS()
	}
	t.FS = failure.FS(t.FS)
	info, err := backup.Restore(ctx, r, t)
	if err != nil {
		return nil, fmt.Errorf("restore %s: %w", t.Dir, err)
	}
	return newBackupInfo(info), nil
}

// VerifyBackup reads backups to the end of r: one, or several in the order in which they
// were made. The first may be an increment: that those before it have what it needs is not
// known then. It checks every byte and that each backup follows the one before, and
// describes the last one. Its errors are those of Restore. It takes little memory.
func VerifyBackup(ctx context.Context, r io.Reader) (*BackupInfo, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if r == nil {
		return nil, fmt.Errorf("%w: nil reader", ErrInvalid)
	}
	info, err := backup.Verify(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("verify backup: %w", err)
	}
	return newBackupInfo(info), nil
}
