package vfs

// Resident is a Mapping that can tell which of its pages are in memory, so that
// touching them doesn't wait for the disk. It is what a Mapping may implement.
type Resident interface {
	// Resident sets the lowest bit of pages[i] if the i-th page of 4 KiB from
	// off on, which is a multiple of that, is in memory, and clears it if it
	// is not. Pages may come and go at any time. Where it can't be told, the
	// error is errors.ErrUnsupported.
	Resident(off int64, pages []byte) error
}
