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
	"context"
	"errors"
	"path/filepath"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/report"
)

// Run makes the store t of what can be read of s, and calls tell for each damage that it
// meets. The new store can't be opened before all of it is durable. It
// returns ErrLocked if a process has s open for writing, ErrExist if there is something
// under the name of t, ErrNotExist if nothing in s belongs to a store, ErrKey if its keys don't
// fit, and ErrFormat if s is of another format.
func Run(ctx context.Context, s Source, t Target, tell func(*errs.Corruption)) (sum report.Salvage, err error) {
	if err := manifest.Absent(t.FS, t.Dir); err != nil {
		return sum, err
	}
	dirs := manifest.Options{FS: s.FS, Dir: s.Dir, ValueDir: s.ValueDir}
	dirs.Resolve()
	s.Dir, s.ValueDir = dirs.Dir, dirs.ValueDir
	// A writer would change files while they are read, and what it makes would look like damage.
	locks, err := holdLocks(s)
	defer func() {
		for _, lock := range locks {
			err = errors.Join(err, lock.Close())
		}
	}()
	if err != nil {
		return sum, err
	}
	v, err := newSurvey(s, tell)
	if err != nil {
		return sum, err
	}
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
	w := &work{survey: v, to: &maker{Target: t}}
	err = w.buildStore(ctx)
	if err != nil && w.out != nil {
		w.out.abort()
	}
	return claim.Close(err)
}

// holdLocks takes shared locks, so that no process writes the store meanwhile. A store without a
// lock file, or on a medium without locks, is read without them.
func holdLocks(s Source) (locks []interface{ Close() error }, err error) {
	dirs := []string{s.Dir}
	if s.ValueDir != s.Dir {
		dirs = append(dirs, s.ValueDir)
	}
	for _, dir := range dirs {
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

// work is a Run under way.
type work struct {
	*survey
	to  *maker
	out *output
}

// buildStore does the work in the target's directory, which is there.
func (w *work) buildStore(ctx context.Context) error {
	if err := w.to.makeKeys(); err != nil {
		return err
	}
	// First what concerns the whole store.
	for _, d := range w.damage {
		w.lose(d)
	}
	strong, weak := newSorter(w.to, 3*w.to.Memory/8), newSorter(w.to, w.to.Memory/8)
	defer strong.closeRuns()
	defer weak.closeRuns()
	s, err := openRuns(w.survey, strong)
	if err != nil {
		return err
	}
	defer s.closeSources()
	// The runs say up to which version all is flushed, so they are opened before the segments are
	// read.
	h := harvest{survey: w.survey, flushed: s.newestInRuns(), strong: strong, weak: weak}
	if err := h.readAll(ctx); err != nil {
		return err
	}
	w.out = newOutput(w.survey, w.to)
	c := &chooser{survey: w.survey, sources: s, out: w.out, now: uint64(max(w.to.Now, 0))}
	if err := c.merge(ctx, strong, weak); err != nil {
		return err
	}
	if err := errors.Join(strong.removeRuns(), weak.removeRuns()); err != nil {
		return err
	}
	l, err := w.out.finishStore()
	if err == nil {
		err = errs.Ended(ctx)
	}
	if err != nil {
		return err
	}
	// Before this there is no SUPER, so that nothing opens the directory as a store.
	o := manifest.Options{FS: w.to.FS, Dir: w.to.Dir}
	return manifest.Write(o, manifest.CreateOptions{UUID: w.to.UUID, Ring: w.to.ring, Seed: w.to.Seed, Created: w.to.Now}, l)
}
