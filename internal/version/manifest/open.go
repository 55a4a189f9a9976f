package manifest

import (
	"errors"
	"fmt"
	"io"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
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
	slots, err := readSuper(o.FS, o.Dir)
	if err != nil {
		if errors.Is(err, errs.ErrNotExist) {
			// Other files of a store without SUPER are damage, and no fresh start.
			if _, refused := checkVacant(o); refused != nil && !errors.Is(refused, errs.ErrForeign) && !isAbsent(refused) {
				return nil, refused
			}
		}
		return nil, err
	}
	l := &Log{o: o, layout: layout.New(), now: slots.now}
	if l.ring, err = o.Keys.openRing(&slots.now.Super); err != nil {
		return nil, err
	}
	if ring := l.ring; ring != nil { // once they are there, keys are not asked for again
		l.o.Keys = func([16]byte, bool) (*crypt.Ring, error) { return ring, nil }
	}
	if l.super, l.settled, err = slots.readSuper(storeKey(l.ring)); err != nil {
		return nil, err
	}
	if l.values, err = openValueDir(&o, &l.super, l.ring); err != nil {
		return nil, err
	}
	// SUPER counts first: it says which manifest is current, and which of its frames was durable.
	size, snapshot, err := l.replay()
	if err != nil {
		return nil, err
	}
	// Each edit fits the one before. Checksums don't find an edit that was computed wrongly.
	if err := l.layout.Sound(); err != nil {
		return nil, &errs.Corruption{File: filename.Of(filename.Manifest, l.super.Manifest), Offset: l.last, Reason: "what the edits lead to", Err: err}
	}
	if err := l.useDataKey(); err != nil {
		return nil, err
	}
	// If the limit were near the snapshot's length, every few edits would begin a new manifest.
	l.limit = max(o.FileBytes, 2*snapshot)
	l.recovered.CutBytes = size - l.end.Offset
	l.recovered.SuperMended = !l.settled && !o.ReadOnly
	return l, nil
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
	if err := l.Mend(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// replay reads the manifest into the layout.
func (l *Log) replay() (size, snapshot int64, err error) {
	name := filename.Of(filename.Manifest, l.super.Manifest)
	err = readManifest(l.o.FS, l.o.Dir, l.super.Manifest, func(f io.ReaderAt, n int64) (err error) {
		size = n
		r, first, err := newReader(f, n, &l.super, l.ring)
		if err != nil {
			return err
		}
		l.enc = r.enc
		l.end, err = r.scanFrom(&l.super, first, func(off int64, h *frame.Header, payload []byte) error {
			if h.Kind == frame.Snapshot {
				snapshot = h.Size
			}
			l.last = off
			return l.replayEdit(name, off, payload)
		})
		l.before = r.previous
		// Read up to the damage, and say what lies behind it.
		if l.o.UpTo && l.end.Next > 1 && errors.As(err, &l.recovered.Damage) {
			l.recovered.LostEdits, err = framesBehind(f, n, &l.super, l.end)
		}
		return err
	})
	if isAbsent(err) {
		c := errs.NewCorruption(name, -1, "SUPER names this manifest, and it is not there")
		c.Err = err
		return 0, 0, c
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read the manifest: %w", err)
	}
	return size, snapshot, nil
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

// Found says where the journal ends that was found, and that this session goes on behind. The first
// edit of the session records it. Call it after Mend, before Append.
func (l *Log) Found(end frame.End) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != nil {
		l.session.Found = end
	}
}

// Begun reports whether an edit has recorded this session.
func (l *Log) Begun() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session == nil
}
