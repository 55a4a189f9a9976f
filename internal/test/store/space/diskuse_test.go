// Package space tests how much disk space a store takes, and what flush, compaction, clustering
// and collection make of it.
package space

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

var (
	overwrites = flag.Int("overwrites", 2, "how many times the tests of disk use overwrite their data")
	usageKeys  = flag.Int("usagekeys", 12_000, "how many keys they have")
)

// The tests run with sizes of about 1/50 of the defaults.
var usageTuning = brock.Tuning{MemtableSize: 256 << 10, SegmentSize: 4 << 20, RunFileSize: 4 << 20}

const usageValue = 4 << 10

type diskUse struct {
	*brock.DB
	t    *testing.T
	fs   *vfs.Mem
	rng  *rand.Rand
	live map[uint64]int // value length by key
}

func newDiskUse(t *testing.T, m brock.Maintenance) *diskUse {
	t.Helper()
	s := &diskUse{t: t, fs: vfs.NewMem(), rng: rand.New(rand.NewPCG(3, 4)), live: map[uint64]int{}}
	t.Cleanup(func() { _ = s.Close() })
	s.open(m)
	return s
}

func (s *diskUse) open(m brock.Maintenance) {
	s.t.Helper()
	db, err := brock.Open(brock.Options{Dir: "/s", FS: s.fs, Durability: brock.Buffered, Tuning: usageTuning, Maintenance: m})
	if err != nil {
		s.t.Fatal(err)
	}
	s.DB = db
}

func usageKey(i uint64) []byte { return binary.BigEndian.AppendUint64(nil, i) }

func (s *diskUse) set(i uint64, n int) {
	s.t.Helper()
	v := make([]byte, n)
	binary.BigEndian.PutUint64(v, s.rng.Uint64())
	if err := s.Set(usageKey(i), v); err != nil {
		s.t.Fatal(err)
	}
	s.live[i] = n
}

func (s *diskUse) load() {
	for _, i := range s.rng.Perm(*usageKeys) {
		s.set(uint64(i), usageValue)
	}
}

// liveBytes is how many bytes live keys and values take, with records and entries.
func (s *diskUse) liveBytes() int64 {
	var n int64
	for _, v := range s.live {
		n += int64(v) + 8 + 24 + 40
	}
	return n
}

// disk is the length of all files.
func (s *diskUse) disk() int64 {
	s.t.Helper()
	names, err := s.fs.List("/s")
	if err != nil {
		s.t.Fatal(err)
	}
	var n int64
	for _, name := range names {
		if info, err := s.fs.Stat(filepath.Join("/s", name)); err == nil {
			n += info.Size
		}
	}
	return n
}

func (s *diskUse) ratio() float64 { return float64(s.disk()) / float64(s.liveBytes()) }

// shrunk waits until background work has freed the disk space of what is dead:
// until the files take at most 1.25 times the live bytes, plus 20 MB.
func (s *diskUse) shrunk() {
	s.t.Helper()
	s.shrunkWithin(20 << 20) // of the 64 MB that are promised
}

func (s *diskUse) shrunkWithin(some int64) {
	s.t.Helper()
	bound := 1.25 + float64(some)/float64(s.liveBytes())
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	r := s.ratio()
	for range 6000 {
		if r <= bound {
			break
		}
		<-look.C
		r = s.ratio()
	}
	if r > bound {
		s.t.Errorf("a quiet store takes %.2f times what is live in it, want %.2f:\n%s", r, bound, s.Metrics().String())
	}
	if err := s.Verify(context.Background(), nil); err != nil {
		s.t.Error(err)
	}
	s.t.Logf("quiet: %d MB, %.2f times what is live", s.disk()>>20, r)
}

// During random overwrites the files stay within a bound. Afterwards they shrink
// without a call.
func TestDiskUseUnderOverwrites(t *testing.T) {
	t.Parallel()
	for _, garbage := range []float64{0, 0.25} {
		t.Run(fmt.Sprintf("ratio %v", garbage), func(t *testing.T) {
			s := newDiskUse(t, brock.Maintenance{GarbageRatio: garbage, IdleAfter: 100 * time.Millisecond})
			s.load()
			worst, sum, n := 0.0, 0.0, 0
			for i := range *overwrites * *usageKeys {
				s.set(s.rng.Uint64N(uint64(*usageKeys)), usageValue)
				if i%256 == 0 && i > *usageKeys/2 {
					r := s.ratio()
					worst, sum, n = max(worst, r), sum+r, n+1
				}
			}
			m := s.Metrics()
			t.Logf("overwritten %d times: disk %.2f times live on average, %.2f at worst; written %.2f times\n%s", *overwrites, sum/float64(max(n, 1)), worst, m.WriteAmp(), m)
			if bound := 1.5 + float64(48<<20)/float64(s.liveBytes()); worst > bound {
				t.Errorf("disk is %.2f times what is live, want at most %.2f", worst, bound)
			}
			s.shrunk()
		})
	}
}

