package policy

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/test/kit/script"
	"github.com/brockdb/brock/internal/version/layout"
)

// store is a layout that tests change as flushes and compactions would.
type store struct {
	t       testing.TB
	layout  *layout.Layout
	next    entry.FileNum
	written uint64 // by flushes and compactions
	flushed uint64
}

func newStore(t testing.TB) *store { return &store{t: t, layout: layout.New(), next: 1} }

func (s *store) apply(e *layout.Edit) {
	s.t.Helper()
	l, err := s.layout.Apply(e)
	if err != nil {
		s.t.Fatal(err)
	}
	s.layout = l
}

func (s *store) add(drop []layout.RunID, tier layout.Tier, order uint64, m layout.RunMeta) {
	s.t.Helper()
	s.next++
	size := m.ValueBytes // tests keep the file size here until the file has a number
	m.ValueBytes = 0
	m.Files = []layout.RunFile{{Num: s.next, Size: size}}
	s.apply(&layout.Edit{DropRuns: drop, AddRuns: []layout.Run{{ID: layout.RunID(s.next), Tier: tier, Order: order, RunMeta: m}}})
	s.written += size
}

func (s *store) flush(m layout.RunMeta) {
	s.t.Helper()
	s.flushed += m.ValueBytes
	s.add(nil, layout.Upper, s.layout.NextOrder(), m)
}

// do carries out a compaction of runs without common keys.
func (s *store) do(m *Compaction) {
	s.t.Helper()
	var sum layout.RunMeta
	order, last := uint64(0), -1
	for _, id := range m.Runs {
		for i, r := range s.layout.Runs() {
			if r.ID != id {
				continue
			}
			if last >= 0 && i != last+1 {
				s.t.Fatalf("runs %d don't follow each other", m.Runs)
			}
			last = i
			order = max(order, r.Order)
			sum.ValueBytes += r.FileBytes()
			sum.Entries += r.Entries
			sum.SeparatedBytes += r.SeparatedBytes
		}
	}
	s.add(m.Runs, tierOf(m, s.layout), order, sum)
}

// tierOf is the tier that the engine gives to the run of a compaction.
func tierOf(m *Compaction, l *layout.Layout) layout.Tier {
	if slices.Contains(m.Runs, l.Runs()[len(l.Runs())-1].ID) {
		return layout.Base
	}
	return layout.Upper
}

// rest does what Decide wants until it wants nothing more.
func (s *store) rest(st State, o Options) (compactions int) {
	s.t.Helper()
	for {
		p := Decide(s.layout, st, o)
		if p.Compaction == nil {
			return compactions
		}
		compactions++
		if compactions > 20 {
			s.t.Fatalf("the policy does not come to rest:\n%v", s.layout.Runs())
		}
		s.do(p.Compaction)
	}
}

func (s *store) sizes() string {
	var b strings.Builder
	for _, r := range s.layout.Runs() {
		fmt.Fprintf(&b, " %v:%d", r.Tier, r.FileBytes()>>20)
	}
	return strings.TrimSpace(b.String())
}

func (p Plan) text(l *layout.Layout) string {
	var b strings.Builder
	if p.Flush {
		b.WriteString("flush\n")
	}
	if p.Compaction != nil {
		fmt.Fprintf(&b, "compact %d into %v: %s", p.Compaction.Runs, tierOf(p.Compaction, l), p.Compaction.Reason)
		if len(p.Compaction.Cluster) > 0 {
			fmt.Fprintf(&b, ", cluster the values of %d for %d MB", p.Compaction.Cluster, p.Compaction.Price>>20)
		}
		b.WriteByte('\n')
	}
	if c := p.Collect; c != nil {
		fmt.Fprintf(&b, "collect %d: %s", c.Victims, c.Reason)
		b.WriteByte('\n')
	}
	if len(p.DropSegments) > 0 {
		fmt.Fprintf(&b, "drop segments %d\n", p.DropSegments)
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			s := newStore(t)
			script.Run(t, file, func(t *testing.T, c *script.Case) string {
				s.t = t
				return s.command(t, c)
			})
		})
	}
}

