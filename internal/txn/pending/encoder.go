package pending

import (
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/version/layout"
)

// Encoder says how the records of a keyspace are made. Its fields are set once; a change of options
// makes another Encoder. Any number of goroutines use it.
type Encoder struct {
	Prefix        []byte        // first bytes of the keyspace's stored keys; at least one
	Threshold     int           // values from here on stay out of runs (WiscKey); <0: from 1 MiB
	TTL           time.Duration // of entries that don't set one; 0: they don't expire
	Seed          uint64        // of key hashes
	Codec         codec.Codec   // compresses values; None: nothing does
	CompressAbove int           // length from which compression is tried; at least 1
	Compression   *Compression  // shared by all keyspaces of a store

	trial trial
}

// RoundMillis rounds a time to live up to milliseconds, so that none becomes zero.
func RoundMillis(d time.Duration) uint64 {
	return (uint64(d) + uint64(time.Millisecond) - 1) / uint64(time.Millisecond)
}

// AppendKey appends the stored form of key, in a keyspace with this prefix, to dst.
func AppendKey(dst, prefix, key []byte) []byte {
	dst = append(dst, prefix[0])
	if len(prefix) > 1 { // the default keyspace, which is used most, has one byte
		dst = append(dst, prefix[1:]...)
	}
	return append(dst, key...)
}

// encodeRecord appends the record of e, which has its stored key, to dst. It returns where
// the record begins.
func (w *Writes) encodeRecord(dst []byte, c *Encoder, e *entry.Entry) (encoded []byte, at int) {
	// Only separated values are compressed: others are read in place, in their chunk.
	own := c.separatesValue(e)
	if own && c.Codec != codec.None && len(e.Value) >= c.CompressAbove {
		w.packed = c.compressValue(e, w.packed)
	}
	dst = growDoubling(dst, entry.RecordSize(e, own)+padding)
	// A record with its own checksum must begin at a multiple of 8 (see entry.Pad).
	if own {
		dst = entry.PadRecords(dst)
	}
	at = len(dst)
	dst = entry.AppendRecord(dst, e, own)
	// One large value must not keep its buffer for the life of a pooled transaction.
	if cap(w.packed) > MaxPooled {
		w.packed = nil
	}
	return dst, at
}

// EncodeEntry appends the record of e, which has its stored key, and returns where it begins.
func (c *Encoder) EncodeEntry(dst []byte, e *entry.Entry) (encoded []byte, at int) {
	var w Writes // for its scratch
	return w.encodeRecord(dst, c, e)
}

// DecodeValue returns the value of e, which is compressed.
func (c *Encoder) DecodeValue(e *entry.Entry) ([]byte, error) {
	return c.Compression.Decode(nil, e.Codec, e.Value, int(e.Raw))
}

// padding is how many bytes may be added before a record and behind the last one, at most.
const padding = 2 * 7

// maxInline is the length from which a value is separated whatever the threshold. Inline it would
// fill a chunk of a run by itself.
const maxInline = 1 << 20

// separatesValue reports whether the value of e stays out of runs, in a value segment.
func (c *Encoder) separatesValue(e *entry.Entry) bool {
	if e.Kind == entry.Delete {
		return false
	}
	return len(e.Value) >= maxInline || c.Threshold >= 0 && len(e.Value) >= c.Threshold
}

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
