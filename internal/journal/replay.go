package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/brockdb/brock/internal/crypt"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/frame"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/segment"
	"github.com/brockdb/brock/vfs"
)

// ReplayConfig is what Replay needs.
type ReplayConfig struct {
	FS         vfs.FS
	Dir        string
	UUID       [16]byte
	Begin      Point         // after the last segment whose records are in runs; zero: replay all
	Durable    uint64        // greatest frame number known to be durable from elsewhere
	Registered []Registered  // segments behind Begin
	Last       entry.FileNum // files with a greater number are no segments of this journal; 0 = no bound
	ReadOnly   bool          // write and sync nothing; no Journal may go on from the result
	UpTo       bool          // a durable frame that is missing or damaged ends the journal; else it is an error
	NoMap      bool          // use no mapping
	Ring       *crypt.Ring   // decrypts the journal; nil: it is plain

	Files *pageio.Files // opens what is read; nil: without a limit
}

// ReplayResult is what Replay found.
type ReplayResult struct {
	Begin     Point           // where a Journal goes on
	Segments  []SegmentInfo   // the chain from ReplayConfig.Begin on; all of them must stay until the records are in runs
	Dropped   []entry.FileNum // journal segments behind Begin that hold nothing that counts: they may be removed
	CutBytes  int64           // torn, or behind a gap in the chain
	CutFrames int             // valid frames behind the end of the chain

	Lost *Lost // what had been durable behind the end, with ReplayConfig.UpTo; nil: nothing
}

// Lost describes the frames of a journal behind damage, as far as they are known.
type Lost struct {
	Damage       error         // what ends the journal
	Transactions int           // in later frames whose headers are whole
	LastVersion  entry.Version // the greatest of these; 0 = not known
}

// Stop is what the function of Replay returns to end the journal before the frame that it
// was given, with ReplayConfig.UpTo.
type Stop struct{ Damage error }

// Error is that of the damage.
func (s *Stop) Error() string { return s.Damage.Error() }

// Unwrap returns the damage.
func (s *Stop) Unwrap() error { return s.Damage }

// replay is the state of one Replay.
type replay struct {
	c       ReplayConfig
	files   segment.Config
	fn      func(pos entry.Position, payload []byte, h frame.Header) error
	found   []*candidate // ascending by number
	point   Point
	last    *candidate // whose end is the end of the chain; nil = c.Begin
	doubt   doubt      // which frames may not be durable
	stop    *Stop      // why the journal ends before a good frame
	secured secured    // the segments that are made durable
	out     ReplayResult
}

// candidate is a file that may be a link of the chain.
type candidate struct {
	num     entry.FileNum
	header  segment.Header
	bad     error // why the header can't be used, or nil
	visited bool
	broken  error // what is wrong at the end of the part that counts
}

// Replay calls fn for each group of the journal behind c.Begin, in order, with its
// position and payload. The payload is valid until fn returns; its checksums, also
// those of values, were verified. Replay returns where the journal ends: before a
// torn tail, if there is one (docs/format.md, "Torn tails"). It returns
// *errs.Corruption if a frame that had been durable is missing or damaged, and
// errs.ErrForeign for a file of another store. Unless c.ReadOnly, what was
// replayed is durable when it returns. It never changes a byte, and to a journal
// that it refuses for damage it writes nothing: see secured.
func Replay(c ReplayConfig, fn func(pos entry.Position, payload []byte, h frame.Header) error) (ReplayResult, error) {
	r := &replay{c: c, files: segment.Config{FS: c.FS, Dir: c.Dir, UUID: c.UUID, Files: c.Files, Ring: c.Ring}, fn: fn, point: c.Begin}
	r.point.NextFrame = c.Begin.next()
	r.doubt.proven = max(c.Durable, r.point.NextFrame-1)
	if err := r.list(); err != nil {
		return ReplayResult{}, err
	}
	// Also if a KeyProvider or a file system panics: another process may have the lock then.
	defer r.secured.all.Wait()
	err := r.read()
	if err == nil && !c.ReadOnly {
		r.secure()
	}
	if err := errors.Join(err, r.secured.wait()); err != nil {
		return ReplayResult{}, err
	}
	if r.secured.begun > 0 {
		// The names of the files may not be durable either.
		if err := c.FS.SyncDir(c.Dir); err != nil {
			return ReplayResult{}, err
		}
	}
	r.out.Begin = r.point
	return r.out, nil
}

