package pageio

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brockdb/brock/internal/base/jobs"
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
		pages[i] = byte(off/PageSize+int64(i)+1) & 1
	}
	return nil
}

// Of a megabyte in which a page is not in memory, only the pages that are wanted are
// asked about from then on. What is in memory is not read.
func TestColdFilesAreAskedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "000001.val")
	if err := os.WriteFile(path, make([]byte, 3*probeSize), 0o600); err != nil {
		t.Fatal(err)
	}
	fs := &halfResident{FS: vfs.OS()}
	files := NewFiles(fs, 0)
	files.Bits = NewBitMemory(0, false)
	f, err := files.Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Mapped() == nil {
		t.Skip("files are not mapped here")
	}
	prime := func(page int64, pages int, want int) {
		t.Helper()
		if err := f.Prime(page*PageSize, pages*PageSize); err != nil {
			t.Fatal(err)
		}
		if fs.asked != want || !f.Resident(page*PageSize) {
			t.Errorf("after page %d: asked %d times, want %d", page, fs.asked, want)
		}
	}
	prime(0, 1, 1)
	prime(2, 1, 1)
	prime(3, 1, 2) // it is not there
	prime(3, 1, 2)
	prime(5, 1, 3) // only that page
	prime(7, 2, 4)
	prime(probePages+1, 1, 5)
	prime(probePages+2, 1, 5)
	prime(2*probePages-1, 2, 7) // one question for each megabyte
	if want := int64(6); files.Bits.misses.Load() != want {
		t.Errorf("%d pages were not in memory, want %d", files.Bits.misses.Load(), want)
	}
}

// openMapped opens a file of zeros, pages long, in epochs of its own.
func openMapped(t *testing.T, fsys vfs.FS, pages int) *File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "000001.val")
	if err := os.WriteFile(path, make([]byte, pages*PageSize), 0o600); err != nil {
		t.Fatal(err)
	}
	files := NewFiles(fsys, 0)
	files.Bits = NewBitMemory(0, false)
	f, err := files.Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if f.Mapped() == nil {
		t.Skip("files are not mapped here")
	}
	return f
}

// What was verified is believed until as much was read that was not in memory as may
// have taken its place, and for EpochTime if an alarm says so.
func TestEpochs(t *testing.T) {
	f := openMapped(t, &halfResident{FS: vfs.OS()}, 2*EpochPages+probePages)
	verified := f.Verified(100)
	for page := range int64(2*EpochPages + probePages) {
		begun := page == 0 || page == 2*EpochPages // half of them were in memory
		if verified.Test(7) == begun {
			t.Fatalf("page %d: verified is %v", page, !begun)
		}
		if begun {
			verified.Set(7)
		}
		if err := f.Prime(page*PageSize, 1); err != nil {
			t.Fatal(err)
		}
	}
}

// Where pages that were asked for are used in order, the system tells of several at a
// time. They count as read.
func TestPagesInOrderAreAskedAboutTogether(t *testing.T) {
	in := map[int64]bool{}
	fs := &toldOf{FS: vfs.OS(), in: in}
	f := openMapped(t, fs, 4*probePages)
	misses := func() int64 { return f.files.Bits.misses.Load() }
	if f.Known(0, 1) || misses() != 1 { // so its megabyte is known to be cold
		t.Fatalf("%d pages were not in memory, want the first", misses())
	}
	f.noteResident(0, 0)
	for p := range int64(2 * probePages) {
		in[p] = true
	}
	fs.asked = 0
	for p := int64(1); p < probePages; p++ {
		if !f.Known(p*PageSize, 1) {
			t.Fatalf("page %d is not known", p)
		}
	}
	if fs.asked != probePages/inOrder || misses() != probePages {
		t.Errorf("asked %d times about %d pages; %d counted", fs.asked, probePages-1, misses())
	}
}

