// Package feed reads what was committed, commit by commit, in the order of versions: a change data
// capture of the store's own write-ahead log. It writes nothing: the journal's segments have the
// changes, and the layout says which ones stay for it behind their flush (layout.Feed). What is in
// no journal, transactions larger than their memory and keyspaces that are made or dropped, is
// there, too.
//
// Each version is one commit. Where versions don't follow each other, as callers give them, the later
// commit says how many were skipped. So a reader knows by itself whether something is missing: it
// never goes past a gap without an error.
package feed

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// Config is what a Reader needs.
type Config struct {
	Views *view.Set
	// Durable returns the number of the last frame that is durable: later ones are not shown. nil:
	// all that Views have are shown.
	Durable func() uint64
	// Lost tells of versions whose commits were lost in a crash, as layout.Sessions does.
	Lost   func(v entry.Version) (upTo entry.Version, lost bool)
	Values bool // values are wanted: they are verified when their frame is read
}

// Reader is a place in the history of a store. It holds the file that it reads, from one Next to the
// next, and nothing while it waits for something new. It is used by one goroutine; Unread may be
// called by any.
type Reader struct {
	c    Config
	last entry.Version // the newest version that Next has returned

	// Where the next frame lies. num is 0 until the first one was looked for.
	num  entry.FileNum
	name string // of its file
	at   segment.Place

	// What is read now:
	frames  *segment.Frames // nil: no file is held
	part    *view.View      // with the segment that frames reads
	release func()          // of the segment that is read
	beside  func()          // of what a commit has that is in no journal
	limits  limits          // of frames
	fresh   bool            // limits were loaded by this call of Next
	frame   segment.Found   // the frame of last and what follows; without versions: there is none
	commit  Commit          // what Next has returned

	mu      sync.Mutex // guards what Unread returns:
	read    entry.Version
	segment entry.FileNum
	offset  int64
}

// limits are what may be shown. They are loaded before the file is read: what is within them was
// never taken back, so bytes that are read later are right. Of later frames the bytes that were read
// with these may be of an attempt that failed.
type limits struct {
	visible entry.Version
	durable uint64 // number of a frame
}

// NewReader returns a Reader that goes on behind version after.
func NewReader(c Config, after entry.Version) *Reader {
	r := &Reader{c: c, last: after, release: func() {}, beside: func() {}}
	r.note()
	return r
}

// Unread tells what must stay in the feed: all but the versions up to read, which were returned, and
// what lies before the offset in the journal segment that is read, 0 for none.
func (r *Reader) Unread() (read entry.Version, segment entry.FileNum, offset int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read, r.segment, r.offset
}

func (r *Reader) note() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read, r.segment, r.offset = r.last, r.num, r.at.Offset
}

// Release gives up the file that is read, and keeps the place: Next may be called again.
func (r *Reader) Release() {
	r.frames, r.part, r.frame, r.commit = nil, nil, segment.Found{}, Commit{}
	r.release()
	r.release = func() {}
	r.releaseBeside()
}

// releaseBeside gives up what the commit that Next has returned has beside the journal.
func (r *Reader) releaseBeside() {
	r.beside()
	r.beside = func() {}
}

// load returns what may be shown now.
func (r *Reader) load() limits {
	// The frame's number first: a version is published behind its sync, so what a reader sees of the
	// journal is not behind what it sees of versions.
	l := limits{durable: math.MaxUint64}
	if r.c.Durable != nil {
		l.durable = r.c.Durable()
	}
	l.visible = r.c.Views.Visible()
	return l
}

// Next returns the next commit, or nil if there is none yet. The commit is valid until the next call
// of a method. If the history has a gap there, because it was dropped, Next returns
// errs.ErrVersionGone; errs.ErrClosed after the store was closed; a *errs.Corruption for damage.
func (r *Reader) Next() (*Commit, error) {
	r.fresh = false
	r.releaseBeside()
	for {
		if r.last >= r.load().visible {
			r.Release() // nothing is held while there is nothing to read
			return nil, nil
		}
		found, err := r.find()
		switch {
		case errors.Is(err, errLost):
			r.note() // last is behind it
			continue
		case err != nil || !found:
			r.Release()
			return nil, err
		}
		r.last = r.commit.Version
		r.note()
		return &r.commit, nil
	}
}

// find sets commit to the one behind last; there is one that is visible. It returns false if that may
// not be shown yet.
func (r *Reader) find() (bool, error) {
	for {
		h := &r.frame.Header
		if h.FirstVersion != 0 && r.last < h.LastVersion() {
			if r.last < h.FirstVersion && !h.Follows(r.last) {
				return true, r.takeBeside()
			}
			r.commit = Commit{reader: r, view: r.part, records: r.commit.after}
			if r.last < h.FirstVersion || !r.commit.records.More() {
				r.commit.records = h.Walk(r.frame.Payload, r.frame.Offset+frame.HeaderSize)
			}
			return true, r.commit.begin(r.last)
		}
		// Not by what comes behind it in the journal: that may be taken back while it is read.
		if r.nextBeside(r.c.Views.Current().Layout) != nil {
			return true, r.takeBeside()
		}
		more, err := r.readFrame()
		switch {
		case err != nil:
			return false, err
		case more == waits:
			return false, nil
		case more == none:
			// The journal has nothing behind its frames so far, so this commit is beside it.
			return true, r.takeBeside()
		}
	}
}

// more says what comes next in the journal.
type more int

const (
	ready more = iota // a frame, which was read
	waits             // a frame that may not be shown yet
	none              // nothing
)

