// Package manifest records in files which runs and segments make up the store: SUPER, which
// names the store and its current manifest (as CURRENT does in LevelDB), and the manifest, a
// log of edits that lead to the layout. docs/format.md, "SUPER" and "MANIFEST", has the formats.
//
// What is durable when: each edit is one frame, synced before the next is written. So a crash can
// tear only the last frame, and what Append has returned for is true after every crash.
package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/vfs"
)

// Log is the log of edits of an open store. Edits are totally ordered: any
// goroutine may append, one at a time.
type Log struct {
	o         Options
	recovered Recovery

	mu   sync.Mutex  // guards what follows, but for stopped
	ring *crypt.Ring // nil: the store is plain
	state
	file    vfs.File  // nil if read-only, not mended yet, or closed
	secured frame.End // the end up to which Refresh has made the file durable
	limit   int64     // length of the manifest in bytes from which on a new one is begun
	// why nothing is written any more; nil: nothing has failed
	stopped atomic.Pointer[error]

	session  *layout.Session // the session of this Log; nil once an edit has recorded it
	unproved bool            // SUPER still has to say that the last frame is durable
}

// state is what the files say.
type state struct {
	super  superFile
	values superFile      // that of the value directory, if it is another one
	layout *layout.Layout // after the last edit
	end    frame.End      // where the good frames end
	before frame.Name     // the last frame of the manifest before; zero: there was none
	last   int64          // offset of the last frame that was read, which may not be durable
}

// Super is what SUPER says.
func (l *Log) Super() Super {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.super.Super
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
// is the store's. It returns layout.ErrConflictingEdit for an edit that doesn't
// fit, and errors that pass (as package errs says). Then nothing has changed, and
// the edit may be appended again. After any other failed write, and after a failed
// sync, nobody knows whether e is durable: this and every later Append return
// errs.ErrStopped.
func (l *Log) Append(e *layout.Edit) (*layout.Layout, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.appendLocked(e)
}

// Register records that a segment of the journal is durable up to a frame. It does
// nothing if that frame or a later one is recorded. Errors are those of Append. The
// new layout need not be installed: the layout of the next edit has the end, too.
func (l *Log) Register(end frame.End) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.layout.JournalEnds() {
		if e.Number >= end.Number {
			return nil
		}
	}
	_, err := l.appendLocked(&layout.Edit{JournalEnds: []frame.End{end}})
	return err
}

func (l *Log) appendLocked(e *layout.Edit) (*layout.Layout, error) {
	if err := l.prepareLocked(); err != nil {
		return nil, err
	}
	if l.session != nil {
		// The first edit says which session wrote it. The caller's edit is not changed.
		s, first := *l.session, *e
		s.Number = l.layout.Sessions().Last() + 1
		first.Sessions = []layout.Session{s}
		e = &first
	}
	// Apply before writing: an edit that doesn't fit would be damage to the next Open.
	next, err := l.layout.Apply(e)
	if err != nil {
		return nil, err
	}
	id, enc := manifestIdentity(l.super.UUID, l.super.Manifest), newEncryption(l.ring, l.super.UUID, l.super.Manifest)
	p, end, err := encodeFrame(id, enc, l.end, frame.Edit, e)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if len(p) > maxFrame {
		return nil, fmt.Errorf("%w: an edit of %d bytes", layout.ErrConflictingEdit, len(p))
	}
	// One write for the whole frame, at the end of the good ones. Until the sync returns, a crash
	// may tear it, and then the edit never was.
	if _, err = l.file.WriteAt(p, l.end.Offset); err != nil {
		return nil, l.retractLocked(err)
	}
	if err = l.file.SyncData(); err != nil {
		// Nobody knows what the disk has. A second sync may succeed without the data.
		return nil, l.stopLocked(err)
	}
	// From here on the edit is true.
	l.end = end
	l.layout, l.session = next, nil
	if l.end.Offset >= l.limit {
		// The edit is durable, whatever happens here: the next Append returns the error.
		_ = l.renewLocked()
	}
	// Other edits can be made again from files and journal. If the frame of one of these were
	// damaged later, it would pass for a torn tail, and a commit would be lost silently.
	if e.StandsAlone() || l.unproved {
		err = l.proveLocked()
		// The edit counts already. A write that was refused is tried again with the next edit and
		// by Close.
		if l.unproved = writePasses(err); err != nil && !l.unproved {
			return nil, l.stopLocked(fmt.Errorf("record that an edit is durable: %w", err))
		}
	}
	return next, nil
}

