package pageio

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock/internal/base/invariant"
	"github.com/brockdb/brock/vfs"
)

// watched counts the reads of its files, and what they are asked to begin. Nothing is in
// memory but what was read, and what isn't evicted.
type watched struct {
	vfs.FS
	reads, starts atomic.Int64
	hold          func() // called in each read

	mu sync.Mutex
	in map[int64]bool // pages
}

func (w *watched) Open(name string) (vfs.File, error) {
	f, err := w.FS.Open(name)
	return &watchedFile{f, w}, err
}

func (w *watched) evict() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.in)
}

type watchedFile struct {
	vfs.File
	w *watched
}

func (f *watchedFile) StartRead(off, n int64) { f.w.starts.Add(1) }

func (f *watchedFile) ReadAt(p []byte, off int64) (int, error) {
	f.w.reads.Add(1)
	if f.w.hold != nil {
		f.w.hold()
	}
	f.w.mu.Lock()
	for page := off / PageSize; page*PageSize < off+int64(len(p)); page++ {
		f.w.in[page] = true
	}
	f.w.mu.Unlock()
	return f.File.ReadAt(p, off)
}

func (f *watchedFile) Map(size int64) (vfs.Mapping, error) {
	m, err := f.File.Map(size)
	return &watchedMapping{m, f.w}, err
}

type watchedMapping struct {
	vfs.Mapping
	w *watched
}

func (m *watchedMapping) Resident(off int64, pages []byte) error {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	for i := range pages {
		pages[i] = 0
		if m.w.in[off/PageSize+int64(i)] {
			pages[i] = 1
		}
	}
	return nil
}

func openWatched(t *testing.T, pages int) (*watched, *File) {
	w := &watched{FS: vfs.OS(), in: map[int64]bool{}}
	f := openMapped(t, w, pages)
	w.reads.Store(0)
	return w, f
}

// What was read is known: it is neither read nor asked for again until it was not used for
// two epochs.
func TestWhatWasReadIsKnown(t *testing.T) {
	w, f := openWatched(t, 100)
	bits := f.files.Bits
	p := make([]byte, 5000)
	if f.Known(3000, 5000) {
		t.Fatal("pages that were never read are known")
	}
	if err := f.readCold(p, 3000); err != nil {
		t.Fatal(err)
	}
	if w.reads.Load() != 1 || w.starts.Load() != 1 || f.files.coldReaders.yields.Load() != 0 {
		t.Errorf("alone: %d reads, %d begun ahead and %d yields, want 1, 1 and 0", w.reads.Load(), w.starts.Load(), f.files.coldReaders.yields.Load())
	}
	w.evict()
	age := func() {
		bits.misses.Store(bits.length.Load())
		bits.EndEpoch()
	}
	for range 5 { // used in each epoch
		if !f.Known(3000, 5000) || !f.Resident(4096) {
			t.Fatal("unknown")
		}
		age()
	}
	if !f.Known(0, 1) {
		t.Fatal("unknown after one epoch")
	}
	age()
	w.evict() // uses have been told
	if !f.Known(0, 1) || f.Known(4096, 1) {
		t.Fatal("a page is unknown one epoch after it was used, or known after two")
	}
	if f.Known(-1, 1) || f.Known(0, 101*PageSize) || f.readCold(p, 100*PageSize-1) == nil {
		t.Error("a range outside of the file is known, or read")
	}
}

// Cold reads make hardly any garbage: it would let the Go heap grow, in the place of the page
// cache.
func TestColdReadsAllocateNothing(t *testing.T) {
	if invariant.Enabled {
		t.Skip("the race detector allocates")
	}
	w, f := openWatched(t, 100)
	bits := f.files.Bits
	p := make([]byte, 1000)
	read := func() {
		w.evict()
		for range generations {
			bits.misses.Store(bits.length.Load())
			bits.EndEpoch()
		}
		for page := range int64(100) {
			if off := page * PageSize; f.Known(off, len(p)) {
				t.Fatalf("page %d is known", page)
			} else if err := f.readCold(p, off); err != nil {
				t.Fatal(err)
			} else if !f.Known(off, len(p)) {
				t.Fatalf("page %d was read, and is not known", page)
			}
		}
		bits.misses.Store(bits.length.Load())
		bits.EndEpoch()
		for page := range int64(100) { // some are told
			f.Known(page*PageSize, 1)
		}
	}
	// Blocks of bits may be made anew, as several epochs have passed without a use.
	if n := testing.AllocsPerRun(20, read); n > generations {
		t.Errorf("%v allocations in 100 cold reads, want %d at most", n, generations)
	}
}