// readFrame reads the next frame that has versions.
func (r *Reader) readFrame() (more, error) {
	for {
		if r.frames == nil {
			if found, err := r.open(); err != nil || !found {
				return none, err
			}
		}
		f, err := r.frames.Next()
		if errors.Is(err, io.EOF) {
			// There may be more by now, in this segment or in the next one.
			r.Release()
			continue
		}
		if err != nil {
			return none, err
		}
		h := &f.Header
		if h.Kind == frame.Group && (h.LastVersion() > r.limits.visible || h.Number > r.limits.durable) {
			r.Release() // and with it the bytes of this frame, see limits
			if r.fresh {
				return waits, nil
			}
			continue
		}
		r.at = r.frames.At()
		if h.Kind == frame.Group && h.LastVersion() > r.last {
			r.frame = f
			return ready, nil
		}
	}
}

// open opens the segment that has the next frame. It returns false if there is none.
func (r *Reader) open() (found bool, err error) {
	limits := r.load() // before the View and the end of its segment
	hold, err := r.c.Views.Hold()
	if err != nil {
		return false, err
	}
	s, err := r.locate(hold.View())
	if s == nil || err != nil {
		hold.Release()
		return false, err
	}
	r.part, r.release = hold.HoldPart(func(part *view.View) {
		part.Tables, part.Runs, part.Segments = nil, nil, view.NewSegments([]*view.Segment{s})
	})
	r.limits, r.fresh = limits, true
	r.frames = s.FramesFrom(r.at, r.c.Values)
	return true, nil
}

// locate returns the segment that has the next frame, or nil, and moves to its beginning if it is
// another one than before.
func (r *Reader) locate(v *view.View) (*view.Segment, error) {
	if r.num == 0 {
		return r.locateFirst(v), nil
	}
	for _, list := range [...]*view.Segments{&v.Segments, &v.Feed.Segments} {
		if s := list.Find(r.num); s != nil && s.Moved == nil && s.End() > r.at.Offset {
			return s, nil
		}
	}
	next := v.JournalSegment(r.num)
	if next == nil {
		return nil, nil
	}
	// The header names the frame before exactly. Another one means that segments between are gone.
	before := r.at.Name
	before.KeyID = crypt.FileKeyID{} // the frame's tag stands for it
	if next.Header().Before != before {
		return nil, r.gone()
	}
	r.begin(next)
	return next, nil
}

// locateFirst returns the segment that has the frame behind last, or the first one if all begin
// behind that; nil: there is none.
func (r *Reader) locateFirst(v *view.View) (first *view.Segment) {
	for s := v.JournalSegment(0); s != nil; s = v.JournalSegment(s.Num) {
		if first == nil || s.Header().PrevVersion <= r.last {
			first = s
		}
	}
	if first != nil {
		r.begin(first)
	}
	return first
}

// begin moves to the beginning of a segment.
func (r *Reader) begin(s *view.Segment) {
	h := s.Header()
	r.num, r.name, r.at = s.Num, filename.Of(filename.Journal, s.Num), h.FirstPlace()
}

// errLost says that the versions up to last were given to commits that were lost.
var errLost = errors.New("the commit was lost in a crash")

// gone says that the next commit is not in the history any more.
func (r *Reader) gone() error {
	return fmt.Errorf("%w: the change feed does not have the commit that follows version %d", errs.ErrVersionGone, r.last)
}

// nextBeside returns the commit that follows last and is in no journal, or nil.
func (r *Reader) nextBeside(l *layout.Layout) *layout.FeedCommit {
	commits := l.Feed().Commits
	i, _ := slices.BinarySearchFunc(commits, r.last+1, func(c layout.FeedCommit, v entry.Version) int { return cmp.Compare(c.Version, v) })
	if i == len(commits) || r.last < commits[i].Version-1-entry.Version(commits[i].Skipped) {
		return nil
	}
	return &commits[i]
}

// takeBeside sets commit to the next one, which is in no journal.
func (r *Reader) takeBeside() error {
	hold, err := r.c.Views.Hold()
	if err != nil {
		return err
	}
	c := r.nextBeside(hold.View().Layout)
	if c == nil {
		hold.Release()
		if upTo, lost := r.c.Lost(r.last + 1); lost {
			r.last = upTo
			return errLost
		}
		return r.gone()
	}
	// after stays: it is what follows in the journal.
	r.commit = Commit{Version: c.Version, reader: r, beside: c, after: r.commit.after}
	if !c.IsSpill() {
		hold.Release()
		return nil
	}
	run := hold.View().Feed.Run(c.Run.ID)
	if run == nil {
		hold.Release()
		return r.gone()
	}
	r.commit.run = run
	r.commit.view, r.beside = hold.HoldPart(func(part *view.View) {
		part.Tables, part.Runs = nil, []*view.Run{run}
		part.Segments = hold.View().Feed.Segments.Without(func(num entry.FileNum) bool {
			return !slices.ContainsFunc(c.Segments, func(s layout.Segment) bool { return s.Num == num })
		})
	})
	return nil
}

// KeyspaceName returns the name of a keyspace that a change names, or that had it; ok is false if
// that is not known.
func KeyspaceName(l *layout.Layout, id entry.KeyspaceID) (name string, ok bool) {
	if id == entry.DefaultKeyspace {
		return "", true
	}
	if k := l.Keyspace(id); k != nil {
		return k.Name, true
	}
	for _, c := range l.Feed().Commits {
		if c.Keyspace.ID == id {
			return c.Keyspace.Name, true
		}
	}
	return "", false
}
