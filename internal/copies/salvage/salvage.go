// Package salvage makes a new store of what can be read of a damaged one. It relies on
// checksums only. Each checksum is bound to the store, the file and the offset: if it is right,
// the bytes are those that were written there, whatever has happened to the bytes around them.
//
// There are three kinds of sources: entries of runs; records of the journal that no run has
// yet; and, where a run has lost entries, records of journal and value segments, which may be
// older than the lost entries. They are merged in the order of keys, and the newest version of
// each key is written, unless a delete is newer.
package salvage

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/report"
)

// Run makes the store t of what can be read of s, whose UUID, Ring and Seed it finds out, and calls
// tell for each damage by which something may be lost. The new store can't be opened before all of
// it is durable. It returns ErrLocked if a process has s open for writing, ErrExist if there is
// something under the name of t, ErrNotExist if nothing in s belongs to a store, ErrKey if its keys
// don't fit, and ErrFormat if s is of another format.
func Run(ctx context.Context, s filename.Store, keys keyring.Provider, t Target, tell func(*errs.Corruption)) (sum report.Salvage, err error) {
	if err := manifest.CheckAbsent(t.FS, t.Dir); err != nil {
		return sum, err
	}
	dirs := manifest.Options{FS: s.FS, Dir: s.Dir, ValueDir: s.ValueDir}
	dirs.Resolve()
	s.Dir, s.ValueDir = dirs.Dir, dirs.ValueDir
	// A writer would change files while they are read, and what it makes would look like damage.
	locks, err := holdLocks(&s)
	defer func() {
		for _, lock := range locks {
			err = errors.Join(err, lock.Close())
		}
	}()
	if err != nil {
		return sum, err
	}
	v, err := newSurvey(s, keys, tell)
	if err != nil {
		return sum, err
	}
	defer v.closeSegments()
	err = makeStore(ctx, v, t)
	return v.sum, err
}

// makeStore makes the store in its directory.
func makeStore(ctx context.Context, v *survey, t Target) error {
	claim, err := manifest.NewClaim(manifest.Options{FS: t.FS, Dir: t.Dir}, t.FS.OpenDirs)
	if err != nil {
		return err
	}
	t.FS = claim.FS
	return claim.Close(buildStore(ctx, v, t))
}

// holdLocks takes shared locks, so that no process writes the store meanwhile. A store without a
// lock file, or on a medium without locks, is read without them.
func holdLocks(s *filename.Store) (locks []io.Closer, err error) {
	for _, dir := range s.Dirs() {
		lock, err := s.FS.Lock(filepath.Join(dir, filename.Of(filename.Lock, 0)), true)
		// Every other error is no reason to give up: the medium may be read-only or failing.
		if errors.Is(err, errs.ErrLocked) {
			return locks, err
		}
		if err == nil {
			locks = append(locks, lock)
		}
	}
	return locks, nil
}

// buildStore does the work in the target's directory, which is there.
func buildStore(ctx context.Context, v *survey, t Target) (err error) {
	to, err := newMaker(t)
	if err != nil {
		return err
	}
	strong, weak := newSorter(to, 3*to.Memory/8), newSorter(to, to.Memory/8)
	defer func() { err = errors.Join(err, strong.removeAll(), weak.removeAll()) }()
	s, err := openRuns(v, strong)
	defer s.closeSources()
	if err != nil {
		return err
	}
	// The runs say up to which version all is flushed, so they are opened before the segments are
	// read.
	h := harvest{survey: v, flushed: s.newest, strong: strong, weak: weak}
	if err := h.readAll(ctx); err != nil {
		return err
	}
	out := newOutput(v, to)
	defer func() {
		if err != nil {
			out.abortWriters()
		}
	}()
	c := &chooser{survey: v, sources: s, out: out, now: uint64(max(to.Now, 0))}
	err = c.mergeSources(ctx, strong, weak)
	// Before the store is finished: nothing of it names these files.
	if err = cmp.Or(err, strong.removeAll(), weak.removeAll()); err != nil {
		return err
	}
	l, err := out.finishStore()
	if err = cmp.Or(err, errs.Ended(ctx)); err != nil {
		return err
	}
	// Before this there is no SUPER, so that nothing opens the directory as a store.
	o := manifest.Options{FS: to.FS, Dir: to.Dir}
	return manifest.WriteStore(o, manifest.CreateOptions{UUID: to.UUID, Ring: to.Ring, Seed: to.Seed, Created: to.Now}, l)
}
