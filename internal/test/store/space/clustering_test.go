package space

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/vfs"
)

// clusterStore is loaded with values in random order, which lie in the segments of
// the journal as they came.
type clusterStore struct {
	*brock.DB
	t     *testing.T
	heard atomic.Int64        // events of compactions
	done  chan brock.WorkInfo // each clustering
	quiet sync.RWMutex        // held by a scan: no file is made, so no clustering ends
}

const clusterKeys = 3_000

func clusterKey(i int) []byte { return fmt.Appendf(nil, "key %06d", i) }

// clusterValue is different for each key and each time of writing.
func clusterValue(i, time int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%08d at %04d, ", i, time), 4000/18)
}

func newClusterStore(t *testing.T, change func(*brock.Options)) *clusterStore {
	t.Helper()
	s := &clusterStore{t: t, done: make(chan brock.WorkInfo, 100)}
	waits := func(op faultfs.Op) {
		if op.Kind == faultfs.Create {
			s.quiet.RLock()
			defer s.quiet.RUnlock()
		}
	}
	o := brock.Options{Dir: t.TempDir(), FS: faultfs.New(vfs.OS(), faultfs.Options{Before: waits}), Durability: brock.Buffered,
		Tuning:      brock.Tuning{MemtableSize: 1 << 20, SegmentSize: 8 << 20, RunFileSize: 8 << 20},
		Maintenance: brock.Maintenance{IdleAfter: 20 * time.Millisecond},
		Events: brock.Events{Compaction: func(w brock.WorkInfo) {
			if w.Reason == "scans jump" {
				s.done <- w
			}
			s.heard.Add(1)
		}}}
	if change != nil {
		change(&o)
	}
	db, err := brock.Open(o)
	assert.OK(t, err)
	t.Cleanup(func() { assert.OK(t, db.Close()) })
	s.DB = db
	s.load(0)
	assert.OK(t, db.Flush(context.Background()))
	return s
}

// load writes every key, in random order.
func (s *clusterStore) load(time int) {
	s.t.Helper()
	w := s.NewWriter(context.Background())
	for _, i := range rand.New(rand.NewPCG(7, uint64(time))).Perm(clusterKeys) {
		assert.OK(s.t, w.Set(clusterKey(i), clusterValue(i, time)))
	}
	assert.OK(s.t, w.Close())
}

// scan reads all keys and values, in either direction, and returns the jumped bytes.
func (s *clusterStore) scan(time int, reverse bool) int64 {
	s.t.Helper()
	txn := s.NewTransaction(false)
	defer txn.Discard()
	return s.scanIn(txn, time, reverse)
}

func (s *clusterStore) scanIn(txn *brock.Txn, time int, reverse bool) int64 {
	s.t.Helper()
	s.quiet.Lock()
	defer s.quiet.Unlock()
	before := s.Metrics().Tree.JumpedBytes
	it := txn.NewIterator(brock.IteratorOptions{Reverse: reverse})
	n := 0
	for it.Rewind(); it.Valid(); it.Next() {
		at := n
		if reverse {
			at = clusterKeys - 1 - n
		}
		v, err := it.Item().Value()
		assert.OK(s.t, err)
		if !bytes.Equal(it.Item().Key(), clusterKey(at)) || !bytes.Equal(v, clusterValue(at, time)) {
			s.t.Fatalf("item %d is %q with %.20q", n, it.Item().Key(), v)
		}
		n++
	}
	assert.OK(s.t, it.Close())
	assert.Equal(s.t, "items", n, clusterKeys)
	return s.Metrics().Tree.JumpedBytes - before
}

// clustered waits until all values that scans jumped to were clustered, for which all jumped bytes
// are taken off, and returns how many bytes that wrote.
func (s *clusterStore) clustered() (written int64) {
	s.t.Helper()
	deadline.Wait(s.t, "clusterings", func() bool { return s.Metrics().Tree.JumpedBytes == 0 })
	// An event comes after its work was counted.
	compactions := s.Metrics().Tree.Compactions
	deadline.Wait(s.t, "events of compactions", func() bool { return s.heard.Load() >= compactions })
	for {
		select {
		case w := <-s.done:
			assert.OK(s.t, w.Err)
			written += w.BytesOut
		default:
			return written
		}
	}
}