// A range in two megabytes is asked for in each.
func TestKnownAcrossMegabytes(t *testing.T) {
	w, f := openWatched(t, 2*probePages)
	w.in[probePages-1], w.in[probePages] = true, true
	if !f.Known(probeSize-10, 20) {
		t.Error("pages in memory aren't known")
	}
	if f.Known(probeSize-10, PageSize+20) || f.Known(probeSize-PageSize-10, 20) {
		t.Error("pages that are not in memory are known")
	}
}

// Of readers that wait at the same time, all but the first yield.
func TestReadersBeginTogether(t *testing.T) {
	w, f := openWatched(t, 100)
	var waiting sync.WaitGroup
	waiting.Add(2)
	release := make(chan struct{})
	w.hold = func() {
		waiting.Done()
		<-release
	}
	var done sync.WaitGroup
	for i := range int64(2) {
		done.Go(func() {
			if err := f.readCold(make([]byte, 10), i*PageSize); err != nil {
				t.Error(err)
			}
		})
	}
	waiting.Wait()
	if starts, yields := w.starts.Load(), f.files.coldReaders.yields.Load(); starts != 2 || yields != 1 {
		t.Errorf("of 2 reads, %d were begun ahead, and %d yielded; want 2 and 1", starts, yields)
	}
	close(release)
	done.Wait()
	if n := f.files.coldReaders.reading.Load(); n != 0 {
		t.Errorf("%d readers are left", n)
	}
}

// Where yields take long, as others compute, readers do without for a while.
func TestYieldsMustPay(t *testing.T) {
	var r readers
	now := time.Second
	r.reading.Store(10)
	const limit = yieldTime + 10*yieldOfReader
	// window has reads end in a window of this length, with yields of this time each, and
	// says what readers do in the next one.
	window := func(length time.Duration, reads int64, yield time.Duration, want bool) {
		t.Helper()
		if !r.plain.Load() {
			r.yields.Add(reads)
			r.yielded.Add(reads * int64(yield))
		}
		was := !r.plain.Load()
		if got := r.shouldYield(now + length - 1); got != was {
			t.Errorf("yields: %v before the window ends, want %v", got, was)
		}
		now += length
		if got := r.shouldYield(now); got != want {
			t.Errorf("yields: %v, want %v", got, want)
		}
	}
	r.shouldYield(now)
	window(tryWindow, 100, limit, true)
	window(tryWindow, 10, 20*limit, false)
	window(plainWindow, 500, 0, true)
	window(tryWindow, 90, limit+1, false)
	window(plainWindow, 500, 0, true)
	window(tryWindow, 200, limit, true)
	window(tryWindow, 0, 0, true)
}

// Epochs become longer while what was used long ago is in memory still, and shorter when
// it has left; and never so long that memory may not have been full.
func TestLengthOfEpochs(t *testing.T) {
	m := NewBitMemory(0, false)
	run := func(epochs int, gone bool) int64 {
		for range epochs {
			for i := believed; i < generations; i++ {
				for range epochSample {
					m.countUsedAgain(i, !gone)
				}
			}
			m.countMissed(m.length.Load())
		}
		return m.length.Load()
	}
	if n := run(epochShare, false); n != EpochPages {
		t.Errorf("epochs of %d pages after %d, want %d", n, epochShare, EpochPages)
	}
	if n := run(epochShare, false); n != 2*EpochPages {
		t.Errorf("epochs of %d pages after %d, want %d", n, 2*epochShare, 2*EpochPages)
	}
	if n := run(1000, false); n < 64*EpochPages || n > mostPages {
		t.Errorf("epochs of %d pages", n)
	}
	if n := run(1000, true); n != leastPages {
		t.Errorf("epochs of %d pages, want %d", n, leastPages)
	}
}

