package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// ReplayConfig is what Replay needs.
type ReplayConfig struct {
	segment.Config // of the journal's segments
	Known          Known
	ReadOnly       bool // write and sync nothing; no Journal may go on from the result
	UpTo           bool // a durable frame that is missing or damaged ends the journal; else it is an error
	NoMap          bool // use no mapping
}

// Known is what a manifest says about the journal.
type Known struct {
	// behind the last segment whose records are all in runs; zero: the journal's beginning
	Begin   Point
	Found   []frame.End   // where sessions of the writer have found the journal's end; what they wrote is in later segments
	Durable []frame.End   // frames behind Begin that are durable: one of each registered segment, and those of Found; ascending
	Last    entry.FileNum // files with a greater number are no segments of this journal; 0 = no bound
	Version entry.Version // a version that was published before the manifest said so
	Closed  bool          // the journal ends with the last one of Durable: it was closed in order
}

// LastProven is the number of the last frame that is known to be durable.
func (k *Known) LastProven() uint64 {
	if n := len(k.Durable); n > 0 {
		return k.Durable[n-1].Number
	}
	return k.Begin.Number
}

// ReplayResult is what Replay found.
type ReplayResult struct {
	Begin     Point           // where a Journal goes on
	Segments  []SegmentInfo   // the chain from Known.Begin on; all of them must stay until the records are in runs
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
	c        ReplayConfig
	fn       func(pos entry.Position, payload []byte, h frame.Header) error
	found    []*candidate // segments behind Known.Begin, ascending by number
	ends     ends         // frames with which segments end
	point    Point        // behind the last frame that counts so far
	met      int          // how many frames of Known.Durable were passed
	broken   error        // why the last frame that was tried is not whole; nil: there was none
	unproven unproven     // which frames may not be durable
	stop     *Stop        // why the journal ends before a good frame, with UpTo; nil: it doesn't
	secured  secured      // the segments that are made durable
	out      ReplayResult
}

// candidate is a file that may be a link of the chain.
type candidate struct {
	header  segment.Header
	bad     error // why the header can't be used, or nil
	visited bool  // it is a link of the chain
}

