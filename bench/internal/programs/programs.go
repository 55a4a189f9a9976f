// Package programs measures what programs build on beside the nearest thing that a peer has: change
// feeds, versions that the caller gives, counters, sorted loads, parallel scans and the least key.
package programs

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// Row is one feature and who has it, or something near it.
type Row struct {
	Name, Unit string
	Part       int // it does a n-th part of the work, as some way is slow; 0: all
	Ways       []Way
}

// Way is how one store does it. Measure does it n times, or with n pairs, in a new store in dir, and
// returns how many it did a second.
type Way struct {
	Store   string
	Measure func(dir string, n int) (perSecond float64, err error)
}

// Rows are all features. The first way of each is Brock's.
func Rows() []Row {
	return []Row{
		{"feed: changes of one writer, each a buffered commit, until one consumer has them all", "changes/s", 0, []Way{
			{"Brock Watch", brockWatch}, {"Badger Subscribe", badgerSubscribe},
		}},
		{"given versions: buffered commits of one pair by one writer", "commits/s", 0, []Way{
			{"Brock CommitAt", brockCommitAt}, {"Badger managed CommitAt", badgerCommitAt},
		}},
		{"one counter, 64 workers, each step durable", "steps/s", 10, []Way{
			{"Brock Add", brockAdd}, {"Badger MergeOperator", badgerMerge}, {"Badger Sequence", badgerSequence}, {"bbolt NextSequence in Batch", bboltSequence},
		}},
		{"sorted load, durable at its end", "pairs/s", 0, []Way{
			{"Brock Loader", brockLoader}, {"Brock Writer", brockWriter}, {"Badger StreamWriter", badgerStreamWriter}, {"Pebble sstable and Ingest", pebbleIngest}, {"bbolt sorted puts", bboltSorted},
		}},
		{"parallel scan of keys and values", "pairs/s", 0, []Way{
			{"Brock Stream", brockStream}, {"Badger Stream", badgerStream},
		}},
		{"the least pair, then its delete, in one transaction (buffered)", "pairs/s", 20, []Way{
			{"Brock First", brockFirst}, {"Badger iterator", badgerFirst}, {"Pebble iterator", pebbleFirst}, {"bbolt cursor", bboltFirst},
		}},
	}
}

const (
	workers   = 64
	valueSize = 100
)

// appendKey appends the i-th key: keys rise with i.
func appendKey(dst []byte, i int) []byte {
	dst = append(dst, "key-"...)
	return binary.BigEndian.AppendUint64(dst, uint64(i))
}

var pool = func() []byte {
	p, rng := make([]byte, 1<<20), rand.NewPCG(1, 2)
	for i := 0; i < len(p); i += 8 {
		binary.LittleEndian.PutUint64(p[i:], rng.Uint64())
	}
	return p
}()

// valueOf is the value of the i-th key.
func valueOf(i int) []byte {
	at := i * 8 % (len(pool) - valueSize)
	return pool[at : at+valueSize]
}

// wrongCount is the error of a way that has not done what it should.
func wrongCount(got, want int) error { return fmt.Errorf("%d instead of %d", got, want) }
