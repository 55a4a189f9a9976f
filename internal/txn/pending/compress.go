package pending

import (
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/version/layout"
)

// Compression has the codecs and counters that all keyspaces of a store use.
type Compression struct {
	codec.Coder

	raw    atomic.Int64 // bytes of values that were compressed
	stored atomic.Int64 // bytes that they became
}

// Bytes returns the bytes of the values that were compressed, before (raw) and after (stored).
func (c *Compression) Bytes() (raw, stored int64) { return c.raw.Load(), c.stored.Load() }

// trial decides for which values of a keyspace compression is tried. After several values in a row
// that did not get smaller, it skips some. Goroutines share it without a lock: a lost update only
// makes one try more or less.
type trial struct {
	misses atomic.Int32 // values in a row that did not get smaller
	skip   atomic.Int32 // values to come that are not tried
}

const (
	freeMisses = 4  // misses in a row before the next values are skipped
	maxSkipped = 63 // values skipped between two that are tried
)

// isDue reports whether the next value is tried. It counts down what is to be skipped.
func (t *trial) isDue() bool { return t.skip.Load() <= 0 || t.skip.Add(-1) < 0 }

// noteMiss notes that a value did not get smaller. The more misses in a row, the more of the
// next values are skipped.
func (t *trial) noteMiss() {
	if n := t.misses.Add(1); n > freeMisses {
		t.skip.Store(min(int32(1)<<min(n-freeMisses, 16)-1, maxSkipped))
	}
}

// compressValue replaces the value of e by its compressed form, if that makes the record shorter by
// at least an eighth of the value. The new value lies in buf. It returns buf, which may have
// grown, for the next call.
func (c *Encoder) compressValue(e *entry.Entry, buf []byte) []byte {
	raw := len(e.Value)
	if raw > codec.MaxLength || !c.trial.isDue() {
		return buf
	}
	size := entry.RecordSize(e, true)
	buf = c.Compression.Encode(buf, c.Codec, e.Value)
	small := *e
	small.Value, small.Codec, small.Raw = buf, c.Codec, uint32(raw)
	// A record below 64 bytes can't have a handle, so the value would become inline.
	if got := entry.RecordSize(&small, true); got > size-raw/8 || got < layout.Granule {
		c.trial.noteMiss()
		// The value stays as it is. Decoding it later would cost more than the space it saves.
		return buf
	}
	*e = small
	// Look before storing: a store would move the cache line between all writers, each time.
	if c.trial.misses.Load() != 0 {
		c.trial.misses.Store(0)
	}
	c.Compression.raw.Add(int64(raw))
	c.Compression.stored.Add(int64(len(buf)))
	return buf
}