// Replay calls fn for each group of the journal behind c.Known.Begin, in order, with its
// position and payload. The payload is valid until fn returns; its checksums, also
// those of values, were verified. Replay returns where the journal ends: before a
// torn tail, if there is one (docs/format.md, "Torn tails"). It returns
// *errs.Corruption if a frame that had been durable is missing or damaged, and
// errs.ErrForeign for a file of another store. Unless c.ReadOnly, what was
// replayed is durable when it returns. It never changes a byte, and to a journal
// that it refuses for damage it writes nothing: see secured.
func Replay(c ReplayConfig, fn func(pos entry.Position, payload []byte, h frame.Header) error) (ReplayResult, error) {
	r := &replay{c: c, fn: fn, point: c.Known.Begin, secured: secured{free: make(chan struct{}, securedTogether)}}
	r.unproven.proven = c.Known.LastProven()
	if err := r.readHeaders(r.point.File); err != nil {
		return ReplayResult{}, err
	}
	// Also if a KeyProvider or a file system panics: another process may have the lock then.
	defer r.secured.all.Wait()
	err := r.readChain()
	if err == nil && !c.ReadOnly {
		r.secureVisited()
	}
	if err := errors.Join(err, r.secured.waitForCopies()); err != nil {
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

// readChain reads the chain, and judges what is behind it.
func (r *replay) readChain() error {
	// Damage behind this frame can't have the journal refused, so segments may be made durable from
	// there on while later ones are read.
	sure := r.foreseeDurable()
	for next := r.nextSegment(); next != nil && r.stop == nil; next = r.nextSegment() {
		if err := r.replaySegment(next); err != nil {
			return err
		}
		if !next.visited {
			break // nothing is behind a segment without frames
		}
		if r.point.Number >= sure {
			r.secureVisited()
		}
	}
	return r.judgeEnd()
}

// readHeaders reads the headers of all journal segments behind number after.
func (r *replay) readHeaders(after entry.FileNum) error {
	names, err := r.c.FS.List(r.c.Dir)
	if err != nil {
		return err
	}
	for _, base := range names {
		name, ok := filename.Parse(base)
		if !ok || name.Kind != filename.Journal || name.Number <= after || r.c.Known.Last != 0 && name.Number > r.c.Known.Last {
			continue
		}
		cand := &candidate{}
		cand.header, cand.bad = segment.ReadHeader(r.c.Config, filename.Journal, name.Number)
		if errors.Is(cand.bad, fs.ErrNotExist) {
			continue // its writer has removed it just now, which only a Follower meets
		}
		// A bad header is no error yet. Only when the chain was read is it known whether a frame in
		// that file counts; a crash may leave such a file at any time.
		if cand.bad != nil && !errors.Is(cand.bad, segment.ErrHeader) {
			return cand.bad
		}
		if cand.bad == nil {
			cand.bad = r.checkKeyID(cand)
		}
		r.found = append(r.found, cand)
	}
	// newEnds relies on the order: a newer segment supersedes an older one.
	slices.SortFunc(r.found, func(a, b *candidate) int { return cmp.Compare(a.header.Number, b.header.Number) })
	r.ends = newEnds(&r.c.Known, r.found)
	return nil
}

// checkKeyID returns segment.ErrHeader if the segment is plain and the journal isn't, or if
// the manifest knows another file key id of it: that of a copy of the store.
func (r *replay) checkKeyID(c *candidate) error {
	if r.c.Ring != nil && c.header.KeyID.IsZero() {
		return fmt.Errorf("%w: it is plain", segment.ErrHeader)
	}
	for _, k := range r.c.Known.Durable {
		if k.File == c.header.Number && k.KeyID != c.header.KeyID {
			return fmt.Errorf("%w: file key id %x, the manifest knows %x", segment.ErrHeader, c.header.KeyID.Salt, k.KeyID.Salt)
		}
	}
	return nil
}

// nextSegment is the segment that continues the chain exactly at point; nil if there is none, or if
// the journal was closed there.
func (r *replay) nextSegment() *candidate {
	if r.atRecordedEnd() {
		return nil
	}
	return r.ends[endName(r.point.Name)]
}

// atRecordedEnd reports whether point is the end of a journal that was closed.
func (r *replay) atRecordedEnd() bool {
	return r.c.Known.Closed && r.point.Number == r.c.Known.LastProven()
}

// replaySegment replays the frames of one segment. A segment without frames is no link of the chain:
// nothing proves that its header is durable, so nothing may be built on it.
func (r *replay) replaySegment(c *candidate) error {
	s := emptySegment(&c.header)
	rd, err := r.openSegment(&s)
	if err != nil {
		return err
	}
	frames := rd.Frames(true)
	err = r.passFrames(frames, s, math.MaxInt64)
	if c.visited = r.point.File == c.header.Number; err == nil && c.visited {
		if err = r.checkSurplus(frames); err != nil && r.c.UpTo {
			r.stop, err = &Stop{err}, nil
		}
	}
	return errors.Join(err, rd.Close())
}

// openSegment opens a segment to read its frames.
func (r *replay) openSegment(s *SegmentInfo) (*segment.Reader, error) {
	return segment.Open(r.c.Config, filename.Journal, s.File, segment.OpenOptions{NoMap: r.c.NoMap, KeyID: s.KeyID, FramesOnly: true})
}

// passFrames passes the groups of the segment s behind its known end to fn: up to the segment's
// end, see ends, and not beyond limit. It notes how far it came, also before an error.
func (r *replay) passFrames(frames *segment.Frames, s SegmentInfo, limit int64) (err error) {
	known := s.Offset
	for ok := true; ok && s.Offset < limit && !r.ends.isEnd(s.Name); {
		var f segment.Found
		if f, ok, err = r.passNext(frames); ok {
			r.unproven.addFrame(&f, s.File)
			// Not before fn has taken the group: a frame that fn stops at is not part of the journal.
			s.Place = frames.At()
		}
	}
	if s.Offset == known {
		return err // no frame of it counts, so it may be no link, see replaySegment
	}
	// A segment without records has no greatest version.
	r.point = Point{s.End, max(r.point.LastVersion, s.Max)}
	if n := len(r.out.Segments); n > 0 && r.out.Segments[n-1].File == s.File {
		r.out.Segments = r.out.Segments[:n-1]
	}
	r.out.Segments = append(r.out.Segments, s)
	return err
}

// passNext reads the next frame of a segment, and passes its group to fn. ok is false where the
// frames stop being whole, and where the journal is to end before this one.
func (r *replay) passNext(s *segment.Frames) (f segment.Found, ok bool, err error) {
	f, err = s.Next()
	if errors.Is(err, io.EOF) || errors.Is(err, frame.ErrFrame) {
		// The segment may just end: whether that is damage is decided once all is read.
		r.broken = err
		return f, false, nil
	}
	if err != nil {
		return f, false, err
	}
	if err = r.compareKnown(s.At().Name, f.Offset); err != nil && r.c.UpTo {
		err = &Stop{err}
	}
	if err == nil && f.Header.Kind == frame.Group {
		err = r.passGroup(s.At().File, &f)
	}
	if r.c.UpTo && errors.As(err, &r.stop) {
		return f, false, nil
	}
	return f, err == nil, err
}

// checkSurplus returns an error if a frame behind the end of a segment had been durable. Then the
// segment that names this end is that of a copy of the store that went on from there. The end that
// a session has found is sure: whatever lies behind it was given up.
func (r *replay) checkSurplus(s *segment.Frames) error {
	// Without a segment that goes on here, judgeEnd looks at what lies behind the end.
	end := r.point.Name
	next := r.ends[endName(end)]
	if next == nil || slices.ContainsFunc(r.c.Known.Found, func(e frame.End) bool { return e.Name == end }) {
		return nil
	}
	for {
		f, err := s.Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, frame.ErrFrame):
			return nil
		case err != nil:
			return err
		// A writer goes on in another segment only behind what it has given up, and never gives up
		// a durable frame.
		case f.Header.Durable() > end.Number:
			return errs.NewCorruption(filename.Of(filename.Journal, next.header.Number), 0, "it continues {%v}, behind which there are frames that had been durable: one of them is not of this store", end)
		}
	}
}

