package brock

import (
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock/internal/codec"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/manifest"
)

// compression is what the keyspaces of a store share.
type compression struct {
	coder codec.Coder

	rawBytes    atomic.Int64 // of values that were compressed
	storedBytes atomic.Int64 // of what they became
}

// compressor decides which values of a keyspace are compressed. Any number of
// goroutines use it; what it remembers is a hint.
type compressor struct {
	*compression
	codec codec.Codec
	from  int // length of a value from which it is tried

	misses atomic.Int32 // values in a row that did not get smaller
	skip   atomic.Int32 // values to come that are not tried

	tried atomic.Int64 // values given to the codec
}

func (c *compressor) init(shared *compression, o *KeyspaceOptions) {
	c.compression = shared
	c.codec = o.Compression.codec()
	c.from = max(o.CompressAbove, 1)
}

// codec is what values are compressed with.
func (c Compression) codec() codec.Codec {
	switch c {
	case S2:
		return codec.S2
	case Zstd:
		return codec.Zstd
	}
	return codec.None
}

// compressionBy is the compression with a codec; one of a later release is none
// for what this one writes.
func compressionBy(c codec.Codec) Compression {
	switch c {
	case codec.S2:
		return S2
	case codec.Zstd:
		return Zstd
	}
	return NoCompression
}

const (
	freeMisses = 4  // values that may miss before one is skipped
	maxSkipped = 63 // values skipped between two that are tried
)

// valuePool has memory for encoded and decoded values that are soon done with.
var valuePool = sync.Pool{New: func() any { return new([]byte) }}

func recycleValue(buf *[]byte) {
	poison(*buf)
	if cap(*buf) <= maxPooledSize {
		valuePool.Put(buf)
	}
}

// compress makes e, an entry with its value, one with the value compressed, if
// that saves enough; then its value lies in buf, which is recycled once it is no
// longer needed.
func (c *encoder) compress(e *entry.Entry) (buf *[]byte) {
	raw := len(e.Value)
	if raw > codec.MaxLength || c.skip.Load() > 0 && c.skip.Add(-1) >= 0 {
		return nil
	}
	c.tried.Add(1)
	size := entry.RecordSize(e, true)
	buf = valuePool.Get().(*[]byte)
	*buf = c.coder.Encode(*buf, c.codec, e.Value)
	small := *e
	small.Value, small.Codec, small.Raw = *buf, c.codec, uint32(raw)
	// A record that is too short for a handle would be inline.
	if got := entry.RecordSize(&small, true); got > size-raw/8 || got < manifest.Granule {
		c.missed()
		recycleValue(buf)
		return nil
	}
	*e = small
	if c.misses.Load() != 0 {
		c.misses.Store(0)
	}
	c.rawBytes.Add(int64(raw))
	c.storedBytes.Add(int64(len(*buf)))
	return buf
}

// missed has some of the next values skipped: more of them with each miss.
func (c *compressor) missed() {
	if n := c.misses.Add(1); n > freeMisses {
		c.skip.Store(min(int32(1)<<min(n-freeMisses, 16)-1, maxSkipped))
	}
}
