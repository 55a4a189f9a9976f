package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/filename"
)

// ErrConflictingEdit says that an edit doesn't fit the layout: it names what
// isn't there, adds what is, or says dead twice. The wrapping error says which.
var ErrConflictingEdit = errors.New("edit does not fit the layout")

// maxClock bounds the clock samples of a layout; beyond it the older half is thinned.
const maxClock = 512

// maxFileNum leaves room above the greatest number that a file may have.
const maxFileNum = 1 << 62

// Apply returns the layout after e, which must not be written to afterwards. An
// edit that doesn't fit gives an error that wraps ErrConflictingEdit. Apply does
// nothing but compute: what an Append accepts, a replay accepts.
func (l *Layout) Apply(e *Edit) (*Layout, error) {
	n := *l
	n.cleanClose = e.CleanClose
	steps := []func(*Edit) error{
		n.addSegments, n.changeRuns, n.bury, n.moveSegments, n.dropSegments, n.use, n.advance, n.changeKeyspaces,
	}
	for _, step := range steps {
		if err := step(e); err != nil {
			return nil, err
		}
	}
	n.sampleClock(e.Clock)
	n.unknown = appendNew(n.unknown, e.Unknown...)
	return &n, nil
}

func conflicting(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrConflictingEdit, fmt.Sprintf(format, args...))
}

// appendNew appends without writing to memory that older layouts share.
func appendNew[T any](s []T, more ...T) []T {
	return append(s[:len(s):len(s)], more...)
}

func (l *Layout) addSegments(e *Edit) error {
	if len(e.AddSegments) == 0 {
		return nil
	}
	l.segments = slices.Clone(l.segments)
	for i := range e.AddSegments {
		s := e.AddSegments[i]
		if s.Kind != filename.Journal && s.Kind != filename.Value {
			return conflicting("segment %d is of kind %v", s.Num, s.Kind)
		}
		if err := l.number(s.Num); err != nil {
			return err
		}
		s.state, s.dead = SegmentState{}, deadSet{}
		l.segments = append(l.segments, &s)
	}
	slices.SortFunc(l.segments, func(a, b *Segment) int { return cmp.Compare(a.Num, b.Num) })
	if i := repeated(l.segments, func(s *Segment) entry.FileNum { return s.Num }); i >= 0 {
		return conflicting("segment %d added, which is there", l.segments[i].Num)
	}
	return nil
}

// number checks a file number and raises nextFile above it.
func (l *Layout) number(n entry.FileNum) error {
	if n == 0 || n > maxFileNum {
		return conflicting("file number %d", n)
	}
	l.nextFile = max(l.nextFile, n+1)
	return nil
}

// repeated finds the first element of a sorted list that has the key of the one before; -1: none.
func repeated[T any, K comparable](list []T, key func(T) K) int {
	for i := 1; i < len(list); i++ {
		if key(list[i]) == key(list[i-1]) {
			return i
		}
	}
	return -1
}

func (l *Layout) changeRuns(e *Edit) error {
	if len(e.DropRuns) == 0 && len(e.AddRuns) == 0 {
		return nil
	}
	dropped := make(map[RunID]bool, len(e.DropRuns))
	for _, id := range e.DropRuns {
		dropped[id] = true
	}
	runs := make([]*Run, 0, len(l.runs)+len(e.AddRuns))
	for _, r := range l.runs {
		if !dropped[r.ID] {
			runs = append(runs, r)
		}
	}
	if len(dropped) != len(e.DropRuns) || len(l.runs)-len(runs) != len(dropped) {
		return conflicting("a run is dropped which is not there: one of %d", e.DropRuns)
	}
	l.runs = runs
	for i := range e.AddRuns {
		r := &e.AddRuns[i]
		if err := l.fits(r); err != nil {
			return err
		}
		l.runs = append(l.runs, r)
	}
	return l.distinctRuns()
}

// fits checks a run by itself.
func (l *Layout) fits(r *Run) error {
	if len(r.Files) == 0 {
		return conflicting("run %d has no files", r.ID)
	}
	for _, f := range r.Files {
		if err := l.number(f.Num); err != nil {
			return err
		}
	}
	if r.MinVersion > r.MaxVersion || slices.Compare(r.First, r.Last) > 0 {
		return conflicting("the bounds of run %d are reversed", r.ID)
	}
	if r.Stamp != 0 && (r.MinVersion != r.Stamp || r.MaxVersion != r.Stamp) {
		return conflicting("run %d is of version %d, and has versions %d to %d", r.ID, r.Stamp, r.MinVersion, r.MaxVersion)
	}
	for i := 1; i < len(r.Refs); i++ {
		if r.Refs[i].Segment <= r.Refs[i-1].Segment {
			return conflicting("the references of run %d don't ascend", r.ID)
		}
	}
	return nil
}

