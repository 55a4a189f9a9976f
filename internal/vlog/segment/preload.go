package segment

// preloadBytes is how much is read between two calls of stop.
const preloadBytes = 1 << 20

// Preload reads the parts of the segment that are not in memory, in order, so that
// values may then be read in any order. It asks stop before every megabyte, and ends
// when that reports true. Where files are not mapped it does nothing.
func (r *Reader) Preload(stop func() bool) error {
	end := r.end.Load()
	for off := int64(0); off < end && r.file.Mapped() != nil && !stop(); off += preloadBytes {
		r.file.Ahead(off, min(2*preloadBytes, end-off)) // the disk goes on meanwhile
		if err := r.file.Prime(off, int(min(preloadBytes, end-off))); err != nil {
			return err
		}
	}
	return nil
}
