package memtable

import "bytes"

// Size is how many entries have keys in [lo, hi), all versions counted, and an
// estimate of the memory they take; a nil hi is no bound. It sorts what was
// added since the last view.
func (t *Table) Size(lo, hi []byte) (entries, bytes uint64) {
	v := t.fold()
	if v.count == 0 {
		return 0, 0
	}
	entries = uint64(t.within(v, lo, hi))
	return entries, uint64(float64(t.Bytes()) * float64(entries) / float64(v.count))
}

// Split returns at most n-1 keys, in order, that cut the entries with keys in
// [lo, hi) into parts of about the same size; a nil hi is no bound. It looks at
// most entries, not at all: what was added last may lie in another part.
func (t *Table) Split(lo, hi []byte, n int) [][]byte {
	v := t.fold()
	var longest []pair
	for _, level := range v.levels {
		if part := t.cut(v, level, lo, hi); len(part) > len(longest) {
			longest = part
		}
	}
	var keys [][]byte
	for i := 1; i < n; i++ {
		at := int(int64(i) * int64(len(longest)) / int64(n))
		if at == 0 {
			continue
		}
		key := (*record)(t.arena.at(longest[at].place)).keyBytes()
		if len(keys) == 0 || !bytes.Equal(keys[len(keys)-1], key) {
			keys = append(keys, bytes.Clone(key))
		}
	}
	return keys
}
