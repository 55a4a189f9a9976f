package tree

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/jobs"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/vfs"
)

// Space: what a nearly full disk, or Config.DiskLimit, leaves to whom.
//
// The last of it, the reserve, is for deletes and for work that frees some: when
// no more than that is left, sets are refused. It is no file, but a distance
// that is kept: as much as it takes to flush what is in memory, to collect one
// segment and to merge the runs once half of what they hold was deleted.
//
// Where the disk is full in spite of that, work that found no room leaves all as
// it was, and is done again when there is some. Only then is there a timer: it
// looks a few times a second whether there is room again.

// Space says that writes are refused for want of space, or that they no longer are.
type Space struct {
	Full    bool
	Left    int64 // bytes, by the disk or the limit; -1 = not known
	Reserve int64
	Reason  error // what was refused first; nil when it is over
}

const (
	pollEvery  = 200 * time.Millisecond
	patience   = time.Second // of sets, with merges and collections under way
	retryPolls = 5           // after so many a flush is tried again, though no space is seen to have come
	grownBy    = 64 << 10    // bytes that have come, to be tried at all
	leastLook  = 64 << 10    // bytes written between two surveys, at least and
	mostLook   = 64 << 20    // at most
	slack      = 256 << 10   // of the reserve, for edits and the ends of files
	slackShare = 512         // likewise, of the segments' bytes: edits name what is dead
)

// full is how much room there is, as of the last survey.
type full struct {
	refusing atomic.Bool           // sets are
	refused  atomic.Bool           // by the journal, since its last append
	credit   atomic.Int64          // bytes to be written until the next survey
	unable   atomic.Pointer[error] // why the last flush found no room; nil if it did
	failures atomic.Int64          // flushes that found none
	promised atomic.Int64          // bytes that merges and collections under way will write, at most
	poll     *jobs.Delayed         // looks again
	mu       sync.Mutex            // held over surveys and Config.OnSpace; guards what follows
	polling  bool                  // poll will look
	waiting  bool                  // work found no room
	tried    int                   // polls since
	then     int64                 // bytes that were free
	told     bool                  // OnSpace, that writes are refused

	left, keep atomic.Int64 // as of the last survey
}

// lacking reports whether writes are refused for want of space, or may be.
func (s *full) lacking() bool {
	return s.refusing.Load() || s.refused.Load() || s.unable.Load() != nil
}

// free is what the disk has left, or that of two disks which has less; -1 = not known.
func (t *Tree) free() int64 {
	free, err := t.cfg.FS.Free(t.cfg.Dir)
	if err != nil {
		return -1
	}
	if t.cfg.ValueDir == t.cfg.Dir {
		return free
	}
	values, err := t.cfg.FS.Free(t.cfg.ValueDir)
	if err != nil {
		return -1
	}
	return min(free, values)
}

// room is what a merge or collection may write, as policy wants to know it: what
// is left, without what other work, flushes and deletes will need. Up to the
// reserve the limit is no bound: what frees space must not be kept from it.
func (t *Tree) room() int64 {
	free := t.free()
	room := free
	if t.cfg.DiskLimit > 0 {
		v := t.views.Current()
		if room = max(t.left(), t.reserve(v)); free >= 0 {
			room = min(room, free)
		}
	}
	if room < 0 {
		return 0
	}
	return max(room-flushBytes(t.views.Current())-slack-t.full.promised.Load(), 1)
}

// promise keeps from sets and other work what a merge or collection under way
// is going to write; the caller gives it back.
func (t *Tree) promise(bytes int64) (release func()) {
	t.full.promised.Add(bytes)
	t.full.credit.Store(0) // look with the next write
	return func() {
		t.full.promised.Add(-bytes)
		t.full.credit.Store(0)
		if t.full.refusing.Load() {
			t.survey()
		}
	}
}

// ownBytes is the length of all files of the store.
func (t *Tree) ownBytes() (n int64) {
	names, err := t.list()
	if err != nil {
		return 0
	}
	for _, name := range names {
		if info, err := t.cfg.FS.Stat(t.path(name)); err == nil { // or it has gone meanwhile
			n += info.Size
		}
	}
	return n
}

