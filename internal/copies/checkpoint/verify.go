package checkpoint

import (
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/vlog/segment"
	"github.com/brockdb/brock/vfs"
)

// Verifier verifies files of a Fileset, one after the other. It has few of them open, and the
// indexes of one run in memory.
type Verifier struct {
	Files  *view.Opener
	layout *layout.Layout
	run    *view.Run // of the file that was verified last; nil: none is open
}

// openFiles is how many descriptors a Verifier uses.
const openFiles = 64

// NewVerifier returns a Verifier that reads by FS.Open and ReadAt only.
func NewVerifier(s Fileset) *Verifier {
	store := s.Store
	store.NoMap = true
	return &Verifier{layout: s.Layout, Files: view.NewOpener(view.OpenerConfig{Store: store, OpenFiles: openFiles})}
}

// Open opens all files and closes them again, to find what Open of the store would refuse.
func (v *Verifier) Open() error {
	var all view.View
	defer all.Close()
	_, err := v.Files.NextView(nil, &all, v.layout, nil)
	return err
}

// verifyBytes is how many bytes are verified between two calls of File's function: less than
// Steady has in memory.
const verifyBytes = 4 << 20

// File reads a file whole, and checks every checksum of it. Now and then it calls verified with
// the offset up to which that was done, and it ends if verified returns an error.
func (v *Verifier) File(f layout.File, verified func(to int64) error) error {
	switch {
	case f.Run != nil:
		return v.verifyRunFile(f, verified)
	case f.Kind == filename.Forwarding:
		m, err := segment.OpenForwarding(v.Files.SegmentConfig(), f.Number, f.KeyID, true) // verifies all of it
		if err == nil {
			err = m.Close()
		}
		return err
	}
	s, err := v.Files.OpenSegment(f.Segment)
	if err != nil {
		return view.MissingFile(err, "a segment that the manifest names")
	}
	// Opened for this file alone: a layout may have more files than the process may open.
	defer s.Discard()
	at := new(segment.Place)
	for done := false; !done; {
		if done, err = s.Scrub(v.Files.SegmentConfig(), at, verifyBytes); err != nil {
			return err
		}
		if err := verified(at.Offset); err != nil {
			return err
		}
	}
	return nil
}

// verifyRunFile verifies one file of a run. Files of a run follow each other, so the run stays
// open.
func (v *Verifier) verifyRunFile(f layout.File, verified func(to int64) error) (err error) {
	if v.run == nil || v.run.ID != f.Run.ID {
		v.Close()
		if v.run, err = v.Files.OpenRun(f.Run); err != nil {
			return view.MissingFile(err, "a run that the manifest names")
		}
	}
	var found *errs.Corruption
	at, done := int64(0), false
	for !done {
		at, done = v.run.Scrub(f.Number, at, verifyBytes, func(c *errs.Corruption) { found = c })
		if found != nil {
			return found
		}
		if err := verified(at); err != nil {
			return err
		}
	}
	return nil
}

// endBytes is how many bytes of a file's beginning and of its end Ends reads.
const endBytes = 4 << 10

// Ends returns the first and the last bytes of a file of size bytes, one behind the other. sealed
// says that they hold a checksum that depends on all of it, so that they tell it from every other
// file: a run's footer has that of its directory, which has those of all chunks; a seal has that of
// the frame before, and so on; a forwarding table's header has that of the rest. A journal segment
// that a crash has ended has none.
func (v *Verifier) Ends(f vfs.File, name filename.Name, size int64) (ends []byte, sealed bool, err error) {
	n := min(size, endBytes)
	ends = make([]byte, 2*n)
	if err := pageio.ReadFull(f, ends[:n], 0); err != nil {
		return nil, false, err
	}
	if err := pageio.ReadFull(f, ends[n:], size-n); err != nil {
		return nil, false, err
	}
	switch name.Kind {
	case filename.Run, filename.Value, filename.Forwarding:
		return ends, true, nil
	case filename.Journal:
		segments := v.Files.SegmentConfig()
		return ends, segments.EndsSealed(name.Kind, name.Number, ends[n:], size), nil
	}
	return ends, false, nil
}

// Close closes what is open. The Verifier can be used again.
func (v *Verifier) Close() {
	if v.run != nil {
		v.run.Discard()
	}
	v.run = nil
}
