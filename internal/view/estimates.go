package view

import (
	"bytes"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/version/layout"
)

// EstimateEntries estimates how many entries there are in [lo, hi).
func (v *View) EstimateEntries(lo, hi []byte) (n int) {
	var fault error // ignored: n is what was counted before the fault
	defer pageio.Guard(pageio.Arm(), &fault, someMapping)
	for _, m := range v.Tables {
		n += m.Between(lo, hi)
	}
	for _, r := range v.Runs {
		in, _, _ := r.Size(lo, hi, false)
		n += int(in)
	}
	return n
}

// ForgetEmptied forgets emptied ranges in which the current View has few entries left, as after a
// compaction that has dropped the deleted ones.
func (s *Set) ForgetEmptied() {
	hold, err := s.Hold()
	if err != nil {
		return // closed
	}
	defer hold.Release()
	v := hold.View()
	was := v.emptied.Load()
	if was == nil {
		return
	}
	remain := rangedel.EmptiedSet(slices.DeleteFunc(was.All(), func(r rangedel.Delete) bool { return v.EstimateEntries(r.Lo, r.Hi) < fewEntries })...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.Load().emptied.CompareAndSwap(was, remain) // unless others were noted meanwhile
}

// EstimateSize estimates what [lo, hi) holds: the number of entries, the bytes of their keys and
// inline values, and the bytes of separated values. A nil bound is open. Versions that are
// no longer visible count until a compaction drops them.
func (p *Pin) EstimateSize(lo, hi []byte) (entries, bytes, separated uint64) {
	_, sum := p.listParts(lo, hi)
	return sum.entries, sum.bytes, sum.separated
}

// part is what a memtable or a run has of a range.
type part struct {
	source                    splitter // its memtable or run
	entries, bytes, separated uint64   // estimates, as Size has them
}

// splitter is a memtable or a run, which can cut a range into parts.
type splitter interface {
	Split(lo, hi []byte, n int) [][]byte
}

// listParts returns what each memtable and run has of [lo, hi), and the sum.
func (p *Pin) listParts(lo, hi []byte) (list []part, sum part) {
	var fault error // ignored: the results are what was counted before the fault
	defer pageio.Guard(pageio.Arm(), &fault, someMapping)
	add := func(of splitter, entries, bytes, separated uint64) {
		list = append(list, part{of, entries, bytes, separated})
		sum.entries, sum.bytes, sum.separated = sum.entries+entries, sum.bytes+bytes, sum.separated+separated
	}
	for _, m := range p.view.Tables {
		entries, bytes, separated := m.Size(lo, hi)
		add(m, entries, bytes, separated)
	}
	for _, r := range p.view.Runs {
		entries, bytes, separated := r.Size(lo, hi, true)
		add(r, entries, bytes, separated)
	}
	return list, sum
}

const (
	samples     = 64       // keys that Split looks at for each part,
	mostSamples = 1 << 16  // at most in all, which takes some 0.1 s,
	mostSampled = 16 << 20 // and at most that many bytes of keys, about
)

// SplitRange returns at most n-1 stored keys, in order, that cut [lo, hi) into parts
// of about the same size; a nil bound is open. It makes fewer parts if there are few
// entries, or if keys are so long that it can't look at enough of them.
func (p *Pin) SplitRange(lo, hi []byte, n int) (cuts [][]byte) {
	var fault error // ignored: a range that can't be read is not cut
	defer pageio.Guard(pageio.Arm(), &fault, someMapping)
	list, sum := p.listParts(lo, hi)
	// Long keys: look at fewer of them, so that the sample stays within mostSampled.
	most := mostSampled / int(sum.bytes/max(sum.entries, 1)+1)
	n = min(n, int(min(sum.entries, mostSamples))+1, max(most, samples))
	if n < 2 {
		return nil
	}
	// More samples than parts, or their sizes would depend on chance.
	want := uint64(min(n*samples, mostSamples, max(most, n)))
	var keys [][]byte
	for _, p := range list {
		// In proportion to its entries, so all keys of the sample have the same weight.
		keys = append(keys, p.source.Split(lo, hi, int(want*p.entries/(sum.entries+1))+1)...)
	}
	slices.SortFunc(keys, bytes.Compare)
	for i := 1; i < n && len(keys) > 0; i++ {
		cuts = append(cuts, keys[i*len(keys)/n])
	}
	return slices.CompactFunc(cuts, bytes.Equal)
}

// unhiddenBytes is Leader.UnhiddenBytes. A pageio.Guard must be on.
func (v *View) unhiddenBytes(lo, hi []byte, at entry.Version) (n int64) {
	cover := v.Cover(at, false)
	// From stretch to stretch: within one the same range deletes apply, so it is hidden or not.
	for range mostStretches {
		next, covered := hi, false
		if cover != nil {
			covered = cover.Newest(lo) > 0
			if _, end := cover.Stretch(); end != nil && bytes.Compare(end, hi) < 0 {
				next = bytes.Clone(end)
			}
		}
		for _, r := range v.Runs {
			if !covered {
				n += r.EstimateBytes(lo, next)
			}
		}
		if lo = next; bytes.Compare(lo, hi) >= 0 {
			break
		}
	}
	return n
}

// What a dropped keyspace has left behind is estimated once, for each run that exists then:
// later runs have nothing of it. What is in the memtable is estimated when the store is idle,
// because counting sorts the memtable, and a caller that drops a keyspace should not wait for
// that.

// WeighDropped estimates what is left of a keyspace.
func (s *Set) WeighDropped(id entry.KeyspaceID) {
	hold, err := s.Hold()
	if err != nil {
		return // closed: the next Open does it
	}
	defer hold.Release()
	addDropped(hold.View().Runs, entry.AppendKeyspace(nil, id), entry.AfterKeyspace(id))
}

// WeighAllDropped estimates what runs have of all keyspaces that were dropped.
func WeighAllDropped(runs []*Run, l *layout.Layout) {
	eachDropped(l, func(lo, hi []byte) { addDropped(runs, lo, hi) })
}

// eachDropped calls fn for the ranges of stored keys that are of dropped keyspaces.
func eachDropped(layout *layout.Layout, fn func(lo, hi []byte)) {
	next := uint64(entry.DefaultKeyspace) + 1 // the first that may be
	gap := func(end uint64) {
		if next < end {
			fn(entry.AppendKeyspace(nil, entry.KeyspaceID(next)), entry.AfterKeyspace(entry.KeyspaceID(end-1)))
		}
		next = end + 1
	}
	for _, k := range layout.Keyspaces() {
		gap(uint64(k.ID))
	}
	gap(layout.NextKeyspace())
}

func addDropped(runs []*Run, lo, hi []byte) {
	for _, r := range runs {
		r.Dropped.Add(r.EstimateBytes(lo, hi))
	}
}

// DroppedFrom estimates what a memtable has of keyspaces that were dropped.
func (s *Set) DroppedFrom(m *Table) (n uint64) {
	hold, err := s.Hold()
	if err != nil {
		return 0 // closed
	}
	defer hold.Release()
	if m.Len() == 0 || !slices.Contains(hold.View().Tables, m) {
		return 0
	}
	// Size sorts the memtable: that is why this waits until the store is idle.
	eachDropped(hold.View().Layout, func(lo, hi []byte) {
		_, inline, separated := m.Size(lo, hi)
		n += inline + separated
	})
	return n
}

// DroppedBytes is what policy wants to know of dropped keyspaces: bytes in runs.
func (v *View) DroppedBytes() map[layout.RunID]uint64 {
	left := make(map[layout.RunID]uint64)
	for _, r := range v.Runs {
		if n := r.Dropped.Load(); n > 0 {
			left[r.ID] = uint64(n)
		}
	}
	return left
}

// EstimateLive estimates how many bytes of runs and of value segments entries still need at a time,
// in Unix milliseconds, retained history included. What upper runs and memtables have replaced in
// older ones is known by samples, taken since Open; what was replaced before counts as live until a
// compaction finds it.
func (v *View) EstimateLive(o *policy.Options, now uint64) (runs, segments int64) {
	var separated, dead, hidden, either int64
	count := func(list []layout.Superseded) (values int64) {
		sum := o.Dead(v.Layout, list, now)
		dead += int64(sum.Bytes)
		return int64(sum.Separated)
	}
	for _, r := range v.Runs {
		m := r.Meta()
		runs += int64(m.FileBytes())
		separated += int64(m.SeparatedBytes)
		dead += int64(m.FileBytes() / max(m.Entries, 1) * m.Deletes) // they take room, and hide as much
		replaced, ranged := count(r.Replaced), r.Ranged
		if r.Replaced != nil { // it has what range deletes hide, too
			ranged = min(ranged, replaced)
			hidden -= ranged
		}
		hidden += replaced + count(v.Layout.Run(r.ID).Superseded)
		either += ranged + r.Dropped.Load()
	}
	for _, m := range v.Tables {
		hidden += count(m.Replaced.List()) + count(m.Outdated.List())
	}
	// Range deletes and dropped keyspaces hide keys and values of both kinds.
	inline := int64(float64(either) * float64(runs) / float64(max(separated+runs, 1)))
	for _, s := range v.Layout.Segments() {
		if s.State().Status == layout.Live {
			segments += int64(s.FileBytes - min(s.DeadBytes(), s.FileBytes))
		}
	}
	return runs - min(runs, dead+inline), segments - min(segments, hidden+either-inline)
}
