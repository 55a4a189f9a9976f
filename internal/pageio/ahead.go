package pageio

// Ahead asks the system to begin reading what of n bytes at off is not known to be in
// memory, and returns how many bytes that are. It waits for nothing, and only asks which
// pages are in memory: those of one who reads the range soon. Bytes that the file doesn't
// have are left out.
func (f *File) Ahead(off, n int64) (asked int64) {
	end := min(off+n, f.size)
	if off < 0 || off >= end {
		return 0
	}
	if f.data == nil {
		f.StartRead(off, end-off)
		return end - off
	}
	last := (end - 1) / pageSize
	for first := f.absent(off/pageSize, last); first <= last; first = f.absent(first, last) {
		stop := f.unknown(first, last)
		if stop > first {
			f.StartRead(first*pageSize, (stop-first)*pageSize)
			asked += (stop - first) * pageSize
		}
		first = stop
	}
	return asked
}

// unknown returns the page after those from first on, and up to last, of which none is
// known to be in memory, once the system was asked.
func (f *File) unknown(first, last int64) int64 {
	for p := first; p <= last; {
		m, end := p/probePages, min(last, p|(probePages-1))
		// Once a page of a megabyte was not there, to ask about the others costs as much as
		// to have them read.
		if !f.cold.Test(m) {
			f.probe(p, end)
		}
		for ; p <= end; p++ {
			if f.Resident(p * pageSize) {
				return p
			}
			f.cold.Set(m)
		}
	}
	return last + 1
}
