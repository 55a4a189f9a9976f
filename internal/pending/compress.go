package pending

import (
	"sync/atomic"

	"github.com/brockdb/brock/internal/codec"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/layout"
)

// Compression is what the keyspaces of a store share to compress values.
type Compression struct {
	codec.Coder

	raw    atomic.Int64 // bytes of values that were compressed
	stored atomic.Int64 // bytes that they became
}

// Bytes are those of the values that were compressed, and what they became.
func (c *Compression) Bytes() (raw, stored int64) { return c.raw.Load(), c.stored.Load() }

// trial decides which values of a keyspace are worth trying to compress. Any
// number of goroutines use it; what it remembers is a hint.
type trial struct {
	misses atomic.Int32 // values in a row that did not get smaller
	skip   atomic.Int32 // values to come that are not tried
}

const (
	freeMisses = 4  // values that may miss before one is skipped
	maxSkipped = 63 // values skipped between two that are tried
)

// due reports whether the next value is tried.
func (t *trial) due() bool { return t.skip.Load() <= 0 || t.skip.Add(-1) < 0 }

// missed has some of the next values skipped: more of them with each miss.
func (t *trial) missed() {
	if n := t.misses.Add(1); n > freeMisses {
		t.skip.Store(min(int32(1)<<min(n-freeMisses, 16)-1, maxSkipped))
	}
}

// compress makes e, an entry with its value, one with the value compressed, if
// that saves an eighth. Then its value lies in buf, which is returned, perhaps
// grown, for the next call.
func (c *Encoder) compress(e *entry.Entry, buf []byte) []byte {
	raw := len(e.Value)
	if raw > codec.MaxLength || !c.trial.due() {
		return buf
	}
	size := entry.RecordSize(e, true)
	buf = c.Compression.Encode(buf, c.Codec, e.Value)
	small := *e
	small.Value, small.Codec, small.Raw = buf, c.Codec, uint32(raw)
	// A record that is too short for a handle would be inline.
	if got := entry.RecordSize(&small, true); got > size-raw/8 || got < layout.Granule {
		c.trial.missed()
		return buf
	}
	*e = small
	if c.trial.misses.Load() != 0 {
		c.trial.misses.Store(0)
	}
	c.Compression.raw.Add(int64(raw))
	c.Compression.stored.Add(int64(len(buf)))
	return buf
}
