package view

import (
	"bytes"
	"slices"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/pageio"
)

// Entries estimates how many there are in [lo, hi).
func (v *View) Entries(lo, hi []byte) (n int) {
	var fault error // then it is what was counted so far
	defer pageio.Guard(pageio.Arm(), &fault, mapped)
	for _, m := range v.Tables {
		n += m.Between(lo, hi)
	}
	for _, r := range v.Runs {
		in, _, _ := r.Size(lo, hi)
		n += int(in)
	}
	return n
}

// Size estimates what [lo, hi) holds; a nil bound is open: entries, bytes of their
// keys and inline values, and bytes of separated values. Versions that are no
// longer visible count until a compaction drops them.
func (p *Pin) Size(lo, hi []byte) (entries, bytes, separated uint64) {
	var fault error // then it is what was counted so far
	defer pageio.Guard(pageio.Arm(), &fault, mapped)
	for _, m := range p.view.Tables {
		n, _ := m.Table.Size(lo, hi)
		part := float64(n) / float64(max(m.Len(), 1))
		entries += n
		bytes += uint64(part * float64(m.InlineBytes.Load()))
		separated += uint64(part * float64(m.SeparatedBytes.Load()))
	}
	for _, r := range p.view.Runs {
		e, b, s := r.Size(lo, hi)
		entries, bytes, separated = entries+e, bytes+b, separated+s
	}
	return entries, bytes, separated
}

const (
	samples     = 64       // keys that Split looks at for each part, but at most
	mostSamples = 1 << 16  // keys in all, some 0.1 s of work,
	mostSampled = 16 << 20 // and bytes of them, about
)

// Split returns at most n-1 stored keys, in order, that cut [lo, hi) into parts
// of about the same size; a nil bound is open. It makes no more parts than there are
// entries, or than it may look at keys.
func (p *Pin) Split(lo, hi []byte, n int) [][]byte {
	entries, size, _ := p.Size(nil, nil)
	most := mostSampled / int(size/max(entries, 1)+1)
	n = min(n, int(min(entries, mostSamples))+1, max(most, samples))
	if n < 2 {
		return nil
	}
	keys := p.sample(lo, hi, min(n*samples, mostSamples, max(most, n)))
	slices.SortFunc(keys, bytes.Compare)
	var cuts [][]byte
	for i := 1; i < n && len(keys) > 0; i++ {
		cuts = append(cuts, keys[i*len(keys)/n])
	}
	return slices.CompactFunc(cuts, bytes.Equal)
}

// sample returns about n keys of [lo, hi). Every source gives keys in proportion to
// its entries, so that each key stands for about as many.
func (p *Pin) sample(lo, hi []byte, n int) (keys [][]byte) {
	var fault error // then it is what was found so far
	defer pageio.Guard(pageio.Arm(), &fault, mapped)
	total := uint64(1)
	for _, m := range p.view.Tables {
		total += uint64(m.Len())
	}
	for _, r := range p.view.Runs {
		total += r.Meta().Entries
	}
	share := func(entries uint64) int { return int(uint64(n)*entries/total) + 1 }
	for _, m := range p.view.Tables {
		keys = append(keys, m.Split(lo, hi, share(uint64(m.Len())))...)
	}
	for _, r := range p.view.Runs {
		for _, key := range r.Split(share(r.Meta().Entries)) {
			if bytes.Compare(key, lo) > 0 && (hi == nil || bytes.Compare(key, hi) < 0) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// Unhidden estimates how many bytes runs have in [lo, hi) that no range tombstone
// up to version at hides. It is less if there are very many of these, and 0 if
// the runs can't be read.
func (p *Pin) Unhidden(lo, hi []byte, at entry.Version) (n int64) {
	var fault error
	defer pageio.Guard(pageio.Arm(), &fault, mapped)
	return p.view.unhidden(lo, hi, at)
}

// unhidden is how many bytes runs have in [lo, hi) that no range tombstone up to
// version at hides; or less if there are very many of these. A pageio.Guard must
// be on.
func (v *View) unhidden(lo, hi []byte, at entry.Version) (n int64) {
	cover := v.Cover(at, false)
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
				_, inline, separated := r.Size(lo, next)
				n += int64(inline + separated)
			}
		}
		if lo = next; bytes.Compare(lo, hi) >= 0 {
			break
		}
	}
	return n
}
