package brock

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// clusterStore is loaded with values in random order, which then lie in the
// segments of the journal as they came, and tells of every clustering.
type clusterStore struct {
	*DB
	t    *testing.T
	told chan WorkInfo
}

const clusterKeys = 3_000

func clusterKey(i int) []byte { return fmt.Appendf(nil, "key %06d", i) }

// clusterValue differs from key to key, and from one time of writing to the next.
func clusterValue(i, time int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%08d at %04d, ", i, time), 4000/18)
}

func newClusterStore(t *testing.T, change func(*Options)) *clusterStore {
	t.Helper()
	s := &clusterStore{t: t, told: make(chan WorkInfo, 100)}
	o := Options{Dir: t.TempDir(), Durability: Buffered,
		Tuning:      Tuning{MemtableSize: 1 << 20, SegmentSize: 8 << 20, RunFileSize: 8 << 20},
		Maintenance: Maintenance{IdleAfter: 20 * time.Millisecond},
		Events: Events{Compaction: func(w WorkInfo) {
			if w.Reason == "scans jump" {
				s.told <- w
			}
		}}}
	if change != nil {
		change(&o)
	}
	db, err := Open(o)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	s.DB = db
	s.load(0)
	must(t, db.Flush(context.Background()))
	return s
}

// load writes every key, in random order.
func (s *clusterStore) load(time int) {
	s.t.Helper()
	w := s.NewWriter(context.Background())
	for _, i := range rand.New(rand.NewPCG(7, uint64(time))).Perm(clusterKeys) {
		must(s.t, w.Set(clusterKey(i), clusterValue(i, time)))
	}
	must(s.t, w.Close())
}

// scan reads all keys and values, in either direction, and returns how many
// bytes its iterator counted as scattered.
func (s *clusterStore) scan(time int, reverse bool) uint64 {
	s.t.Helper()
	txn := s.NewTransaction(false)
	defer txn.Discard()
	return s.scanIn(txn, time, reverse)
}

func (s *clusterStore) scanIn(txn *Txn, time int, reverse bool) uint64 {
	s.t.Helper()
	it := txn.NewIterator(IteratorOptions{Reverse: reverse})
	n := 0
	for it.Rewind(); it.Valid(); it.Next() {
		at := n
		if reverse {
			at = clusterKeys - 1 - n
		}
		v, err := it.Item().Value()
		must(s.t, err)
		if !bytes.Equal(it.Item().Key(), clusterKey(at)) || !bytes.Equal(v, clusterValue(at, time)) {
			s.t.Fatalf("item %d is %q with %.20q", n, it.Item().Key(), v)
		}
		n++
	}
	jumped := it.scan.Close()
	must(s.t, it.Close())
	wantEqual(s.t, "items", n, clusterKeys)
	return jumped
}

// clustered waits for the next clustering.
func (s *clusterStore) clustered() WorkInfo {
	s.t.Helper()
	select {
	case w := <-s.told:
		must(s.t, w.Err)
		return w
	case <-time.After(time.Minute):
		s.t.Fatalf("nothing was clustered:\n%v", s.Metrics())
		return WorkInfo{}
	}
}

// Scans that jump have the values sorted, once: later ones don't jump, and
// nothing more is written for them.
func TestScansThatJumpSortValues(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		if reverse && testing.Short() {
			break
		}
		s := newClusterStore(t, nil)
		old := s.NewTransaction(false)
		defer old.Discard()
		raw := uint64(clusterKeys * len(clusterValue(0, 0)))
		// What was too short when it was flushed did not stay as it was.
		jumped := s.scan(0, reverse)
		if jumped < raw/4 || jumped > raw {
			t.Errorf("%d bytes are scattered of %d", jumped, raw)
		}
		w := s.clustered()
		if w.BytesOut < int64(jumped) || w.BytesOut > int64(raw+raw/5) {
			t.Errorf("%d bytes were written for %d of values, %d scattered", w.BytesOut, raw, jumped)
		}
		wantEqual(t, "scattered bytes", s.scan(0, false), 0)
		wantEqual(t, "scattered bytes, backwards", s.scan(0, true), 0)
		if s.scanIn(old, 0, false) == 0 { // still reads what it always read
			t.Error("the View of an open transaction was changed")
		}
		must(t, s.Verify(context.Background(), func(c *CorruptionError) { t.Error(c) }))
		m := s.Metrics()
		wantEqual(t, "clusterings", m.Tree.Clusterings, 1)
	}
}

// Nobody who doesn't scan, or doesn't read values, or only reads a few of them, pays.
func TestOnlyScansOfValuesSort(t *testing.T) {
	s := newClusterStore(t, nil)
	must(t, s.View(func(txn *Txn) error {
		for range 3 {
			for it, err := range txn.Items(IteratorOptions{KeysOnly: true}) {
				if err != nil || it.ValueSize() == 0 {
					return fmt.Errorf("%q has no value: %w", it.Key(), err)
				}
			}
		}
		for i := range clusterKeys {
			it, err := txn.Get(clusterKey(i))
			must(t, err)
			_, err = it.Value()
			must(t, err)
		}
		return nil
	}))
	wantEqual(t, "scattered bytes", s.Metrics().Tree.JumpedBytes, 0)
	s = newClusterStore(t, func(o *Options) { o.Maintenance.NoClustering = true })
	wantEqual(t, "scattered bytes, clustering turned off", s.scan(0, false), 0)
}

// What is written later is sorted when that is scanned, and what died is gone.
func TestSortedValuesAreOverwritten(t *testing.T) {
	s := newClusterStore(t, nil)
	s.scan(0, false)
	s.clustered()
	s.load(1)
	must(t, s.Flush(context.Background()))
	s.scan(1, true)
	s.clustered()
	wantEqual(t, "scattered bytes", s.scan(1, false), 0)
	_, err := s.Reclaim(context.Background())
	must(t, err)
	m := s.Metrics()
	if m.SpaceAmp() > 1.1 {
		t.Errorf("files take %.2f times what is live:\n%v", m.SpaceAmp(), m)
	}
}