// read reads the chain, and judges what is behind it.
func (r *replay) read() error {
	sure := r.foresee()
	for next := r.next(); next != nil && r.stop == nil; next = r.next() {
		if err := r.visit(next); err != nil {
			return err
		}
		if r.point.NextFrame > sure {
			r.secure()
		}
	}
	return r.judge()
}

// list reads the headers of all journal segments behind the beginning.
func (r *replay) list() error {
	names, err := r.c.FS.List(r.c.Dir)
	if err != nil {
		return err
	}
	for _, base := range names {
		name, ok := filename.Parse(base)
		if !ok || name.Kind != filename.Journal || name.Number <= r.c.Begin.LastSegment || r.c.Last != 0 && name.Number > r.c.Last {
			continue
		}
		cand := &candidate{num: name.Number}
		cand.header, cand.bad = segment.ReadHeader(r.files, filename.Journal, name.Number)
		if errors.Is(cand.bad, fs.ErrNotExist) {
			continue // its writer has removed it just now, which only a Follower meets
		}
		if cand.bad != nil && !errors.Is(cand.bad, segment.ErrHeader) && !errors.Is(cand.bad, segment.ErrNumber) {
			return cand.bad
		}
		if cand.bad == nil {
			cand.bad = r.registeredAs(cand)
		}
		r.found = append(r.found, cand)
	}
	slices.SortFunc(r.found, func(a, b *candidate) int { return cmp.Compare(a.num, b.num) })
	return nil
}

// registeredAs returns segment.ErrHeader if the segment is plain and the journal isn't, or if
// the manifest knows another life of it: that of a copy of the store, or one from before.
func (r *replay) registeredAs(c *candidate) error {
	if r.c.Ring != nil && c.header.Life.IsZero() {
		return fmt.Errorf("%w: it is plain", segment.ErrHeader)
	}
	for _, k := range r.c.Registered {
		if k.Num == c.num && k.Life != c.header.Life {
			return fmt.Errorf("%w: life %x, the manifest knows %x", segment.ErrHeader, c.header.Life.Life, k.Life.Life)
		}
	}
	return nil
}

// next is the segment that continues the chain exactly at point. If there are two,
// an earlier recovery gave up the older one, and the newer one counts.
func (r *replay) next() *candidate {
	for _, c := range slices.Backward(r.found) {
		if !c.visited && c.bad == nil && c.header.Predecessor == r.point.LastSegment && c.continues(r.point.NextFrame, r.point.Chain, r.point.Tag) {
			return c
		}
	}
	return nil
}

// continues reports whether the segment begins with the frame number next, behind a frame
// with this header checksum and tag.
func (c *candidate) continues(next uint64, chain uint32, tag crypt.Tag) bool {
	return c.header.FirstFrame == next && c.header.Chain == chain && c.header.Tag == tag
}

// visit replays the frames of one segment up to the first that is not whole.
func (r *replay) visit(c *candidate) error {
	rd, err := segment.Open(r.files, filename.Journal, c.num, segment.OpenOptions{NoMap: r.c.NoMap, Life: c.header.Life, FramesOnly: true})
	if err != nil {
		return err
	}
	c.visited = true
	err = r.frames(c, rd)
	return errors.Join(err, rd.Close())
}

func (r *replay) frames(c *candidate, rd *segment.Reader) error {
	name := filename.Of(filename.Journal, c.num)
	s := rd.Frames(true)
	t, at, sealed := s.Totals(), s.At(), false
	for {
		f, err := s.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, frame.ErrFrame) {
				return err
			}
			c.broken = err
			break
		}
		if f.Header.Kind == frame.Group {
			err := r.tell(c.num, name, &f)
			if r.c.UpTo && errors.As(err, &r.stop) {
				break
			}
			if err != nil {
				return err
			}
		}
		r.doubt.add(&f, len(r.out.Segments))
		t, at, sealed = s.Totals(), s.At(), s.Sealed()
	}
	r.last = c
	r.point = Point{NextFrame: at.Next, Chain: at.Chain, Tag: at.Tag, LastVersion: max(r.point.LastVersion, t.Max), LastSegment: c.num}
	r.out.Segments = append(r.out.Segments, SegmentInfo{Num: c.num, End: at.Offset, FirstFrame: c.header.FirstFrame,
		LastFrame: at.Next - 1, Chain: at.Chain, Tag: at.Tag, Life: c.header.Life, Sealed: sealed, Totals: t})
	return nil
}

