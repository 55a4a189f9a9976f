package brock

import (
	"math"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/txn/pending"
)

// Entry is a pair to write, with its attributes.
type Entry struct {
	Key, Value []byte
	Meta       byte          // a byte of the application, kept beside the key
	TTL        time.Duration // time to live from the call that sets the entry; 0 = use ExpiresAt
	ExpiresAt  time.Time     // when it expires, to the millisecond; zero = use the keyspace's TTL
	OnlyLatest bool          // older versions of the key may be dropped at once, whatever Retention says
}

// NewEntry returns an Entry of key and value; both are copied when it is set.
func NewEntry(key, value []byte) *Entry { return &Entry{Key: key, Value: value} }

// WithMeta sets Meta and returns e.
func (e *Entry) WithMeta(meta byte) *Entry {
	e.Meta = meta
	return e
}

// WithTTL sets TTL and returns e.
func (e *Entry) WithTTL(ttl time.Duration) *Entry {
	e.TTL = ttl
	return e
}

// WithExpiry sets ExpiresAt and returns e.
func (e *Entry) WithExpiry(at time.Time) *Entry {
	e.ExpiresAt = at
	return e
}

// WithOnlyLatest sets OnlyLatest and returns e.
func (e *Entry) WithOnlyLatest() *Entry {
	e.OnlyLatest = true
	return e
}

// write is a set or a delete by the user, before it is encoded.
type write struct {
	key, value []byte
	ttl        time.Duration
	expiresAt  time.Time
	kind       entry.Kind
	meta       byte
}

func (e *Entry) toWrite() write {
	w := write{key: e.Key, value: e.Value, ttl: e.TTL, expiresAt: e.ExpiresAt, kind: entry.Set, meta: e.Meta}
	if e.OnlyLatest {
		w.kind = entry.SetLatest
	}
	return w
}

// checkLimits returns an error if w can't be stored.
func (w *write) checkLimits() error {
	if err := checkKey(w.key); err != nil {
		return err
	}
	if len(w.value) > MaxValueSize {
		return ErrValueTooLarge
	}
	if w.ttl < 0 {
		return errNegativeTTL
	}
	return nil
}

// entry returns w as the keyspace of c stores it. now is called only if w expires.
func (w *write) entry(c *pending.Encoder, now func() uint64) entry.Entry {
	return entry.Entry{Key: w.key, Value: w.value, Kind: w.kind, Meta: w.meta, Expires: w.expires(c.TTL, now)}
}

// expires returns the Unix millisecond from which w is invisible; 0 is never. now is called
// only for a time to live.
func (w *write) expires(defaultTTL time.Duration, now func() uint64) uint64 {
	switch {
	case w.kind == entry.Delete:
		return 0
	case w.ttl > 0:
		return now() + millis(w.ttl)
	case !w.expiresAt.IsZero():
		return unixMilli(w.expiresAt)
	case defaultTTL > 0:
		return now() + millis(defaultTTL)
	}
	return 0
}

// millis rounds a time to live up, so that none becomes zero.
func millis(d time.Duration) uint64 {
	n := d / time.Millisecond
	if n*time.Millisecond < d {
		n++
	}
	return uint64(n)
}

// unixMilli returns a time of expiry in Unix milliseconds: 1 if it is before 1970, as 0 would be
// never, and the last one there is if it is later than that.
func unixMilli(at time.Time) uint64 {
	switch { // where UnixMilli could overflow
	case at.Unix() < 0:
		return 1
	case at.Unix() >= math.MaxInt64/1000:
		return math.MaxInt64
	}
	return uint64(max(at.UnixMilli(), 1))
}