// compareKnown compares a frame that was read with the one that the manifest knows by this number.
// Another copy of the store has a frame of this number, too.
func (r *replay) compareKnown(found frame.Name, offset int64) error {
	known := r.c.Known.Durable
	// The frames come in order and known ascends, so no entry is looked at twice.
	for r.met < len(known) && (known[r.met].Number < found.Number || known[r.met].Name == found) {
		r.met++
	}
	if r.met == len(known) || known[r.met].Number > found.Number {
		return nil
	}
	return errs.NewCorruption(filename.Of(filename.Journal, found.File), offset, "this is {%v}, and the manifest knows {%v}: it is not of this store", found, known[r.met].Name)
}

// passGroup passes a group of the segment num to fn. It sets a guard, as a big payload lies in the
// file's mapping.
func (r *replay) passGroup(num entry.FileNum, f *segment.Found) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, filename.Of(filename.Journal, num))
	return r.fn(entry.Position{Segment: num, Offset: f.Offset + frame.HeaderSize, Encrypted: f.Header.Encrypted}, f.Payload, f.Header)
}

// judgeEnd decides whether the chain ends at a torn tail, and counts what is cut.
func (r *replay) judgeEnd() error {
	if r.stop == nil && r.atRecordedEnd() {
		return r.judgeClosed()
	}
	// Let k be the first frame that is missing. If anything proves that it was durable, data is
	// lost. Otherwise nobody was promised frame k, and the tail is cut.
	durable, lost, err := r.searchTails()
	if err != nil {
		return err
	}
	switch {
	case r.stop != nil:
		// The caller of Replay found the damage, in a frame that is whole.
		lost.Damage = r.stop.Damage
	case r.point.Number < durable: // the rule of frame.Tail
		lost.Damage = r.missingFrameError(durable)
	default:
		return nil
	}
	if !r.c.UpTo {
		return lost.Damage
	}
	r.out.Lost = lost
	return nil
}

// searchTails counts the frames behind the end of the chain. They count for nothing, but each says
// how many frames had been durable when it was written. durable is the greatest frame number that
// anything proves durable.
func (r *replay) searchTails() (durable uint64, lost *Lost, err error) {
	durable, lost = r.c.Known.LastProven(), new(Lost)
	for _, c := range r.found {
		if c.visited && (c.header.Number != r.point.File || r.ends.isEnd(r.point.Name)) {
			continue // what lies behind its end is none of its frames
		}
		// A file that is no link is searched whole, even if its header is bad: it may hold the
		// proof.
		from := int64(segment.HeaderSize)
		if c.visited {
			from = r.point.Offset
		} else {
			r.out.Dropped = append(r.out.Dropped, c.header.Number)
		}
		t, err := segment.SearchTail(r.c.Config, filename.Journal, c.header.Number, from, r.point.Number+1)
		if err != nil {
			return 0, nil, err
		}
		durable = max(durable, t.Durable)
		lost.addTail(&t)
		// Zeros were never written.
		r.out.CutFrames += t.Frames
		r.out.CutBytes += t.Used - from
	}
	return durable, lost, nil
}

