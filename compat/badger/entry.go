package badger

import (
	"math"
	"time"

	"github.com/brockdb/brock"
)

// Flags of an entry. In a managed store the flags of a stored version are its meta byte.
const (
	flagDeleted  byte = 1 << iota // the key has no value at this version
	flagDiscard                   // earlier versions may be dropped
	flagExpires                   // managed: the stored value begins with the time of expiry
	flagUserMeta                  // managed: the stored value has the user's meta byte in front
)

// Entry is a pair to write, with its attributes. Calls that write it copy key and value.
type Entry struct {
	Key       []byte
	Value     []byte
	ExpiresAt uint64 // Unix time in seconds; 0 = never
	version   uint64 // managed mode: its own version; 0 = that of the commit
	UserMeta  byte   // a byte of the application
	flags     byte   // flagDeleted and flagDiscard
}

// NewEntry returns an entry of key and value.
func NewEntry(key, value []byte) *Entry { return &Entry{Key: key, Value: value} }

// WithMeta sets UserMeta and returns e.
func (e *Entry) WithMeta(meta byte) *Entry {
	e.UserMeta = meta
	return e
}

// WithDiscard says that earlier versions of the key may be dropped, and returns e.
func (e *Entry) WithDiscard() *Entry {
	e.flags = flagDiscard
	return e
}

// WithTTL sets ExpiresAt to the time to live from now on, and returns e.
func (e *Entry) WithTTL(dur time.Duration) *Entry {
	e.ExpiresAt = uint64(time.Now().Add(dur).Unix())
	return e
}

// maxExpiry is the last second that Brock can store as a time of expiry.
const maxExpiry = math.MaxInt64/1000 - 1

// toBrock returns the entry as Brock writes it in a store that is not managed.
func (e *Entry) toBrock() brock.Entry {
	b := brock.Entry{Key: e.Key, Value: e.Value, Meta: e.UserMeta, OnlyLatest: e.flags&flagDiscard != 0}
	if e.ExpiresAt != 0 {
		b.ExpiresAt = time.Unix(int64(min(e.ExpiresAt, maxExpiry)), 0)
	}
	return b
}

// estimateSize is the size that Badger counts for the entry (Options.LimitTxnSize).
func (e *Entry) estimateSize(threshold int64) int64 {
	k, v := int64(len(e.Key)), int64(len(e.Value))
	if v < threshold {
		return k + v + 2
	}
	return k + 12 + 2
}

// isExpired reports whether a time of expiry has come; 0 never comes.
func isExpired(expiresAt uint64) bool {
	return expiresAt != 0 && expiresAt <= uint64(time.Now().Unix())
}