// left is what disk and limit leave; -1 = not known.
func (t *Tree) left() int64 {
	left := t.free()
	if t.cfg.DiskLimit <= 0 {
		return left
	}
	below := max(t.cfg.DiskLimit-t.ownBytes(), 0)
	if left < 0 {
		return below
	}
	return min(left, below)
}

// flushBytes is what flushing the memtables of a View may write, at any one time.
// The values of a journal segment that is not kept are copied before it goes.
func flushBytes(v *view.View) (n int64) {
	const tiny = 4 << 20 // of which all is copied
	copied := int64(0)
	for _, m := range v.Tables {
		n += m.InlineBytes.Load() + int64(m.Len())*entryBytes
		values := m.SeparatedBytes.Load()
		copied = max(copied, min(values, max(values/2, tiny)))
	}
	return n + copied
}

// entryBytes is what an entry takes in a run, beside key and value.
const entryBytes = 48

// reserve is what is kept from sets.
func (t *Tree) reserve(v *view.View) int64 {
	var runs, segments, largest uint64
	for _, r := range v.Layout.Runs() {
		runs += r.FileBytes()
	}
	for _, s := range v.Layout.Segments() {
		if s.State().Status == layout.Live {
			segments += s.FileBytes
			largest = max(largest, s.FileBytes)
		}
	}
	merge := min(runs/2, uint64(t.cfg.RunFileBytes)/2)
	collection := min(largest/2, uint64(t.cfg.SegmentBytes)/2)
	work := max(int64(merge+collection), t.full.promised.Load())
	return flushBytes(v) + work + int64(segments/slackShare) + slack
}

// spend counts bytes that were written, and looks from time to time.
func (t *Tree) spend(n int) {
	if t.full.credit.Add(-int64(n)) < 0 {
		t.survey()
	}
	if t.full.refused.Load() && t.full.refused.Swap(false) {
		t.survey()
	}
}

// survey finds out how much is left, and what follows from it.
func (t *Tree) survey() {
	s := &t.full
	s.mu.Lock()
	defer s.mu.Unlock()
	t.surveyLocked()
}

func (t *Tree) surveyLocked() {
	s := &t.full
	v := t.views.Current()
	left, keep := t.left(), t.reserve(v)
	if left >= 0 && left < 2*keep && t.spares.tighten(true) {
		t.removeSpares(false)
		left = t.left()
	}
	s.left.Store(left)
	s.keep.Store(keep)
	known := left >= 0
	tight := known && left < 2*keep
	t.spares.tighten(tight)
	t.journal.Economize(tight)
	s.credit.Store(1 << 62)
	if known {
		s.credit.Store(min(max((left-keep)/3, leastLook), mostLook))
	}
	if tight && t.foldable(v, keep) {
		t.work.fold.Kick()
	}
	switch was := s.refusing.Load(); {
	case !was && known && left < keep:
		s.refusing.Store(true)
		t.kick()
	case was && !(known && left < keep+keep/16):
		s.refusing.Store(false)
		s.refused.Store(false)
	}
	if s.told && !s.lacking() {
		s.told = false
		t.tellSpace(Space{Left: left, Reserve: keep})
	}
	t.pollLocked()
}

// foldable reports whether a good part of the reserve is there for what is in
// memory, so that a flush makes it smaller.
func (t *Tree) foldable(v *view.View, keep int64) bool {
	return v.Active().Len() > 0 && flushBytes(v) >= keep/4
}

func (t *Tree) tellSpace(s Space) {
	if t.cfg.OnSpace != nil {
		t.cfg.OnSpace(s)
	}
}

// pollLocked has poll look again, as long as somebody waits for space.
func (t *Tree) pollLocked() {
	s := &t.full
	if !s.polling && (s.refusing.Load() || s.waiting) {
		s.polling = true
		s.poll.Touch()
	}
}

