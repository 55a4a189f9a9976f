package journal

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/frame"
	"github.com/brockdb/brock/internal/segment"
)

// Follower reads a journal that another process may be writing, piece by piece. It takes
// no lock, and shows only frames that the writer never takes back. It is used by one
// goroutine. Any error may have come from the writer having gone on: then the caller
// reads the manifest again, and calls again.
type Follower struct {
	replay
	tip    *candidate // the last segment of the chain that there was
	fresh  bool       // what lies behind the end was not searched for proofs yet
	synced uint64     // greatest frame number that is durable
}

// Known is what a manifest says about the journal.
type Known struct {
	Begin      Point         // after the last segment whose records are in runs
	Durable    uint64        // greatest frame number that is known to be durable
	Registered []Registered  // segments behind Begin
	Last       entry.FileNum // files with a greater number are no segments of this journal
	Version    entry.Version // a version that was published before the manifest said so
}

// NewFollower returns a Follower of the journal that c describes, whose Begin and what is
// known are given to Follow.
func NewFollower(c ReplayConfig, fn func(pos entry.Position, payload []byte, h frame.Header) error) *Follower {
	c.ReadOnly = true
	return &Follower{fresh: true, replay: replay{c: c, fn: fn, files: segment.Config{FS: c.FS, Dir: c.Dir, UUID: c.UUID, Files: c.Files, Ring: c.Ring}}}
}

// Reset forgets what was read: the next Follow begins at Known.Begin.
func (f *Follower) Reset() { f.last, f.out.Segments, f.fresh = nil, nil, true }

// Segments describes, in order, the segments that were read and not forgotten, up to the
// frames that were shown.
func (f *Follower) Segments() []SegmentInfo { return f.out.Segments }

// End is where the frames end that were shown.
func (f *Follower) End() Point { return f.point }

// Follow calls fn for each group that has come since the last call, as Replay does, and
// makes sure that all of them are durable before it returns. If fn has returned an error,
// call Reset before the next Follow.
//
// The last frame of a segment that the manifest doesn't know of yet is not shown unless
// something follows it: only such a frame may be taken back (Journal.Retract). One that
// was published before the manifest was written never is.
func (f *Follower) Follow(k Known) error {
	f.c.Begin, f.c.Durable, f.c.Registered, f.c.Last = k.Begin, k.Durable, k.Registered, k.Last
	for len(f.out.Segments) > 0 && f.out.Segments[0].Num <= k.Begin.LastSegment {
		f.out.Segments = f.out.Segments[1:]
	}
	if len(f.out.Segments) == 0 {
		f.point, f.last = k.Begin, nil
		f.point.NextFrame = k.Begin.next()
	}
	f.doubt.proven = max(f.doubt.proven, k.Durable, k.Begin.next()-1)
	if err := f.advance(k.Version); err != nil {
		return err
	}
	durable := k.Durable
	if f.fresh {
		// Frames behind the end prove that one is damaged, unless it was written
		// meanwhile: then it is whole now.
		proof, err := f.proof()
		if err != nil {
			return err
		}
		if durable = max(durable, proof); f.point.NextFrame <= durable {
			if err := f.advance(k.Version); err != nil {
				return err
			}
		}
	}
	if f.point.NextFrame <= durable {
		return f.corruption(durable)
	}
	f.fresh = false
	return f.secureShown()
}

// advance shows what has come.
func (f *Follower) advance(published entry.Version) error {
	f.found, f.c.Begin.LastSegment = nil, f.point.LastSegment
	if err := f.list(); err != nil {
		return err
	}
	if n := len(f.out.Segments); n > 0 && !f.out.Segments[n-1].Sealed {
		if err := f.goOn(f.out.Segments[n-1], published); err != nil {
			return err
		}
	}
	// A segment without frames may go, and its number be used again: it counts only if
	// another one follows it.
	whole := f.point.LastSegment
	for next := f.next(); next != nil; next = f.next() {
		next.visited = true
		f.tip, f.point.LastSegment = next, next.num
		before := f.point.NextFrame
		begin := SegmentInfo{Num: next.num, End: segment.HeaderSize, FirstFrame: next.header.FirstFrame, LastFrame: next.header.FirstFrame - 1,
			Chain: next.header.Chain, Tag: next.header.Tag, Life: next.header.Life}
		err := f.goOn(begin, published)
		if f.point.NextFrame > before {
			whole = next.num
		}
		if err != nil {
			f.point.LastSegment = whole
			return err
		}
	}
	f.point.LastSegment = whole
	return nil
}

// goOn shows what has come in the segment s behind its end.
func (f *Follower) goOn(s SegmentInfo, published entry.Version) error {
	rd, err := segment.Open(f.files, filename.Journal, s.Num, segment.OpenOptions{NoMap: f.c.NoMap, Life: s.Life, FramesOnly: true})
	if err != nil {
		return err
	}
	return errors.Join(f.show(rd, s, published), rd.Close())
}

