package brock

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkSeekCost compares the ways to the newest version at or below one, in stores as that of
// BenchmarkVersionSuffix, with what a get of the whole key costs. The ways take turns of 1,000 calls,
// each over keys of its own, so that all of them meet the same disturbance: look at the quotients,
// of which the median is reported.
func BenchmarkSeekCost(b *testing.B) {
	for _, keys := range []int{2_000, 200_000} {
		b.Run(fmt.Sprintf("keys=%d", 10*keys), func(b *testing.B) { benchmarkSeekCost(b, keys) })
	}
}

func benchmarkSeekCost(b *testing.B, keys int) {
	const versions, turn = 10, 1000
	db := openTest(b, Options{})
	suffixed := func(dst []byte, i, v int) []byte {
		dst = fmt.Appendf(dst[:0], "account/%012d/", i)
		return binary.BigEndian.AppendUint64(dst, ^uint64(v))
	}
	w := db.NewWriter(b.Context())
	for i := range keys {
		for v := range versions {
			must(b, w.Set(suffixed(nil, i, 10*v), make([]byte, 32)))
		}
	}
	must(b, w.Close())
	must(b, db.Compact(b.Context()))
	var txn *Txn
	var it *Iterator
	fail := func(key []byte, err error) { b.Fatalf("%q: %v", key, err) }
	seek := func(it *Iterator, key []byte) {
		if it.Seek(key); len(it.Item().Key()) != len(key) {
			fail(key, it.Err())
		}
	}
	ways := []struct {
		name string
		off  int // 5: no entry has the key, and the next one counts
		read func(key []byte)
	}{
		{"get", 0, func(key []byte) {
			if _, err := txn.Get(key); err != nil {
				fail(key, err)
			}
		}},
		{"seek", 5, func(key []byte) { seek(it, key) }},
		{"first", 5, func(key []byte) {
			if _, err := txn.First(key, nil); err != nil {
				fail(key, err)
			}
		}},
		{"last", 5, func(key []byte) {
			if _, err := txn.Last(nil, key); err != nil {
				fail(key, err)
			}
		}},
		{"open", 5, func(key []byte) {
			it := txn.NewIterator(IteratorOptions{KeysOnly: true, Prefix: key[:len(key)-8]})
			seek(it, key)
			it.Close()
		}},
	}
	var list [turn][]byte
	took := make([][]float64, len(ways)) // of a turn, relative to that of a get
	n, get := 0, 0.0
	for b.Loop() {
		for i, way := range ways {
			for k := range list {
				n += 7919
				list[k] = suffixed(list[k], n%keys, 10*(n/keys%versions)+way.off)
			}
			// A transaction keeps what it has got: one for all would measure the garbage collector.
			txn = db.NewTransaction(false)
			it = txn.NewIterator(IteratorOptions{KeysOnly: true})
			start := time.Now()
			for _, key := range list {
				way.read(key)
			}
			spent := float64(time.Since(start)) / turn
			txn.Discard()
			if i == 0 {
				get = spent
				took[0] = append(took[0], spent)
				continue
			}
			took[i] = append(took[i], spent/get)
		}
	}
	for i, way := range ways {
		slices.Sort(took[i])
		unit := way.name + "/get"
		if i == 0 {
			unit = "ns/get"
		}
		b.ReportMetric(took[i][len(took[i])/2], unit)
	}
}
