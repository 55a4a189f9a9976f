package manifest

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// Load reads SUPER and the manifest that it names, up to a torn tail, and changes
// nothing. It returns errs.ErrNotExist if there is no store, or one whose creation was
// not finished, and else the errors of ReadSuper, *errs.Corruption for a damaged manifest,
// errs.ErrForeign for a value directory that belongs to another store or another copy of
// this one, and errs.ErrInvalid if values are elsewhere. Unless read-only, the caller holds
// the store's lock, and calls Mend before it appends.
func Load(o Options) (*Log, error) {
	if o.FileBytes == 0 {
		o.FileBytes = 4 << 20
	}
	l := &Log{o: o, state: state{layout: layout.New()}}
	var err error
	if l.super, l.ring, err = openSuper(&o); errors.Is(err, errs.ErrNotExist) {
		return nil, errNoStore(o, err)
	} else if err != nil {
		return nil, err
	}
	if ring := l.ring; ring != nil { // once they are there, keys are not asked for again
		l.o.Keys = func([16]byte, bool) (*crypt.Ring, error) { return ring, nil }
	}
	if !l.super.isSettled() {
		l.super.behind = 2
	}
	if l.values, err = openValueDir(&o, &l.super.Super, l.ring); err != nil {
		return nil, err
	}
	// SUPER counts first: it says which manifest is current, and which of its frames was durable.
	if err = l.readEdits(); err != nil {
		return nil, err
	}
	// Each edit fits the one before. Checksums don't find an edit that was computed wrongly.
	if err := l.layout.CheckSound(); err != nil {
		return nil, &errs.Corruption{File: filename.Of(filename.Manifest, l.super.Manifest), Offset: l.last, Reason: "what the edits lead to", Err: err}
	}
	if err := l.useDataKey(); err != nil {
		return nil, err
	}
	l.recovered.SuperMended = l.super.behind > 0 && !o.ReadOnly
	return l, nil
}

// errNoStore returns err, which says that there is no SUPER, unless there are other files of a
// store: these are damage, and no fresh start.
func errNoStore(o Options, err error) error {
	if _, refused := checkVacant(o); refused != nil && !errors.Is(refused, errs.ErrForeign) && !isAbsent(refused) {
		return refused
	}
	return err
}

// useDataKey makes the data key that the layout names the one for new files.
func (l *Log) useDataKey() error {
	id := l.layout.DataKey().ID
	if l.ring == nil || id == l.ring.Current() {
		return nil
	}
	if id == (crypt.ID{}) {
		return errs.NewCorruption(filename.Of(filename.Manifest, l.super.Manifest), l.last, "no edit names a data key, and the store is encrypted")
	}
	return l.ring.SetCurrent(id)
}

// Ring has the data keys of the store; nil for a plain one.
func (l *Log) Ring() *crypt.Ring { return l.ring }

// Open is Load and, unless read-only, Mend.
func Open(o Options) (*Log, error) {
	l, err := Load(o)
	if err != nil || o.ReadOnly {
		return l, err
	}
	if err := l.Mend(frame.End{}, l.layout.LastVersion(), l.layout.LastVersion()); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// readEdits reads the frames of the manifest into the layout, from the last one on that was read.
func (l *Log) readEdits() error {
	name := filename.Of(filename.Manifest, l.super.Manifest)
	err := readManifest(l.o.FS, l.o.Dir, &l.super.Super, l.ring, func(r *reader) error {
		err := r.checkHeader()
		if err == nil && l.end.File != 0 {
			// A copy of the store may have replaced the file by one of the same name and length.
			if err = r.checkUnchanged(l.last, l.end); err == nil {
				err = l.replayFrames(r, l.end)
			}
			return err
		}
		if err != nil {
			return err
		}
		err = l.replayFrames(r, r.first)
		l.before = r.previous
		// Read up to the damage, and say what lies behind it.
		if l.o.UpTo && l.end.Number > 0 && errors.As(err, &l.recovered.Damage) {
			var behind frame.Tail
			behind, err = frame.FindTail(r.id, l.end.Offset, l.end.Number+1, r.size, r.readBytes)
			l.recovered.LostEdits = behind.Frames
		}
		l.recovered.CutBytes = r.size - l.end.Offset
		return err
	})
	if isAbsent(err) {
		return &errs.Corruption{File: name, Offset: -1, Reason: "SUPER names this manifest, and it is not there", Err: err}
	}
	if err != nil {
		return fmt.Errorf("read the manifest: %w", err)
	}
	return nil
}

// replayFrames applies the edits of the frames from a place on.
func (l *Log) replayFrames(r *reader, at frame.End) (err error) {
	l.end, err = r.scanFrames(at, func(off int64, h *frame.Header, payload []byte) error {
		if h.Kind == frame.Snapshot {
			l.setLimit(h.Size)
		}
		l.last = off
		return l.replayEdit(r.name, off, payload)
	})
	return err
}

// setLimit sets the length of a manifest whose snapshot has that many bytes.
func (l *Log) setLimit(snapshot int64) {
	// If the limit were near the snapshot's length, every few edits would begin a new manifest.
	l.limit = max(l.o.FileBytes, 2*snapshot)
}

// replayEdit applies the edit in the payload of the frame at off.
func (l *Log) replayEdit(name string, off int64, payload []byte) error {
	e, err := DecodeEdit(payload)
	if errors.Is(err, errs.ErrFormat) {
		return fmt.Errorf("%s at %d: %w", name, off, err)
	}
	var next *layout.Layout
	if err == nil {
		next, err = l.layout.Apply(e)
	}
	if err != nil {
		return &errs.Corruption{File: name, Offset: off, Reason: "the edit can't be applied", Err: err}
	}
	l.layout = next
	return nil
}

// Begun reports whether an edit has recorded this session.
func (l *Log) Begun() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session == nil
}