// distinctRuns sorts the runs; no two may share id, order or a file.
func (l *Layout) distinctRuns() error {
	ids := make(map[RunID]bool, len(l.runs))
	files := make(map[entry.FileNum]bool)
	for _, r := range l.runs {
		if ids[r.ID] {
			return conflicting("run %d added, which is there", r.ID)
		}
		ids[r.ID] = true
		for _, f := range r.Files {
			if files[f.Num] {
				return conflicting("file %d of run %d is named twice", f.Num, r.ID)
			}
			files[f.Num] = true
		}
	}
	slices.SortFunc(l.runs, func(a, b *Run) int { return cmp.Compare(b.Order, a.Order) })
	if i := repeated(l.runs, func(r *Run) uint64 { return r.Order }); i >= 0 {
		return conflicting("runs %d and %d have one order", l.runs[i].ID, l.runs[i-1].ID)
	}
	return nil
}

// bury adds dead records.
func (l *Layout) bury(e *Edit) error {
	if len(e.Dead) == 0 {
		return nil
	}
	l.segments = slices.Clone(l.segments)
	for i := range e.Dead {
		d := &e.Dead[i]
		at, found := l.findSegment(d.Segment)
		if !found {
			return conflicting("dead records in segment %d, which is not there", d.Segment)
		}
		for i := 1; i < len(d.Granules); i++ {
			if d.Granules[i] <= d.Granules[i-1] {
				return conflicting("the dead granules of segment %d don't ascend", d.Segment)
			}
		}
		s := *l.segments[at]
		if n := len(d.Granules); n > 0 && uint64(d.Granules[n-1])*Granule >= s.FileBytes {
			return conflicting("dead granule %d is beyond the end of segment %d", d.Granules[n-1], s.Num)
		}
		dead, dup, ok := s.dead.with(d.Granules, d.Bytes)
		if !ok {
			return conflicting("granule %d of segment %d is dead already", dup, s.Num)
		}
		s.dead = dead
		l.segments[at] = &s
	}
	return nil
}

