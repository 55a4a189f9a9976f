package badger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/brockdb/brock"
)

// TableInfo describes a table of Badger. Brock shows its whole store as one.
type TableInfo struct {
	ID               uint64
	Level            int
	Left             []byte // the least key, with its version
	Right            []byte // the greatest key, with its version
	KeyCount         uint32 // entries, estimated
	OnDiskSize       uint32 // bytes of runs, at most 4 GiB
	StaleDataSize    uint32 // dead bytes, at most 4 GiB
	UncompressedSize uint32
	MaxVersion       uint64
	IndexSz          int
	BloomFilterSize  int
}

// LevelInfo describes a level of Badger. Brock shows its whole store as the last one.
type LevelInfo struct {
	Level          int
	NumTables      int
	Size           int64
	TargetSize     int64
	TargetFileSize int64
	IsBaseLevel    bool
	Score          float64
	Adjusted       float64
	StaleDatSize   int64
}

// Size returns the bytes of runs, and of journal and value segments.
func (db *DB) Size() (lsm, vlog int64) {
	if db.IsClosed() {
		return 0, 0
	}
	m := db.store.Metrics()
	return m.Tree.RunBytes, m.Tree.SegmentBytes + m.Tree.ForwardingBytes
}

// EstimateSize estimates the bytes of the pairs whose keys begin with prefix: as stored, and again, as
// Badger returns a second number for the size without compression.
func (db *DB) EstimateSize(prefix []byte) (uint64, uint64) {
	if db.IsClosed() {
		return 0, 0
	}
	if db.opt.managedTxns {
		prefix = appendEscaped(nil, prefix)
	}
	_, size := db.data.EstimateSize(brock.PrefixRange(prefix))
	return uint64(size), uint64(size)
}

// lastLevel is the level that the store is shown as.
func (db *DB) lastLevel() int { return max(db.opt.MaxLevels, 1) - 1 }

// Tables describes the store as one table; it has none while it has no pairs.
func (db *DB) Tables() []TableInfo {
	if db.IsClosed() {
		return nil
	}
	left, right, err := db.ends()
	if err != nil || left == nil {
		return nil
	}
	m, maxVersion := db.store.Metrics(), db.store.Version()
	if db.opt.managedTxns {
		maxVersion = db.MaxVersion()
	}
	entries, size := db.data.EstimateSize(nil, nil)
	return []TableInfo{{
		ID: 1, Level: db.lastLevel(), Left: left, Right: right,
		KeyCount: clamp32(entries), OnDiskSize: clamp32(m.Tree.RunBytes), StaleDataSize: clamp32(m.Tree.DeadBytes),
		UncompressedSize: clamp32(size), MaxVersion: maxVersion,
	}}
}

