package read

import (
	"bytes"
	"context"
	"fmt"
	"golang.org/x/sys/unix"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/vfs"
)

// Nothing that may have to come from the disk is touched in a mapping: a page fault would
// stop a processor of the Go scheduler. Here what was not read can't be touched at all.
func TestUnreadPagesAreNotTouched(t *testing.T) {
	process.RequireMappings(t)
	if unix.Getpagesize() != fencePage {
		t.Skip("the system isn't asked for such pages")
	}
	o := brock.DefaultOptions(t.TempDir())
	o.Durability = brock.Buffered
	o.KeyspaceDefaults.Compression = brock.Zstd
	o.KeyspaceDefaults.CompressAbove = 3000
	db, err := brock.Open(o)
	assert.OK(t, err)
	const keys = 2000
	key := func(i int) []byte { return fmt.Appendf(nil, "key %06d", i*7919%keys) }
	value := func(i int) []byte {
		v := bytes.Repeat([]byte{byte(i), byte(i >> 8)}, []int{20, 400, 700, 2000, 3000, 50_000}[i%6]) // inline, separated, compressed
		if i%200 == 3 {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for range 100_000 { // longer than what is copied, and not compressed
				v = append(v, byte(rng.Uint32()))
			}
		}
		return v
	}
	for i := range keys {
		assert.OK(t, db.Set(key(i), value(i)))
		if i == keys/2 {
			assert.OK(t, db.Compact(context.Background()))
		}
	}
	assert.OK(t, db.Close())

	for _, asked := range []bool{true, false} {
		t.Run(fmt.Sprintf("mincore %v", asked), func(t *testing.T) {
			fs := &fenced{FS: vfs.OS(), asked: asked}
			o.FS, o.Mode = fs, brock.ReadOnly
			db, err := brock.Open(o)
			assert.OK(t, err)
			defer db.Close()
			var wg sync.WaitGroup
			for r := range uint64(4) {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(1, r))
					var buf []byte
					for range 700 {
						i := rng.IntN(keys)
						got, err := fenceRead(db, key(i), i%4, &buf)
						if err != nil || !bytes.Equal(got, value(i)) {
							t.Errorf("%s: %d bytes, %v", key(i), len(got), err)
							return
						}
					}
				})
			}
			wg.Wait()
			fs.mu.Lock()
			defer fs.mu.Unlock()
			if fs.opened == 0 || fs.starts == 0 {
				t.Errorf("%d pages were read, %d reads begun ahead", fs.opened, fs.starts)
			}
		})
	}
}

// fenceRead reads a value in one of the ways there are.
func fenceRead(db *brock.DB, key []byte, way int, buf *[]byte) (v []byte, err error) {
	if way == 0 {
		return db.Get(key)
	}
	err = db.View(func(txn *brock.Txn) error {
		it, err := txn.Get(key)
		if err != nil {
			return err
		}
		switch way {
		case 1:
			// What lies behind the value is the caller's.
			n := int(it.ValueSize())
			*buf = append((*buf)[:0], bytes.Repeat([]byte("caller's"), n/8+100)...)
			v, err = it.ValueCopy((*buf)[:0])
			if behind := (*buf)[n:]; n < 3000 && bytes.Count(behind[8-n%8:], []byte("caller's")) != len(behind[8-n%8:])/8 {
				return fmt.Errorf("ValueCopy changes what lies behind %d bytes", n)
			}
		case 2:
			err = it.ValueFunc(func(b []byte) error {
				v = bytes.Clone(b)
				return nil
			})
		default:
			if v, err = it.Value(); err == nil {
				v = bytes.Clone(v)
			}
		}
		return err
	})
	return v, err
}

const fencePage = 4096

// fenced is a file system in whose mappings only what was read by ReadAt can be touched.
type fenced struct {
	vfs.FS
	io.Closer      // of its directories
	asked     bool // mappings tell what is in memory

	mu     sync.Mutex
	opened int // pages that can be touched
	starts int
}

func (f *fenced) OpenDirs(dirs ...string) (vfs.Dirs, error) {
	d, err := f.FS.OpenDirs(dirs...)
	f.FS, f.Closer = d, d
	return f, err
}

func (f *fenced) Open(name string) (vfs.File, error) {
	file, err := f.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return &fencedFile{File: file, fs: f}, nil
}

type fencedFile struct {
	vfs.File
	fs *fenced
	m  *fencedMapping
}

func (f *fencedFile) StartRead(off, n int64) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.starts++
}

func (f *fencedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.m != nil && len(p) > 0 {
		for page := off / fencePage; page <= (off+int64(len(p))-1)/fencePage; page++ {
			f.m.open(f, page)
		}
	}
	return n, err
}

func (f *fencedFile) Map(size int64) (vfs.Mapping, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	pages := (size + fencePage - 1) / fencePage
	b, err := unix.Mmap(-1, 0, int(pages*fencePage), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	f.m = &fencedMapping{fs: f.fs, data: b, size: size, in: make([]bool, pages)}
	if f.fs.asked {
		return f.m, nil
	}
	return struct{ vfs.Mapping }{f.m}, nil
}

type fencedMapping struct {
	fs   *fenced
	data []byte
	size int64
	in   []bool
}

// open makes a page readable, with what the file has.
func (m *fencedMapping) open(f *fencedFile, page int64) {
	if page >= int64(len(m.in)) || m.in[page] {
		return
	}
	m.in[page] = true
	m.fs.opened++
	b := m.data[page*fencePage:][:fencePage]
	err := unix.Mprotect(b, unix.PROT_READ|unix.PROT_WRITE)
	if err == nil {
		_, _ = f.File.ReadAt(b, page*fencePage)
		err = unix.Mprotect(b, unix.PROT_READ)
	}
	if err != nil {
		panic(err)
	}
}

func (m *fencedMapping) Data() []byte { return m.data[:m.size] }

func (m *fencedMapping) Close() error {
	m.fs.mu.Lock()
	defer m.fs.mu.Unlock()
	if m.data == nil {
		return nil
	}
	err := unix.Munmap(m.data)
	m.data = nil
	return err
}

func (m *fencedMapping) Resident(off int64, pages []byte) error {
	m.fs.mu.Lock()
	defer m.fs.mu.Unlock()
	for i := range pages {
		pages[i] = 0
		if m.in[off/fencePage+int64(i)] {
			pages[i] = 1
		}
	}
	return nil
}
