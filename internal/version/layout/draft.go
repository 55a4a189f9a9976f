package layout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// How an edit is applied to a layout: step by step, to a draft of the next one.

// ErrConflictingEdit says that an edit doesn't fit the layout: it names something
// that isn't there, adds something that is, or names a dead record again. The
// wrapping error says which.
var ErrConflictingEdit = errors.New("edit does not fit the layout")

// maxClock is how many clock samples a layout keeps. Beyond it the older half is
// thinned.
const maxClock = 512

// maxFileNum leaves room above the greatest number that a file may have.
const maxFileNum = 1 << 62

// draft is a layout that an edit is being applied to. Older layouts share its
// slices, so each but segments is cloned before it is written to.
type draft struct{ Layout }

// Apply returns the layout after e, which must not be written to afterwards. It
// returns an error that wraps ErrConflictingEdit if e doesn't fit. Apply does
// nothing but compute: what the manifest accepts once, it accepts when it is read.
func (l *Layout) Apply(e *Edit) (*Layout, error) {
	d := &draft{*l}
	d.segments = slices.Clone(l.segments)
	d.cleanClose = e.CleanClose
	if e.Scrub != (Scrub{}) {
		d.scrub = e.Scrub
	}
	if e.DataKey.ID != (crypt.ID{}) {
		d.dataKey = e.DataKey
	}
	// The order matters: one edit may add a segment, refer to it by a run, bury records in it, and
	// drop its source. countUsage checks the result, so it comes after all that changes runs and
	// segments.
	for _, step := range []func(*Edit) error{
		d.addSegments, d.changeRuns, d.addDead, d.moveSegments, d.dropSegments, d.countUsage, d.advanceNumbers, d.changeKeyspaces, d.changeFeed, d.addSessions,
	} {
		if err := step(e); err != nil {
			return nil, err
		}
	}
	d.sampleClock(e.Clock)
	d.unknown = append(slices.Clip(d.unknown), e.Unknown...) // older layouts share its memory
	return &d.Layout, nil
}

// spare is how many versions and file numbers a store must have left: used ones never come
// back.
const spare = 1 << 32

// CheckSound returns an error for a layout that no store reaches, though each of its edits fits: a
// floor above the last version, or versions or file numbers that are nearly used up.
func (l *Layout) CheckSound() error {
	floor := l.floor
	for _, k := range l.keyspaces {
		floor = max(floor, k.floor)
	}
	switch {
	// Readers below the floor are refused, so nobody could read the newest version.
	case floor > l.lastVersion:
		return conflictError("history begins at version %d, and the last one is %d", floor, l.lastVersion)
	case l.lastVersion > entry.MaxVersion-spare:
		return conflictError("the last version is %d", l.lastVersion)
	case l.nextFile > maxFileNum-spare:
		return conflictError("the next file is %d", l.nextFile)
	}
	return nil
}

// conflictError returns an ErrConflictingEdit that says why.
func conflictError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrConflictingEdit, fmt.Sprintf(format, args...))
}

// addSegments adds the segments of e, which must be new.
func (d *draft) addSegments(e *Edit) error {
	for i := range e.AddSegments {
		s := e.AddSegments[i]
		if s.Kind != filename.Journal && s.Kind != filename.Value {
			return conflictError("segment %d is of kind %v", s.Num, s.Kind)
		}
		if err := d.takeNumber(s.Num); err != nil {
			return err
		}
		// In a snapshot Dead and States say what s has; here it would count twice.
		s.state, s.dead = SegmentState{Num: s.Num}, deadSet{}
		at, found := d.findSegment(s.Num)
		if found {
			return conflictError("segment %d added, which is there", s.Num)
		}
		d.segments = slices.Insert(d.segments, at, &s)
	}
	return nil
}

// changeSegment returns a copy of a segment that takes its place, as older layouts have the
// original.
func (d *draft) changeSegment(num entry.FileNum) (*Segment, error) {
	at, found := d.findSegment(num)
	if !found {
		return nil, conflictError("segment %d changes, which is not there", num)
	}
	s := *d.segments[at]
	d.segments[at] = &s
	return &s, nil
}

// takeNumber checks a file number and raises nextFile above it.
func (d *draft) takeNumber(n entry.FileNum) error {
	if n == 0 || n > maxFileNum {
		return conflictError("file number %d", n)
	}
	d.nextFile = max(d.nextFile, n+1)
	return nil
}

