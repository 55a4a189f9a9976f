package manifest

import (
	"fmt"
	"path/filepath"

	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/layout"
)

// How a log is made ready for writing, after it was read.

// Mend prepares the files for appending, once; until then nothing of the store is changed.
// It cuts the torn tail, makes durable what was read, brings both slots of SUPER up to
// date, and removes manifests that SUPER doesn't name.
//
// Durability comes first: the process before may have been killed between a write and its
// sync, and from now on files are removed because of what was read. If there is a manifest
// to remove, both slots are written even if they agree: the sync of one may have failed, and
// on the disk it may still name that manifest. After an error only Close may be called.
func (l *Log) Mend() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		return nil
	}
	if err := l.mendLocked(); err != nil {
		_ = l.stopLocked(err)
		return fmt.Errorf("open the manifest: %w", err)
	}
	return nil
}

func (l *Log) mendLocked() error {
	path := filepath.Join(l.o.Dir, filename.Of(filename.Manifest, l.super.Manifest))
	f, err := l.o.FS.OpenReadWrite(path)
	if err != nil {
		return err
	}
	l.file = f
	l.session = &layout.Session{ID: newSession()}
	if l.recovered.CutBytes > 0 {
		// The next frame is written here. A rest of the torn one behind it could pass for a later
		// frame.
		if err := f.Truncate(l.end.Offset); err != nil {
			return err
		}
	}
	if err := l.rewriteLast(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	slots := 2
	// Both slots agree, and nothing is removed that one of them could still name on the disk.
	if l.settled && len(l.oldManifests()) == 0 {
		slots = 0
	}
	return l.takeLocked(slots)
}

// takeLocked writes that many slots of SUPER, begins a session with the value directory,
// and removes what is left of other manifests.
func (l *Log) takeLocked(slots int) error {
	if err := l.writeSuper(slots); err != nil {
		return err
	}
	if l.o.separate() {
		if err := l.takeValueDirLocked(); err != nil {
			return err
		}
	}
	// Only now: both slots durably name this manifest.
	l.removeOld()
	return nil
}

// rewriteLast writes the last frame again, as it is. If the sync after its first
// write failed, the system may take the pages for written, and another sync would
// not write them (docs/adr, 15). The frames before it are durable: each was synced
// before the next was written.
func (l *Log) rewriteLast() error {
	p := make([]byte, l.end.Offset-l.last)
	// Never with other bytes: a crash in between leaves the frame as it was.
	if n, err := l.file.ReadAt(p, l.last); n < len(p) {
		return err
	}
	_, err := l.file.WriteAt(p, l.last)
	return err
}

// removeOld removes the other manifests. What can't be removed now, the next Open removes.
func (l *Log) removeOld() {
	for _, path := range l.oldManifests() {
		// Harmless if it stays: nothing names it.
		_ = l.o.FS.Remove(path)
	}
}

// oldManifests returns the other manifests of this store, and files with such a name that hold
// nothing. Manifests of other stores, and what is no file, are left out.
func (l *Log) oldManifests() (paths []string) {
	names, _ := l.o.FS.List(l.o.Dir)
	for _, base := range names {
		name, ours := filename.Parse(base)
		if !ours || name.Kind != filename.Manifest || name.Number == l.super.Manifest {
			continue
		}
		path := filepath.Join(l.o.Dir, base)
		p, err := readFile(l.o.FS, path, fileHeader)
		if err != nil {
			continue
		}
		if _, err := decodeFileHeader(p, l.super.UUID, name.Number); err == nil || allZero(p) {
			paths = append(paths, path)
		}
	}
	return paths
}

// takeValueDirLocked begins a session with the value directory. The first session makes
// the SUPER there. Both slots of the store's SUPER name the new session before the value
// directory does, so that one damaged slot does no harm.
func (l *Log) takeValueDirLocked() error {
	v := &l.values
	v.key = valuesKey(l.ring)
	if !v.made {
		if err := v.createSuper(l.o.FS, &l.super); err != nil {
			return err
		}
		// From now on a value directory without SUPER is damage, and no crash while it was made.
		l.super.Before = l.super.Session
		return l.writeSuper(2)
	}
	// What was read may not be durable yet, and the store's SUPER will rely on it.
	if err := v.secureSlots(l.o.FS); err != nil {
		return err
	}
	// A crash between the two writes leaves the value directory with the session Before, which
	// openValueDir accepts.
	l.super.Before, l.super.Session = v.super.Session, newSession()
	if err := l.writeSuper(2); err != nil {
		return err
	}
	v.super.Session, v.super.Required = l.super.Session, l.super.Required
	return v.writeSlots(l.o.FS, 1)
}
