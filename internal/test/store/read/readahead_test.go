package read

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// diskFS is the file system of a machine whose memory can be emptied: it knows which
// pages were read since, and counts how files that are read are asked for.
type diskFS struct {
	vfs.FS
	*disk
}

type disk struct {
	mu     sync.Mutex
	pages  map[diskPage]bool // in memory
	small  bool              // no page stays in memory
	starts int               // calls of StartRead
	asked  int64             // bytes of them
	waits  int               // reads of pages that nobody had asked for
	reads  int               // calls of ReadAt
	read   int64             // bytes of them
}

type diskPage struct {
	file string
	page int64
}

type diskDirs struct {
	vfs.Dirs
	*disk
}

type diskFile struct {
	vfs.File
	*disk
}

type diskMapping struct {
	vfs.Mapping
	f *diskFile
}

func newDiskFS() diskFS { return diskFS{vfs.OS(), &disk{pages: map[diskPage]bool{}}} }

func (d diskFS) OpenDirs(names ...string) (vfs.Dirs, error) {
	held, err := d.FS.OpenDirs(names...)
	return diskDirs{held, d.disk}, err
}

func (d diskDirs) Open(name string) (vfs.File, error) {
	f, err := d.Dirs.Open(name)
	if err != nil {
		return nil, err
	}
	return &diskFile{f, d.disk}, nil
}

// forget empties memory and counters.
func (d *disk) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.pages)
	d.starts, d.asked, d.waits, d.reads, d.read = 0, 0, 0, 0, 0
}

// counted returns the counters, and sets them to zero.
func (d *disk) counted() (starts int, asked int64, waits int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	starts, asked, waits = d.starts, d.asked, d.waits
	d.starts, d.asked, d.waits = 0, 0, 0
	return starts, asked, waits
}

// bring has the range in memory, and reports whether it was there.
func (f *diskFile) bring(off, n int64) (had bool) {
	had = true
	for p := off / 4096; p*4096 < off+n; p++ {
		at := diskPage{filepath.Base(f.Name()), p}
		had = had && f.pages[at]
		f.pages[at] = true
	}
	return had
}

func (f *diskFile) StartRead(off, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bring(off, n)
	f.starts++
	f.asked += n
}

func (f *diskFile) ReadAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	if !f.bring(off, int64(len(p))) {
		f.waits++
	}
	f.reads++
	f.read += int64(len(p))
	f.mu.Unlock()
	return f.File.ReadAt(p, off)
}

func (f *diskFile) Map(size int64) (vfs.Mapping, error) {
	m, err := f.File.Map(size)
	return &diskMapping{m, f}, err
}

func (m *diskMapping) Resident(off int64, pages []byte) error {
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	for i := range pages {
		pages[i] = 0
		if !m.f.small && m.f.pages[diskPage{filepath.Base(m.f.Name()), off/4096 + int64(i)}] {
			pages[i] = 1
		}
	}
	return nil
}

// diskStore opens a store of n values of this size, written in this order, none of
// which is in memory.
func diskStore(t *testing.T, size int, order []int) (*brock.DB, *disk) {
	t.Helper()
	fs := newDiskFS()
	o := brock.Options{Dir: t.TempDir(), FS: fs, Durability: brock.Buffered, Maintenance: brock.Maintenance{NoClustering: true, ScrubEvery: -1, IdleAfter: time.Hour}}
	db, err := brock.Open(o)
	assert.OK(t, err)
	for _, i := range order {
		assert.OK(t, db.Set(diskKey(i), diskValue(i, size)))
	}
	assert.OK(t, db.Close())
	db = storetest.Open(t, o)
	fs.forget()
	return db, fs.disk
}

func diskKey(i int) []byte { return fmt.Appendf(nil, "key %06d", i) }

func diskValue(i, size int) []byte {
	v := make([]byte, size)
	copy(v, fmt.Sprint(i))
	return v
}

// readFrom reads n values from the i-th key on.
func readFrom(t *testing.T, db *brock.DB, i, n, size int) {
	t.Helper()
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		it := txn.NewIterator(brock.IteratorOptions{})
		defer it.Close()
		end := i + n
		for it.Seek(diskKey(i)); it.Valid() && i < end; it.Next() {
			v, err := it.Item().Value()
			if string(v) != string(diskValue(i, size)) || err != nil {
				t.Fatalf("value of %q is %.20q, %v", it.Item().Key(), v, err)
			}
			i++
		}
		assert.Equal(t, "values", i, end)
		return nil
	}))
}

func shuffled(n int) []int { return rand.New(rand.NewPCG(1, 1)).Perm(n) }

