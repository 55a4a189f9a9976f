package brock

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/brockdb/brock/internal/backup"
	"github.com/brockdb/brock/internal/failure"
	"github.com/brockdb/brock/internal/keyring"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/vfs"
)

// BackupOptions says what Backup sends.
type BackupOptions struct {
	// Since is what Backup or VerifyBackup has returned for the previous backup. Then
	// Backup writes an increment: only the files that the store did not have at that time.
	// nil = a full backup.
	Since *BackupInfo
	// Keyspaces are the names of the keyspaces that the backup has, "" for the default one;
	// none = all. Nothing of other keyspaces is in the stream. Since must be of the same
	// keyspaces. Of an encrypted store such a backup is always full, unless it is Plain: with
	// Since, Backup returns ErrUnsupported. Backup first writes the keyspaces to files of their
	// own, beside those of the store, and removes them at the end. They take as much disk space
	// as the keyspaces have in runs of which Since has nothing.
	Keyspaces []string
	// Plain writes the backup of an encrypted store in clear: Restore makes a plain store of it,
	// without keys. Anyone who has the stream or its BackupInfo can read what is in it. Since
	// must be Plain, too. Backup first writes files of its own, as for Keyspaces. They can't be
	// read on the disk, also after a crash: each is encrypted under a key that only memory has.
	// Of a plain store every backup is plain; the first Plain one after EncryptStore must be full.
	Plain bool
	// Compress compresses files by zstd, in pieces of 256 KiB. A piece that would shrink
	// by less than an eighth stays as it is.
	Compress bool
	// Progress, unless nil, is called by the goroutine that has called Backup: at the start, after
	// each 4 MiB of what is read or sent, and at the end.
	Progress func(BackupProgress)
}

// BackupProgress is how far a Backup is. With Keyspaces, or Plain of an encrypted store, Backup
// first prepares files of its own. Total is 0 until they are complete, as their size is not known
// before.
type BackupProgress struct {
	Bytes     int64 // of files in the stream, before compression
	Total     int64 // Bytes at the end
	Prepared  int64 // bytes of runs and values that were read for files of its own
	ToPrepare int64 // Prepared in the end; 0 = Backup has no files of its own to make
}

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
	// Keyspaces are the names of those that the backup has, ascending, "" for the default one;
	// nil = all. A plain backup of an encrypted store names all that it has.
	Keyspaces []string

	info *backup.Info
}

func newBackupInfo(i *backup.Info) *BackupInfo {
	info := &BackupInfo{
		Version: uint64(i.Version), Time: time.UnixMilli(i.Milli), Incremental: i.Follows != backup.Digest{},
		Files: len(i.Files), Sent: i.Sent, StoreBytes: i.StoreBytes(), StreamBytes: i.Bytes, info: i,
	}
	if i.Part != nil {
		info.Keyspaces = slices.Clone(i.Part.Keyspaces)
	}
	return info
}

// MarshalBinary encodes the description for UnmarshalBinary: about 100 bytes, and 12 for
// each file of the store. It has no keys and no values; but that of a backup of some
// keyspaces, or of a plain one of an encrypted store, has the names and options of the keyspaces,
// and of each run the first and the last key.
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
// too, and may have later ones. It has all keyspaces with their options, or those of
// o.Keyspaces, and all history that is retained. Restore makes a store of it. VerifyBackup
// checks it.
//
// The stream has the files of the store, and of an encrypted store its keyring: nothing in it is in
// clear, and Compress has no effect, unless o.Plain is set. Each file is verified while it is sent.
// An increment (o.Since) has only files that are new. Deletes, drops and changed options are in it,
// too. A value usually stays in the file that it was written to, but compactions write keys again:
// after a compaction of the whole store an increment has all keys, and after a collection the
// values that this has moved.
//
// Backup flushes the memtables. It takes about 20 MB of memory, and as much as the indexes
// of one run and the largest value. Files that the store replaces meanwhile stay on the
// disk until Backup returns.
//
// It returns ErrReadOnly for a store that this process only reads, ErrForeign if o.Since is
// of another store, ErrInvalid if o.Since is of a later version or of other keyspaces,
// or is not plain and o.Plain is set, ErrKeyspaceNotFound, ErrNoSpace if there is no room for files
// of its own, a *CorruptionError for damage, and the errors of w. After an error the stream is
// incomplete: Restore and VerifyBackup refuse it.
func (db *DB) Backup(ctx context.Context, w io.Writer, o BackupOptions) (*BackupInfo, error) {
	if err := workable(ctx, db); err != nil {
		return nil, err
	}
	if w == nil {
		return nil, fmt.Errorf("%w: nil writer", ErrInvalid)
	}
	options := backup.Options{Compress: o.Compress, Keyspaces: o.Keyspaces, Plain: o.Plain}
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

// Restore makes a store of a full backup, and of the increments that come after it in r, if
// there are any, in the order in which they were made. It returns the description of the
// last one. The new store is what its source was at that version, with the same identity.
// Open it as any other.
//
// The store is made in o.Dir, and in o.ValueDir if that is set. These directories must be
// empty or absent. Of the other options only FS is used: Open is given the rest, and the
// backup has those of all keyspaces but the default one. The store is durable when Restore
// returns nil. That of an encrypted store needs o.Keys, and has the keyring of its source. Of a
// plain backup, also of an encrypted store, it makes a plain store, which EncryptStore encrypts.
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
	t := backup.Target{FS: o.FS, Dir: filepath.Clean(o.Dir), ValueDir: filepath.Clean(cmp.Or(o.ValueDir, o.Dir)), Keys: keyring.Within(ctx, o.Keys)}
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
// were made. It checks every byte, and that each increment belongs behind the backup before
// it. The first backup may be an increment; then VerifyBackup can't tell whether earlier
// backups have the files that it needs. It needs no keys, and doesn't look into what is
// encrypted. It returns the description of the last one, or the
// errors of Restore. It holds no whole file in memory.
func VerifyBackup(ctx context.Context, r io.Reader) (*BackupInfo, error) {
	if ctx == nil {
		return nil, errNilContext
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
