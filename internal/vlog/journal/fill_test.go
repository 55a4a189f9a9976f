package journal

import "testing"

// Whole blocks are filled with zeros ahead of a bulk load only if most of what is
// appended are values that stay in the file.
func TestZerosAheadOfValuesOnly(t *testing.T) {
	for _, c := range []struct {
		what   string
		size   int // of the values; more than 100 bytes have their own checksum
		filled bool
	}{{"small values", 100, false}, {"separated values", 1000, true}} {
		h := newHistory(t, newDisk(), 64<<20)
		sizes := make([]int, 200_000/c.size)
		for i := range sizes {
			sizes[i] = c.size
		}
		for h.j.End().Offset < 3*bulkFill {
			h.must(h.append(1, sizes...))
		}
		if filled := h.j.Ahead() > 0; filled != c.filled {
			t.Errorf("%s: %d bytes of zeros ahead of %d", c.what, h.j.Ahead(), h.j.End().Offset)
		}
		// What lies behind the frames is cut off, or was never there.
		if end, written := h.j.End().Offset, h.j.Written(); !c.filled && written > end {
			t.Errorf("%s: %d bytes were written for %d", c.what, written, end)
		}
	}
}
