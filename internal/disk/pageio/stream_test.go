package pageio

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/vfs"
)

// asking is a file system that notes what files are asked for, and nothing of which is in
// memory.
type asking struct {
	vfs.FS
	t     *testing.T
	began int64 // what was asked for ends here
	asked int64 // bytes
	ahead int64 // most bytes that were asked for beyond those that were read
	reads []int // lengths
}

type askingFile struct {
	vfs.File
	fs *asking
}

func (a *asking) Open(name string) (vfs.File, error) {
	f, err := a.FS.Open(name)
	return &askingFile{f, a}, err
}

func (f *askingFile) Map(int64) (vfs.Mapping, error) { return nil, errors.ErrUnsupported }

func (f *askingFile) StartRead(off, n int64) {
	f.fs.asked, f.fs.began = f.fs.asked+n, off+n
}

func (f *askingFile) ReadAt(p []byte, off int64) (int, error) {
	end := off + int64(len(p))
	if f.fs.began < end {
		f.fs.t.Errorf("bytes up to %d are read, asked for are those up to %d", end, f.fs.began)
	}
	f.fs.reads = append(f.fs.reads, len(p))
	f.fs.ahead = max(f.fs.ahead, f.fs.began-end)
	return f.File.ReadAt(p, off)
}

func TestStream(t *testing.T) {
	const size, part = 9<<20 + 1000, 1 << 20
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(i >> 12)
	}
	path := filepath.Join(t.TempDir(), "000001.val")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, busy := range []bool{false, true} {
		fs := &asking{FS: vfs.OS(), t: t}
		files := NewFiles(fs, 0)
		f, err := files.Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if busy {
			files.coldReaders.reading.Add(1) // a reader waits for the disk all the time
		}
		const end = 8<<20 + 500
		s := f.Stream(end)
		for off := int64(0); off < end; off += part {
			p := make([]byte, min(part, end-off))
			if err := s.ReadFull(p, off); err != nil || !bytes.Equal(p, content[off:off+int64(len(p))]) {
				t.Fatalf("%d bytes at %d: %v", len(p), off, err)
			}
		}
		wantReads, wantAhead := 9, int64(streamAhead)
		if busy {
			wantReads, wantAhead = 8*part/busyPart+1, 0
		}
		if fs.asked != end || len(fs.reads) != wantReads || fs.ahead != wantAhead {
			t.Errorf("busy %v: %d bytes asked for, %d reads, up to %d bytes ahead", busy, fs.asked, len(fs.reads), fs.ahead)
		}
		// A part elsewhere is asked for, too, and one beyond the end is damage.
		fs.began = 0
		if err := s.ReadFull(make([]byte, 100), 4<<20); err != nil || fs.began == 0 {
			t.Errorf("a part before: %v, asked for up to %d", err, fs.began)
		}
		if err := s.ReadFull(make([]byte, 100), size-99); !errors.Is(err, errs.ErrCorrupt) {
			t.Errorf("beyond the end: %v", err)
		}
	}
}

// Readers are seen that have ended since.
func TestStreamSeesReaders(t *testing.T) {
	var r readers
	var seen int64
	if r.wereReading(&seen) {
		t.Error("busy without readers")
	}
	r.reading.Add(1)
	if !r.wereReading(&seen) {
		t.Error("not busy while one reads")
	}
	r.endRead()
	if !r.wereReading(&seen) || r.wereReading(&seen) {
		t.Error("one that has ended counts once")
	}
}
