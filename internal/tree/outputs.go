package tree

import "github.com/brockdb/brock/internal/compact"

// done notes what came of a piece of work.
func (w *Work) done(out *compact.Output) {
	w.EntriesIn, w.Dropped, w.BytesOut = int64(out.Read), out.Dropped, outputBytes(out)
}

// outputBytes is the length of the files that were written.
func outputBytes(out *compact.Output) int64 {
	var n int64
	for _, f := range out.Run.Files {
		n += int64(f.Size)
	}
	for _, s := range out.Values {
		n += s.Size
	}
	for _, m := range out.Remaps {
		n += m.Size
	}
	return n
}