// tell passes a group of the segment num, whose file has this name, to fn. It sets a guard, as
// a big payload lies in the file's mapping.
func (r *replay) tell(num entry.FileNum, name string, f *segment.Found) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, name)
	return r.fn(entry.Position{Segment: num, Offset: f.Offset + frame.HeaderSize, Encrypted: f.Header.Encrypted}, f.Payload, f.Header)
}

// judge decides whether the chain ends at a torn tail, and counts what is cut.
func (r *replay) judge() error {
	durable, lost := r.c.Durable, new(Lost)
	// Frames behind the end of the chain count for nothing, but each says how many
	// frames had been durable when it was written.
	for _, c := range r.found {
		if c.visited && c != r.last {
			continue // a later segment continues the chain at its end, which decides it
		}
		from := int64(segment.HeaderSize)
		if c == r.last {
			from = r.out.Segments[len(r.out.Segments)-1].End
		} else {
			r.out.Dropped = append(r.out.Dropped, c.num)
		}
		t, err := segment.FindTail(r.files, filename.Journal, c.num, from, r.point.NextFrame)
		if err != nil {
			return err
		}
		durable = max(durable, t.Durable)
		lost.Transactions += t.Transactions
		lost.LastVersion = max(lost.LastVersion, t.LastVersion)
		// Zeros were never written, and bytes of another life are no loss.
		r.out.CutFrames += t.Frames
		if r.stale(c) {
			t.Used = t.End
		}
		r.out.CutBytes += t.Used - from
	}
	switch {
	case r.stop != nil:
		lost.Damage = r.stop.Damage
	case r.point.NextFrame <= durable: // the rule of frame.Tail
		lost.Damage = r.corruption(durable)
	default:
		return nil
	}
	if !r.c.UpTo {
		return lost.Damage
	}
	r.out.Lost = lost
	return nil
}

// stale reports whether the unwritten rest of c holds bytes of another life.
func (r *replay) stale(c *candidate) bool { return c.header.Recycled > 0 || c.bad != nil }

// missing is the first segment behind the end of the chain that the manifest or
// another segment names and that is not there; 0 = none.
func (r *replay) missing() (first entry.FileNum) {
	var named []entry.FileNum
	for _, k := range r.c.Registered {
		named = append(named, k.Num)
	}
	for _, c := range r.found {
		if c.bad == nil {
			named = append(named, c.header.Predecessor)
		}
	}
	for _, num := range named {
		there := slices.ContainsFunc(r.found, func(c *candidate) bool { return c.num == num })
		if num > r.point.LastSegment && !there && (first == 0 || num < first) {
			first = num
		}
	}
	return first
}

// corruption says where the missing frame should have been: in a file that is not
// there, behind the damage that ended the chain, in a file with a damaged header,
// or else behind the last good frame.
func (r *replay) corruption(durable uint64) error {
	reason := fmt.Sprintf("frame %d is missing, but frame %d had been durable", r.point.NextFrame, durable)
	if num := r.missing(); num != 0 {
		return errs.NewCorruption(filename.Of(filename.Journal, num), -1, "the journal segment is not there: %s", reason)
	}
	var damage *errs.Corruption
	if r.last != nil && errors.As(r.last.broken, &damage) {
		return &errs.Corruption{File: damage.File, Offset: damage.Offset, Reason: reason, Err: damage.Err}
	}
	for _, c := range r.found {
		if !c.visited && c.bad != nil {
			return &errs.Corruption{File: filename.Of(filename.Journal, c.num), Offset: 0, Reason: reason, Err: c.bad}
		}
	}
	if r.last == nil {
		return errs.NewCorruption(filename.Of(filename.Journal, r.point.LastSegment), -1, "the journal segment after this one is missing: %s", reason)
	}
	end := r.out.Segments[len(r.out.Segments)-1]
	what := "the segment was cut"
	if end.Sealed {
		what = "the segment after this one is missing"
	}
	return errs.NewCorruption(filename.Of(filename.Journal, r.last.num), end.End, "%s: %s", what, reason)
}
