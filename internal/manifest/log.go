// Package manifest records in files which runs and segments make up the store:
// SUPER, and the log of edits that lead to its layout. docs/format.md, "SUPER"
// and "MANIFEST", has the formats.
package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"sync"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/frame"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/vfs"
)

// Options says where a store is and how its log is kept.
type Options struct {
	FS        vfs.FS
	Dir       string
	ValueDir  string // "" = Dir
	ReadOnly  bool   // write nothing at all
	FileBytes int64  // size from which a snapshot begins a new manifest; 0 = 4 MB
}

func (o *Options) dirs() []string {
	if o.ValueDir == "" || o.ValueDir == o.Dir {
		return []string{o.Dir}
	}
	return []string{o.Dir, o.ValueDir}
}

// Recovery says what Open found and mended.
type Recovery struct {
	CutBytes    int64 // of the manifest's torn tail
	SuperMended bool  // a slot of SUPER was damaged or behind, and was written again
}

// Log is the log of edits of an open store. Edits are totally ordered: any
// goroutine may append, one at a time.
type Log struct {
	o         Options
	recovered Recovery

	mu      sync.Mutex
	super   Super
	layout  *layout.Layout
	file    vfs.File     // nil if read-only or closed
	end     frame.Cursor // of the good frames
	last    int64        // where the last frame begins that Open found
	limit   int64        // size from which the next snapshot begins a new file
	stopped error        // why nothing is written any more

	slots    int           // of SUPER that don't name the manifest yet; nothing is appended before
	previous entry.FileNum // the manifest that goes then
}

// Open reads SUPER and the manifest that it names. It gives errs.ErrNotExist if
// there is no store or one whose creation was not finished, and for a damaged
// one an error that ReadSuper names or *errs.Corruption. A torn tail is cut.
// Unless read-only, the caller has the store's lock.
func Open(o Options) (*Log, error) {
	if o.FileBytes == 0 {
		o.FileBytes = 4 << 20
	}
	s, settled, err := readSuper(o.FS, o.Dir)
	if err != nil {
		if errors.Is(err, errs.ErrNotExist) {
			if _, refused := vacant(o); refused != nil && !errors.Is(refused, errs.ErrForeign) && !notThere(refused) {
				return nil, refused
			}
		}
		return nil, err
	}
	l := &Log{o: o, super: s, layout: layout.New()}
	size, snapshot, err := l.replay()
	if err != nil {
		return nil, err
	}
	l.limit = max(o.FileBytes, 2*snapshot)
	l.recovered.CutBytes = size - l.end.Offset
	if o.ReadOnly {
		return l, nil
	}
	if err := l.mend(settled); err != nil {
		if l.file != nil {
			err = errors.Join(err, l.file.Close())
		}
		return nil, fmt.Errorf("open the manifest: %w", err)
	}
	return l, nil
}

// replay reads the manifest into the layout.
func (l *Log) replay() (size, snapshot int64, err error) {
	name := filename.Of(filename.Manifest, l.super.Manifest)
	p, err := readFile(l.o.FS, filepath.Join(l.o.Dir, name), math.MaxInt64)
	if notThere(err) {
		c := errs.NewCorruption(name, -1, "SUPER names this manifest, and it is not there")
		c.Err = err
		return 0, 0, c
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read %s: %w", name, err)
	}
	l.end, err = scan(p, &l.super, func(off int64, h *frame.Header, payload []byte) error {
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
		if h.Kind == frame.Snapshot {
			snapshot = h.Size
		}
		l.last = off
		l.layout = next
		return nil
	})
	return int64(len(p)), snapshot, err
}

