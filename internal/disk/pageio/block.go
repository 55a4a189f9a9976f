package pageio

import (
	"sync"
	"sync/atomic"
)

// Parts that can't be read in place, because they are encrypted or not mapped, are read block by
// block into memory on the Go heap. Each page is decrypted or verified when it is first used.

const (
	// CacheBlockSize is the length of a block in bytes; the last one of a part may be shorter.
	CacheBlockSize = 4 * PageSize

	blockShift = 14
	keptBorder = 1 << 10 // most bytes that a block keeps of a span that crosses its end
	blockCost  = 256     // about the memory of a block beside its data, in bytes
)

// TableBytes is about the memory that a Part takes without its blocks and checksums, in bytes.
func (p *Part) TableBytes() int64 { return int64(len(p.list))*8 + 128 }

// Block is a block of a Part. Any number of goroutines may use it.
type Block struct {
	Used
	part  *Part
	start int           // where it begins in the part
	data  []byte        // pages that are not ready yet are zeros
	ready atomic.Uint32 // a bit for each page that is decrypted or verified
	mu    sync.Mutex    // held while a page becomes ready

	border atomic.Pointer[border] // the last span that crossed the end of the block
	kept   bool                   // it is in the cache; else one walk has it alone
	behind *Block                 // the next block, once it was needed; nil if kept
}

// border has the bytes from lo on, which cross the end of a block. Usually they are one
// entry, which is likely to be read again.
type border struct {
	lo   int
	data []byte
}

// Block returns the block of the byte at, which is within the part. If no such block is in the
// cache, Block makes one: with keep for the cache, else for the caller alone. Only with keep
// the block counts as used.
func (p *Part) Block(at int, keep bool) *Block {
	home := &p.list[at>>blockShift]
	if b := home.Load(); b != nil {
		if keep {
			b.MarkUsed()
		}
		return b
	}
	start := at &^ (CacheBlockSize - 1)
	b := &Block{part: p, start: start, data: make([]byte, min(CacheBlockSize, p.size-start)), kept: keep}
	if !keep {
		return b
	}
	// In its place before it is counted: from Add on it may be dropped at any time.
	if !home.CompareAndSwap(nil, b) {
		return p.Block(at, keep) // another goroutine was faster
	}
	p.file.Cache.Add(p.file.Owner, b, int64(cap(b.data))+blockCost)
	return b
}

// UsedAgain reports whether the block of the byte at was used again since it was made, and of late.
// Such a block stays in the cache for a while, so a slice that keeps it costs little.
func (p *Part) UsedAgain(at int) bool {
	b := p.list[at>>blockShift].Load()
	return b != nil && b.yes.Load()
}

// Drop is the method of an Item.
func (b *Block) Drop() { b.part.list[b.start>>blockShift].CompareAndSwap(b, nil) }

// Start is where the block begins in its part.
func (b *Block) Start() int { return b.start }

// Contains reports whether the byte at lies in the block.
func (b *Block) Contains(at int) bool { return at >= b.start && at < b.start+len(b.data) }

// NextBlock returns the next block if b has it: only a block that is not in the cache does.
func (b *Block) NextBlock() *Block { return b.behind }

// Data is the whole block: bytes of it may be read once Page or Span has returned them.
func (b *Block) Data() []byte { return b.data }

// Page returns the bytes from at to the end of its page.
func (b *Block) Page(at int) ([]byte, error) {
	at -= b.start
	if !b.isReady(at >> pageShift) {
		if err := b.readPages(at>>pageShift, at>>pageShift); err != nil {
			return nil, err
		}
	}
	return b.data[at:min((at|(PageSize-1))+1, len(b.data))], nil
}

// Span returns the bytes in [lo, hi) in one piece. The block has the first of them. What
// reaches beyond it is put together in memory of its own.
func (b *Block) Span(lo, hi int) ([]byte, error) {
	if hi > b.start+len(b.data) {
		return b.crossSpan(lo, hi)
	}
	lo, hi = lo-b.start, hi-b.start
	first, last := lo>>pageShift, (hi-1)>>pageShift
	if want := uint32(2<<last - 1<<first); b.ready.Load()&want != want {
		if err := b.readPages(first, last); err != nil {
			return nil, err
		}
	}
	return b.data[lo:hi:hi], nil
}

// crossSpan is Span beyond the end of the block.
func (b *Block) crossSpan(lo, hi int) ([]byte, error) {
	if hi-lo > CacheBlockSize {
		return b.part.readCopy(lo, hi)
	}
	// An entry that crosses the border is put together once, and read often.
	if c := b.border.Load(); c != nil && c.lo == lo && hi-lo <= len(c.data) {
		return c.data[: hi-lo : hi-lo], nil
	}
	end := b.start + len(b.data)
	head, err := b.Span(lo, end)
	if err != nil {
		return nil, err
	}
	tail, err := b.readTail(end, hi)
	if err != nil {
		return nil, err
	}
	c := &border{lo, append(append(make([]byte, 0, hi-lo), head...), tail...)}
	if hi-lo <= keptBorder {
		// A long one would double the memory of its block, which the cache does not count.
		b.border.Store(c)
	}
	return c.data, nil
}

// readTail returns the bytes in [end, hi), with which the next block begins. That block doesn't
// count as used by it.
func (b *Block) readTail(end, hi int) ([]byte, error) {
	if b.kept {
		if next := b.part.list[end>>blockShift].Load(); next != nil {
			return next.Span(end, hi)
		}
		// Only a page or two: a whole block for a few bytes would push out a better one.
		return b.part.readCopy(end, hi)
	}
	// One walk has b alone, and goes on in the next block.
	if b.behind == nil {
		b.behind = b.part.Block(end, false)
	}
	return b.behind.Span(end, hi)
}

func (b *Block) isReady(page int) bool { return b.ready.Load()>>page&1 != 0 }

// readPages makes the pages first to last ready.
func (b *Block) readPages(first, last int) error {
	for ; first <= last && b.isReady(first); first++ {
	}
	if first > last {
		return nil
	}
	s := scratchPool.Get().(*scratch)
	defer scratchPool.Put(s)
	lo, hi := first<<pageShift, min((last+1)<<pageShift, len(b.data))
	p := b.part
	// The disk is read without the lock: who waits for the lock must not wait for the disk.
	if err := p.file.Read(s[:hi-lo], p.off+int64(b.start+lo)); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for at := lo; at < hi; at += PageSize {
		// Another goroutine was faster, and readers use its bytes already: they must not be written
		// again.
		if b.isReady(at >> pageShift) {
			continue
		}
		end := min(at+PageSize, hi)
		if err := p.openPage(b.data[at:end], s[at-lo:end-lo], b.start+at); err != nil {
			return err
		}
		// After the bytes: readers look at the bit without the lock.
		b.ready.Or(1 << (at >> pageShift))
	}
	return nil
}

// Span returns the bytes in [lo, hi) of the part in one piece, see Block.Span.
func (p *Part) Span(lo, hi int) ([]byte, error) {
	if hi-lo > CacheBlockSize {
		return p.readCopy(lo, hi)
	}
	return p.Block(lo, true).Span(lo, hi)
}

// readCopy reads the bytes in [lo, hi) into memory of their own.
func (p *Part) readCopy(lo, hi int) ([]byte, error) {
	buf, err := p.copyPages(nil, lo, hi)
	if err != nil {
		return nil, err
	}
	begin := lo & (PageSize - 1)
	return buf[begin : begin+hi-lo : begin+hi-lo], nil
}