// changeRuns drops and adds runs.
func (d *draft) changeRuns(e *Edit) error {
	if len(e.DropRuns) == 0 && len(e.AddRuns) == 0 {
		return nil
	}
	// A compaction may put a run in the place of one that it drops, so drop first.
	d.runs = slices.Clone(d.runs)
	for _, id := range e.DropRuns {
		at := slices.IndexFunc(d.runs, func(r *Run) bool { return r.ID == id })
		if at < 0 {
			return conflictError("run %d dropped, which is not there", id)
		}
		d.runs = slices.Delete(d.runs, at, at+1)
	}
	for i := range e.AddRuns {
		r := &e.AddRuns[i]
		if err := d.checkRun(r); err != nil {
			return err
		}
		d.runs = append(d.runs, r)
	}
	return d.sortRuns()
}

// checkRun checks a run alone, and raises nextFile above its files.
func (d *draft) checkRun(r *Run) error {
	if len(r.Files) == 0 {
		return conflictError("run %d has no files", r.ID)
	}
	for _, f := range r.Files {
		// A new file must never get the number of one that is there.
		if err := d.takeNumber(f.Num); err != nil {
			return err
		}
	}
	if r.ID > maxFileNum || r.Order > maxFileNum {
		return conflictError("run %d has order %d", r.ID, r.Order)
	}
	if r.MinVersion > r.MaxVersion || slices.Compare(r.First, r.Last) > 0 {
		return conflictError("the bounds of run %d are reversed", r.ID)
	}
	if r.Stamp != 0 && (r.MinVersion != r.Stamp || r.MaxVersion != r.Stamp) {
		return conflictError("run %d is of version %d, and has versions %d to %d", r.ID, r.Stamp, r.MinVersion, r.MaxVersion)
	}
	for i := 1; i < len(r.Refs); i++ {
		if r.Refs[i].Segment <= r.Refs[i-1].Segment {
			return conflictError("the references of run %d don't ascend", r.ID)
		}
	}
	return nil
}

// sortRuns sorts the runs; no two may share id, order or a file.
func (d *draft) sortRuns() error {
	ids, orders := make(map[RunID]bool, len(d.runs)), make(map[uint64]bool, len(d.runs))
	files := make(map[entry.FileNum]bool) // a file in two runs would be removed with one of them
	for _, r := range d.runs {
		if ids[r.ID] || orders[r.Order] {
			return conflictError("run %d added, and another one has this id or the order %d", r.ID, r.Order)
		}
		ids[r.ID], orders[r.Order] = true, true
		for _, f := range r.Files {
			if files[f.Num] {
				return conflictError("file %d of run %d is named twice", f.Num, r.ID)
			}
			files[f.Num] = true
		}
	}
	// Newest first: readers stop at the first run that has a key.
	slices.SortFunc(d.runs, func(a, b *Run) int { return cmp.Compare(b.Order, a.Order) })
	return nil
}

// addDead adds dead records.
func (d *draft) addDead(e *Edit) error {
	for i := range e.Dead {
		dead := &e.Dead[i]
		s, err := d.changeSegment(dead.Segment)
		if err != nil {
			return err
		}
		for i := 1; i < len(dead.Granules); i++ {
			// deadSet.withGranules merges sorted lists.
			if dead.Granules[i] <= dead.Granules[i-1] {
				return conflictError("the dead granules of segment %d don't ascend", dead.Segment)
			}
		}
		if n := len(dead.Granules); n > 0 && uint64(dead.Granules[n-1])*Granule >= s.FileBytes {
			return conflictError("dead granule %d is beyond the end of segment %d", dead.Granules[n-1], s.Num)
		}
		grown, dup, ok := s.dead.withGranules(dead.Granules, dead.Bytes)
		if !ok {
			return conflictError("granule %d of segment %d is dead already", dup, s.Num)
		}
		s.dead = grown
	}
	return nil
}

