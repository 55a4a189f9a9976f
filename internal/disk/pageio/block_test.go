package pageio

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/errs"
)

// image is a file of one part, as it is on a disk.
type image struct {
	text, disk []byte
	sums       []byte
	reads      atomic.Int64
	file       Paged
}

const imageOff = 8192 // where the part begins

func newImage(t testing.TB, size int, encrypted bool, c *Cache) *image {
	t.Helper()
	m := &image{text: make([]byte, size, size+crypt.TagSize)}
	rng := rand.New(rand.NewPCG(uint64(size), 1))
	for i := range m.text {
		m.text[i] = byte(rng.Uint32())
	}
	m.disk = append(make([]byte, 0, size+crypt.TagSize), m.text...)
	m.file = Paged{Name: "f", ID: checksum.New([16]byte{1}, 'R', 7), Cache: c, Owner: m}
	m.file.Read = func(p []byte, off int64) error {
		m.reads.Add(1)
		copy(p, m.disk[off-imageOff:])
		return nil
	}
	var e *crypt.Encrypter
	if encrypted {
		key, err := crypt.NewDataKey(nil, crypt.AES256GCM)
		if err != nil {
			t.Fatal(err)
		}
		ring := crypt.NewRing(nil, func(crypt.ID) (crypt.DataKey, error) { return key, nil })
		if err := ring.SetCurrent(key.ID); err != nil {
			t.Fatal(err)
		}
		f := crypt.File{Kind: 'R', Number: 7}
		var keyID crypt.FileKeyID
		if e, keyID, err = ring.New(f); err != nil {
			t.Fatal(err)
		}
		if m.file.Key, err = ring.Open(f, keyID); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Begin(imageOff, int64(size)); err != nil {
			t.Fatal(err)
		}
	}
	for at := 0; at < size; at += PageSize {
		page := m.disk[at:min(at+PageSize, size)]
		if e == nil {
			sum := m.file.ID.Sum(imageOff+int64(at), page)
			m.sums = append(m.sums, byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
			continue
		}
		tag, err := e.Encrypt(page, page, crypt.Page, imageOff+int64(at), nil)
		if err != nil {
			t.Fatal(err)
		}
		m.sums = append(m.sums, tag[:]...)
	}
	return m
}

func (m *image) part() *Part { return NewPart(&m.file, crypt.Page, imageOff, len(m.text), m.sums) }

func eachForm(t *testing.T, fn func(t *testing.T, encrypted bool)) {
	for _, encrypted := range []bool{false, true} {
		t.Run(fmt.Sprintf("encrypted=%v", encrypted), func(t *testing.T) { fn(t, encrypted) })
	}
}

// Any bytes, in any order, by many goroutines at once, while blocks are dropped: they are
// those that were written, and those handed out before stay what they are.
func TestReadersGetWhatWasWritten(t *testing.T) {
	eachForm(t, func(t *testing.T, encrypted bool) {
		for _, size := range []int{1, 100, PageSize, PageSize + 1, CacheBlockSize, CacheBlockSize + 5, CacheBlockSize + PageSize, 3*CacheBlockSize + 2*PageSize, 20 * CacheBlockSize} {
			m := newImage(t, size, encrypted, NewCache(6*CacheBlockSize))
			p := m.part()
			var wg sync.WaitGroup
			for g := range 4 {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(g), 2))
					type held struct {
						lo int
						b  []byte
					}
					var all []held
					for range 300 {
						lo := rng.IntN(size)
						var b []byte
						var err error
						switch rng.IntN(3) {
						case 0:
							b, err = p.Block(lo, rng.IntN(2) == 0).Page(lo)
						case 1:
							b, err = p.Span(lo, min(size, lo+1+rng.IntN(100)))
						default:
							b, err = p.Span(lo, lo+1+rng.IntN(size-lo))
						}
						if err != nil {
							t.Error(err)
							return
						}
						all = append(all, held{lo, b})
					}
					for _, h := range all {
						if !bytes.Equal(h.b, m.text[h.lo:h.lo+len(h.b)]) {
							t.Errorf("%d bytes at %d of %d are wrong", len(h.b), h.lo, size)
						}
					}
				})
			}
			wg.Wait()
		}
	})
}

