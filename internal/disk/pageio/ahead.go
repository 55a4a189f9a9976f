package pageio

// Ahead asks the system to begin reading the part of n bytes at off that is not known to be in
// memory, and returns the size of that part. It does not wait. Call it for a range that will
// be read soon. Bytes beyond the end of the file are left out.
func (f *File) Ahead(off, n int64) (asked int64) {
	end := min(off+n, f.size)
	if off < 0 || off >= end {
		return 0
	}
	if f.data == nil {
		f.startRead(off, end-off)
		return end - off
	}
	last := (end - 1) / PageSize
	for first := f.firstAbsent(off/PageSize, last); first <= last; first = f.firstAbsent(first, last) {
		stop := f.unknownEnd(first, last)
		if stop > first {
			f.startRead(first*PageSize, min(stop*PageSize, f.size)-first*PageSize)
			asked += (stop - first) * PageSize
		}
		first = stop
	}
	return asked
}

// unknownEnd returns the page after those from first on, and up to last, of which none is
// known to be in memory, once the system was asked.
func (f *File) unknownEnd(first, last int64) int64 {
	for p := first; p <= last; {
		m, end := p/probePages, min(last, p|(probePages-1))
		// Once a page of a megabyte was not there, to ask about the others costs as much as
		// to have them read.
		if !f.cold.Test(m) {
			f.askResidency(p, end)
		}
		for ; p <= end; p++ {
			if f.Resident(p * PageSize) {
				return p
			}
			// The next question is for single pages.
			f.cold.Set(m)
		}
	}
	return last + 1
}

// awaited is how many pages the system is given to read before one of them is waited for.
const awaited = 32

// Await asks the system to read n bytes at off into memory, all at once, and waits for most of
// them. Call Prime afterwards: by itself it would wait for the disk at each piece. Without a
// mapping Await does nothing.
func (f *File) Await(off, n int64) {
	end := min(off+n, f.size)
	if f.data == nil || off < 0 || off >= end {
		return
	}
	first, last := off/PageSize, (end-1)/PageSize
	for first = f.firstAbsent(first, last); first <= last && f.unknownEnd(first, first) == first; {
		first = f.firstAbsent(first, last) // the system has told of pages in memory
	}
	if first > last {
		return
	}
	d, err := f.openForRead()
	if err != nil {
		return
	}
	defer f.files.releaseDescriptor(d)
	// All are counted as read, though some may come in meanwhile.
	f.files.Bits.countMissed(last - first + 1)
	f.files.coldReaders.beginRead(d, first*PageSize, (last+1-first)*PageSize)
	defer f.files.coldReaders.endRead()
	// A byte of one page is enough to wait for it: nothing is copied.
	var b [1]byte
	for p := first; p <= last; p += awaited {
		end := min(p|(awaited-1), last)
		_, _ = d.ReadAt(b[:], end*PageSize) // Prime tells of errors
		// The pages before it were asked for first, so most are there as well. Note them.
		f.askResidency(p, end)
		p &^= awaited - 1
	}
}
