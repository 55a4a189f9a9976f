package brock

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"time"

	"github.com/brockdb/brock/internal/failure"
	"github.com/brockdb/brock/internal/salvage"
	"github.com/brockdb/brock/vfs"
)

// SalvageSummary is what became of a store. Its fields are
//
//	Keys      uint64   // in the new store
//	Found     uint64   // of them, those whose entry was lost, and that a journal or value segment had
//	Version   uint64   // the newest one
//	Losses    int      // how often report was called
//	Keyspaces []string // those that have a name
type SalvageSummary = salvage.Summary

// Salvage makes a new store in to.Dir, which must not exist, of what can be read of the
// store in from.Dir, whatever is damaged or missing there: also SUPER, MANIFEST, and whole
// files. The new store has the newest version of each key that can be proven by a
// checksum, with its version, expiry and meta byte, and the keyspaces with their options.
// Deletes are honoured where they are known. History is not kept.
//
// report, unless nil, is called for each damage that was met, and each value that can't be
// read: File, Offset and Reason say what is gone, Keys which keys are concerned, as far as
// that is known. Where Stale is set, the new store may show an older value, or a key that
// was deleted. It is called by one goroutine. Of a sound store it is never called.
//
// The old store is only read; from.Dir, from.ValueDir and from.FS say where it is. Of to,
// FS, Dir, MemoryLimit, Now, KeyspaceDefaults (for keyspaces whose options are lost) and Tuning count; a
// ValueDir is refused. The new store is durable when Salvage returns nil, and can't be
// opened before. After an error what was written is removed; after a crash remove it.
//
// It returns ErrLocked if a process has the old store open for writing, ErrExist if there
// is something under the name to.Dir, ErrNotExist if from.Dir has no file of a store, and
// ErrFormat for a store of another format.
func Salvage(ctx context.Context, from, to Options, report func(*CorruptionError)) (SalvageSummary, error) {
	if ctx == nil {
		return SalvageSummary{}, errNilContext
	}
	to = to.inForce()
	err := to.validate()
	if err == nil {
		err = refusal([]check{
			{from.InMemory || from.Dir == "", "Dir", "must name the store to read"},
			{to.InMemory || to.Mode == ReadOnly || to.MustExist, "Mode", "must be that of a new store on a disk"},
			{to.ValueDir != "" && to.ValueDir != to.Dir, "ValueDir", "is not possible for a salvaged store"},
		})
	}
	if err != nil {
		return SalvageSummary{}, err
	}
	var random [24]byte
	if _, err := rand.Read(random[:]); err != nil {
		return SalvageSummary{}, err
	}
	clock := to.Now
	if clock == nil {
		clock = time.Now
	}
	sum, err := salvage.Run(ctx, salvage.Source{
		FS: fileSystem(from.FS), Dir: filepath.Clean(from.Dir), ValueDir: filepath.Clean(cmp.Or(from.ValueDir, from.Dir)),
	}, salvage.Target{
		FS: fileSystem(to.FS), Dir: filepath.Clean(to.Dir),
		UUID: [16]byte(random[:16]), Seed: binary.LittleEndian.Uint64(random[16:]), Now: clock().UnixMilli(),
		SegmentBytes: to.Tuning.SegmentSize, RunFileBytes: to.Tuning.RunFileSize, Memory: to.MemoryLimit,
		Defaults: recordedOptions(&to.KeyspaceDefaults),
	}, report)
	if err != nil {
		err = fmt.Errorf("salvage %s: %w", from.Dir, err)
	}
	return sum, err
}

func fileSystem(fs vfs.FS) vfs.FS {
	if fs == nil {
		fs = vfs.OS()
	}
	return failure.FS(fs)
}