// proveLocked records in SUPER that the last frame is durable. Nothing behind that frame
// says so: if it were damaged later, it would pass for a torn tail (docs/adr, 3).
func (l *Log) proveLocked() error {
	// After a failure nothing may be written: nobody knows which frames are durable.
	if l.Err() != nil || l.super.Durable == l.end.Number {
		return nil
	}
	before := l.super
	l.super.recordDurable(l.end)
	l.super.behind = 1
	err := l.super.writeSlots(l.o.FS)
	if writePasses(err) {
		l.super = before // so that the next try has something to record
	}
	return err
}

// prepareLocked comes before a frame or a manifest is written.
func (l *Log) prepareLocked() error {
	switch {
	case l.o.ReadOnly:
		return errs.ErrReadOnly
	case l.Err() != nil:
		return l.Err()
	case l.file == nil:
		return errs.ErrClosed
	}
	// A slot that still names the old manifest would lead past what is written now.
	return l.updateSupersLocked()
}

// Err returns nil, or the errs.ErrStopped of the failure that stopped the log. It may
// be called at any time, and waits for nobody.
func (l *Log) Err() error {
	if p := l.stopped.Load(); p != nil {
		return *p
	}
	return nil
}

// Renew begins a new manifest, and writes both slots of SUPER, and of the SUPER of the value
// directory. When it returns nil, all of these are under the current data key. After an error
// other than errs.ErrStopped the store is as sound as before, and Renew may be called again.
func (l *Log) Renew() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.prepareLocked(); err != nil {
		return err
	}
	if l.o.hasValueDir() {
		l.values.behind = 2
	}
	return l.renewLocked()
}

// renewLocked goes on in a new manifest that begins with a snapshot. Until SUPER
// names it, a failure only postpones the switch: the old manifest is whole.
// Nothing is appended to the new one before both slots name it, so a slot that
// is damaged later never leads to an old state.
func (l *Log) renewLocked() error {
	old := l.super.Manifest
	num := old + 1
	// The new manifest names the last frame of the old one: so a reader that knows the old one can
	// tell that the new one continues it.
	f, end, err := writeManifest(l.o, &l.super.Super, num, l.end.Name, l.layout, l.ring)
	// A failed try may have left a file that could not be removed.
	for ; errors.Is(err, fs.ErrExist) && num < old+16; num++ {
		f, end, err = writeManifest(l.o, &l.super.Super, num+1, l.end.Name, l.layout, l.ring)
	}
	if err != nil {
		// The old manifest goes on. Don't try again with every edit.
		l.limit = l.end.Offset + l.o.FileBytes
		return fmt.Errorf("begin a manifest: %w", err)
	}
	// The new manifest and its name are durable. SUPER may name it.
	err = l.file.Close()
	l.file, l.end, l.super.Manifest = f, end, num
	l.super.behind = 2
	l.setLimit(end.Offset)
	if err != nil {
		return l.stopLocked(err)
	}
	return l.updateSupersLocked()
}

// Close records in SUPER the number of the last frame, so that damage to it can't
// pass for a torn tail, and closes the file. Another Close does nothing.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	var err error
	if l.Err() == nil {
		err = l.updateSupersLocked()
	}
	if err == nil {
		err = l.proveLocked()
	}
	err = errors.Join(err, l.file.Close())
	l.file = nil
	return err
}
