package pending

import (
	"time"

	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/base/entry"
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
		dst = entry.Pad(dst)
	}
	at = len(dst)
	dst = entry.AppendRecord(dst, e, own)
	// One large value must not keep its buffer for the life of a pooled transaction.
	if cap(w.packed) > MaxPooled {
		w.packed = nil
	}
	return dst, at
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
