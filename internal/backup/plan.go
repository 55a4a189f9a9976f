package backup

import (
	"errors"
	"io"
	"path/filepath"

	"github.com/brockdb/brock/internal/checksum"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/files"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/vfs"
)

// sizes returns the length of each file that a layout names; -1 if the layout doesn't say.
func sizes(l *layout.Layout) map[filename.Name]int64 {
	m := make(map[filename.Name]int64)
	for f := range l.Files() {
		m[f.Name] = f.Size
	}
	return m
}

// plan says what is sent of each file of the layout.
type plan struct {
	files map[filename.Name]File
	kept  map[filename.Name]bool // files whose bytes a stream before has
	total int64                  // bytes of the other files
}

// makePlan describes each file of the layout. Bytes behind the length that the layout says, such
// as those that a crash has left at the end of a segment, are not in the backup.
func (s *sender) makePlan(since *Info) (*plan, error) {
	had := make(map[filename.Name]File)
	if since != nil {
		for _, f := range since.Files {
			had[f.Name] = f
		}
	}
	p := &plan{files: make(map[filename.Name]File), kept: make(map[filename.Name]bool)}
	for name, size := range sizes(s.Layout) {
		f, err := s.describe(name, size)
		if err != nil {
			return nil, err
		}
		p.files[name] = f
		if before, ok := had[name]; ok && before == f {
			p.kept[name] = true
		} else {
			p.total += f.Size
		}
	}
	return p, nil
}

// printBytes is how many bytes of a file's beginning and of its end are in its fingerprint.
const printBytes = 4096

// describe makes the fingerprint of a file. It reads the beginning and the end, where header and
// footer, seal or checksum depend on the whole file. A segment that a crash has left without a
// seal is read whole.
func (s *sender) describe(name filename.Name, size int64) (f File, err error) {
	if err := s.ctx.Err(); err != nil {
		return f, err
	}
	file, err := s.FS.Open(s.open.Path(name))
	if err != nil {
		return f, files.Missing(err, "a file that the manifest names")
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if size < 0 {
		if size, err = file.Size(); err != nil {
			return f, err
		}
	}
	f = File{Name: name, Size: size}
	f.Print, err = s.printOf(file, name, size)
	return f, err
}

// printOf returns the fingerprint of a file of size bytes.
func (s *sender) printOf(f vfs.File, name filename.Name, size int64) (uint32, error) {
	b := make([]byte, min(size, printBytes))
	if err := readPart(f, b, 0); err != nil {
		return 0, err
	}
	sum := checksum.Extend(0, b)
	if err := readPart(f, b, size-int64(len(b))); err != nil {
		return 0, err
	}
	segments := s.open.Segments()
	if name.Kind != filename.Journal || segments.EndsSealed(name.Kind, name.Number, b, size) {
		return checksum.Extend(sum, b), nil
	}
	sum, b = 0, make([]byte, min(size, pieceBytes))
	for at := int64(0); at < size; at += int64(len(b)) {
		if err := errs.Ended(s.ctx); err != nil {
			return 0, err
		}
		b = b[:min(int64(len(b)), size-at)]
		if err := readPart(f, b, at); err != nil {
			return 0, err
		}
		sum = checksum.Extend(sum, b)
	}
	return sum, nil
}

// readPart reads len(b) bytes of a file. It returns *errs.Corruption if the file is shorter.
func readPart(f vfs.File, b []byte, at int64) error {
	n, err := f.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return errs.NewCorruption(filepath.Base(f.Name()), at, "file ends after %d of %d bytes", n, len(b))
	}
	return err
}