// moveSegments gives segments their new states.
func (d *draft) moveSegments(e *Edit) error {
	for _, st := range e.States {
		s, err := d.changeSegment(st.Num)
		switch {
		case err != nil:
			return err
		case st.Status == Live && (st.Map != 0 || st.Target != 0 || !st.KeyID.IsZero()):
			return conflictError("segment %d is live and has a forwarding table", st.Num)
		// A target is written after its source, so its number is greater. This also rules out
		// circles, in which a lookup would never end.
		case st.Status == Relocated && (st.Map == 0 || st.Target <= st.Num):
			return conflictError("segment %d is relocated to segment %d with forwarding table %d", st.Num, st.Target, st.Map)
		}
		s.state = st
		if st.Status == Relocated {
			if err := d.takeNumber(st.Map); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropSegments drops segments. That nothing needs them is checked by countUsage.
func (d *draft) dropSegments(e *Edit) error {
	for _, num := range e.DropSegments {
		at, found := d.findSegment(num)
		if !found {
			return conflictError("segment %d dropped, which is not there", num)
		}
		d.segments = slices.Delete(d.segments, at, at+1)
	}
	return nil
}

// countUsage counts anew which segments runs and relocated segments need, and checks that all of
// these are there.
func (d *draft) countUsage(*Edit) error {
	// Counted anew each time, so that it can't drift from what runs say.
	d.usage = make([]Usage, len(d.segments))
	for _, r := range d.runs {
		for _, ref := range r.Refs {
			at, found := d.findSegment(ref.Segment)
			if !found {
				return conflictError("run %d refers to segment %d, which is not there", r.ID, ref.Segment)
			}
			u := &d.usage[at]
			// A subtraction, as a damaged count could overflow a sum.
			if ref.Records > d.segments[at].Records-d.segments[at].dead.count-u.Records {
				return conflictError("more entries than records: segment %d has %d, %d are dead, runs refer to %d",
					ref.Segment, d.segments[at].Records, d.segments[at].dead.count, u.Records+ref.Records)
			}
			u.Runs++
			u.Records += ref.Records
			u.Bytes += ref.Bytes
		}
	}

	for i, s := range d.segments {
		if s.dead.count > s.Records {
			return conflictError("segment %d has %d records, %d are dead", s.Num, s.Records, s.dead.count)
		}
		if s.state.Status == Relocated {
			at, found := d.findSegment(s.state.Target)
			if !found {
				return conflictError("segment %d is relocated to segment %d, which is not there", d.segments[i].Num, s.state.Target)
			}
			d.usage[at].Sources++
			// Handles still name the source, but the records are the target's.
			d.usage[at].Moved += d.usage[i].Records
		}
	}
	return nil
}

// advanceNumbers raises the numbers that only grow.
func (d *draft) advanceNumbers(e *Edit) error {
	if e.LastVersion != 0 && e.LastVersion < d.lastVersion ||
		e.Floor != 0 && e.Floor < d.floor ||
		e.FlushedTo != 0 && e.FlushedTo < d.flushedTo {
		return conflictError("last version, floor or flushed segment goes back: %d, %d, %d after %d, %d, %d",
			e.LastVersion, e.Floor, e.FlushedTo, d.lastVersion, d.floor, d.flushedTo)
	}
	d.lastVersion = max(d.lastVersion, e.LastVersion)
	d.lasting = max(d.lasting, e.Lasting)
	d.floor = max(d.floor, e.Floor)
	d.flushedTo = max(d.flushedTo, e.FlushedTo)
	// Also above the flushed journal segments, whose files may be gone.
	d.nextFile = max(d.nextFile, e.NextFile, d.flushedTo+1)
	if e.NextFile > maxFileNum || e.FlushedTo > maxFileNum {
		return conflictError("file number %d", max(e.NextFile, e.FlushedTo))
	}
	return d.advanceEnds(e)
}

// advanceEnds raises the durable ends of journal segments, and forgets those that no replay needs.
func (d *draft) advanceEnds(e *Edit) error {
	if len(e.JournalEnds) == 0 && e.FlushedTo == 0 {
		return nil
	}
	old := d.ends
	d.ends = slices.Clone(old)
	for _, j := range e.JournalEnds {
		if err := d.takeNumber(j.File); err != nil {
			return err
		}
		at, found := slices.BinarySearchFunc(old, j.File, func(x frame.End, n entry.FileNum) int { return cmp.Compare(x.File, n) })
		switch {
		case !found:
			d.ends = append(d.ends, j)
		case j.Offset < d.ends[at].Offset || j.Number < d.ends[at].Number:
			return conflictError("the durable end of journal segment %d goes back", j.File)
		// The next two find another copy of the store, which has used the same numbers.
		case j.KeyID != d.ends[at].KeyID:
			return conflictError("journal segment %d is another file than before", j.File)
		case j.Number == d.ends[at].Number && j != d.ends[at]:
			return conflictError("frame %d of journal segment %d is another one than before", j.Number, j.File)
		default:
			d.ends[at] = j
		}
	}
	slices.SortFunc(d.ends, func(a, b frame.End) int { return cmp.Compare(a.File, b.File) })
	for i := 1; i < len(d.ends); i++ {
		if d.ends[i].File == d.ends[i-1].File {
			return conflictError("journal segment %d has two durable ends", d.ends[i].File)
		}
	}
	flushed := 0
	// The end of the last flushed segment stays, as the replay begins there.
	for flushed+1 < len(d.ends) && d.ends[flushed+1].File <= d.flushedTo {
		flushed++
	}
	d.ends = d.ends[flushed:]
	return nil
}

// addSessions adds sessions, and forgets the oldest ones.
func (d *draft) addSessions(e *Edit) error {
	for _, s := range e.Sessions {
		if n := len(d.sessions); n > 0 && s.Number != d.sessions[n-1].Number+1 {
			return conflictError("session %d follows session %d", s.Number, d.sessions[n-1].Number)
		}
		d.sessions = append(slices.Clip(d.sessions), s)
	}
	if len(d.sessions) > maxSessions {
		first := d.lastVersion
		if items := d.feed.Items(); len(items) > 0 {
			first = items[0].Last
		}
		d.sessions = d.sessions.since(first)
	}
	return nil
}

// sampleClock adds samples of newer versions, forgets those that only history below
// all floors needs, and thins the older half when there are many.
func (d *draft) sampleClock(samples []ClockSample) {
	d.clock = slices.Clone(d.clock)
	for _, c := range samples {
		if n := len(d.clock); n == 0 || c.Version > d.clock[n-1].Version {
			d.clock = append(d.clock, c)
		}
	}
	// The newest sample at or below the floor stays: it says when the floor was new.
	old := 0
	// That of the default keyspace first: a store may have many others.
	if len(d.clock) > 1 && d.clock[1].Version <= d.floor {
		floor := d.leastFloor()
		for old+1 < len(d.clock) && d.clock[old+1].Version <= floor {
			old++
		}
	}
	d.clock = d.clock[old:]
	if len(d.clock) > maxClock {
		// So the distance between samples grows with their age, and few samples
		// reach back far.
		kept := d.clock[:0]
		for i, c := range d.clock {
			if i%2 == 0 || i > maxClock/2 {
				kept = append(kept, c)
			}
		}
		d.clock = kept
	}
}

// changeFeed adds to the feed, and drops from it what ends with FeedFrom or before.
func (d *draft) changeFeed(e *Edit) error {
	if e.FeedFrom == 0 && len(e.FeedSegments)+len(e.FeedCommits) == 0 {
		return nil
	}
	next := Feed{Segments: slices.Concat(d.feed.Segments, e.FeedSegments), Commits: slices.Concat(d.feed.Commits, e.FeedCommits)}
	// Ascending by version and by number: a reader searches both lists.
	if !slices.IsSortedFunc(next.Segments, func(a, b FeedSegment) int {
		return cmp.Or(cmp.Compare(a.Last, b.Last), cmp.Compare(a.File, b.File))
	}) || !slices.IsSortedFunc(next.Commits, func(a, b FeedCommit) int { return cmp.Compare(a.Version, b.Version) }) {
		return conflictError("the feed's versions don't ascend")
	}
	for _, s := range e.FeedSegments {
		if s.File > d.flushedTo {
			return conflictError("journal segment %d is in the feed before it was flushed", s.File)
		}
		if err := d.takeNumber(s.File); err != nil {
			return err
		}
	}
	next.Segments = slices.DeleteFunc(next.Segments, func(s FeedSegment) bool { return s.Last <= e.FeedFrom })
	next.Commits = slices.DeleteFunc(next.Commits, func(c FeedCommit) bool { return c.Version <= e.FeedFrom })
	d.feed = next
	for i := range e.FeedCommits {
		if err := d.addFeedCommit(&e.FeedCommits[i]); err != nil {
			return err
		}
	}
	return nil
}

// addFeedCommit checks a commit of the feed, and notes the numbers of its files.
func (d *draft) addFeedCommit(c *FeedCommit) error {
	if c.Skipped >= uint64(max(c.Version, 1)) {
		return conflictError("%d versions are skipped before version %d", c.Skipped, c.Version)
	}
	for _, s := range c.Segments {
		if err := d.takeNumber(s.Num); err != nil {
			return err
		}
	}
	if !c.IsSpill() {
		return nil
	}
	return d.checkRun(&c.Run)
}

// DropUnreferenced adds to an edit of l the segments that nobody will need after it; which of their
// records have died is of no interest.
func (l *Layout) DropUnreferenced(edit *Edit) error {
	next, err := l.Apply(edit)
	if err != nil {
		return err
	}
	edit.DropSegments = append(edit.DropSegments, next.Unreferenced()...)
	edit.Dead = slices.DeleteFunc(edit.Dead, func(d Dead) bool { return slices.Contains(edit.DropSegments, d.Segment) })
	return nil
}