// command runs one command of a script:
//
//	runs: makes a new store of the runs of the input, newest first
//	segment: adds a segment that no run needs, or the run given with refs
//	files: makes a new store of one run that refers to the segments of the input, each with a value in
//	 each KB; moved=n puts what is live in it into segment n
//	decide: prints the plan; dropped=run:mb,... are bytes of runs that are of dropped keyspaces
//	measure: prints Measure; hidden=(run, mb) are older values that a run hides, values= and older= are State.Memtables
//	load: flushes n runs of mb each, doing all plans between; prints sizes and rewrites
//	keep: prints KeepSegment
func (s *store) command(t *testing.T, c *script.Case) string {
	o := Options{GarbageShare: c.Int(t, "garbage", 0), SegmentBytes: uint64(c.Int(t, "segment", 0)) << 20}
	st := State{Sealed: c.Int(t, "sealed", 0), Compacting: c.Has("merging"), Idle: c.Has("idle"), Collecting: c.Has("collecting"), Reclaim: c.Has("reclaim")}
	st.Memtables = Replaced{Values: uint64(c.Int(t, "values", 0)) << 20, Older: uint64(c.Int(t, "older", 0)) << 20}
	st.Hidden = make(map[layout.RunID]uint64)
	for _, a := range c.Args {
		if a.Key != "hidden" {
			continue
		}
		var id, mb uint64
		if _, err := fmt.Sscanf(strings.Join(a.Values, " "), "%d %d", &id, &mb); err != nil {
			t.Fatalf("%s: %v", c.Pos, err)
		}
		st.Hidden[layout.RunID(id)] = mb << 20
	}
	st.JumpedBytes = uint64(c.Int(t, "jumped", 0)) << 20
	if n := c.Int(t, "damaged", 0); n != 0 {
		st.Damaged = []entry.FileNum{entry.FileNum(n)}
	}
	if list := c.String("dropped", ""); list != "" {
		st.Dropped = map[layout.RunID]uint64{}
		for _, one := range strings.Split(list, ",") {
			var id layout.RunID
			var mb uint64
			if _, err := fmt.Sscanf(one, "%d:%d", &id, &mb); err != nil {
				t.Fatalf("%s: %q: %v", c.Pos, one, err)
			}
			st.Dropped[id] = mb << 20
		}
	}
	switch c.Cmd {
	case "runs":
		*s = *newStore(t)
		s.next = 100
		lines := strings.Split(strings.TrimSpace(c.Input), "\n")
		for i, line := range lines {
			var tier string
			var mb, entries, deletes, separated uint64
			if _, err := fmt.Sscanf(line, "%s %d entries=%d deletes=%d separated=%d", &tier, &mb, &entries, &deletes, &separated); err != nil && tier == "" {
				t.Fatalf("%s: %q: %v", c.Pos, line, err)
			}
			m := layout.RunMeta{ValueBytes: mb << 20, Entries: entries, Deletes: deletes, SeparatedBytes: separated << 20}
			tiers := map[string]layout.Tier{"upper": layout.Upper, "base": layout.Base}
			s.next = entry.FileNum(i)
			s.add(nil, tiers[tier], uint64(len(lines)-i), m)
		}
		return ""
	case "segment":
		s.apply(&layout.Edit{AddSegments: []layout.Segment{{Num: entry.FileNum(c.Int(t, "num", 0)), Kind: filename.Value}}})
		return ""
	case "files":
		s.files(t, c)
		return ""
	case "measure":
		m := Measure(s.layout, st, o)
		return fmt.Sprintf("%d MB live, %d MB excess, budget %d MB, reducible %v\ncollection pace %.2f, throttle %.2f\n",
			m.Live>>20, m.Excess>>20, m.Budget>>20, m.Reducible, CollectionPace(m.Fill(0)), Throttle(m.Fill(0)))
	case "decide":
		return Decide(s.layout, st, o).text(s.layout)
	case "load":
		*s = *newStore(t)
		most := 0
		for range c.Int(t, "flushes", 0) {
			s.flush(layout.RunMeta{ValueBytes: uint64(c.Int(t, "mb", 45)) << 20, Entries: 1e6, SeparatedBytes: uint64(c.Int(t, "separated", 0)) << 20})
			s.rest(State{}, o)
			most = max(most, len(s.layout.Runs()))
		}
		busy := s.sizes()
		before := float64(s.written)/float64(s.flushed) - 1
		s.rest(State{Idle: true}, o)
		return fmt.Sprintf("loaded: %s (at most %d runs), compacted %.2f times\nidle: %s, compacted %.2f times\n",
			busy, most, before, s.sizes(), float64(s.written)/float64(s.flushed)-1)
	case "keep":
		return fmt.Sprintln(KeepSegment(uint64(c.Int(t, "live", 0)), uint64(c.Int(t, "total", 0))))
	}
	t.Fatalf("%s: unknown command", c.Pos)
	return ""
}

