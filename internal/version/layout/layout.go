// Package layout says which files make up the store at one moment, and what is
// known about them: runs, segments, keyspaces, and which versions stay. LevelDB and its
// successors call a Layout a version, and an Edit, which leads from one Layout to the next, a
// version edit; here a version is the number of a commit. A floor is the oldest readable
// version. The package computes; it reads no file and writes none (package manifest does).
package layout

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// Layout is the set of files that make up the store at one moment, and what is
// known about them. It never changes: Apply makes the next one. What its methods
// return is shared and must not be written to. Any number of goroutines may use
// a Layout.
type Layout struct {
	runs     []*Run     // newest first
	segments []*Segment // ascending by number
	usage    []Usage    // of segments, in their order

	flushedTo   entry.FileNum // journal segments up to this one are wholly in runs
	ends        []frame.End   // ascending by segment
	lastVersion entry.Version // greatest version that was ever recorded
	lasting     entry.Version // greatest version that needs no journal
	floor       entry.Version // oldest readable version of the default keyspace
	clock       []ClockSample // ascending by version
	nextFile    entry.FileNum // greater than every file number so far
	keyspaces   []Keyspace    // ascending by id
	// adds to the array of keyspaces; nil: no keyspace was added to this array yet
	grown        *grown
	nextKeyspace uint64 // greater than every number of a keyspace so far
	cleanClose   bool
	scrub        Scrub
	sessions     Sessions
	dataKey      DataKey
	feed         Feed
	unknown      []TLV // fields of later releases, which must be kept
}

// Usage counts what keeps a segment in the store.
type Usage struct {
	Runs    int    // runs that refer to it
	Records uint64 // entries in them that refer to it
	Bytes   uint64 // of their values
	Sources int    // relocated segments whose records it holds
	Moved   uint64 // entries that refer to those
}

// New returns the layout of a store that has nothing.
func New() *Layout { return &Layout{nextFile: 1, nextKeyspace: firstKeyspace} }

// Runs lists the runs, newest first.
func (l *Layout) Runs() []*Run { return l.runs }

