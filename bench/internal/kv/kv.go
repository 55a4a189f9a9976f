// Package kv holds the stores that are compared, each behind the same small
// interface. A store is one file. The workloads use nothing else of it.
package kv

import (
	"encoding/binary"
	"errors"
	"time"
)

// Store is what every workload needs. What else a store can do, it says by
// implementing Scanner, Batcher, Loader, Prober, Ender, Copier or Flusher. All methods
// but Close may be called from any number of goroutines at once.
type Store interface {
	// Get reads the value of key in a read transaction of its own and touches
	// all of it. sum is Touch of the value.
	Get(key []byte) (sum uint64, found bool, err error)
	// Set writes one pair in a commit of its own, which may share its flush of
	// the disk with others. It keeps neither slice.
	Set(key, value []byte) error
	Close() error
}

// Scanner walks pairs in the order of their keys.
type Scanner interface {
	// Scan opens an iterator, seeks to the key from (nil: the first key) and
	// touches up to limit pairs; all if limit < 0. It reads values only if asked to.
	Scan(from []byte, limit int, values bool) (Tally, error)
}

// Batcher writes several changes in one commit and keeps nothing of them. A
// change with a TTL returns ErrNoTTL if the store has no time to live.
type Batcher interface{ Apply([]Change) error }

// Loader writes many changes in the way that the store's documents recommend for
// loading, where that differs from Apply. It need not be one commit.
type Loader interface{ Load([]Change) error }

// Prober looks for a key without its value.
type Prober interface {
	Has(key []byte) (bool, error)
}

// Ender touches the greatest key in a read transaction of its own, and returns Touch of it.
type Ender interface {
	Last() (sum uint64, err error)
}

// Copier appends the value of key to dst, for callers that send it on.
type Copier interface {
	AppendValue(dst, key []byte) (value []byte, found bool, err error)
}

// Flusher writes out what waits in memory. Busy says whether background work
// goes on, as far as the store tells.
type Flusher interface {
	Flush() error
	Busy() bool
}

// Config is how a workload wants a store to be opened.
type Config struct {
	Dir       string
	Sync      bool  // a commit is on the disk when it returns; else with the operating system, or soon
	ValueSize int   // bytes of every value, or of the largest
	DataBytes int64 // raw bytes that the store will hold, so that caches can be large enough for all of it
	Writers   int   // goroutines that will call Set at once; 0 = none
	Memory    int64 // bytes that the process may take, page cache included; 0 = no limit

	Overwrites   bool    // values will be overwritten, so that space is to be won back
	GarbageRatio float64 // Brock's Maintenance.GarbageRatio; 0 = its default
}

// cache is how large a store with a cache of its own makes it: for all data, or
// a third of a limited memory.
func (c Config) cache() int64 {
	if c.Memory > 0 {
		return max(8<<20, c.Memory/3)
	}
	return max(256<<20, c.DataBytes+c.DataBytes/4)
}

// memtable is the size that a store wants, less where memory is limited.
func (c Config) memtable(want int64) int64 {
	if c.Memory > 0 {
		return min(want, max(1<<20, c.Memory/16))
	}
	return want
}

// Change is one write: of a value, perhaps with a time to live, or a delete.
type Change struct {
	Key, Value []byte
	TTL        time.Duration // 0 = for ever
	Delete     bool
}

// ErrNoTTL is what a store without a time to live says to one.
var ErrNoTTL = errors.New("the store knows no time to live")

// Tally is what a scan saw. Every store must come to the same.
type Tally struct {
	Entries int
	Sum     uint64 // of Touch over all that was read, in any order
}

// Add touches b.
func (t *Tally) Add(b []byte) { t.Sum += Touch(b) }

// Touch reads every byte of b.
func Touch(b []byte) uint64 {
	var sum uint64
	for len(b) >= 8 {
		sum += binary.LittleEndian.Uint64(b)
		b = b[8:]
	}
	for _, c := range b {
		sum += uint64(c)
	}
	return sum
}

// apply hands each change to set or remove.
func apply(changes []Change, set func(key, value []byte) error, remove func(key []byte) error) error {
	for i := range changes {
		c := &changes[i]
		var err error
		switch {
		case c.Delete:
			err = remove(c.Key)
		case c.TTL > 0:
			err = ErrNoTTL
		default:
			err = set(c.Key, c.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