// files adds segments, each line "value|journal|kept number mb dead=percent moved=n".
func (s *store) files(t *testing.T, c *script.Case) {
	*s = *newStore(t)
	run := layout.Run{ID: 1, Tier: layout.Base, Order: 1}
	run.Files = []layout.RunFile{{Num: 1, Size: uint64(c.Int(t, "run", 1)) << 20}}
	e := &layout.Edit{}
	for line := range strings.Lines(c.Input) {
		var kind string
		var num, target entry.FileNum
		var mb, dead uint64
		if _, err := fmt.Sscanf(strings.TrimSpace(line), "%s %d %d dead=%d moved=%d", &kind, &num, &mb, &dead, &target); err != nil && mb == 0 {
			t.Fatalf("%s: %q: %v", c.Pos, line, err)
		}
		records := mb << 10
		seg := layout.Segment{Num: num, Kind: filename.Value, FileBytes: mb << 20, Records: records, Bytes: records * 1000}
		switch kind {
		case "journal":
			seg.Kind, seg.Bytes = filename.Journal, records*500 // the rest is in runs
		case "kept":
			seg.Kind = filename.Journal
		}
		each := seg.Bytes / records
		died := records * dead / 100
		d := layout.Dead{Segment: num, Bytes: died * each}
		for i := range died {
			d.Granules = append(d.Granules, uint32(i*16))
		}
		e.AddSegments, e.Dead = append(e.AddSegments, seg), append(e.Dead, d)
		if target != 0 {
			e.States = append(e.States, layout.SegmentState{Num: num, Status: layout.Relocated, Map: 100 + num, Target: target})
		}
		if n := records - died; !strings.Contains(line, "target") && n > 0 {
			run.Refs = append(run.Refs, layout.SegmentRef{Segment: num, Records: n, Bytes: n * each})
		}
	}
	e.AddRuns = []layout.Run{run}
	s.apply(e)
}

// TestRandomHistories flushes runs of random sizes: the policy comes to rest,
// keeps its bound of runs, and idle stores are written to the end seldom.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 7))
		s := newStore(t)
		for step := range 60 {
			entries := 1 + rng.Uint64N(1e6)
			s.flush(layout.RunMeta{ValueBytes: entries * (30 + rng.Uint64N(100)), Entries: entries,
				Deletes: rng.Uint64N(entries + 1), SeparatedBytes: entries * rng.Uint64N(2000)})
			s.rest(State{Idle: rng.IntN(8) == 0}, Options{})
			if n := len(s.layout.Runs()); n > upperRuns {
				t.Fatalf("seed %d, step %d: %d runs, at most %d upper ones are wanted:\n%v", seed, step, n, upperRuns, s.layout.Runs())
			}
		}
	}
}

// TestIdleWritesLittle writes a little into a big store and lets it rest, again
// and again: the base is not rewritten each time.
func TestIdleWritesLittle(t *testing.T) {
	s := newStore(t)
	s.add(nil, layout.Base, 1, layout.RunMeta{ValueBytes: 10 << 30, Entries: 1e8})
	before := s.written
	for range 200 {
		s.flush(layout.RunMeta{ValueBytes: 1 << 20, Entries: 1e4})
		s.rest(State{Idle: true}, Options{})
	}
	if ratio := float64(s.written-before) / float64(s.flushed); ratio > 8 {
		t.Errorf("each byte was written %.1f times:\n%v", ratio, s.layout.Runs())
	}
}