func (l *Layout) moveSegments(e *Edit) error {
	if len(e.States) == 0 {
		return nil
	}
	l.segments = slices.Clone(l.segments)
	for _, st := range e.States {
		at, found := l.findSegment(st.Num)
		if !found {
			return conflicting("segment %d changes state and is not there", st.Num)
		}
		switch {
		case st.Status == Live && (st.Map != 0 || st.Target != 0):
			return conflicting("segment %d is live and has a remap", st.Num)
		case st.Status == Relocated && (st.Map == 0 || st.Target <= st.Num):
			return conflicting("segment %d is relocated to segment %d with remap %d", st.Num, st.Target, st.Map)
		}
		s := *l.segments[at]
		s.state = st
		l.segments[at] = &s
		if st.Status == Relocated {
			if err := l.number(st.Map); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Layout) dropSegments(e *Edit) error {
	if len(e.DropSegments) == 0 {
		return nil
	}
	dropped := make(map[entry.FileNum]bool, len(e.DropSegments))
	for _, num := range e.DropSegments {
		dropped[num] = true
	}
	kept := make([]*Segment, 0, len(l.segments))
	for _, s := range l.segments {
		if !dropped[s.Num] {
			kept = append(kept, s)
		}
	}
	if len(dropped) != len(e.DropSegments) || len(l.segments)-len(kept) != len(dropped) {
		return conflicting("a segment is dropped which is not there: one of %d", e.DropSegments)
	}
	l.segments = kept
	return nil
}

// use counts anew who needs which segment, and checks that all of them are there.
func (l *Layout) use(*Edit) error {
	l.usage = make([]Usage, len(l.segments))
	for _, r := range l.runs {
		for _, ref := range r.Refs {
			at, found := l.findSegment(ref.Segment)
			if !found {
				return conflicting("run %d refers to segment %d, which is not there", r.ID, ref.Segment)
			}
			u := &l.usage[at]
			if ref.Records > l.segments[at].Records-l.segments[at].dead.count-u.Records {
				return conflicting("more entries than records: segment %d has %d, %d are dead, runs refer to %d",
					ref.Segment, l.segments[at].Records, l.segments[at].dead.count, u.Records+ref.Records)
			}
			u.Runs++
			u.Records += ref.Records
			u.Bytes += ref.Bytes
		}
	}
	for i, s := range l.segments {
		if s.dead.count > s.Records {
			return conflicting("segment %d has %d records, %d are dead", s.Num, s.Records, s.dead.count)
		}
		if s.state.Status == Relocated {
			at, found := l.findSegment(s.state.Target)
			if !found {
				return conflicting("segment %d is relocated to segment %d, which is not there", l.segments[i].Num, s.state.Target)
			}
			l.usage[at].Sources++
			l.usage[at].Moved += l.usage[i].Records
		}
	}
	return nil
}

// advance raises the numbers that only grow.
func (l *Layout) advance(e *Edit) error {
	if e.LastVersion != 0 && e.LastVersion < l.lastVersion ||
		e.Floor != 0 && e.Floor < l.floor ||
		e.FlushedTo != 0 && e.FlushedTo < l.flushedTo {
		return conflicting("last version, floor or flushed segment goes back: %d, %d, %d after %d, %d, %d",
			e.LastVersion, e.Floor, e.FlushedTo, l.lastVersion, l.floor, l.flushedTo)
	}
	l.lastVersion = max(l.lastVersion, e.LastVersion)
	l.floor = max(l.floor, e.Floor)
	l.flushedTo = max(l.flushedTo, e.FlushedTo)
	l.nextFile = max(l.nextFile, e.NextFile, l.flushedTo+1)
	if e.NextFile > maxFileNum || e.FlushedTo > maxFileNum {
		return conflicting("file number %d", max(e.NextFile, e.FlushedTo))
	}
	return l.advanceEnds(e)
}

func (l *Layout) advanceEnds(e *Edit) error {
	if len(e.JournalEnds) == 0 && e.FlushedTo == 0 {
		return nil
	}
	old := l.ends
	l.ends = slices.Clone(old)
	for _, j := range e.JournalEnds {
		if err := l.number(j.Segment); err != nil {
			return err
		}
		at, found := slices.BinarySearchFunc(old, j.Segment, func(x JournalEnd, n entry.FileNum) int { return cmp.Compare(x.Segment, n) })
		switch {
		case !found:
			l.ends = append(l.ends, j)
		case j.Offset < l.ends[at].Offset || j.Frame < l.ends[at].Frame:
			return conflicting("the durable end of journal segment %d goes back", j.Segment)
		default:
			l.ends[at] = j
		}
	}
	slices.SortFunc(l.ends, func(a, b JournalEnd) int { return cmp.Compare(a.Segment, b.Segment) })
	if i := repeated(l.ends, func(j JournalEnd) entry.FileNum { return j.Segment }); i >= 0 {
		return conflicting("journal segment %d has two durable ends", l.ends[i].Segment)
	}
	flushed := 0
	// The end of the last flushed segment stays: there the replay begins.
	for flushed+1 < len(l.ends) && l.ends[flushed+1].Segment <= l.flushedTo {
		flushed++
	}
	l.ends = l.ends[flushed:]
	return nil
}

// sampleClock keeps samples of ever newer versions, forgets those that only
// history below all floors needs, and thins the older half when there are many.
func (l *Layout) sampleClock(samples []ClockSample) {
	l.clock = slices.Clone(l.clock)
	for _, c := range samples {
		if n := len(l.clock); n == 0 || c.Version > l.clock[n-1].Version {
			l.clock = append(l.clock, c)
		}
	}
	old := 0
	floor := l.leastFloor()
	for old+1 < len(l.clock) && l.clock[old+1].Version <= floor {
		old++
	}
	l.clock = l.clock[old:]
	if len(l.clock) > maxClock {
		kept := l.clock[:0]
		for i, c := range l.clock {
			if i%2 == 0 || i > maxClock/2 {
				kept = append(kept, c)
			}
		}
		l.clock = kept
	}
}

// Snapshot returns the edit that makes l out of nothing.
func (l *Layout) Snapshot() *Edit {
	e := &Edit{
		FlushedTo: l.flushedTo, JournalEnds: l.ends, LastVersion: l.lastVersion, Floor: l.floor,
		Clock: l.clock, NextFile: l.nextFile, SetKeyspaces: l.keyspaces, CleanClose: l.cleanClose, Unknown: l.unknown,
	}
	if l.nextKeyspace > firstKeyspace {
		e.NextKeyspace = l.nextKeyspace
	}
	for _, k := range l.keyspaces {
		if k.floor != 0 {
			e.KeyspaceFloors = append(e.KeyspaceFloors, KeyspaceFloor{ID: k.ID, Version: k.floor})
		}
	}
	for _, r := range l.runs {
		e.AddRuns = append(e.AddRuns, *r)
	}
	for _, s := range l.segments {
		e.AddSegments = append(e.AddSegments, *s)
		if s.dead.count > 0 || s.dead.bytes > 0 {
			e.Dead = append(e.Dead, Dead{Segment: s.Num, Bytes: s.dead.bytes, Granules: slices.Collect(s.dead.all())})
		}
		if s.state != (SegmentState{}) {
			e.States = append(e.States, s.state)
		}
	}
	return e
}
