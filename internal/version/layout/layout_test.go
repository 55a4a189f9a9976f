package layout

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/vlog/frame"
)

func TestDeadSetAgainstMap(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 2))
		want := map[uint32]bool{}
		var s deadSet
		limit := uint32(1) << (10 + rng.IntN(12))
		for range 40 {
			batch := map[uint32]bool{}
			for range rng.IntN(int(limit) / 16) {
				if g := rng.Uint32N(limit); !want[g] {
					batch[g] = true
				}
			}
			var list []uint32
			for g := range batch {
				list = append(list, g)
				want[g] = true
			}
			slices.Sort(list)
			old := slices.Collect(s.eachGranule())
			grown, _, ok := s.withGranules(list, 1)
			if !ok || !slices.Equal(old, slices.Collect(s.eachGranule())) {
				t.Fatalf("seed %d: refused, or the old set changed", seed)
			}
			s = grown
			if len(list) > 0 {
				dup := list[rng.IntN(len(list))]
				if _, at, ok := s.withGranules([]uint32{dup}, 0); ok || at != dup {
					t.Fatalf("seed %d: granule %d taken twice", seed, dup)
				}
			}
		}
		for g := range limit {
			if s.hasGranule(uint64(g)) != want[g] {
				t.Fatalf("seed %d: has(%d) = %v", seed, g, !want[g])
			}
		}
		if s.hasGranule(uint64(limit)*64) || s.hasGranule(math.MaxUint64) {
			t.Fatal("has a granule beyond its blocks")
		}
	}
}

