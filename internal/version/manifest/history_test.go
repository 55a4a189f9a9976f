package manifest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// history makes random edits that fit one another, as flushes, compactions and
// relocations would, and keeps what they must add up to in plain maps.
type history struct {
	rng          *rand.Rand
	next         uint64
	order        uint64
	version      entry.Version
	segments     map[entry.FileNum]*naiveSegment
	runs         map[layout.RunID]*naiveRun
	keyspaces    []entry.KeyspaceID
	nextKeyspace entry.KeyspaceID
}

type naiveSegment struct {
	live, dead map[uint32]uint64 // granule -> value length
	target     entry.FileNum
}

type naiveRun struct {
	order   uint64
	handles []entry.Handle
}

func newHistory(seed uint64) *history {
	return &history{rng: rand.New(rand.NewPCG(seed, 1)), next: 1, order: 1, version: 1,
		segments: map[entry.FileNum]*naiveSegment{}, runs: map[layout.RunID]*naiveRun{}}
}

func (h *history) num() entry.FileNum { h.next++; return entry.FileNum(h.next) }

func (h *history) edit() *layout.Edit {
	var e *layout.Edit
	switch n := h.rng.IntN(10); {
	case n < 5 || len(h.runs) == 0:
		e = h.flush()
	case n < 8:
		e = h.compact()
	case n < 9:
		e = h.relocate()
	default:
		e = h.keyspace()
	}
	h.version += entry.Version(h.rng.IntN(100))
	e.LastVersion = h.version
	e.Clock = []layout.ClockSample{{Version: h.version, UnixMilli: int64(h.version) * 7}}
	if h.rng.IntN(4) == 0 {
		e.Unknown = []layout.TLV{{Tag: 1000 + uint16(h.rng.IntN(3)), Value: []byte{1, 2, byte(h.rng.IntN(9))}}}
	}
	e.JournalEnds = []frame.End{{Name: frame.Name{File: h.num(), Number: h.next, Sum: h.rng.Uint32()}, Offset: 4096 + h.rng.Int64N(1e6)}}
	e.CleanClose = h.rng.IntN(5) == 0
	if h.rng.IntN(4) == 0 {
		e.Scrub = layout.Scrub{Began: h.rng.Int64N(1e12), Ended: h.rng.Int64N(1e12), UpTo: h.num(), Until: h.num()}
	}
	return e
}

// keyspace makes, changes or drops a keyspace.
func (h *history) keyspace() *layout.Edit {
	n := len(h.keyspaces)
	if n > 0 && h.rng.IntN(3) == 0 {
		e := &layout.Edit{DropKeyspaces: h.keyspaces[:1]}
		h.keyspaces = h.keyspaces[1:]
		return e
	}
	k := layout.Keyspace{Options: layout.KeyspaceOptions{TTL: time.Duration(h.rng.IntN(9)), Age: -1}}
	if n > 0 && h.rng.IntN(2) == 0 {
		k.ID = h.keyspaces[h.rng.IntN(n)]
	} else {
		h.nextKeyspace++
		k.ID = h.nextKeyspace
		h.keyspaces = append(h.keyspaces, k.ID)
	}
	k.Name = fmt.Sprint("ks", k.ID)
	return &layout.Edit{SetKeyspaces: []layout.Keyspace{k}, KeyspaceFloors: []layout.KeyspaceFloor{{ID: k.ID, Version: h.version}}}
}

// meta describes a run that has these handles.
func (h *history) meta(handles []entry.Handle) layout.RunMeta {
	m := layout.RunMeta{Files: []layout.RunFile{{Num: h.num(), Size: h.rng.Uint64N(1 << 28), Checksum: h.rng.Uint32()}},
		First: []byte("a"), Last: []byte("z"), Entries: uint64(len(handles)), MinVersion: 1, MaxVersion: h.version}
	refs := map[entry.FileNum]*layout.SegmentRef{}
	for _, x := range handles {
		if refs[x.Segment] == nil {
			refs[x.Segment] = &layout.SegmentRef{Segment: x.Segment}
		}
		refs[x.Segment].Records++
		refs[x.Segment].Bytes += x.Length
		m.SeparatedBytes += x.Length
	}
	for _, r := range refs {
		m.Refs = append(m.Refs, *r)
	}
	slices.SortFunc(m.Refs, func(a, b layout.SegmentRef) int { return cmp.Compare(a.Segment, b.Segment) })
	return m
}

