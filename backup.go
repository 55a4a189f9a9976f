package brock

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/brockdb/brock/internal/copies/backup"
	"github.com/brockdb/brock/internal/copies/checkpoint"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/report"
)

// BackupOptions says what Backup sends.
type BackupOptions struct {
	// Since is what Backup or VerifyBackup has returned for the previous backup. Then
	// Backup writes an increment: only the files that the store did not have at that time.
	// nil = a full backup.
	Since *BackupInfo
	// Compress compresses files by zstd, in pieces of 256 KiB. A piece that would shrink
	// by less than an eighth stays as it is.
	Compress bool
	// Progress, unless nil, is called by the goroutine that has called Backup: at the start, after
	// each 4 MiB of what is sent, and at the end.
	Progress func(BackupProgress)
}

// BackupProgress is how far a Backup is.
type BackupProgress = report.BackupProgress

// BackupInfo describes a backup: a stream that Backup has written. Store it
// (MarshalBinary) to use it as Since of the next backup. Don't change it.
type BackupInfo struct {
	Version     uint64    // the newest version in the backup
	Time        time.Time // when that was the store's newest version, by the store's clock
	Incremental bool      // Restore needs the backups before it, too
	Files       int       // number of files of the store
	Sent        int       // number of files in the stream; the backups before it have the others
	StoreBytes  int64     // total size of the store's files
	StreamBytes int64     // size of the stream

	info *backup.Info // all of it; nil: it describes no backup
}

func newBackupInfo(i *backup.Info) *BackupInfo {
	return &BackupInfo{
		Version: uint64(i.Version), Time: time.UnixMilli(i.Milli), Incremental: i.Follows != backup.Digest{},
		Files: len(i.Files), Sent: int(i.Sent), StoreBytes: i.StoreBytes(), StreamBytes: i.Bytes, info: i,
	}
}

// MarshalBinary encodes the description for UnmarshalBinary: 126 bytes, and 24 for each file of
// the store. It has no keys and no values.
func (i *BackupInfo) MarshalBinary() ([]byte, error) {
	if i == nil || i.info == nil {
		return nil, fmt.Errorf("%w: no backup", ErrInvalid)
	}
	return i.info.Encode(), nil
}

// UnmarshalBinary decodes bytes that MarshalBinary has returned. It doesn't keep p. For
// other bytes it returns ErrForeign, ErrFormat or a *CorruptionError, and doesn't change i.
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

// Backup writes the store to w as one stream, as of one version, while others go on reading
// and writing. The backup has every commit that returned before the call, Buffered ones
// too, and may have later ones. It has all keyspaces with their options, and all history that is
// retained. Restore makes a store of it. VerifyBackup checks it.
//
// The stream has the files of the store, and of an encrypted store its keyring: nothing in it is in
// clear, and Compress has no effect. Each file is verified while it is sent.
// An increment (o.Since) has only files that are new. Deletes, drops and changed options are in it,
// too. A value usually stays in the file that it was written to, but compactions write keys again:
// after a compaction of the whole store an increment has all keys, and after a collection the
// values that this has moved.
//
// Backup flushes the memtables. It takes about 20 MB of memory, and as much as the indexes
// of one run and the largest value. Files that the store replaces meanwhile stay on the
// disk until Backup returns.
//
// A store that this process only reads can be backed up, too. With Mode Follow the backup has
// every commit that was durable before the call; of Buffered commits, see Refresh. It reads the
// files that the follower has open, and flushes the memtables to memory.
//
// It returns ErrUnsupported for a store that was opened up to its damage (Options.Recover),
// ErrForeign if o.Since is of another store, ErrInvalid if o.Since is of a later version, a
// *CorruptionError for damage, and the errors of w. After an error the stream is incomplete:
// Restore and VerifyBackup refuse it.
func (db *DB) Backup(ctx context.Context, w io.Writer, o BackupOptions) (*BackupInfo, error) {
	return writeBackup(ctx, db, nil, w, o)
}

// writeBackup is Backup of a Snapshot; nil: of the newest version.
func writeBackup(ctx context.Context, db *DB, from *Snapshot, w io.Writer, o BackupOptions) (*BackupInfo, error) {
	if err := checkCopy(ctx, db); err != nil {
		return nil, err
	}
	if w == nil {
		return nil, fmt.Errorf("%w: nil writer", ErrInvalid)
	}
	options := backup.Options{Compress: o.Compress, Progress: o.Progress}
	if o.Since != nil {
		if options.Since = o.Since.info; options.Since == nil {
			return nil, &OptionError{Field: "Since", Reason: "is no backup"}
		}
	}
	var info *backup.Info
	err := useFiles(ctx, db, from, func(ctx context.Context, s checkpoint.Fileset) (err error) {
		info, err = backup.Write(ctx, s, w, options)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	db.lastBackup.Store(time.Now().UnixMilli())
	return newBackupInfo(info), nil
}

// Restore makes a store of a full backup, and of the increments that come after it in r, if
// there are any, in the order in which they were made. It returns the description of the
// last one. The new store is what its source was at that version, with the same identity.
// Open it as any other.
//
// The store is made in o.Dir, and in o.ValueDir if that is set. These directories must be
// empty or absent. Of the other options only FS is used: Open is given the rest, and the
// backup has those of all keyspaces but the default one. The store is durable when Restore
// returns nil. That of an encrypted store needs o.Keys, and has the keyring of its source.
//
// It returns ErrExist if a directory is not empty, ErrKey if o.Keys don't fit the backup (at the
// end of r, if they are set and the last backup is plain), ErrForeign if r has something else than
// a backup, or a backup of another store than the one before, ErrInvalid if an increment does not
// belong behind the backup before it, ErrFormat for a backup of a later release, and a
// *CorruptionError for one that is damaged or cut. After any error, also of r, of the disk and of
// ctx, Restore removes the files that it has written. After a crash a part of the files may be
// there. Open refuses them, or makes an empty store if there are too few of them: use MustExist.
// Remove them and call Restore again.
func Restore(ctx context.Context, r io.Reader, o Options) (*BackupInfo, error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	switch {
	case r == nil:
		return nil, fmt.Errorf("%w: nil reader", ErrInvalid)
	case o.InMemory:
		return nil, &OptionError{Field: "InMemory", Reason: "nothing of the store would remain"}
	case o.Dir == "":
		return nil, &OptionError{Field: "Dir", Reason: "is empty"}
	}
	t := backup.Target{FS: fileSystem(o.FS), Dir: o.Dir, ValueDir: o.ValueDir, Keys: keyring.Within(ctx, o.Keys)}
	info, err := backup.Restore(ctx, r, t)
	if err != nil {
		return nil, fmt.Errorf("restore %s: %w", t.Dir, err)
	}
	return newBackupInfo(info), nil
}

// VerifyBackup reads backups to the end of r: one, or several in the order in which they
// were made. It checks every byte, and that each increment belongs behind the backup before
// it. The first backup may be an increment; then VerifyBackup can't tell whether earlier
// backups have the files that it needs. It needs no keys, and doesn't look into what is
// encrypted. It returns the description of the last one, or the
// errors of Restore. It holds no whole file in memory.
func VerifyBackup(ctx context.Context, r io.Reader) (*BackupInfo, error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	if r == nil {
		return nil, fmt.Errorf("%w: nil reader", ErrInvalid)
	}
	info, err := backup.Verify(ctx, r, nil)
	if err != nil {
		return nil, fmt.Errorf("verify backup: %w", err)
	}
	return newBackupInfo(info), nil
}
