package brock

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/brockdb/brock/internal/copies/salvage"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/report"
	"github.com/brockdb/brock/vfs"
)

// SalvageSummary says what Salvage has written.
type SalvageSummary = report.Salvage

// Salvage makes a new store in to.Dir, which must not exist, of all data in from.Dir that a
// checksum still proves. Any file there may be damaged or missing: also SUPER, MANIFEST and
// runs. The new store has the newest version of each key that was found, with its version
// number, expiry and meta byte, and the keyspaces with their options. A key stays deleted
// if its delete was found. History is not kept.
//
// Salvage calls report, unless nil, for each damage by which something may be lost, and for each
// value that can't be read. What it doesn't need it doesn't read: forwarding tables are not.
// File, Offset and Reason say what is damaged, Keys which keys that concerns, as far as it
// is known. If Stale is set, the new store may have older values for these keys, or keys
// that were deleted. Calls come from one goroutine. For a sound store there are none, unless
// a crash has torn the end of MANIFEST: Salvage can't know whether that edit was lost.
//
// The old store is only read: from.Dir, from.ValueDir and from.FS say where it is. One that is
// encrypted needs from.Keys and its keyring. Of to, Salvage uses FS, Dir, Keys, MemoryLimit, Now,
// Tuning, and KeyspaceDefaults for keyspaces whose options are lost. It refuses a ValueDir. The
// new store is durable when Salvage returns nil; before that it can't be opened. After an error
// Salvage removes the files that it has written. After a crash, remove to.Dir.
//
// It returns ErrLocked if a process has the old store open for writing, ErrExist if there
// is something under the name to.Dir, ErrNotExist if from.Dir has no file of a store, ErrKey if
// from.Keys don't fit the old store, and ErrFormat for a store of another format.
func Salvage(ctx context.Context, from, to Options, report func(*CorruptionError)) (SalvageSummary, error) {
	if err := checkContext(ctx); err != nil {
		return SalvageSummary{}, err
	}
	to = to.inForce()
	err := to.validateStore()
	if err == nil {
		err = firstRefusal([]check{
			{from.InMemory || from.Dir == "", "Dir", "must name the store to read"},
			{to.InMemory || to.Mode != ReadWrite || to.MustExist, "Mode", "must be that of a new store on a disk"},
			{to.ValueDir != "" && !vfs.Same(fileSystem(to.FS), to.ValueDir, to.Dir), "ValueDir", "is not possible for a salvaged store"},
		})
	}
	if err != nil {
		return SalvageSummary{}, err
	}
	uuid, seed, err := newIdentity()
	if err != nil {
		return SalvageSummary{}, err
	}
	old := filename.Store{FS: fileSystem(from.FS), Dir: from.Dir, ValueDir: from.ValueDir}
	sum, err := salvage.Run(ctx, old, keyring.Within(ctx, from.Keys), salvage.Target{
		Store: filename.Store{FS: fileSystem(to.FS), Dir: filepath.Clean(to.Dir), UUID: uuid, Seed: seed},
		Keys:  keyring.Within(ctx, to.Keys), Now: newReporter(userFuncs{clock: to.Now}).clockTime().UnixMilli(),
		SegmentBytes: to.Tuning.SegmentSize, RunFileBytes: to.Tuning.RunFileSize, Memory: to.MemoryLimit,
		Defaults: recordedOptions(&to.KeyspaceDefaults),
	}, report)
	if err != nil {
		err = fmt.Errorf("salvage %s: %w", from.Dir, err)
	}
	return sum, err
}

// fileSystem returns fs, by default the operating system's, with errors as pageio.MarkErrors has them.
func fileSystem(fs vfs.FS) vfs.FS {
	if fs == nil {
		fs = vfs.OS()
	}
	return pageio.MarkErrors(fs)
}
