package tree

import (
	"bytes"
	"slices"
)

// Size estimates what [lo, hi) holds; a nil bound is open: entries, bytes of their
// keys and inline values, and bytes of separated values. Versions that are no
// longer visible count until a merge drops them.
func (t *Tree) Size(lo, hi []byte) (entries, bytes, separated uint64) {
	hold, err := t.Acquire(0)
	if err != nil {
		return 0, 0, 0
	}
	defer hold.Release()
	for _, m := range hold.view.tables {
		n, _ := m.Table.Size(lo, hi)
		part := float64(n) / float64(max(m.Len(), 1))
		entries += n
		bytes += uint64(part * float64(m.bytes.Load()))
		separated += uint64(part * float64(m.separatedBytes.Load()))
	}
	for _, r := range hold.view.runs {
		e, b, s := r.Size(lo, hi)
		entries, bytes, separated = entries+e, bytes+b, separated+s
	}
	return entries, bytes, separated
}

// samples is how many keys Split looks at for each part it is to make.
const samples = 64

// Split returns at most n-1 stored keys, in order, that cut [lo, hi) into parts
// of about the same size; a nil bound is open.
func (t *Tree) Split(lo, hi []byte, n int) [][]byte {
	hold, err := t.Acquire(0)
	if err != nil || n < 2 {
		return nil
	}
	defer hold.Release()
	// Every source gives keys in proportion to its entries, so that each key
	// stands for about as many.
	total := uint64(1)
	for _, m := range hold.view.tables {
		total += uint64(m.Len())
	}
	for _, r := range hold.view.runs {
		total += r.Meta().Entries
	}
	share := func(entries uint64) int { return int(uint64(n*samples)*entries/total) + 1 }
	var keys [][]byte
	for _, m := range hold.view.tables {
		keys = append(keys, m.Split(lo, hi, share(uint64(m.Len())))...)
	}
	for _, r := range hold.view.runs {
		keys = append(keys, r.Split(share(r.Meta().Entries))...)
	}
	keys = slices.DeleteFunc(keys, func(k []byte) bool {
		return bytes.Compare(k, lo) <= 0 || hi != nil && bytes.Compare(k, hi) >= 0
	})
	slices.SortFunc(keys, bytes.Compare)
	var cuts [][]byte
	for i := 1; i < n && len(keys) > 0; i++ {
		cuts = append(cuts, keys[i*len(keys)/n])
	}
	return slices.CompactFunc(cuts, bytes.Equal)
}