// TestDiskUseOfALog appends to a log, and deletes its old entries by range. No look at single keys
// tells of these deletes, and a memtable with the keys of large values fills slowly: the store
// flushes it all the same, before the dead values take much more than the live ones.
func TestDiskUseOfALog(t *testing.T) {
	t.Parallel()
	const keep, each, all = 700, 250, 25_000
	s := &diskUse{t: t, fs: vfs.NewMem(), rng: rand.New(rand.NewPCG(3, 4)), live: map[uint64]int{}}
	s.DB = assert.Must(brock.Open(brock.Options{Dir: "/s", FS: s.fs, Durability: brock.Buffered}))
	defer s.Close()
	worst := int64(0)
	for i := range uint64(all) {
		s.set(i, usageValue)
		if i%each == 0 && i > keep {
			assert.OK(t, s.DeleteRange(usageKey(0), usageKey(i-keep)))
			for old := range s.live {
				if old < i-keep {
					delete(s.live, old)
				}
			}
		}
		if i%each == 0 {
			// Where nothing waits for the disk, and a machine is busy, flushes lag behind.
			deadline.Wait(t, "the flush", func() bool { return s.Metrics().Tree.Memtables == 1 })
			worst = max(worst, s.disk())
		}
	}
	t.Logf("at worst %d MB, %d MB are live", worst>>20, s.liveBytes()>>20)
	if bound := s.liveBytes()*3/2 + 48<<20; worst > bound {
		t.Errorf("files take %d MB, want at most %d", worst>>20, bound>>20)
	}
	s.shrunk()
}