// A scan of values that lie in no order waits for a few of them; the others were asked
// for before. What is in memory is not asked for.
func TestScansAskTheDiskAhead(t *testing.T) {
	process.RequireMappings(t) // only there is known what is in memory
	const n, size = 3000, 1000
	db, disk := diskStore(t, size, shuffled(n))
	readFrom(t, db, 0, n, size)
	starts, asked, waits := disk.counted()
	if waits > n/50 || asked > 4*n*size {
		t.Errorf("%d waits, %d bytes asked for by %d calls, for %d values of %d bytes", waits, asked, starts, n, size)
	}
	readFrom(t, db, 0, n, size)
	if starts, _, waits := disk.counted(); starts+waits > 0 {
		t.Errorf("%d waits and %d calls, though all is in memory", waits, starts)
	}
}

// A scan of a few values asks for little more.
func TestShortScansAskForLittle(t *testing.T) {
	const n, size = 3000, 1000
	db, disk := diskStore(t, size, shuffled(n))
	for _, i := range []int{1, 3, 8, 50} {
		disk.forget()
		readFrom(t, db, i*40, i, size)
		most := int64(i) // values, of two pages each
		if i > 4 {
			most = 2*most + 24
		}
		if _, asked, _ := disk.counted(); asked > most*2*4096 {
			t.Errorf("%d values: %d bytes asked for", i, asked)
		}
	}
}

// GetMany waits for no value before it has asked for all of a batch.
func TestGetManyAsksTheDiskAhead(t *testing.T) {
	process.RequireMappings(t) // only there is known what is in memory
	const n, size = 3000, 1000
	db, disk := diskStore(t, size, shuffled(n))
	get := func() {
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			var keys [][]byte
			for i := range 640 {
				keys = append(keys, diskKey(i*7919%n))
			}
			i := 0
			for it, err := range txn.GetMany(keys) {
				assert.OK(t, err)
				v, err := it.ValueCopy(nil)
				assert.OK(t, err)
				assert.Equal(t, "value", string(v), string(diskValue(i*7919%n, size)))
				i++
			}
			assert.Equal(t, "items", i, len(keys))
			return nil
		}))
	}
	get()
	if starts, _, waits := disk.counted(); starts < 200 || waits > 0 {
		t.Errorf("%d waits, %d calls", waits, starts)
	}
	get()
	if starts, _, waits := disk.counted(); starts+waits > 0 {
		t.Errorf("%d waits and %d calls, though all is in memory", waits, starts)
	}
}

// A scan of values in their order has the disk asked for large parts of the file.
func TestScansInOrderAskForLargeParts(t *testing.T) {
	process.RequireMappings(t) // only there is known what is in memory
	const n, size = 6000, 1000
	order := shuffled(n)
	slices.Sort(order)
	db, disk := diskStore(t, size, order)
	readFrom(t, db, 0, n, size)
	if starts, asked, waits := disk.counted(); starts > 30 || waits > 0 || asked > 11*n*size/10+8<<20 {
		t.Errorf("%d waits, %d bytes asked for by %d calls, for %d values of %d bytes", waits, asked, starts, n, size)
	}
	readFrom(t, db, 0, n, size)
	if starts, _, waits := disk.counted(); starts+waits > 0 {
		t.Errorf("%d waits and %d calls, though all is in memory", waits, starts)
	}
	disk.forget()
	readFrom(t, db, 100, 50, size)
	if _, asked, _ := disk.counted(); asked > 3*50*size {
		t.Errorf("50 values of %d bytes: %d bytes asked for", size, asked)
	}
}

// Scans that follow scans of 50 values wait once: all values are asked for at the seek.
func TestScansLearnFromScansBefore(t *testing.T) {
	const n, size, length = 3000, 1000, 50
	sorted := shuffled(n)
	slices.Sort(sorted)
	for name, order := range map[string][]int{"shuffled": shuffled(n), "sorted": sorted} {
		t.Run(name, func(t *testing.T) {
			db, disk := diskStore(t, size, order)
			for i := range 40 {
				disk.forget()
				readFrom(t, db, i*60, length, size)
			}
			disk.forget()
			readFrom(t, db, n-length-10, length, size)
			starts, asked, _ := disk.counted()
			most := map[string]struct {
				starts int
				asked  int64
			}{"shuffled": {length + 1, (length + 1) * 2 * 4096}, "sorted": {3, 65 * size}}[name]
			if starts > most.starts || asked > most.asked {
				t.Errorf("%d bytes asked for by %d calls", asked, starts)
			}
			// Scans of one value teach that no more is needed.
			for i := range 40 {
				disk.forget()
				readFrom(t, db, i*60, 1, size)
			}
			if _, asked, _ := disk.counted(); asked > 2*4096 {
				t.Errorf("%d bytes asked for, for one value", asked)
			}
		})
	}
}