func clamp32(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// ends returns the least and the greatest key, each with its version as Badger stores it; nil if there
// are none.
func (db *DB) ends() (left, right []byte, err error) {
	err = db.data.View(func(txn *brock.Txn) error {
		for _, end := range []struct {
			find func(lo, hi []byte) (*brock.Item, error)
			to   *[]byte
		}{{txn.First, &left}, {txn.Last, &right}} {
			item, err := end.find(nil, nil)
			if err == brock.ErrKeyNotFound {
				return nil
			}
			if err != nil {
				return err
			}
			key, version := item.Key(), item.Version()
			if db.opt.managedTxns {
				stem, v, ok := parseStored(key)
				if !ok {
					return errCutVersion
				}
				key, version = userKeyOf(stem, nil), v
			}
			*end.to = binary.BigEndian.AppendUint64(bytes.Clone(key), math.MaxUint64-version)
		}
		return nil
	})
	return left, right, err
}

// Levels describes the store as the last level; the others are empty.
func (db *DB) Levels() []LevelInfo {
	levels := make([]LevelInfo, db.lastLevel()+1)
	for i := range levels {
		levels[i].Level = i
	}
	last := &levels[len(levels)-1]
	last.IsBaseLevel, last.NumTables = true, len(db.Tables())
	last.Size, _ = db.Size()
	last.TargetSize, last.TargetFileSize = last.Size, last.Size
	if !db.IsClosed() {
		m := db.store.Metrics()
		last.StaleDatSize = m.Tree.DeadBytes
	}
	return levels
}

// LevelsToString is Levels as text.
func (db *DB) LevelsToString() string {
	var b strings.Builder
	b.WriteByte('\n')
	for _, l := range db.Levels() {
		base := " "
		if l.IsBaseLevel {
			base = "B"
		}
		fmt.Fprintf(&b, "Level %d [%s]: NumTables: %02d. Size: %d B of %d B. Score: %.2f->%.2f StaleData: %d B Target FileSize: %d B\n",
			l.Level, base, l.NumTables, l.Size, l.TargetSize, l.Score, l.Adjusted, l.StaleDatSize, l.TargetFileSize)
	}
	b.WriteString("Level Done\n")
	return b.String()
}

// keyRange is a range of keys: from left on, and up to right.
type keyRange struct {
	left, right []byte // nil: no bound
	size        int64  // bytes, estimated
}

// String describes the range.
func (r keyRange) String() string {
	return fmt.Sprintf("[left=%x, right=%x, size=%d]", r.left, r.right, r.size)
}

// Ranges returns at most numRanges ranges of about the same size that together cover all keys, and are
// cut within those that begin with prefix.
func (db *DB) Ranges(prefix []byte, numRanges int) []*keyRange {
	if db.IsClosed() || numRanges < 1 {
		return []*keyRange{{}}
	}
	stored := prefix
	if db.opt.managedTxns {
		stored = appendEscaped(nil, prefix)
	}
	lo, hi := brock.PrefixRange(stored)
	var ranges []*keyRange
	var left []byte
	for _, key := range db.data.Split(lo, hi, numRanges) {
		if db.opt.managedTxns {
			var ok bool
			if key, ok = cutToKey(key); !ok {
				continue
			}
		}
		if bytes.Compare(key, left) <= 0 { // versions of one key stay together
			continue
		}
		ranges = append(ranges, &keyRange{left: left, right: key})
		left = key
	}
	ranges = append(ranges, &keyRange{left: left})
	for _, r := range ranges {
		from, to := r.left, r.right
		if db.opt.managedTxns {
			from, to = escapedBound(from), escapedBound(to)
		}
		_, r.size = db.data.EstimateSize(from, to)
	}
	return ranges
}

// escapedBound returns the bound of stored keys for one of keys.
func escapedBound(key []byte) []byte {
	if key == nil {
		return nil
	}
	return appendEscaped(nil, key)
}

// cutToKey returns the key of a stored key, or of the beginning of one, as Split may return.
func cutToKey(stored []byte) (key []byte, ok bool) {
	if stem, _, ok := parseStored(stored); ok {
		return bytes.Clone(userKeyOf(stem, nil)), true
	}
	for i, b := range stored {
		if b == escapeByte && (i+1 == len(stored) || stored[i+1] != escapedZero) {
			return bytes.Clone(userKeyOf(append(stored[:i:i], escapeByte, keyEnd), nil)), i > 0
		}
	}
	return bytes.Clone(userKeyOf(append(stored[:len(stored):len(stored)], escapeByte, keyEnd), nil)), len(stored) > 0
}

// MaxBatchCount returns how many writes a transaction of Badger may have (Options.LimitTxnSize).
func (db *DB) MaxBatchCount() int64 { return db.opt.maxBatchCount }

// MaxBatchSize returns how many bytes a transaction of Badger may have (Options.LimitTxnSize).
func (db *DB) MaxBatchSize() int64 { return db.opt.maxBatchSize }

// CacheType names a cache of Badger.
type CacheType int

// The caches.
const (
	BlockCache CacheType = iota
	IndexCache
)

// CacheMaxCost changes nothing, as Brock has no such caches. It returns maxCost or, if that is negative,
// the last one: at first that of the options. It returns an error for a cache that Badger doesn't have.
func (db *DB) CacheMaxCost(cache CacheType, maxCost int64) (int64, error) {
	if db == nil {
		return 0, nil
	}
	if cache != BlockCache && cache != IndexCache {
		return 0, errors.New("invalid cache type")
	}
	if maxCost >= 0 {
		db.cacheCosts[cache].Store(maxCost)
	}
	return db.cacheCosts[cache].Load(), nil
}

// BlockCacheMetrics returns nil: there is no such cache.
func (db *DB) BlockCacheMetrics() *ristretto.Metrics { return nil }

// IndexCacheMetrics returns nil: there is no such cache.
func (db *DB) IndexCacheMetrics() *ristretto.Metrics { return nil }