// runPoll looks whether there is room again, and lets work begin that waits for it.
func (t *Tree) runPoll(context.Context) error {
	s := &t.full
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polling = false
	free := t.free()
	switch {
	case !s.waiting:
	case t.worthTrying(free):
		s.waiting = false
		t.kick()
	case free < 0 && s.unable.Load() == nil:
		s.waiting = false // merges and collections are tried again after the next change
	}
	t.surveyLocked()
	return nil
}

// worthTrying reports whether work that found no room may find some: space has
// come, or it is not known to be gone (a quota is nowhere to be seen). s.mu is held.
func (t *Tree) worthTrying(free int64) bool {
	s := &t.full
	s.tried++
	switch {
	case free > s.then+grownBy:
		return true
	case s.unable.Load() == nil:
		return false
	}
	return s.tried >= retryPolls && (free < 0 || free > flushBytes(t.views.Current()))
}

// outOfSpace reports whether an error is want of space that passes: nothing was
// changed, and what was to be done can be done later.
func outOfSpace(err error) bool {
	return vfs.IsNoSpace(err) && !errors.Is(err, errs.ErrStopped)
}

// noRoom notes that work has found no room. Its partial files are gone.
func (t *Tree) noRoom(err error, flush bool) {
	s := &t.full
	if flush {
		err = vfs.NoSpace(err)
		s.unable.Store(&err)
		s.failures.Add(1)
	}
	s.mu.Lock()
	s.waiting, s.tried, s.then = true, 0, t.free()
	t.surveyLocked()
	s.mu.Unlock()
	t.views.Wake()
}

// foundRoom notes that a flush has.
func (t *Tree) foundRoom() {
	if t.full.unable.Swap(nil) != nil {
		t.survey()
	}
}

// journalFull is called when the disk had no room for a commit. Whether it has
// for the next one is for that to find out, unless the disk says so itself.
func (t *Tree) journalFull() {
	t.full.refused.Store(true)
	t.survey()
	_ = t.refuse(errs.ErrNoSpace)
}

// refuse counts a refusal for this reason, and returns it; nil is none.
func (t *Tree) refuse(reason error) error {
	if reason == nil {
		return nil
	}
	t.stats.refused.Add(1)
	s := &t.full
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.told && s.lacking() { // there may be space by now
		s.told = true
		t.tellSpace(Space{Full: true, Left: s.left.Load(), Reserve: s.keep.Load(), Reason: reason})
	}
	return reason
}

// askForSpace decides on a payload while no more than the reserve is left. What
// only deletes may have it. Others wait for a flush that may give some back, and
// for a moment for other work under way; they are refused at once if there is none.
func (t *Tree) askForSpace(ctx context.Context, payload []byte) error {
	begin := time.Now()
	for t.full.refusing.Load() {
		v, changed := t.views.Await()
		var refusal error
		if !frees(payload) {
			refusal = t.tooLittle()
		} else if t.full.left.Load() > flushBytes(v)+int64(len(payload)) {
			return nil
		}
		switch {
		case t.views.Closed():
			return errs.ErrClosed
		case t.failed() != nil || t.full.unable.Load() != nil:
			return t.refuse(refusal)
		case len(v.Tables) > 1 || t.foldable(v, t.full.keep.Load()):
			t.work.flush.Kick()
		case t.full.promised.Load() == 0 || time.Since(begin) > patience:
			return t.refuse(refusal)
		}
		if err := wait(ctx, pollEvery, changed); err != nil {
			return err
		}
		t.survey()
	}
	return nil
}

func (t *Tree) tooLittle() error {
	of := "on the disk"
	if t.cfg.DiskLimit > 0 {
		of = "below DiskLimit or on the disk"
	}
	return fmt.Errorf("%w: %d bytes are left %s, %d are kept for deletes", errs.ErrNoSpace, t.full.left.Load(), of, t.full.keep.Load())
}

// frees reports whether none of the encoded records in payload is a set; where
// there is no payload, that is not known.
func frees(payload []byte) bool {
	if payload == nil {
		return false
	}
	for len(payload) > 0 {
		if k := entry.Kind(payload[0]); k == entry.Set || k == entry.SetLatest {
			return false
		}
		size, _ := entry.RawSize(payload)
		payload = payload[size:]
	}
	return true
}