// A scan with a limit asks for no value beyond it, whatever was needed before, and sees
// what a scan without readahead sees, also when it goes back.
func TestLimitsBoundReadahead(t *testing.T) {
	const n, size, limit = 3000, 1000, 10
	db, disk := diskStore(t, size, shuffled(n))
	for i := range 40 {
		readFrom(t, db, i*60, 50, size)
	}
	disk.forget()
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		it := txn.NewIterator(brock.IteratorOptions{Limit: limit})
		defer it.Close()
		values := 0
		for it.Seek(diskKey(500)); it.Valid(); it.Next() {
			_, err := it.Item().Value()
			assert.OK(t, err)
			values++
		}
		assert.Equal(t, "values", values, limit)
		return it.Err()
	}))
	if starts, asked, _ := disk.counted(); starts > limit+1 || asked > (limit+1)*2*4096 {
		t.Errorf("limit %d: %d bytes asked for by %d calls", limit, asked, starts)
	}
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		plain := txn.NewIterator(brock.IteratorOptions{Limit: limit, Prefetch: -1})
		ahead := txn.NewIterator(brock.IteratorOptions{Limit: limit, Prefetch: 4})
		defer plain.Close()
		defer ahead.Close()
		rng := rand.New(rand.NewPCG(1, 2))
		for range 300 {
			at := rng.IntN(n)
			plain.Seek(diskKey(at))
			ahead.Seek(diskKey(at))
			for plain.Valid() && ahead.Valid() {
				assert.Equal(t, "key", string(ahead.Item().Key()), string(plain.Item().Key()))
				if rng.IntN(3) == 0 {
					plain.Prev()
					ahead.Prev()
				} else {
					plain.Next()
					ahead.Next()
				}
			}
			assert.Equal(t, "both end", ahead.Valid(), plain.Valid())
		}
		return nil
	}))
}

// A large value is asked for at once, and waited for by pieces that were on their way.
func TestLargeValuesAreAskedForWhole(t *testing.T) {
	process.RequireMappings(t) // only there is known what is in memory
	const n, size = 6, 3 << 20
	db, disk := diskStore(t, size, shuffled(n))
	for i := range n {
		v, err := db.Get(diskKey(i))
		assert.OK(t, err)
		assert.Equal(t, "value", string(v) == string(diskValue(i, size)), true)
		if starts, asked, waits := disk.counted(); starts > 3 || waits > 0 || asked < size || asked > size+size/8 {
			t.Errorf("%d waits, %d bytes asked for by %d calls, for a value of %d bytes", waits, asked, starts, size)
		}
		_, err = db.Get(diskKey(i))
		assert.OK(t, err)
		if starts, _, waits := disk.counted(); starts+waits > 0 {
			t.Errorf("%d waits and %d calls, though all is in memory", waits, starts)
		}
	}
}

// A walk of keys that goes on has the next chunk of the run on its way.
func TestKeysAreReadAhead(t *testing.T) {
	process.RequireMappings(t) // only there is known what is in memory
	const n = 60_000
	fs := newDiskFS()
	o := brock.Options{Dir: t.TempDir(), FS: fs, Durability: brock.Buffered, Maintenance: brock.Maintenance{ScrubEvery: -1}}
	db, err := brock.Open(o)
	assert.OK(t, err)
	batch := db.NewBatch()
	for i := range n {
		assert.OK(t, batch.Set(diskKey(i), make([]byte, 60)))
	}
	assert.Must(batch.Commit(t.Context(), 0))
	assert.OK(t, db.Flush(t.Context()))
	assert.OK(t, db.Close())
	db = storetest.Open(t, o)
	keys := func() (keys int) {
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			for _, err := range txn.Items(brock.IteratorOptions{KeysOnly: true}) {
				assert.OK(t, err)
				keys++
			}
			return nil
		}))
		return keys
	}
	fs.forget()
	assert.Equal(t, "keys", keys(), n)
	if starts, asked, waits := fs.counted(); waits > 20 || asked < n*60 || asked > n*200 {
		t.Errorf("%d waits, %d bytes asked for by %d calls, for %d keys", waits, asked, starts, n)
	}
	keys()
	if starts, _, waits := fs.counted(); starts+waits > 0 {
		t.Errorf("%d waits and %d calls, though all is in memory", waits, starts)
	}
}