// In a megabyte that was not in memory, the system is not asked about a page in no order,
// unless the page was known: the answer tells how long pages stay.
func TestColdPagesAreReadUnasked(t *testing.T) {
	fs := &toldOf{FS: vfs.OS(), in: map[int64]bool{}}
	f := openMapped(t, fs, 2*probePages)
	bits := f.files.Bits
	known := func(page int64, asked, misses int) {
		t.Helper()
		fs.asked, fs.pages = 0, 0
		before := bits.misses.Load()
		if f.Known(page*PageSize, 1) {
			t.Errorf("page %d is known", page)
		}
		if counted := bits.misses.Load() - before; fs.asked != asked || counted != int64(misses) {
			t.Errorf("page %d: asked %d times, and %d pages counted, want %d and %d", page, fs.asked, counted, asked, misses)
		}
	}
	known(0, 1, 1) // the megabyte is cold from now on
	known(7, 0, 1)
	f.noteResident(7, 7) // it was read
	for range believed {
		bits.countMissed(bits.length.Load())
	}
	known(7, 1, 1)
	known(9, 0, 1)
	f.noteResident(9, 9)
	known(10, 1, 1) // in order
	known(probePages+3, 1, 1)
	if bits.again[believed].Load() != 1 || bits.gone[believed].Load() != 1 {
		t.Error("the page that has left memory was not counted")
	}
}

// toldOf is a file system whose mappings say that some pages are in memory.
type toldOf struct {
	vfs.FS
	in    map[int64]bool
	asked int // times since it was set to 0
	pages int // in these
}

func (fs *toldOf) Open(name string) (vfs.File, error) {
	f, err := fs.FS.Open(name)
	return &toldFile{f, fs}, err
}

type toldFile struct {
	vfs.File
	fs *toldOf
}

type toldMapping struct {
	vfs.Mapping
	fs *toldOf
}

func (f *toldFile) Map(size int64) (vfs.Mapping, error) {
	m, err := f.File.Map(size)
	return &toldMapping{m, f.fs}, err
}

func (m *toldMapping) Resident(off int64, pages []byte) error {
	if m.fs.asked++; m.fs.asked == 1 {
		m.fs.pages = 0
	}
	m.fs.pages += len(pages)
	for i := range pages {
		pages[i] = 0
		if m.fs.in[off/PageSize+int64(i)] {
			pages[i] = 1
		}
	}
	return nil
}

// aheadMapping is a mapping of which nothing is in memory but what was read, and 31
// pages behind that, as systems read ahead.
type aheadMapping struct {
	vfs.Mapping
	in map[int64]bool
}

type aheadFile struct {
	vfs.File
	in map[int64]bool
}

type readsAhead struct{ vfs.FS }

func (r readsAhead) Open(name string) (vfs.File, error) {
	f, err := r.FS.Open(name)
	return &aheadFile{f, map[int64]bool{}}, err
}

func (f *aheadFile) Map(size int64) (vfs.Mapping, error) {
	m, err := f.File.Map(size)
	return &aheadMapping{m, f.in}, err
}

func (f *aheadFile) ReadAt(p []byte, off int64) (int, error) {
	for i := range int64(32) {
		f.in[off/PageSize+i] = true
	}
	return f.File.ReadAt(p, off)
}

func (m *aheadMapping) Resident(off int64, pages []byte) error {
	for i := range pages {
		pages[i] = 0
		if m.in[off/PageSize+int64(i)] {
			pages[i] = 1
		}
	}
	return nil
}

// Pages that the system has read ahead take the place of others, too.
func TestReadaheadCounts(t *testing.T) {
	const size = EpochPages + 2*probePages
	f := openMapped(t, readsAhead{vfs.OS()}, size)
	verified := f.Verified(1)
	verified.Set(0)
	for page := range int64(size) {
		if err := f.Prime(page*PageSize, 1); err != nil {
			t.Fatal(err)
		}
	}
	if verified.Test(0) {
		t.Errorf("believed after %d pages that were not in memory", size)
	}
}

func TestEpochsEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := jobs.New(jobs.Options{})
		m := NewBitMemory(0, false)
		b, pages := m.newBits(10, eachEpoch), m.verifiedPages(100)
		b.Set(1)
		pages.Set(99)
		m.EndEpochsBy(pool.Alarm(pool.Task(jobs.Brief, "forget", func(context.Context) error { m.EndEpoch(); return nil })))
		for range 3 {
			<-time.After(EpochTime - time.Second)
			if !b.Test(1) || !pages.Test(99) {
				t.Error("forgotten early")
			}
			<-time.After(2 * time.Second)
			if b.Test(1) || pages.Test(99) {
				t.Error("believed for too long")
			}
			<-time.After(time.Hour) // nothing is verified: no timer
			pages.Set(99)
			b.Set(1)
		}
		pool.Close()
	})
}