// How a log is made ready for writing, after it was read.

// Mend prepares the files for appending, once; until then nothing of the store is changed.
// It cuts the torn tail, makes durable what was read, brings both slots of SUPER up to
// date, and removes manifests that SUPER doesn't name.
//
// Durability comes first: the process before may have been killed between a write and its
// sync, and from now on files are removed because of what was read. If there is a manifest
// to remove, both slots are written even if they agree: the sync of one may have failed, and
// on the disk it may still name that manifest. After an error only Close may be called.
//
// found is where the journal ends that this session goes on behind, newest the version behind which
// its own ones are, and last the newest version in that journal. The session's first edit records
// that.
func (l *Log) Mend(found frame.End, newest, last entry.Version) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		return nil
	}
	if err := l.mendLocked(found, newest, last); err != nil {
		_ = l.stopLocked(err)
		return fmt.Errorf("open the manifest: %w", err)
	}
	return nil
}

// Read is told of what Mend is for a store that is only read: Sessions are right then, and nothing is
// recorded.
func (l *Log) Read(newest, last entry.Version) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beginLocked(frame.End{}, newest, last)
}

// beginLocked begins the session that Mend and Read are told of.
func (l *Log) beginLocked(found frame.End, newest, last entry.Version) {
	// Without a flush nothing was recorded that the journal doesn't have.
	if last = max(last, l.layout.Lasting()); l.layout.Lasting() == 0 {
		last = newest
	}
	l.session = &layout.Session{ID: newSession(), Newest: newest, Lasts: last, Found: found}
}

// Sessions lists the newest sessions of the store, also that of this Log if no edit has recorded it
// yet.
func (l *Log) Sessions() layout.Sessions {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.layout.Sessions()
	if l.session != nil {
		now := *l.session
		now.Number = list.Last() + 1
		list = append(slices.Clip(list), now)
	}
	return list
}

func (l *Log) mendLocked(found frame.End, newest, last entry.Version) error {
	path := filepath.Join(l.o.Dir, filename.Of(filename.Manifest, l.super.Manifest))
	f, err := l.o.FS.OpenReadWrite(path)
	if err != nil {
		return err
	}
	l.file = f
	l.beginLocked(found, newest, last)
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
	// Nothing is removed that one of the slots could still name on the disk.
	if len(l.oldManifests()) > 0 {
		l.super.behind = 2
	}
	if err := l.writeSupers(); err != nil {
		return err
	}
	// Only now: both slots durably name this manifest.
	l.removeOldManifests()
	if l.o.hasValueDir() {
		return l.beginSessionLocked()
	}
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

// removeOldManifests removes the other manifests. What can't be removed now, the next Open removes.
func (l *Log) removeOldManifests() {
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
		p, err := pageio.ReadHead(l.o.FS, path, fileHeader)
		if err != nil {
			continue
		}
		if _, _, err := decodeFileHeader(p, l.super.UUID, name.Number); err == nil || allZero(p) {
			paths = append(paths, path)
		}
	}
	return paths
}

// beginSessionLocked begins a session with the value directory, whose SUPER is durable, as the
// store's will rely on it. Both slots of the store's SUPER name the new session before the value
// directory does, so that one damaged slot does no harm.
func (l *Log) beginSessionLocked() error {
	l.super.behind = 2
	if !l.values.ok {
		// From now on a value directory without SUPER is damage, and no crash while it was made.
		l.super.Before = l.super.Session
		return l.writeSupers()
	}
	// A crash between the two writes leaves the value directory with the session Before, which
	// openValueDir accepts.
	l.super.Before, l.super.Session = l.values.Session, newSession()
	l.values.Session, l.values.Required, l.values.behind = l.super.Session, l.super.Required, 1
	return l.writeSupers()
}
