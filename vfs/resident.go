package vfs

// Resident is implemented by a Mapping that can tell which of its pages are in
// memory, so that touching them doesn't wait for the disk.
type Resident interface {
	// Resident sets the lowest bit of pages[i] if the i-th page of 4 KiB from off
	// on is in memory, and clears it if it is not; off is a multiple of 4 KiB. Pages
	// may come and go at any time. It returns errors.ErrUnsupported where the system
	// doesn't tell.
	Resident(off int64, pages []byte) error
}
