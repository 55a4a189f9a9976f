package run

import (
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
)

// Scrub reads the chunks of the file num from offset from on, and verifies them. It stops when it
// has read most bytes or more, and returns the offset at which to go on. After the last chunk it
// verifies directory, footer and filters, too, and done is true.
func (r *Reader) Scrub(num entry.FileNum, from, most int64, report func(*errs.Corruption)) (to int64, done bool) {
	to = from
	for _, part := range r.parts() {
		// A Copier: what is on the disk counts, not what is in a mapping.
		it := part.newCopier()
		defer it.Close()
		for i := range part.chunks {
			c := &part.chunks[i]
			if part.fileOf(i).owner.Num != num || c.Offset < to {
				continue
			}
			// Between chunks, after at least one: however small most is, the next call gets
			// further.
			if to-from >= most {
				return to, false
			}
			failed := func(err error) { reportError(c.File.Name, c.Offset, err, report) }
			if l, err := it.loadChunk(i); err != nil {
				failed(err)
			} else {
				l.VerifyAll(failed)
			}
			to = c.Offset + int64(c.Layout.Size())
		}
	}
	// At the end, so that they are read once in a round, however many calls it takes.
	for i, f := range r.files {
		if f.owner.Num == num {
			r.verifyFile(i, report)
		}
	}
	return to, true
}
