package view

import (
	"bytes"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/pageio"
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
		next := hi
		covered := false
		if cover != nil {
			covered = cover.Newest(lo) > 0
			if _, end := cover.Stretch(); end != nil && bytes.Compare(end, hi) < 0 {
				next = bytes.Clone(end)
			}
		}
		for _, r := range v.Runs {
			if !covered {
				_, inline, separated := r.Size(lo, next, false)
				n += int64(inline + separated)
			}
		}
		if lo = next; bytes.Compare(lo, hi) >= 0 {
			break
		}
	}
	return n
}