// base is a layout with two runs, a relocated segment and its target.
func base(t *testing.T) *Layout {
	t.Helper()
	l, err := New().Apply(&Edit{
		AddSegments: []Segment{
			{Num: 3, Kind: filename.Journal, FileBytes: 6400, Records: 10, Bytes: 1000},
			{Num: 4, Kind: filename.Journal, FileBytes: 640, Records: 2, Bytes: 200},
			{Num: 5, Kind: filename.Value, FileBytes: 1 << 20, Records: 2, Bytes: 200},
			{Num: 6, Kind: filename.Value, FileBytes: 77, Records: 1, Bytes: 7},
		},
		AddRuns: []Run{
			{ID: 1, Tier: Base, Order: 1, RunMeta: RunMeta{Files: []RunFile{{Num: 10, Size: 100}}, Refs: []SegmentRef{{Segment: 3, Records: 4, Bytes: 400}, {Segment: 4, Records: 2, Bytes: 200}}}},
			{ID: 2, Tier: Upper, Order: 5, RunMeta: RunMeta{Files: []RunFile{{Num: 11, Size: 10}}, Refs: []SegmentRef{{Segment: 3, Records: 3, Bytes: 300}}}},
		},
		States: []SegmentState{{Num: 4, Status: Relocated, Map: 12, Target: 5}},
		Dead:   []Dead{{Segment: 3, Bytes: 200, Granules: []uint32{1, 7}}},

		FlushedTo: 3, LastVersion: 100, Floor: 50, SetKeyspaces: []Keyspace{{ID: 2, Name: "two"}}, KeyspaceFloors: []KeyspaceFloor{{ID: 2, Version: 60}},
		JournalEnds: []frame.End{end(8, 5000, 9)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestEditsThatDoNotFit(t *testing.T) {
	run := func(change func(*Run)) []Run {
		r := Run{ID: 9, Order: 9, RunMeta: RunMeta{Files: []RunFile{{Num: 90}}}}
		change(&r)
		return []Run{r}
	}
	for name, e := range map[string]*Edit{
		"segment added twice":       {AddSegments: []Segment{{Num: 3, Kind: filename.Value}}},
		"segment 0":                 {AddSegments: []Segment{{Num: 0, Kind: filename.Value}}},
		"segment of huge number":    {AddSegments: []Segment{{Num: math.MaxUint64, Kind: filename.Value}}},
		"segment of the wrong kind": {AddSegments: []Segment{{Num: 20, Kind: filename.Run}}},
		"unknown run dropped":       {DropRuns: []RunID{3}},
		"run dropped twice":         {DropRuns: []RunID{1, 1}},
		"run added twice":           {AddRuns: run(func(r *Run) { r.ID = 1 })},
		"order taken":               {AddRuns: run(func(r *Run) { r.Order = 5 })},
		"run file taken":            {AddRuns: run(func(r *Run) { r.Files[0].Num = 10 })},
		"run file twice":            {AddRuns: run(func(r *Run) { r.Files = []RunFile{{Num: 90}, {Num: 90}} })},
		"run without files":         {AddRuns: run(func(r *Run) { r.Files = nil })},
		"bounds reversed":           {AddRuns: run(func(r *Run) { r.First, r.Last = []byte("b"), []byte("a") })},
		"versions reversed":         {AddRuns: run(func(r *Run) { r.MinVersion = 2; r.MaxVersion = 1 })},
		"refs twice": {AddRuns: run(func(r *Run) {
			r.Refs = []SegmentRef{{Segment: 3, Records: 1, Bytes: 1}, {Segment: 3, Records: 1, Bytes: 1}}
		})},
		"refs reversed": {AddRuns: run(func(r *Run) {
			r.Refs = []SegmentRef{{Segment: 4, Records: 0, Bytes: 0}, {Segment: 3, Records: 1, Bytes: 1}}
		})},
		"ref to no segment":              {AddRuns: run(func(r *Run) { r.Refs = []SegmentRef{{Segment: 33, Records: 1, Bytes: 1}} })},
		"more refs than records":         {AddRuns: run(func(r *Run) { r.Refs = []SegmentRef{{Segment: 3, Records: 2, Bytes: 1}} })},
		"huge ref":                       {AddRuns: run(func(r *Run) { r.Refs = []SegmentRef{{Segment: 3, Records: math.MaxUint64, Bytes: 1}} })},
		"dead in no segment":             {Dead: []Dead{{Segment: 33, Granules: []uint32{1}}}},
		"dead twice":                     {Dead: []Dead{{Segment: 3, Granules: []uint32{5, 7}}}},
		"dead twice in an edit":          {Dead: []Dead{{Segment: 3, Granules: []uint32{5, 5}}}},
		"dead beyond the end":            {Dead: []Dead{{Segment: 3, Granules: []uint32{100}}}},
		"dead but referred to":           {Dead: []Dead{{Segment: 3, Granules: []uint32{2, 3}}}},
		"state of no segment":            {States: []SegmentState{{Num: 33}}},
		"live with map":                  {States: []SegmentState{{Num: 3, Map: 4}}},
		"relocated without map":          {States: []SegmentState{{Num: 3, Status: Relocated, Target: 5}}},
		"relocated to itself":            {States: []SegmentState{{Num: 3, Status: Relocated, Map: 20, Target: 3}}},
		"relocated to nowhere":           {States: []SegmentState{{Num: 3, Status: Relocated, Map: 20, Target: 33}}},
		"unknown segment dropped":        {DropSegments: []entry.FileNum{33}},
		"segment dropped twice":          {DropSegments: []entry.FileNum{6, 6}},
		"segment dropped, referred":      {DropSegments: []entry.FileNum{3}},
		"relocation target dropped":      {DropSegments: []entry.FileNum{5}},
		"version back":                   {LastVersion: 99},
		"floor back":                     {Floor: 49},
		"flushed back":                   {FlushedTo: 2},
		"journal end back":               {JournalEnds: []frame.End{end(8, 4999, 9)}},
		"another frame of the number":    {JournalEnds: []frame.End{{Name: frame.Name{File: 8, Number: 9, Sum: 1}, Offset: 5000}}},
		"journal frame back":             {JournalEnds: []frame.End{end(8, 5000, 8)}},
		"journal end twice":              {JournalEnds: []frame.End{end(9, 1, 10), end(9, 2, 11)}},
		"unknown keyspace dropped":       {DropKeyspaces: []entry.KeyspaceID{3}},
		"keyspace dropped twice":         {DropKeyspaces: []entry.KeyspaceID{2, 2}},
		"keyspace number used before":    {SetKeyspaces: []Keyspace{{ID: 1, Name: "one"}}},
		"keyspace name taken":            {SetKeyspaces: []Keyspace{{ID: 3, Name: "two"}}},
		"keyspace name twice":            {SetKeyspaces: []Keyspace{{ID: 3, Name: "three"}, {ID: 4, Name: "three"}}},
		"keyspace without name":          {SetKeyspaces: []Keyspace{{ID: 3}}},
		"keyspace name too long":         {SetKeyspaces: []Keyspace{{ID: 3, Name: strings.Repeat("n", 256)}}},
		"default keyspace named":         {SetKeyspaces: []Keyspace{{ID: 0, Name: "zero"}}},
		"floor of no keyspace":           {KeyspaceFloors: []KeyspaceFloor{{ID: 3, Version: 70}}},
		"floor of the default keyspace":  {KeyspaceFloors: []KeyspaceFloor{{ID: 0, Version: 70}}},
		"keyspace floor back":            {KeyspaceFloors: []KeyspaceFloor{{ID: 2, Version: 59}}},
		"next keyspace over the limit":   {NextKeyspace: 1<<32 + 1},
		"next file over the limit":       {NextFile: math.MaxUint64},
		"flushed segment over the limit": {FlushedTo: math.MaxUint64},
	} {
		l := base(t)
		before := fmt.Sprintf("%+v", l.Snapshot())
		if _, err := l.Apply(e); !errors.Is(err, ErrConflictingEdit) {
			t.Errorf("%s: error %v", name, err)
		}
		if fmt.Sprintf("%+v", l.Snapshot()) != before {
			t.Errorf("%s: the layout changed", name)
		}
	}
}

func TestWhoNeedsASegment(t *testing.T) {
	l := base(t)
	if got := l.Unreferenced(); !slices.Equal(got, []entry.FileNum{6}) {
		t.Errorf("unreferenced: %d, want only 6: run 1 needs 5 through 4", got)
	}
	if u := l.Usage(3); u != (Usage{Runs: 2, Records: 7, Bytes: 700}) {
		t.Errorf("usage of 3: %+v", u)
	}
	if u := l.Usage(5); u != (Usage{Sources: 1, Moved: 2}) {
		t.Errorf("usage of 5: %+v", u)
	}
	if n := l.Unaccounted(4); n != 0 {
		t.Errorf("unaccounted in 4, which was relocated: %d", n)
	}
	if n := l.Unaccounted(3); n != 1 {
		t.Errorf("unaccounted in 3: %d, want 10 - 2 dead - 7 referred", n)
	}
	for _, c := range []struct {
		drop []RunID
		want []entry.FileNum
	}{
		{[]RunID{2}, []entry.FileNum{6}},
		{[]RunID{1}, []entry.FileNum{4, 5, 6}},
		{[]RunID{1, 2}, []entry.FileNum{3, 4, 5, 6}},
	} {
		next, err := l.Apply(&Edit{DropRuns: c.drop})
		if err != nil {
			t.Fatal(err)
		}
		if got := next.Unreferenced(); !slices.Equal(got, c.want) {
			t.Errorf("unreferenced without the runs %d: %d, want %d", c.drop, got, c.want)
		}
	}
	var names []string
	for n := range l.Files() {
		names = append(names, n.String())
	}
	if got, want := strings.Join(names, " "), "000011.run 000010.run 000003.log 000012.map 000005.val 000006.val"; got != want {
		t.Errorf("files %s, want %s", got, want)
	}
	if l.NextFile() != 13 || l.NextOrder() != 6 || l.Run(2).Order != 5 || l.Run(3) != nil || l.Segment(7) != nil {
		t.Errorf("next file %d, next order %d", l.NextFile(), l.NextOrder())
	}
}

func TestJournalEnds(t *testing.T) {
	l := base(t)
	apply := func(e *Edit) {
		t.Helper()
		var err error
		if l, err = l.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	apply(&Edit{JournalEnds: []frame.End{end(8, 6000, 12), end(9, 4096, 12)}})
	if len(l.JournalEnds()) != 2 || l.JournalEnds()[0].Number != 12 {
		t.Errorf("ends %+v", l.JournalEnds())
	}
	apply(&Edit{FlushedTo: 8})
	if len(l.JournalEnds()) != 2 || l.JournalEnds()[0].File != 8 {
		t.Errorf("after the flush of 8, behind which the replay begins: ends %+v", l.JournalEnds())
	}
	apply(&Edit{FlushedTo: 9})
	if len(l.JournalEnds()) != 1 || l.JournalEnds()[0].Number != 12 {
		t.Errorf("after all is flushed the journal's end is forgotten: %+v", l.JournalEnds())
	}
}

func TestClockIsBounded(t *testing.T) {
	l := New()
	var err error
	for v := range entry.Version(5000) {
		if l, err = l.Apply(&Edit{Clock: []ClockSample{{Version: v + 1, UnixMilli: int64(v+1) * 10}}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(l.clock); n < maxClock/2 || n > maxClock {
		t.Errorf("%d samples", n)
	}
	if v := l.VersionAt(50000); v != 5000 {
		t.Errorf("version now is %d", v)
	}
	if v := l.VersionAt(49995); v != 4999 {
		t.Errorf("version a moment ago is %d", v)
	}
	if v := l.VersionAt(0); v != 0 {
		t.Errorf("version before all is %d", v)
	}
	if l, err = l.Apply(&Edit{Floor: 4990}); err != nil || l.clock[0].Version != 4990 {
		t.Errorf("samples below the floor stay: %+v, %v", l.clock[0], err)
	}
}

// A dropped keyspace is known by its number for ever, through snapshots too, and
// the number serves no other.
func TestDroppedKeyspaces(t *testing.T) {
	l := base(t)
	for _, e := range []*Edit{
		{SetKeyspaces: []Keyspace{{ID: 3, Name: "three", Options: KeyspaceOptions{Age: time.Hour}}}, KeyspaceFloors: []KeyspaceFloor{{ID: 3, Version: 90}}},
		{SetKeyspaces: []Keyspace{{ID: 2, Name: "two again", Options: KeyspaceOptions{Versions: 4}}}}, // keeps its floor
		{DropKeyspaces: []entry.KeyspaceID{3}},
	} {
		next, err := l.Apply(e)
		if err != nil {
			t.Fatal(err)
		}
		l = next
	}
	again, err := New().Apply(l.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []*Layout{l, again} {
		if l.Dropped(0) || !l.Dropped(1) || l.Dropped(2) || !l.Dropped(3) || l.Dropped(4) || l.NextKeyspace() != 4 {
			t.Errorf("dropped: %v %v %v %v %v, next %d", l.Dropped(0), l.Dropped(1), l.Dropped(2), l.Dropped(3), l.Dropped(4), l.NextKeyspace())
		}
		k := l.Keyspace(2)
		if k == nil || k.Name != "two again" || k.Options.Versions != 4 || k.Floor() != 60 || l.Keyspace(3) != nil {
			t.Errorf("keyspace 2: %+v", k)
		}
		if _, err := l.Apply(&Edit{SetKeyspaces: []Keyspace{{ID: 3, Name: "new"}}}); !errors.Is(err, ErrConflictingEdit) {
			t.Errorf("a number was used again: %v", err)
		}
	}
}

// A copy that ends at a version knows nothing of keyspaces that were made after it, not even that
// their numbers were given: to an increment behind it they are new.
func TestAsOfKnowsNoLaterKeyspaces(t *testing.T) {
	then, err := New().Apply(&Edit{SetKeyspaces: []Keyspace{{ID: 1, Name: "early"}}, LastVersion: 5})
	if err != nil {
		t.Fatal(err)
	}
	now, err := then.Apply(&Edit{SetKeyspaces: []Keyspace{{ID: 2, Name: "late"}}, LastVersion: 7})
	if err != nil {
		t.Fatal(err)
	}
	l, whole, err := now.AsOf(5, then, 0)
	if err != nil || !whole {
		t.Fatal(whole, err)
	}
	if l.NextKeyspace() != 2 || l.Keyspace(1) == nil || l.Keyspace(2) != nil {
		t.Errorf("keyspaces %v, the next is %d", l.Keyspaces(), l.NextKeyspace())
	}
}

// end makes the end of a journal segment.
func end(segment entry.FileNum, offset int64, number uint64) frame.End {
	return frame.End{Name: frame.Name{File: segment, Number: number}, Offset: offset}
}