func TestDamageIsFoundByPage(t *testing.T) {
	eachForm(t, func(t *testing.T, encrypted bool) {
		m := newImage(t, 3*CacheBlockSize, encrypted, NewCache(0))
		const bad = 5
		m.disk[bad*PageSize+77] ^= 4
		p := m.part()
		for page := range 3 * CacheBlockSize / PageSize {
			_, err := p.Block(page*PageSize, true).Page(page * PageSize)
			var c *errs.Corruption
			if page != bad {
				if err != nil {
					t.Errorf("page %d: %v", page, err)
				}
			} else if !errors.As(err, &c) || c.Offset != imageOff+bad*PageSize {
				t.Errorf("page %d: %v", page, err)
			}
		}
		for _, span := range [][2]int{{bad * PageSize, bad*PageSize + 1}, {0, 3 * CacheBlockSize}, {bad*PageSize - 1, bad*PageSize + 1}} {
			if _, err := p.Span(span[0], span[1]); !errors.Is(err, errs.ErrCorrupt) {
				t.Errorf("bytes %d to %d: %v", span[0], span[1], err)
			}
		}
		// What was damaged is found again, and read once it is right.
		m.disk[bad*PageSize+77] ^= 4
		if b, err := p.Span(bad*PageSize, bad*PageSize+100); err != nil || !bytes.Equal(b, m.text[bad*PageSize:][:100]) {
			t.Errorf("after repair: %v", err)
		}
	})
}

// A page is read and decrypted once, as long as its block is there, and what crosses two
// blocks is put together once.
func TestPagesAreReadOnce(t *testing.T) {
	m := newImage(t, 2*CacheBlockSize, true, NewCache(0))
	p := m.part()
	for at := 2*CacheBlockSize - PageSize; at >= 0; at -= PageSize {
		for range 3 {
			if _, err := p.Block(at, true).Page(at); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := p.Span(CacheBlockSize-10, CacheBlockSize+10); err != nil {
		t.Fatal(err)
	}
	if n := m.reads.Load(); n != 2*CacheBlockSize/PageSize {
		t.Errorf("%d reads of %d pages", n, 2*CacheBlockSize/PageSize)
	}
	b := p.Block(0, true)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := b.Page(5); err != nil {
			t.Error(err)
		}
		for _, lo := range []int{100, CacheBlockSize - 10} {
			if _, err := p.Span(lo, lo+200); err != nil {
				t.Error(err)
			}
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// However much is read, a cache has no more than its limit; what is used again and again
// stays; what is not kept is not in it.
func TestCacheIsBounded(t *testing.T) {
	const limit = 20 * (CacheBlockSize + blockCost)
	c := NewCache(limit)
	m := newImage(t, 200*CacheBlockSize, false, c)
	p := m.part()
	hot := p.Block(0, true)
	for i := range 200 {
		if p.Block(0, true) != hot {
			t.Fatalf("the block in use is gone after %d others", i)
		}
		if _, err := p.Span(i*CacheBlockSize, i*CacheBlockSize+10); err != nil {
			t.Fatal(err)
		}
		if c.Bytes() > limit {
			t.Fatalf("%d bytes, the limit is %d", c.Bytes(), limit)
		}
	}
	there := 0
	for i := range p.list {
		if p.list[i].Load() != nil {
			there++
		}
	}
	if there < 18 || there > 20 {
		t.Errorf("%d blocks are there", there)
	}
	before := c.Bytes()
	if p.Block(100*CacheBlockSize, false); c.Bytes() != before {
		t.Error("a block that is not kept counts")
	}
	other := newImage(t, CacheBlockSize, false, c)
	other.part().Block(0, true)
	c.Forget(m)
	if c.Bytes() == 0 || c.Bytes() > 2*CacheBlockSize {
		t.Errorf("%d bytes are left of another owner", c.Bytes())
	}
	c.Forget(other)
	if c.Bytes() != 0 || len(c.ring) != 0 {
		t.Errorf("%d bytes are left", c.Bytes())
	}
	if hot.Start() != 0 || len(hot.Data()) != CacheBlockSize {
		t.Error("a block that is held is changed")
	}
}

// Dropped blocks are garbage: the heap doesn't grow with what is read.
func TestDroppedBlocksAreFreed(t *testing.T) {
	m := newImage(t, 64<<20, false, NewCache(1<<20))
	p := m.part()
	heap := func() uint64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := heap()
	for at := 0; at < len(m.text); at += CacheBlockSize {
		if _, err := p.Block(at, true).Page(at); err != nil {
			t.Fatal(err)
		}
	}
	if after := heap(); after > before+4<<20 {
		t.Errorf("the heap has grown by %d bytes", after-before)
	}
	runtime.KeepAlive(p)
}