// addTail counts the frames of a tail.
func (l *Lost) addTail(t *frame.Tail) {
	l.Transactions += t.Transactions
	l.LastVersion = max(l.LastVersion, t.LastVersion)
}

// judgeClosed returns an error if a segment has frames from behind the recorded end of a journal
// that was closed: it is another store's, or the manifest is an old one. Before the next session
// began one, it would have told the manifest.
func (r *replay) judgeClosed() error {
	for _, c := range r.found {
		if c.visited {
			continue
		}
		// Nothing counts behind the recorded end. A damaged file there is not searched for proofs.
		r.out.Dropped = append(r.out.Dropped, c.header.Number)
		// A later segment that continues another one shows as well that the journal went on.
		if c.bad != nil || c.header.FirstFrame() <= r.point.Number {
			continue
		}
		t, err := segment.SearchTail(r.c.Config, filename.Journal, c.header.Number, segment.HeaderSize, c.header.FirstFrame())
		if err != nil {
			return err
		}
		if t.Frames == 0 {
			continue // a commit that was refused has left it
		}
		err = errs.NewCorruption(filename.Of(filename.Journal, c.header.Number), 0, "it goes on behind the end of the journal, {%v}, which was closed: it is not of this store, or the manifest is an old one", r.point.Name)
		if !r.c.UpTo {
			return err
		}
		if r.out.Lost == nil {
			r.out.Lost = &Lost{Damage: err}
		}
		r.out.Lost.addTail(&t)
	}
	return nil
}

// missingSegment is the first segment behind the end of the chain that the manifest or
// another segment names and that is not there; 0 = none.
func (r *replay) missingSegment() (first entry.FileNum) {
	var named []entry.FileNum
	for _, k := range r.c.Known.Durable {
		named = append(named, k.File)
	}
	// The manifest learns of a segment only with its first sync. The header of a later segment
	// names it, too.
	for _, c := range r.found {
		if c.bad == nil {
			named = append(named, c.header.Before.File)
		}
	}
	for _, num := range named {
		there := slices.ContainsFunc(r.found, func(c *candidate) bool { return c.header.Number == num })
		if num > r.point.File && !there && (first == 0 || num < first) {
			first = num
		}
	}
	return first
}

// missingFrameError says where the missing frame should have been: in a file that is not
// there, behind the damage that ended the chain, in a file with a damaged header,
// or else behind the last good frame.
func (r *replay) missingFrameError(durable uint64) error {
	reason := fmt.Sprintf("frame %d is missing, but frame %d had been durable", r.point.Number+1, durable)
	// The most useful answer first: a missing file can perhaps be brought back from a copy.
	if num := r.missingSegment(); num != 0 {
		return errs.NewCorruption(filename.Of(filename.Journal, num), -1, "the journal segment is not there: %s", reason)
	}
	var damage *errs.Corruption
	if errors.As(r.broken, &damage) {
		return &errs.Corruption{File: damage.File, Offset: damage.Offset, Reason: reason, Err: damage.Err}
	}
	for _, c := range r.found {
		if !c.visited && c.bad != nil {
			return &errs.Corruption{File: filename.Of(filename.Journal, c.header.Number), Offset: 0, Reason: reason, Err: c.bad}
		}
	}
	last := filename.Of(filename.Journal, r.point.File)
	n := len(r.out.Segments)
	if n == 0 {
		return errs.NewCorruption(last, -1, "the journal segment after this one is missing: %s", reason)
	}
	// A sealed segment can't have been longer, so then its successor is lost.
	what := "the segment was cut"
	if r.out.Segments[n-1].Sealed {
		what = "the segment after this one is missing"
	}
	return errs.NewCorruption(last, r.point.Offset, "%s: %s", what, reason)
}
