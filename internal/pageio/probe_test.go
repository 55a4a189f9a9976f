package pageio

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/brockdb/brock/vfs"
)

// halfResident is a file system whose mappings say that every second page is in
// memory, and count how often they are asked.
type halfResident struct {
	vfs.FS
	asked int
}

type halfFile struct {
	vfs.File
	fs *halfResident
}

type halfMapping struct {
	vfs.Mapping
	fs *halfResident
}

func (h *halfResident) Open(name string) (vfs.File, error) {
	f, err := h.FS.Open(name)
	return &halfFile{f, h}, err
}

func (f *halfFile) Map(size int64) (vfs.Mapping, error) {
	m, err := f.File.Map(size)
	return &halfMapping{m, f.fs}, err
}

func (m *halfMapping) Resident(off int64, pages []byte) error {
	m.fs.asked++
	for i := range pages {
		pages[i] = byte(off/pageSize+int64(i)+1) & 1
	}
	return nil
}

// A megabyte in which a page is not in memory is not asked about again: each of its
// pages would cost another question.
func TestColdFilesAreAskedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "000001.val")
	if err := os.WriteFile(path, make([]byte, 3*probeSize), 0o600); err != nil {
		t.Fatal(err)
	}
	fs := &halfResident{FS: vfs.OS()}
	files := NewFiles(fs, 0)
	f, err := files.Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Mapped() == nil {
		t.Skip("files are not mapped here")
	}
	resident := NewBits(3 * probeSize / pageSize)
	probe := func(page int64, want int) {
		t.Helper()
		f.Probe(page*pageSize, &resident)
		if fs.asked != want {
			t.Errorf("after page %d: asked %d times, want %d", page, fs.asked, want)
		}
	}
	probe(0, 1)
	probe(2, 2) // as if it had been forgotten
	probe(3, 3) // it is not there
	probe(5, 3)
	probe(7, 3)
	probe(probeSize/pageSize+1, 4)
	probe(probeSize/pageSize+3, 4)
	probe(3*probeSize/pageSize-1, 5)
	for i := range int64(3 * probeSize / pageSize) {
		if resident.Test(i) != (i%2 == 0) {
			t.Fatalf("page %d: resident %v", i, resident.Test(i))
		}
	}
}
