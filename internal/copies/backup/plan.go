package backup

import (
	"errors"
	"io"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/copies/checkpoint"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/vfs"
)

// planned is a file of the layout, and what a stream says of it.
type planned struct {
	layout.File
	sent File
	kept bool // a stream before has its bytes
}

// planFiles describes each file of the layout. Bytes behind the length that the layout says, such
// as those that a crash has left at the end of a segment, are not in the backup.
func (s *sender) planFiles(since *Info) error {
	had := since.byName()
	for f := range s.Layout.Files() {
		sent, err := s.describeFile(f)
		if err != nil {
			return err
		}
		// Name, size and fingerprint agree with the stream before: then it has the same bytes, as
		// files never change.
		s.files = append(s.files, &planned{f, sent, had[f.Name] == sent})
	}
	return nil
}

// describeFile makes the fingerprint of a file. It reads the beginning and the end, where header
// and footer, seal or checksum depend on the whole file. A segment that a crash has left without a
// seal is read whole.
func (s *sender) describeFile(l layout.File) (f File, err error) {
	if err := s.ctx.Err(); err != nil {
		return f, err
	}
	file, err := s.FS.Open(s.Path(l.Name))
	if err != nil {
		return f, view.MissingFile(err, "a file that the manifest names")
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	f = File{Name: l.Name, Size: l.Size}
	if f.Size < 0 {
		if f.Size, err = file.Size(); err != nil {
			return f, err
		}
	}
	f.Print, err = s.printOf(file, &f)
	return f, err
}

// printOf returns the fingerprint of a file, of which it reads as many bytes as the stream has.
func (s *sender) printOf(f vfs.File, as *File) (sum uint32, err error) {
	ends, sealed, err := s.verify.Ends(f, as.Name, as.Size)
	// A copy of the store that went on has files of the same names and perhaps lengths. Their
	// checksums differ.
	if err != nil || sealed {
		return checksum.Plain(ends), err
	}
	all := checksum.NewPlain()
	_, err = checkpoint.CopyBytes(s.ctx, all, io.NewSectionReader(f, 0, as.Size), as.Size)
	return all.Sum32(), err
}