// Run finds a run; nil if there is none.
func (l *Layout) Run(id RunID) *Run {
	for _, r := range l.runs {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// NextOrder is the order that makes a run newer than all others.
func (l *Layout) NextOrder() uint64 {
	// Runs are newest first, so the first has the greatest order.
	if len(l.runs) == 0 {
		return 1
	}
	return l.runs[0].Order + 1
}

// Segments lists the segments, ascending by number.
func (l *Layout) Segments() []*Segment { return l.segments }

// Segment finds a segment; nil if there is none.
func (l *Layout) Segment(num entry.FileNum) *Segment {
	if i, ok := l.findSegment(num); ok {
		return l.segments[i]
	}
	return nil
}

// Usage returns what keeps the segment in the store; zeros if it isn't there.
func (l *Layout) Usage(num entry.FileNum) Usage {
	if i, ok := l.findSegment(num); ok {
		return l.usage[i]
	}
	return Usage{}
}

func (l *Layout) findSegment(num entry.FileNum) (int, bool) {
	return slices.BinarySearchFunc(l.segments, num, func(s *Segment, n entry.FileNum) int { return cmp.Compare(s.Num, n) })
}

// Unaccounted counts the records of a segment that are not dead and that no run
// refers to, not even through a relocated segment. Unless it is 0, an edit failed
// to name a dead record. The records of a relocated segment are accounted for in
// the segment that has them now.
func (l *Layout) Unaccounted(num entry.FileNum) uint64 {
	i, ok := l.findSegment(num)
	// Its entries count as Moved in the target.
	if !ok || l.segments[i].state.Status == Relocated {
		return 0
	}
	s := l.segments[i]
	return s.Records - s.dead.count - l.usage[i].Records - l.usage[i].Moved
}

// Unreferenced lists the segments that no run needs, neither directly nor through
// a relocated segment.
func (l *Layout) Unreferenced() []entry.FileNum {
	// A run's handles name the source of a relocation, whose records are in the
	// target: it needs both. A target comes behind its sources.
	needed := make(map[entry.FileNum]bool)
	var free []entry.FileNum
	for i, s := range l.segments {
		if l.usage[i].Runs == 0 && !needed[s.Num] {
			free = append(free, s.Num)
		} else {
			needed[s.state.Target] = true
		}
	}
	return free
}

// FlushedTo is the last journal segment whose entries are all in runs; recovery
// replays the ones after it.
func (l *Layout) FlushedTo() entry.FileNum { return l.flushedTo }

// Sessions lists the newest sessions, ascending.
func (l *Layout) Sessions() Sessions { return l.sessions }

// JournalEnds lists how far journal segments are known to be durable, ascending by
// segment. The first may be that of the last segment up to FlushedTo, behind which
// the replay begins. The others are those of the segments after it.
func (l *Layout) JournalEnds() []frame.End { return l.ends }

// LastVersion is the greatest version that was ever recorded. No power loss takes it.
func (l *Layout) LastVersion() entry.Version { return l.lastVersion }

// Lasting is the greatest version that no loss of the journal's end takes away: it was flushed, or
// an edit alone has committed it.
func (l *Layout) Lasting() entry.Version { return l.lasting }

// Floor is the version below which history of the default keyspace may be gone.
func (l *Layout) Floor() entry.Version { return l.floor }

// NextFile is greater than every file number that the manifest ever named.
func (l *Layout) NextFile() entry.FileNum { return l.nextFile }

// VersionAt is the newest sampled version that was committed by the time; 0 if no
// sample is that old. Clocks may go back, so it looks at every sample.
func (l *Layout) VersionAt(unixMilli int64) entry.Version {
	// Samples ascend by version, not by time: take the newest that fits.
	for _, c := range slices.Backward(l.clock) {
		if c.UnixMilli <= unixMilli {
			return c.Version
		}
	}
	return 0
}

// AgesAt is when, in Unix milliseconds, history that ended with version v is beyond age: from then
// on VersionAt says at least v of that time. It is not known, and false, if v is newer than all
// samples.
func (l *Layout) AgesAt(v entry.Version, age time.Duration) (unixMilli int64, known bool) {
	for _, c := range slices.Backward(l.clock) {
		if c.Version < v {
			break
		}
		// The earliest of all samples from v on: VersionAt looks from the newest one backward, and
		// takes the first that is old enough.
		if !known || c.UnixMilli < unixMilli { // clocks may go back
			unixMilli, known = c.UnixMilli, true
		}
	}
	// Of the millisecond itself only the last version is known, and others were visible in it.
	return unixMilli + age.Milliseconds() + 1, known
}

// CleanClose reports whether the last session closed in order, and none has written since.
func (l *Layout) CleanClose() bool { return l.cleanClose }

// DataKey is the data key for new files; its ID is zero in a plain store.
func (l *Layout) DataKey() DataKey { return l.dataKey }

// IsOld reports whether a file with this file key id is not under the data key for new files: it is
// under another one, or plain in an encrypted store.
func (l *Layout) IsOld(keyID crypt.FileKeyID) bool { return keyID.Key != l.dataKey.ID }

// OldBytes is the length in bytes of the files of runs and segments for which IsOld is true. A
// forwarding table counts as one byte.
func (l *Layout) OldBytes() (n uint64) {
	for f := range l.Files() {
		if l.IsOld(f.KeyID) {
			n += uint64(max(f.Size, 1))
		}
	}
	return n
}

// File is a file of a run, a segment or a forwarding table.
type File struct {
	filename.Name
	Size    int64           // in bytes; -1 for a forwarding table: the layout doesn't say
	KeyID   crypt.FileKeyID // names its key; zero: it is plain
	Run     *Run            // that it belongs to, or nil
	Segment *Segment        // that it is, or that it leads away from; or nil
}

// Files walks the files that entries of the layout need. Those of a run follow each other. Journal
// segments after FlushedTo are not among them, nor what only the change feed needs.
func (l *Layout) Files() iter.Seq[File] {
	return func(yield func(File) bool) {
		for _, r := range l.runs {
			for _, f := range r.Files {
				if !yield(File{Name: filename.New(filename.Run, f.Num), Size: int64(f.Size), KeyID: f.KeyID, Run: r}) {
					return
				}
			}
		}
		for _, s := range l.segments {
			f := File{Name: filename.New(s.Kind, s.Num), Size: int64(s.FileBytes), KeyID: s.KeyID, Segment: s}
			if s.state.Status == Relocated { // its own file is gone; handles go through its forwarding table
				f.Name, f.Size, f.KeyID = filename.New(filename.Forwarding, s.state.Map), -1, s.state.KeyID
			}
			if !yield(f) {
				return
			}
		}
	}
}

// Keyspaces lists the keyspaces that have a name, ascending by number.
func (l *Layout) Keyspaces() []Keyspace { return l.keyspaces }

// Keyspace finds a keyspace that has a name; nil if there is none.
func (l *Layout) Keyspace(id entry.KeyspaceID) *Keyspace {
	if i, ok := l.findKeyspace(id); ok {
		return &l.keyspaces[i]
	}
	return nil
}

// NextKeyspace is greater than the number of every keyspace there ever was.
func (l *Layout) NextKeyspace() uint64 { return l.nextKeyspace }

// Dropped reports whether there was a keyspace of this number, which is gone.
func (l *Layout) Dropped(id entry.KeyspaceID) bool {
	return id != entry.DefaultKeyspace && uint64(id) < l.nextKeyspace && l.Keyspace(id) == nil
}

func (l *Layout) findKeyspace(id entry.KeyspaceID) (int, bool) {
	return slices.BinarySearchFunc(l.keyspaces, id, func(k Keyspace, id entry.KeyspaceID) int { return cmp.Compare(k.ID, id) })
}

// leastFloor is the version below which the history of all keyspaces may be gone.
func (l *Layout) leastFloor() entry.Version {
	least := l.floor
	for i := range l.keyspaces {
		least = min(least, l.keyspaces[i].floor)
	}
	return least
}

// Snapshot returns the edit that makes l out of nothing.
func (l *Layout) Snapshot() *Edit {
	e := &Edit{
		FlushedTo: l.flushedTo, JournalEnds: l.ends, LastVersion: l.lastVersion, Lasting: l.lasting, Floor: l.floor,
		Clock: l.clock, NextFile: l.nextFile, SetKeyspaces: l.keyspaces, CleanClose: l.cleanClose, Scrub: l.scrub, DataKey: l.dataKey,
		Sessions: l.sessions, FeedSegments: l.feed.Segments, FeedCommits: l.feed.Commits, Unknown: l.unknown,
	}
	if l.nextKeyspace > firstKeyspace {
		e.NextKeyspace = l.nextKeyspace
	}
	// A keyspace is written without its floor, which has a field of its own.
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
			e.Dead = append(e.Dead, Dead{Segment: s.Num, Bytes: s.dead.bytes, Granules: slices.Collect(s.dead.eachGranule())})
		}
		if s.state.Status != Live {
			e.States = append(e.States, s.state)
		}
	}
	return e
}
