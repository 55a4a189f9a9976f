package brock

import (
	"math"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/txn/pending"
)

// Entry is a pair to write, with its attributes. Calls that write it copy key and value, and keep
// nothing of it.
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

// checkLimits returns an error if e can't be stored.
func (e *Entry) checkLimits() error {
	if e == nil {
		return errNilEntry
	}
	if err := checkKey(e.Key); err != nil {
		return err
	}
	if len(e.Value) > MaxValueSize {
		return ErrValueTooLarge
	}
	if e.TTL < 0 {
		return errNegativeTTL
	}
	return nil
}

// makeWrite returns the write of e, a set or a delete, as the keyspace of c stores it. now is called
// only if it expires.
func (e *Entry) makeWrite(kind entry.Kind, c *pending.Encoder, now func() uint64) entry.Entry {
	w := entry.Entry{Key: e.Key, Value: e.Value, Kind: kind, Meta: e.Meta}
	if kind == entry.Delete {
		// Without a time of expiry: a delete that expired would show again what it hides.
		return w
	}
	if e.OnlyLatest {
		w.Kind = entry.SetLatest
	}
	w.Expires = e.expiryMilli(c.TTL, now)
	return w
}

// expiryMilli returns the Unix millisecond from which e is invisible; 0 is never. now is called
// only for a time to live.
func (e *Entry) expiryMilli(defaultTTL time.Duration, now func() uint64) uint64 {
	switch {
	case e.TTL > 0:
		return now() + pending.RoundMillis(e.TTL)
	case !e.ExpiresAt.IsZero():
		return unixMilli(e.ExpiresAt)
	case defaultTTL > 0:
		return now() + pending.RoundMillis(defaultTTL)
	}
	return 0
}

// expiryTime is the time of an expiry in Unix milliseconds; the zero time is never.
func expiryTime(milli uint64) time.Time {
	if milli == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(milli))
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