func (f *Follower) show(rd *segment.Reader, s SegmentInfo, published entry.Version) error {
	end := rd.End()
	if f.c.Durable < s.FirstFrame {
		var err error
		if end, err = f.settled(rd, s, published); err != nil {
			return err
		}
	}
	frames, name := s.frames(rd), filename.Of(filename.Journal, s.Num)
	defer func() { f.shown(frames, s) }() // also what came before an error
	for frames.At().Offset < end {
		found, err := frames.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, frame.ErrFrame) {
			break
		}
		if err != nil {
			return err
		}
		f.doubt.proven = max(f.doubt.proven, found.Header.Durable())
		if found.Header.Kind == frame.Group {
			if err := f.tell(s.Num, name, &found); err != nil {
				return err
			}
		}
	}
	return nil
}

// shown notes up to where s was shown.
func (f *Follower) shown(frames *segment.Frames, s SegmentInfo) {
	at := frames.At()
	if at.Next == s.LastFrame+1 {
		return
	}
	s.End, s.LastFrame, s.Sealed, s.Totals = at.Offset, at.Next-1, frames.Sealed(), frames.Totals()
	s.Chain, s.Tag = at.Chain, at.Tag
	f.point = Point{NextFrame: at.Next, Chain: at.Chain, Tag: at.Tag, LastVersion: max(f.point.LastVersion, s.Max), LastSegment: s.Num}
	f.last = &candidate{num: s.Num, visited: true}
	if n := len(f.out.Segments); n > 0 && f.out.Segments[n-1].Num == s.Num {
		f.out.Segments[n-1] = s
	} else {
		f.out.Segments = append(f.out.Segments, s)
	}
}

// frames are the frames of a segment behind its end.
func (s *SegmentInfo) frames(rd *segment.Reader) *segment.Frames {
	frames := rd.Frames(true)
	if s.LastFrame >= s.FirstFrame {
		frames.Resume(frame.Cursor{Offset: s.End, Next: s.LastFrame + 1, Chain: s.Chain, Tag: s.Tag}, s.Totals, s.Sealed)
	}
	return frames
}

// settled returns where the frames of a segment that is not registered end that the writer
// never takes back.
func (f *Follower) settled(rd *segment.Reader, s SegmentInfo, published entry.Version) (end int64, err error) {
	frames := s.frames(rd)
	end = frames.At().Offset
	var last frame.Header
	for {
		at := frames.At()
		found, err := frames.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, frame.ErrFrame) {
			break
		}
		if err != nil {
			return 0, err
		}
		// found was written behind the frames before it: those are never taken back.
		end, last = at.Offset, found.Header
	}
	at := frames.At()
	if last.Kind == frame.Seal || last.FirstVersion != 0 && last.FirstVersion <= published {
		return at.Offset, nil
	}
	for _, c := range f.found {
		if c.bad == nil && c.header.Predecessor == s.Num && c.continues(at.Next, at.Chain, at.Tag) {
			return at.Offset, nil
		}
	}
	return end, nil
}

// proof is the greatest frame number that the files behind the end prove durable.
func (f *Follower) proof() (durable uint64, err error) {
	for _, c := range f.found {
		from := int64(segment.HeaderSize)
		if c.visited && c != f.tip {
			continue
		}
		if n := len(f.out.Segments); n > 0 && f.out.Segments[n-1].Num == c.num {
			from = f.out.Segments[n-1].End
		}
		t, err := segment.FindTail(f.files, filename.Journal, c.num, from, f.point.NextFrame)
		if err != nil {
			return 0, err
		}
		durable = max(durable, t.Durable)
	}
	return durable, nil
}

// secureShown syncs the frames that nothing proves durable: the writer may sync them later
// than this process shows them or, for Buffered commits, never.
func (f *Follower) secureShown() error {
	f.synced = max(f.synced, f.doubt.proven)
	last := f.point.NextFrame - 1
	if last <= f.synced {
		return nil
	}
	for _, s := range f.out.Segments {
		if s.LastFrame <= f.synced {
			continue
		}
		if err := f.sync(s.Num); err != nil {
			return fmt.Errorf("make %s durable: %w", filename.Of(filename.Journal, s.Num), err)
		}
	}
	if f.c.Durable < f.out.Segments[len(f.out.Segments)-1].FirstFrame {
		if err := f.c.FS.SyncDir(f.c.Dir); err != nil {
			return err
		}
	}
	f.synced = last
	return nil
}

// sync makes a segment durable, by a descriptor that can't write.
func (f *Follower) sync(num entry.FileNum) error {
	file, err := f.c.FS.Open(filepath.Join(f.c.Dir, filename.Of(filename.Journal, num)))
	if err != nil {
		return err
	}
	return errors.Join(file.SyncData(), file.Close())
}
