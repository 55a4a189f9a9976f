package segment

const preloadBytes = 1 << 20

// Preload reads what is not in memory of the segment, in order, so that values
// may then be read in any order; it stops when stop reports true, which is asked
// for every megabyte. Where files are not mapped it does nothing.
func (r *Reader) Preload(stop func() bool) error {
	end := r.end.Load()
	for off := int64(0); off < end && r.file.Mapped() != nil && !stop(); off += preloadBytes {
		if err := r.prime(off, min(preloadBytes, end-off)); err != nil {
			return err
		}
	}
	return nil
}