func (h *history) flush() *layout.Edit {
	e := &layout.Edit{FlushedTo: h.num()}
	seg := layout.Segment{Num: h.num(), Kind: filename.Journal, FileBytes: 64 << 20}
	s := &naiveSegment{live: map[uint32]uint64{}, dead: map[uint32]uint64{}}
	var handles []entry.Handle
	var deaths layout.Deaths
	stride := 1 + h.rng.IntN(2000)
	for g := h.rng.IntN(100); g < 1<<20 && len(handles) < 500; g += 1 + h.rng.IntN(stride) {
		x := entry.Handle{Segment: seg.Num, Offset: uint64(g)*layout.Granule + 8*h.rng.Uint64N(8), Length: 100 + h.rng.Uint64N(900)}
		seg.Records++
		seg.Bytes += x.Length
		if h.rng.IntN(8) == 0 {
			deaths.Add(x)
			s.dead[uint32(g)] = x.Length
		} else {
			handles = append(handles, x)
			s.live[uint32(g)] = x.Length
		}
	}
	h.segments[seg.Num] = s
	e.AddSegments = []layout.Segment{seg}
	e.Dead = deaths.Lists()
	h.order++
	h.addRun(e, layout.Run{Tier: layout.Upper, Order: h.order}, handles)
	return e
}

func (h *history) addRun(e *layout.Edit, r layout.Run, handles []entry.Handle) {
	r.RunMeta = h.meta(handles)
	r.ID = layout.RunID(r.Files[0].Num)
	h.runs[r.ID] = &naiveRun{order: r.Order, handles: handles}
	e.AddRuns = append(e.AddRuns, r)
}

func (h *history) compact() *layout.Edit {
	e := new(layout.Edit)
	var keep []entry.Handle
	var deaths layout.Deaths
	order := uint64(0)
	for id, r := range h.runs {
		if len(e.DropRuns) > 0 && h.rng.IntN(2) == 0 {
			continue
		}
		order = max(order, r.order)
		e.DropRuns = append(e.DropRuns, id)
		for _, x := range r.handles {
			g := uint32(x.Offset / layout.Granule)
			s := h.segments[x.Segment]
			if h.rng.IntN(3) == 0 {
				deaths.Add(x)
				delete(s.live, g)
				s.dead[g] = x.Length
			} else {
				keep = append(keep, x)
			}
		}
		delete(h.runs, id)
	}
	e.Dead = deaths.Lists()
	if len(keep) > 0 {
		h.addRun(e, layout.Run{Tier: layout.Base, Order: order}, keep)
	}
	for num, s := range h.segments {
		if len(s.live) == 0 && !h.isTarget(num) {
			e.DropSegments = append(e.DropSegments, num)
			delete(h.segments, num)
		}
	}
	return e
}

func (h *history) isTarget(num entry.FileNum) bool {
	for _, s := range h.segments {
		if s.target == num {
			return true
		}
	}
	return false
}

func (h *history) relocate() *layout.Edit {
	e := new(layout.Edit)
	for num, s := range h.segments {
		if s.target != 0 {
			continue
		}
		t := layout.Segment{Num: h.num(), Kind: filename.Value, FileBytes: 1 << 20, Records: uint64(len(s.live))}
		h.segments[t.Num] = &naiveSegment{live: map[uint32]uint64{0: 0}, dead: map[uint32]uint64{}}
		s.target = t.Num
		e.AddSegments = []layout.Segment{t}
		e.States = []layout.SegmentState{{Num: num, Status: layout.Relocated, Map: h.num(), Target: t.Num}}
		break
	}
	return e
}

// check compares a layout with the maps.
func (h *history) check(t *testing.T, l *layout.Layout) {
	t.Helper()
	if len(l.Runs()) != len(h.runs) || len(l.Segments()) != len(h.segments) {
		t.Fatalf("%d runs and %d segments, want %d and %d", len(l.Runs()), len(l.Segments()), len(h.runs), len(h.segments))
	}
	for i, r := range l.Runs() {
		if i > 0 && l.Runs()[i-1].Order <= r.Order {
			t.Fatalf("run %d is out of order", r.ID)
		}
		if h.runs[r.ID] == nil || h.runs[r.ID].order != r.Order || uint64(len(h.runs[r.ID].handles)) != r.Entries {
			t.Fatalf("run %d differs", r.ID)
		}
	}
	for _, s := range l.Segments() {
		want := h.segments[s.Num]
		var bytes uint64
		for g, n := range want.dead {
			bytes += n
			if !s.IsDead(uint64(g)*layout.Granule + 8) {
				t.Fatalf("segment %d: granule %d is not dead", s.Num, g)
			}
		}
		got := slices.Collect(s.Dead())
		if s.DeadRecords() != uint64(len(want.dead)) || len(got) != len(want.dead) || !slices.IsSorted(got) || s.DeadBytes() != bytes {
			t.Fatalf("segment %d: %d dead records of %d bytes, walked %d; want %d of %d",
				s.Num, s.DeadRecords(), s.DeadBytes(), len(got), len(want.dead), bytes)
		}
		for g := range want.live {
			if s.IsDead(uint64(g) * layout.Granule) {
				t.Fatalf("segment %d: granule %d is dead", s.Num, g)
			}
		}
		if want.target != s.State().Target {
			t.Fatalf("segment %d: state %+v, want target %d", s.Num, s.State(), want.target)
		}
		if s.Kind == filename.Journal && l.Unaccounted(s.Num) != 0 {
			t.Fatalf("segment %d: %d records are neither dead nor referred to", s.Num, l.Unaccounted(s.Num))
		}
	}
}