// Scans that jump make the store cluster the values, once. Later scans don't jump, and
// the store writes nothing more for them.
func TestScansThatJumpClusterValues(t *testing.T) {
	t.Parallel()
	for _, reverse := range []bool{false, true} {
		if reverse && testing.Short() {
			break
		}
		s := newClusterStore(t, nil)
		old := s.NewTransaction(false)
		defer old.Discard()
		raw := int64(clusterKeys * len(clusterValue(0, 0)))
		// Not all values jump: the flush has copied those of segments that it did
		// not keep, in key order.
		jumped := s.scan(0, reverse)
		if jumped < raw/4 || jumped > raw {
			t.Errorf("a scan jumped to %d bytes of %d", jumped, raw)
		}
		if written := s.clustered(); written < jumped || written > raw+raw/5 {
			t.Errorf("%d bytes were written for %d of values, %d of them jumped bytes", written, raw, jumped)
		}
		assert.Equal(t, "jumped bytes", s.scan(0, false), 0)
		assert.Equal(t, "jumped bytes, backwards", s.scan(0, true), 0)
		if s.scanIn(old, 0, false) == 0 { // it reads the old files
			t.Error("the View of an open transaction was changed")
		}
		assert.OK(t, s.Verify(context.Background(), func(c *brock.CorruptionError) { t.Error(c) }))
		assert.Equal(t, "clusterings beside those that were waited for", len(s.done), 0)
	}
}

// Scans of keys alone and point reads lead to no clustering.
func TestOnlyScansOfValuesCluster(t *testing.T) {
	t.Parallel()
	s := newClusterStore(t, nil)
	assert.OK(t, s.View(func(txn *brock.Txn) error {
		for range 3 {
			for it, err := range txn.Items(brock.IteratorOptions{KeysOnly: true}) {
				if err != nil || it.ValueSize() == 0 {
					return fmt.Errorf("%q has no value: %w", it.Key(), err)
				}
			}
		}
		for i := range clusterKeys {
			it, err := txn.Get(clusterKey(i))
			assert.OK(t, err)
			_, err = it.Value()
			assert.OK(t, err)
		}
		return nil
	}))
	assert.Equal(t, "jumped bytes", s.Metrics().Tree.JumpedBytes, 0)
	s = newClusterStore(t, func(o *brock.Options) { o.Maintenance.NoClustering = true })
	assert.Equal(t, "jumped bytes, clustering turned off", s.scan(0, false), 0)
}

// Values that are written later are clustered when scans jump to them, and the
// disk space of overwritten ones is freed.
func TestClusteredValuesAreOverwritten(t *testing.T) {
	t.Parallel()
	s := newClusterStore(t, nil)
	s.scan(0, false)
	s.clustered()
	s.load(1)
	assert.OK(t, s.Flush(context.Background()))
	s.scan(1, true)
	s.clustered()
	assert.Equal(t, "jumped bytes", s.scan(1, false), 0)
	_, err := s.Reclaim(context.Background())
	assert.OK(t, err)
	m := s.Metrics()
	if m.SpaceAmp() > 1.1 {
		t.Errorf("files take %.2f times what is live:\n%v", m.SpaceAmp(), m)
	}
}

// Clustering reads values again, too.
func TestClusteringCopiesNoRot(t *testing.T) {
	t.Parallel()
	var once sync.Once
	var fs *faultfs.FS
	var armed atomic.Bool
	var s *clusterStore
	s = newClusterStore(t, func(o *brock.Options) {
		fs = faultfs.New(o.FS, faultfs.Options{OwnMaps: true, Before: func(op faultfs.Op) {
			if armed.Load() && op.Kind == faultfs.Create && strings.HasSuffix(op.Path, ".val") {
				s.quiet.RLock() // the scan below may not have ended
				defer s.quiet.RUnlock()
				once.Do(func() { fs.RotMaps(".log", faultfs.Invert) }) // what is clustered; other segments stay in use
			}
		}})
		o.FS = fs
	})
	armed.Store(true)
	s.scan(0, false)
	s.clustered()
	s.scan(0, false)
	assert.OK(t, s.Verify(t.Context(), nil))
}