// TestLiveBytesOfDeletedLargeValues deletes a large value now and then, among many small
// writes. What is live doesn't change, so the estimate of it, which bounds the garbage,
// may not go far.
func TestLiveBytesOfDeletedLargeValues(t *testing.T) {
	t.Parallel()
	const large, blobs, between = 4 << 20, 16, 100
	s := newDiskUse(t, brock.Maintenance{IdleAfter: time.Hour})
	s.load()
	first := uint64(1 << 32)
	for i := range uint64(blobs) {
		s.set(first+i, large)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	worst := 0.0
	for range 6 * blobs {
		if err := s.Delete(usageKey(first)); err != nil {
			t.Fatal(err)
		}
		delete(s.live, first)
		s.set(first+blobs, large)
		first++
		for range between {
			s.set(s.rng.Uint64N(uint64(*usageKeys)), 600)
		}
		worst = max(worst, float64(s.Metrics().Tree.LiveBytes)/float64(s.liveBytes()))
	}
	t.Logf("at worst %.2f times what is live is taken to be live", worst)
	if worst > 1.6 {
		t.Errorf("%.2f times what is live is taken to be live", worst)
	}
}

// After 9 of 10 keys are deleted their disk space is freed without a call, also if
// the deletes fill only part of a memtable. The keys stay deleted.
func TestDiskUseAfterDeletes(t *testing.T) {
	t.Parallel()
	s := newDiskUse(t, brock.Maintenance{IdleAfter: 50 * time.Millisecond})
	s.load()
	for i := range uint64(*usageKeys) {
		if i%10 == 0 {
			continue
		}
		if err := s.Delete(usageKey(i)); err != nil {
			t.Fatal(err)
		}
		delete(s.live, i)
	}
	s.shrunk()
	err := s.View(func(txn *brock.Txn) error {
		n := 0
		for item, err := range txn.All() {
			if err != nil {
				return err
			}
			v, err := item.Value()
			if err != nil {
				return err
			}
			if want := s.live[binary.BigEndian.Uint64(item.Key())]; len(v) != want {
				t.Errorf("key %x has %d bytes, want %d", item.Key(), len(v), want)
			}
			n++
		}
		if n != len(s.live) {
			t.Errorf("%d keys, want %d", n, len(s.live))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The disk space of garbage is freed also if all keys fit in one memtable.
func TestDiskUseOfOneMemtable(t *testing.T) {
	t.Parallel()
	s := newDiskUse(t, brock.Maintenance{IdleAfter: 50 * time.Millisecond})
	for range 1000 {
		s.set(1, 64<<10)
	}
	s.shrunk()
}

// A store that is opened and left alone collects the garbage that it was closed
// with: of values in segments that runs name, and in the journal.
func TestDiskUseAfterReopening(t *testing.T) {
	t.Parallel()
	never := brock.Maintenance{IdleAfter: time.Hour, GarbageRatio: 4}
	for _, where := range []string{"runs", "journal"} {
		t.Run(where, func(t *testing.T) {
			// Compactions that run beside slow sets may find the garbage before Close.
			s := closeWithGarbage(t, never, where == "runs")
			for range 10 {
				if s.ratio() >= 1.75 {
					break
				}
				s = closeWithGarbage(t, never, where == "runs")
			}
			if s.ratio() < 1.75 {
				t.Fatalf("closed with %.2f times what is live: there is nothing to find", s.ratio())
			}
			s.open(brock.Maintenance{IdleAfter: 50 * time.Millisecond})
			s.shrunk()
		})
	}
}

// closeWithGarbage closes a store in which 7 of 8 values were replaced, with the new ones in the journal
// or, if flush is set, mostly in runs.
func closeWithGarbage(t *testing.T, m brock.Maintenance, flush bool) *diskUse {
	t.Helper()
	s := newDiskUse(t, m)
	s.load()
	if err := s.Compact(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i := range *usageKeys {
		if i%8 != 0 { // new segments are live, old ones are garbage
			s.set(uint64(i), usageValue)
		}
		if flush && i%(*usageKeys/3) == 0 {
			if err := s.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

// The disk space that a long reader has pinned is freed when it ends, without a
// later write.
func TestDiskUseAfterALongReader(t *testing.T) {
	t.Parallel()
	s := newDiskUse(t, brock.Maintenance{IdleAfter: 50 * time.Millisecond})
	s.load()
	reader := s.NewTransaction(false)
	defer reader.Discard()
	read := func() {
		n := 0
		for item, err := range reader.All() {
			if err != nil {
				t.Fatal(err)
			}
			if v, err := item.Value(); err != nil || len(v) != usageValue {
				t.Fatalf("key %x: %d bytes, %v", item.Key(), len(v), err)
			}
			n++
		}
		if n != *usageKeys {
			t.Errorf("the reader has %d keys, want %d", n, *usageKeys)
		}
	}
	read()
	kept := s.liveBytes()
	for i := range uint64(*usageKeys) {
		s.set(i, usageValue)
	}
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for m := s.Metrics().Tree; m.PinnedBytes < kept/2; m = s.Metrics().Tree { // until only the reader keeps garbage
		<-look.C
	}
	if s.ratio() < 1.75 {
		t.Errorf("the files take %.2f times what is live, and a reader keeps as much again", s.ratio())
	}
	read()
	reader.Discard()
	s.shrunk()
}

// Reclaim leaves little garbage, and returns how many bytes it has freed.
func TestReclaim(t *testing.T) {
	t.Parallel()
	s := newDiskUse(t, brock.Maintenance{GarbageRatio: 1, IdleAfter: time.Hour})
	s.load()
	for i := range uint64(*usageKeys) {
		if i%3 == 0 {
			s.set(i, 1000)
		}
	}
	if err := s.Compact(context.Background()); err != nil {
		t.Fatal(err)
	}
	before := s.disk()
	freed, err := s.Reclaim(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got := before - s.disk(); got < freed*9/10 || freed == 0 || s.ratio() > 1.25 {
		t.Errorf("freed %d, disk shrank by %d to %.2f times live:\n%s", freed, got, s.ratio(), s.Metrics())
	}
	if m := s.Metrics().Tree; m.Collections == 0 || m.CollectedBytes == 0 || m.ForwardingBytes != 0 {
		t.Errorf("%+v", m)
	}
	if err := s.Verify(context.Background(), nil); err != nil {
		t.Error(err)
	}
}

// When Reclaim returns its bound holds, also if background work collects at the same
// time.
func TestReclaimBesideBackgroundWork(t *testing.T) {
	t.Parallel()
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	for round := range rounds {
		db := assert.Must(brock.Open(brock.Options{InMemory: true, MemoryLimit: 8 << 20, Tuning: brock.Tuning{MemtableSize: 128 << 10, SegmentSize: 64 << 10, RunFileSize: 256 << 10}}))
		w := db.NewWriter(t.Context())
		const n = 12_000
		for i := range n {
			assert.OK(t, w.Set(fmt.Appendf(nil, "key%06d", i*7919%n), storetest.RandomBytes(i, 1000)))
		}
		for i := range n {
			if i%10 != 0 {
				assert.OK(t, w.Delete(fmt.Appendf(nil, "key%06d", i)))
			}
		}
		assert.OK(t, w.Close())
		assert.Must(db.Reclaim(t.Context()))
		m := db.Metrics().Tree
		if files, bound := m.SegmentBytes+m.RunBytes+m.ForwardingBytes, m.LiveBytes*6/5+256<<10; files > bound {
			t.Errorf("round %d: %d bytes of files, at most %d are allowed for %d that are live", round, files, bound, m.LiveBytes)
		}
		assert.OK(t, db.Close())
	}
}

// Several collections run beside writers, deletes and long readers. A read always
// returns a value of its key, and in the end the last one.
func TestReclaimBesideEverything(t *testing.T) {
	t.Parallel()
	s := newDiskUse(t, brock.Maintenance{GarbageRatio: 0.1, IdleAfter: 20 * time.Millisecond})
	const keys, writers = 400, 2
	value := func(key, round uint64) []byte {
		v := binary.BigEndian.AppendUint64(usageKey(key), round)
		return append(v, make([]byte, 600+key%7*500)...)
	}
	last := make([]uint64, keys) // round of the last write; 0 = deleted. Each key has one writer.
	done := make(chan struct{})
	var writing, others sync.WaitGroup
	for w := range uint64(writers) {
		writing.Go(func() {
			rng := rand.New(rand.NewPCG(w, 9))
			for round := uint64(1); round <= 6000; round++ {
				key := rng.Uint64N(keys/writers)*writers + w
				err := error(nil)
				if rng.IntN(5) == 0 {
					err, last[key] = s.Delete(usageKey(key)), 0
				} else {
					err, last[key] = s.Set(usageKey(key), value(key, round)), round
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	others.Go(func() {
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			if _, err := s.Reclaim(context.Background()); err != nil {
				t.Error(err)
				return
			}
		}
	})
	check := func() error {
		return s.View(func(txn *brock.Txn) error {
			for range 2 { // the second time from files that were replaced since
				for item, err := range txn.All() {
					if err != nil {
						return err
					}
					v, err := item.Value()
					if err != nil {
						return err
					}
					key := binary.BigEndian.Uint64(item.Key())
					if !bytes.Equal(v, value(key, binary.BigEndian.Uint64(v[8:]))) {
						t.Errorf("key %d has a value of key %d", key, binary.BigEndian.Uint64(v))
					}
				}
			}
			return nil
		})
	}
	others.Go(func() {
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			if err := check(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	writing.Wait()
	close(done)
	others.Wait()
	for key, round := range last {
		v, err := s.Get(usageKey(uint64(key)))
		if round == 0 && !errors.Is(err, brock.ErrKeyNotFound) || round != 0 && (err != nil || !bytes.Equal(v, value(uint64(key), round))) {
			t.Errorf("key %d, last written in round %d: %d bytes, %v", key, round, len(v), err)
		}
	}
	if err := s.Verify(context.Background(), nil); err != nil {
		t.Error(err)
	}
	if s.Metrics().Tree.Collections == 0 {
		t.Error("nothing was collected")
	}
}

// The disk space of a dropped keyspace is freed without a call or a further write,
// also if the store was closed, or killed, right after the drop.
func TestDiskUseAfterDrop(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"", "close", "crash"} {
		for _, size := range []int{100, usageValue} { // inline and separated
			t.Run(fmt.Sprintf("%s/%d", end, size), func(t *testing.T) {
				s := newDiskUse(t, brock.Maintenance{IdleAfter: 100 * time.Millisecond})
				ks := storetest.OpenKeyspace(t, s.DB, "dropped")
				for i := range uint64(*usageKeys * usageValue / size / 3) {
					if err := ks.Set(usageKey(i), make([]byte, size)); err != nil {
						t.Fatal(err)
					}
					if i%8 == 0 && i/8 < uint64(*usageKeys)/8 {
						s.set(i, usageValue)
					}
				}
				before := s.disk()
				assert.OK(t, ks.Drop(t.Context()))
				if end != "" {
					fs := s.fs
					if end == "crash" {
						fs = fs.CrashClone(vfs.CrashOptions{})
					}
					o := s.Options()
					assert.OK(t, s.Close())
					o.FS, s.fs = fs, fs
					db, err := brock.Open(o)
					assert.OK(t, err)
					t.Cleanup(func() { _ = db.Close() })
					s.DB = db
					if end == "crash" { // loses what was not synced before the drop
						s.live = map[uint64]int{}
						assert.OK(t, db.View(func(txn *brock.Txn) error {
							for item, err := range txn.All() {
								assert.OK(t, err)
								s.live[binary.BigEndian.Uint64(item.Key())] = int(item.ValueSize())
							}
							return nil
						}))
					}
				}
				s.shrunkWithin(6 << 20)
				t.Logf("%d MB before, %d MB after", before>>20, s.disk()>>20)
			})
		}
	}
}
