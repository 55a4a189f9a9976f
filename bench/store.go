package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Store is what the workloads ask of a key-value store. All methods but Close
// may be called from any number of goroutines at once.
type Store interface {
	// Load writes a batch, buffered or synced as the Config says. It keeps
	// nothing of the batch after it returns.
	Load(b *Batch) error
	// Get reads the value of key in a read transaction of its own and touches
	// all of it.
	Get(key []byte) (sum uint64, found bool, err error)
	// Has looks for key without reading a value, where the store can.
	Has(key []byte) (bool, error)
	// ScanKeys walks the whole store without its values, where the store can.
	ScanKeys() (Tally, error)
	// ScanValues walks the whole store and touches every value.
	ScanValues() (Tally, error)
	// SeekN opens an iterator, seeks to key and touches n pairs from there.
	SeekN(key []byte, n int) (Tally, error)
	// CommitOne writes one pair in a commit of its own, which may share its
	// flush of the disk with others.
	CommitOne(key, value []byte) error
	// Change writes all changes in one commit, buffered or synced as the Config says.
	Change([]Change) error
	// WaitQuiet writes out what waits in memory, if the store can be told to,
	// and waits until no background work is left. It says since when there was none.
	WaitQuiet() (time.Time, error)
	Close() error
}

// Config is how a workload wants a store to be opened.
type Config struct {
	Dir       string
	Sync      bool  // a commit is on the disk when it returns; else with the operating system, or soon
	ValueSize int   // bytes of every value
	DataBytes int64 // raw bytes that the store will hold, so that caches can be large enough for all of it
	Writers   int   // goroutines that will call CommitOne at once; 0 = none

	Overwrites   bool    // values will be overwritten, so that space is to be won back
	GarbageRatio float64 // Brock's Maintenance.GarbageRatio; 0 = its default
}

// Change is one write: of a value, perhaps with a time to live, or a delete.
type Change struct {
	Key, Value []byte
	TTL        time.Duration // 0 = for ever
	Delete     bool
}

// errNoTTL is what a store without a time to live says to one.
var errNoTTL = errors.New("the store knows no time to live")

// Maker opens one kind of store.
type Maker struct {
	Name     string
	Module   string // module path, to find the version in use
	MinValue int    // a variant for values of at least this many bytes
	Open     func(Config) (Store, error)
}

// Makers lists the stores in the order of the tables. The first that takes part
// is what the others are compared with.
func Makers() []Maker {
	return []Maker{
		{Name: "brock", Module: brockModule, Open: openBrock},
		{Name: "badger", Module: badgerModule, Open: openBadger},
		{Name: "badger-log", Module: badgerModule, MinValue: badgerLogThreshold, Open: openBadgerLog},
		{Name: "pebble", Module: pebbleModule, Open: openPebble},
		{Name: "pebble-sep", Module: pebbleModule, MinValue: pebbleBlobThreshold, Open: openPebbleSep},
		{Name: "bbolt", Module: bboltModule, Open: openBbolt},
	}
}

// pickMakers returns the makers of a comma-separated list of names; "all" or
// nothing means every one.
func pickMakers(list string) ([]Maker, error) {
	all := Makers()
	if list == "" || list == "all" {
		return all, nil
	}
	names := strings.Split(list, ",")
	var picked []Maker
	for _, m := range all {
		if i := slices.Index(names, m.Name); i >= 0 {
			picked = append(picked, m)
			names = slices.Delete(names, i, i+1)
		}
	}
	if len(names) > 0 {
		return nil, fmt.Errorf("no store %q", names[0])
	}
	return picked, nil
}

// Batch is a list of pairs to write; Keys and Values have the same length.
type Batch struct{ Keys, Values [][]byte }

// Tally is what a scan saw. Every store must come to the same.
type Tally struct {
	Entries int
	Sum     uint64 // of touch over all that was read, in any order
}

func (t *Tally) add(b []byte) { t.Sum += touch(b) }

// touch reads every byte of b.
func touch(b []byte) uint64 {
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