// Of pages that are used in one epoch after the other, the system is told.
func TestUsedPagesAreTold(t *testing.T) {
	const pages = 400
	w, f := openWatched(t, pages)
	use := func() int64 {
		before := w.reads.Load()
		for i := range int64(pages) {
			if !f.Known(i*PageSize, 1) {
				t.Fatalf("page %d is not known", i)
			}
		}
		return w.reads.Load() - before
	}
	for i := range int64(pages) {
		w.in[i] = true
	}
	if n := use() + use(); n != 0 {
		t.Errorf("%d pages were read without an end of an epoch", n)
	}
	f.files.Bits.countMissed(EpochPages)
	if n := use(); n < pages/useShare/2 || n > pages/useShare*2 {
		t.Errorf("of %d pages that were used again, %d were read", pages, n)
	}
	if n := use(); n != 0 {
		t.Errorf("%d pages were read again", n)
	}
}

// Pages that were verified are forgotten with each epoch, and those that a file doesn't
// have are never verified.
func TestPageBits(t *testing.T) {
	m := NewBitMemory(0, false)
	a, b := m.verifiedPages(65), NewPageBits(65)
	for _, s := range []*PageBits{&a, &b} {
		s.Set(64)
		s.Set(200)
		s.Set(-1)
		if !s.Test(64) || s.Test(63) || s.Test(0) || s.Test(128) || s.Test(200) || s.Test(-1) {
			t.Error("other pages are in the set than page 64")
		}
	}
	m.countMissed(EpochPages)
	if a.Test(64) || !b.Test(64) {
		t.Error("a page is verified in the next epoch, or was forgotten without one")
	}
	a.Free()
	b.Free()
	if none := NewBitMemory(0, true).verifiedPages(10); len(m.pages) != 0 || none.Test(1) {
		t.Error("a set is left")
	}
	none := PageBits{}
	none.Set(0)
	none.Free()
}

// Readers, the end of epochs and the limit of memory don't disturb one another.
func TestManyReadersInManyEpochs(t *testing.T) {
	const pages, readers = 2000, 8
	w := &watched{FS: vfs.OS(), in: map[int64]bool{}}
	path := filepath.Join(t.TempDir(), "000001.val")
	content := make([]byte, pages*PageSize)
	for i := range content {
		content[i] = byte(i / 1000)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	files := NewFiles(w, 0)
	files.Bits = NewBitMemory(4*bitBlockBytes, false)
	f, err := files.Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Mapped() == nil {
		t.Skip("files are not mapped here")
	}
	files.Bits.length.Store(leastPages / 10)
	verified := f.Verified(pages)
	var wg sync.WaitGroup
	for r := range uint64(readers) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(r, 1))
			p := make([]byte, 1000)
			for i := range 3000 {
				n := rng.Int64N(int64(len(content) / 1000))
				off := n * 1000
				got := f.Mapped()[off : off+1000]
				if !f.Known(off, 1000) {
					if err := f.readCold(p, off); err != nil {
						t.Error(err)
						return
					}
					got = p
				}
				if got[0] != byte(n) || got[999] != byte(n) {
					t.Errorf("%d at %d, want %d", got[0], off, byte(n))
					return
				}
				verified.Set(off / PageSize)
				if i%500 == 0 {
					w.evict()
					files.Bits.EndEpoch()
				}
			}
		})
	}
	wg.Wait()
	if b := files.Bits.Bytes(); b < 0 || b > 64*bitBlockBytes {
		t.Errorf("%d bytes of bits", b)
	}
	if files.Bits.total < leastPages {
		t.Errorf("%d pages in epochs that have ended", files.Bits.total)
	}
}
