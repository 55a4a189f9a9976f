package repository

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/copies/checkpoint"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/vfs"
)

// source is a checkpoint of the store, in a scratch directory that a lock keeps for it.
type source struct {
	fs      vfs.FS // of the store
	scratch string
	dir     string    // of the checkpoint
	lock    io.Closer // of the scratch directory
	// reads the checkpoint, and compares with what was read before
	steady *checkpoint.Steady
	copy   *checkpoint.Copy // the checkpoint; nil before it was opened
}

// scratchOf returns the directory for the checkpoint; by default one beside the store, so that
// files can be linked.
func scratchOf(o *brock.Options, given string) (string, error) {
	switch {
	case given != "":
		return filepath.Clean(given), nil
	case o.Dir == "":
		return "", fmt.Errorf("%w: a store in memory needs Options.Scratch", brock.ErrInvalid)
	}
	return filepath.Clean(o.Dir) + ".backup-scratch", nil
}

// openSource makes a checkpoint. First it removes what a Backup that was killed has left.
func openSource(ctx context.Context, db *brock.DB, given string) (s *source, err error) {
	o := db.Options()
	scratch, err := scratchOf(&o, given)
	if err != nil {
		return nil, err
	}
	s = &source{fs: o.FS, scratch: scratch, dir: filepath.Join(scratch, "backup-in-progress")}
	if s.fs == nil {
		s.fs = vfs.OS()
	}
	if err := s.fs.MkdirAll(scratch); err != nil {
		return nil, err
	}
	// A wrong Options.Scratch must not cost anybody's files.
	if err := s.checkScratch(); err != nil {
		return nil, err
	}
	if s.lock, err = s.fs.Lock(s.lockPath(), false); err != nil {
		return nil, fmt.Errorf("another backup of the store is under way: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.removeSource())
		}
	}()
	// With the lock: no other Backup uses the directory, so the rest is of one that was killed.
	if err := s.removeCheckpoint(); err != nil {
		return s, err
	}
	// A checkpoint and not the store's own files: these may be replaced while a backup of hours
	// reads them.
	if err := db.Checkpoint(ctx, s.dir); err != nil {
		return s, err
	}
	s.steady = checkpoint.NewSteady(s.fs)
	s.copy, err = checkpoint.OpenCopy(ctx, s.steady, s.dir, o.Keys)
	return s, err
}

// lockPath is the lock file of the scratch directory.
func (s *source) lockPath() string {
	return filepath.Join(s.scratch, filename.Of(filename.Lock, 0))
}

// checkScratch returns an error if the scratch directory has anything that no Backup has left
// there: it may be a store. Call it before anything in the directory is touched. A Backup makes the
// lock first.
func (s *source) checkScratch() error {
	names, err := s.fs.List(s.scratch)
	locked := slices.Contains(names, filepath.Base(s.lockPath()))
	for _, base := range names {
		if path := filepath.Join(s.scratch, base); path != s.lockPath() && (path != s.dir || !locked) {
			return fmt.Errorf("%w: the scratch directory %s has %s", brock.ErrForeign, s.scratch, base)
		}
	}
	return err
}

// removeCheckpoint removes the checkpoint. If it has a file that is not of a store, it returns an
// error.
func (s *source) removeCheckpoint() error {
	names, err := s.fs.List(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, base := range names {
		if _, ok := filename.Parse(base); !ok {
			return fmt.Errorf("%w: %s in %s", brock.ErrForeign, base, s.dir)
		}
	}
	// SUPER first, which is last by its spelling: if this is interrupted, what is left is no store.
	slices.Sort(names)
	for _, base := range slices.Backward(names) {
		if err := s.fs.Remove(filepath.Join(s.dir, base)); err != nil {
			return err
		}
	}
	return s.fs.Remove(s.dir)
}

// removeSource removes the checkpoint, and the scratch directory if there is nothing else in it.
func (s *source) removeSource() error {
	var err error
	if s.copy != nil {
		err = s.copy.Close()
	}
	cleared := s.removeCheckpoint()
	if cleared == nil { // else the lock stays: it tells the next Backup that the rest is ours
		_ = s.fs.Remove(s.lockPath()) // while it is held: the next one makes its own
		_ = s.fs.Remove(s.scratch)
	}
	return errors.Join(err, cleared, s.lock.Close())
}

// filePath returns the path of a file of the checkpoint.
func (s *source) filePath(name string) string { return filepath.Join(s.dir, name) }

// openFile opens a file. Its ReadAt returns *brock.CorruptionError for bytes that have changed
// since they were read before.
func (s *source) openFile(f *file) (vfs.File, error) { return s.steady.Open(s.filePath(f.Name)) }

// setHash reads a file and sets its hash.
func (s *source) setHash(ctx context.Context, f *file) (err error) {
	r, err := s.openFile(f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	h := sha256.New()
	n, err := checkpoint.CopyBytes(ctx, h, io.NewSectionReader(r, 0, f.Size+1), f.Size)
	if err == nil && n != f.Size {
		// A checkpoint's file never changes, so this is damage, or somebody else writes there.
		err = damagedObject(f.Name, nil, "has another length than before")
	}
	if err != nil {
		return err
	}
	f.SHA256 = hex.EncodeToString(h.Sum(nil))
	return nil
}

// setEnds sets f.Ends, the hash of a file's first and last 4 KiB, if these depend on all of its
// content by checksums of checksums. It tells the file from others of the same name: a copy of a
// store gives the same numbers to other files.
func (s *source) setEnds(f *file) (err error) {
	if f.Size < leastEnds {
		return nil // the whole file is read instead
	}
	r, err := s.fs.Open(s.filePath(f.Name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	ends, sealed, err := s.copy.Ends(r, f.of.Name, f.Size)
	if sealed {
		sum := sha256.Sum256(ends)
		f.Ends = hex.EncodeToString(sum[:])
	}
	return err
}

// leastEnds is the size of the smallest file that has Ends.
const leastEnds = 8 << 10
