package importers

import (
	"context"
	"time"
)

// Peer is an engine whose stores can be imported.
type Peer string

// The peers, by the names that the command line gives them.
const (
	Badger4 Peer = "badger4"
	Badger3 Peer = "badger3"
	Badger2 Peer = "badger2"
	Badger1 Peer = "badger1" // from 1.6 on
	Bbolt   Peer = "bbolt"   // also files of boltdb
	LevelDB Peer = "leveldb" // goleveldb's, and those of other LevelDBs with byte-wise order
	Pebble  Peer = "pebble"  // of any format that Pebble 1.1 or 2.1 reads
)

// Peers lists all peers.
func Peers() []Peer { return []Peer{Badger4, Badger3, Badger2, Badger1, Bbolt, LevelDB, Pebble} }

// pair is a pair, or a delete, of a source. Its bytes belong to the source, and are valid until the
// function that was given the pair returns.
type pair struct {
	key, value []byte
	version    uint64 // 0: the peer has none
	meta       byte
	expires    uint64 // seconds since 1970; 0 = never
	deleted    bool
	onlyLatest bool // versions before it are not to be kept
}

// expiry returns when the pair expires; the zero time is never.
func (p *pair) expiry() time.Time { return expiryTime(p.expires) }

// maxExpiry is the last second that a time in JSON can show.
const maxExpiry = 253402300799

// expiryTime returns the time of a number of seconds; 0 is never.
func expiryTime(seconds uint64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(int64(min(seconds, maxExpiry)), 0)
}

// expired reports whether a time of expiry has come.
func expired(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

// space is a part of a source with keys of its own, which becomes a keyspace.
type space struct {
	name     string // of the keyspace; "" = the default one
	sequence uint64 // of a bucket of bbolt
	path     string // of a bucket, where name is short for it
}

// source is a closed store of another engine, open for reading. One goroutine uses it.
type source interface {
	// spaces lists the parts in the order of their names.
	spaces(ctx context.Context) ([]space, error)
	// scan calls fn with the newest pair of each key that lives, in rising order of the keys, from a
	// key on; nil is the first one.
	scan(ctx context.Context, name string, from []byte, fn func(*pair) error) error
	// history calls fn with all versions and deletes of all keys, in rising order of the keys and
	// falling order of the versions.
	history(ctx context.Context, fn func(*pair) error) error
	// lost says what of the source is not kept, a sentence each.
	lost(ctx context.Context) ([]string, error)
	// close ends the reading.
	close() error
}