// mend makes the files fit for appending: it cuts the torn tail, makes durable
// what was read (a process may have been killed before its sync, and from now on
// files are removed because of what was read), brings both slots of SUPER up to
// date and removes manifests that are no longer named.
func (l *Log) mend(settled bool) error {
	path := filepath.Join(l.o.Dir, filename.Of(filename.Manifest, l.super.Manifest))
	f, err := l.o.FS.OpenReadWrite(path)
	if err != nil {
		return err
	}
	l.file = f
	if l.recovered.CutBytes > 0 {
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
	l.recovered.SuperMended = !settled
	slots := 2
	if settled {
		slots = 0
	}
	if err := l.writeSuper(slots); err != nil {
		return err
	}
	return l.removeOld()
}

// rewriteLast writes the last frame again, as it is: if the sync after its first
// writing failed, the system takes it for written, and another sync alone would
// not make it durable. The frames before it had to be durable before it was written.
func (l *Log) rewriteLast() error {
	p := make([]byte, l.end.Offset-l.last)
	if n, err := l.file.ReadAt(p, l.last); n < len(p) {
		return err
	}
	_, err := l.file.WriteAt(p, l.last)
	return err
}

// removeOld removes manifests of this store other than the current one, and
// files with such a name that hold nothing.
func (l *Log) removeOld() error {
	names, err := l.o.FS.List(l.o.Dir)
	if err != nil {
		return err
	}
	for _, base := range names {
		name, ours := filename.Parse(base)
		if !ours || name.Kind != filename.Manifest || name.Number == l.super.Manifest {
			continue
		}
		path := filepath.Join(l.o.Dir, base)
		p, err := readFile(l.o.FS, path, fileHeader)
		if err != nil {
			return err
		}
		if _, err := decodeFileHeader(p, l.super.UUID, name.Number); err != nil && !allZero(p) {
			continue
		}
		if err := l.o.FS.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// writeSuper makes durable what SUPER says and that it is there, then writes as
// many slots, in turn.
func (l *Log) writeSuper(slots int) error {
	f, err := l.o.FS.OpenReadWrite(filepath.Join(l.o.Dir, filename.Of(filename.Super, 0)))
	if err != nil {
		return err
	}
	if err = f.Sync(); err == nil {
		err = l.o.FS.SyncDir(l.o.Dir)
	}
	if slots > 0 {
		l.super.Durable = l.end.Next - 1
	}
	for ; err == nil && slots > 0; slots-- {
		if err = l.super.writeSlot(f); err == nil {
			l.slots = max(l.slots-1, 0)
		}
	}
	return errors.Join(err, f.Close())
}

// Super is what SUPER says.
func (l *Log) Super() Super {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.super
}

// Layout is the layout after the last edit.
func (l *Log) Layout() *layout.Layout {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.layout
}

// Recovered says what Open found.
func (l *Log) Recovered() Recovery { return l.recovered }

// Append makes e true: when it returns nil, e is durable and the returned layout
// is the store's. An edit that doesn't fit is refused (ErrConflictingEdit) and
// changes nothing, and so does one that the disk has no room for
// (errs.ErrNoSpace): it may be appended again. After any other failed write, and
// after a failed sync, nobody knows whether e is durable: this and every later
// Append give errs.ErrStopped.
func (l *Log) Append(e *layout.Edit) (*layout.Layout, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.appendLocked(e)
}

// Register records that a segment of the journal is durable up to a frame, unless
// an end that is recorded says so of that frame or a later one. Errors are those
// of Append. The layout that follows is not worth installing anywhere: the next
// edit's has the end too.
func (l *Log) Register(segment entry.FileNum, frame uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.layout.JournalEnds() {
		if e.Frame >= frame {
			return nil
		}
	}
	_, err := l.appendLocked(&layout.Edit{JournalEnds: []layout.JournalEnd{{Segment: segment, Frame: frame}}})
	return err
}

func (l *Log) appendLocked(e *layout.Edit) (*layout.Layout, error) {
	if err := l.writableLocked(); err != nil {
		return nil, err
	}
	if err := l.settleLocked(); err != nil {
		return nil, err
	}
	next, err := l.layout.Apply(e)
	if err != nil {
		return nil, err
	}
	id := manifestIdentity(l.super.UUID, l.super.Manifest)
	p, end := encodeFrame(id, l.end, frame.Edit, e)
	if len(p) > math.MaxInt32 {
		return nil, fmt.Errorf("%w: an edit of %d bytes", layout.ErrConflictingEdit, len(p))
	}
	if _, err = l.file.WriteAt(p, l.end.Offset); err != nil {
		return nil, l.retractLocked(err)
	}
	if err = l.file.SyncData(); err != nil {
		return nil, l.stopLocked(err)
	}
	l.end = end
	l.layout = next
	if l.end.Offset >= l.limit {
		l.renewLocked()
	}
	return next, nil
}

func (l *Log) writableLocked() error {
	switch {
	case l.o.ReadOnly:
		return errs.ErrReadOnly
	case l.stopped != nil:
		return fmt.Errorf("%w: manifest: %w", errs.ErrStopped, vfs.NoSpace(l.stopped))
	case l.file == nil:
		return errs.ErrClosed
	}
	return nil
}

// renewLocked goes on in a new manifest that begins with a snapshot. As long as
// SUPER doesn't name it, a failure only postpones it: the old one is whole.
// Nothing is appended to the new one before both slots name it, so a slot that
// is damaged later never leads to an old state.
func (l *Log) renewLocked() {
	old := l.super.Manifest
	num := old + 1
	f, end, err := writeManifest(l.o, &l.super, num, old, l.layout)
	for ; errors.Is(err, fs.ErrExist) && num < old+16; num++ {
		f, end, err = writeManifest(l.o, &l.super, num+1, old, l.layout)
	}
	if err != nil {
		l.limit = l.end.Offset + l.o.FileBytes
		return
	}
	err = l.file.Close()
	l.file, l.end, l.super.Manifest = f, end, num
	l.limit = max(l.o.FileBytes, 2*end.Offset)
	if err != nil {
		l.stopped = err
		return
	}
	l.slots, l.previous = 2, old
	_ = l.settleLocked() // the edit is durable; the next one will see what has failed
}

// Close records in SUPER where the manifest ends, so that damage to its last
// frame can't pass for a torn tail, and closes the file. It is idempotent.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	var err error
	if l.stopped == nil {
		err = l.settleLocked()
	}
	if err == nil && l.stopped == nil && l.super.Durable != l.end.Next-1 {
		err = l.writeSuper(1)
	}
	err = errors.Join(err, l.file.Close())
	l.file = nil
	return err
}
