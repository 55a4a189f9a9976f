package pending

import (
	"time"

	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/base/entry"
)

// Encoder says how the records of a keyspace are made. Its fields are set once;
// other options are another Encoder. Any number of goroutines use it.
type Encoder struct {
	Prefix        []byte        // what stored keys of the keyspace begin with
	Threshold     int           // length from which a value has a checksum of its own and stays out of the tree; <0 = only from 1 MiB
	TTL           time.Duration // of entries that don't say
	Seed          uint64        // of key hashes
	Codec         codec.Codec   // what values are compressed with
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

// encode appends the record of e, which has its stored key, to dst. It returns where
// the record begins.
func (w *Writes) encode(dst []byte, c *Encoder, e *entry.Entry) (encoded []byte, at int) {
	own := c.separates(e)
	if own && c.Codec != codec.None && len(e.Value) >= c.CompressAbove {
		w.packed = c.compress(e, w.packed)
	}
	dst = growDoubling(dst, entry.RecordSize(e, own)+padding)
	if own {
		dst = entry.Pad(dst)
	}
	at = len(dst)
	dst = entry.AppendRecord(dst, e, own)
	if cap(w.packed) > MaxPooled {
		w.packed = nil
	}
	return dst, at
}

// padding is what may stand before a record, and behind the last one, in bytes.
const padding = 2 * 7

// maxInline is the length from which a value is separated whatever the
// threshold: it would be a chunk of a run, and its memtable, by itself.
const maxInline = 1 << 20

// separates reports whether the value of e stays out of the tree.
func (c *Encoder) separates(e *entry.Entry) bool {
	if e.Kind == entry.Delete {
		return false
	}
	return len(e.Value) >= maxInline || c.Threshold >= 0 && len(e.Value) >= c.Threshold
}
