package space

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/vfs"
)

// boundedStore is a store that one way of writing overwrites again and again.
type boundedStore struct {
	*brock.DB
	t *testing.T
	o brock.Options
}

const (
	wayKeys = 1000
	wayIdle = time.Hour // the clock is that of synctest
)

func boundedKey(i int) []byte { return fmt.Appendf(nil, "key%06d", i) }

// boundedValue is inline, and of every eighth key it is in a segment.
func boundedValue(i, round int) []byte {
	n := 200
	if i%8 == 0 {
		n = 2000
	}
	return fmt.Appendf(make([]byte, 0, n), "%0*d", n, round)
}

// each calls set for all keys and values of a round.
func (s *boundedStore) each(round int, set func(key, value []byte) error) {
	s.t.Helper()
	for i := range wayKeys {
		assert.OK(s.t, set(boundedKey(i), boundedValue(i, round)))
	}
}

// transaction writes a round in one transaction of at most this much memory, with
// what more does.
func (s *boundedStore) transaction(round int, memory int64, more func(txn *brock.Txn) error) {
	s.t.Helper()
	txn := assert.Must(s.Begin(context.Background(), brock.TxnOptions{Update: true, MaxMemory: memory}))
	if more != nil {
		assert.OK(s.t, more(txn))
	}
	s.each(round, txn.Set)
	assert.OK(s.t, txn.Commit())
}

func (s *boundedStore) writer(w *brock.Writer, round int) {
	s.t.Helper()
	s.each(round, w.Set)
	assert.OK(s.t, w.Close())
}

func (s *boundedStore) keyspace(name string) *brock.Keyspace { return assert.Must(s.Keyspace(name)) }

// writers are all ways of writing: each writes all keys anew, or takes them away.
var writers = map[string]func(s *boundedStore, round int){
	"Set": func(s *boundedStore, round int) { s.each(round, s.Set) },
	"Delete": func(s *boundedStore, round int) {
		s.each(round, s.Set)
		s.each(round, func(k, _ []byte) error { return s.Delete(k) })
	},
	"Batch": func(s *boundedStore, round int) {
		b := s.NewBatch()
		s.each(round, b.Set)
		assert.Must(b.Commit(context.Background(), 0))
	},
	"BatchSet": func(s *boundedStore, round int) {
		var entries []*brock.Entry
		s.each(round, func(k, v []byte) error { entries = append(entries, brock.NewEntry(k, v)); return nil })
		assert.OK(s.t, s.BatchSet(entries))
	},
	"CompareAndSet": func(s *boundedStore, round int) {
		s.each(round, func(k, v []byte) error {
			version := uint64(0)
			assert.OK(s.t, s.View(func(txn *brock.Txn) error {
				if it, err := txn.Get(k); err == nil {
					version = it.Version()
				}
				return nil
			}))
			return s.CompareAndSet(k, v, version)
		})
	},
	"Writer": func(s *boundedStore, round int) { s.writer(s.NewWriter(context.Background()), round) },
	"Txn":    func(s *boundedStore, round int) { s.transaction(round, 0, nil) },
	"Txn that spills": func(s *boundedStore, round int) {
		s.transaction(round, 16<<10, nil)
	},
	"Txn that spills range deletes": func(s *boundedStore, round int) {
		s.transaction(round, 16<<10, func(txn *brock.Txn) error { return txn.DeleteRange([]byte("key"), []byte("kez")) })
	},
	"DeleteRange": func(s *boundedStore, round int) {
		s.writer(s.NewWriter(context.Background()), round)
		assert.OK(s.t, s.DeleteRange([]byte("key"), []byte("kez")))
	},
	"DropPrefix": func(s *boundedStore, round int) {
		s.writer(s.NewWriter(context.Background()), round)
		assert.OK(s.t, s.DropPrefix(context.Background(), []byte("key")))
	},
	"DropAll": func(s *boundedStore, round int) {
		s.writer(s.NewWriter(context.Background()), round)
		assert.OK(s.t, s.DropAll(context.Background()))
	},
	"SetEntry with a TTL": func(s *boundedStore, round int) {
		w := s.NewWriter(context.Background())
		s.each(round, func(k, v []byte) error { return w.SetEntry(brock.NewEntry(k, v).WithTTL(time.Minute)) })
		assert.OK(s.t, w.Close())
	},
	"Keyspace": func(s *boundedStore, round int) { s.writer(s.keyspace("k").NewWriter(context.Background()), round) },
	"Keyspace.Drop": func(s *boundedStore, round int) {
		ks := s.keyspace(fmt.Sprint("k", round))
		s.writer(ks.NewWriter(context.Background()), round)
		assert.OK(s.t, ks.Drop(context.Background()))
	},
	"Keyspace.Clear": func(s *boundedStore, round int) {
		ks := s.keyspace("k")
		s.writer(ks.NewWriter(context.Background()), round)
		assert.OK(s.t, ks.Clear(context.Background()))
	},
	"Flush": func(s *boundedStore, round int) {
		for i := range 20 {
			assert.OK(s.t, s.Set(boundedKey(i), boundedValue(i, round)))
			assert.OK(s.t, s.Flush(context.Background()))
		}
	},
	"Open": func(s *boundedStore, round int) {
		s.writer(s.NewWriter(context.Background()), round)
		assert.OK(s.t, s.Close())
		s.DB = assert.Must(brock.Open(s.o))
	},
}

// live is what all entries take, about.
func (s *boundedStore) live() (n int64) {
	add := func(txn *brock.Txn) error {
		for it, err := range txn.All() {
			assert.OK(s.t, err)
			n += int64(len(it.Key())) + it.ValueSize() + 64
		}
		return nil
	}
	assert.OK(s.t, s.View(add))
	for ks := range s.Keyspaces() {
		assert.OK(s.t, ks.View(add))
	}
	return n
}

// Work follows from the state of a store, not from who remembered to ask for it: in
// whatever way it is written to, it comes to rest within its bounds.
func TestEveryWayOfWritingComesToRest(t *testing.T) {
	rounds := 8
	if testing.Short() || process.RaceEnabled {
		rounds = 5
	}
	for name, write := range writers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fs := vfs.NewMem()
				s := &boundedStore{t: t, o: brock.Options{
					Dir: "/s", FS: fs, Durability: brock.Buffered, Maintenance: brock.Maintenance{IdleAfter: wayIdle},
					Tuning: brock.Tuning{MemtableSize: 64 << 10, SegmentSize: 256 << 10, RunFileSize: 256 << 10},
				}}
				s.DB = assert.Must(brock.Open(s.o))
				for round := range rounds {
					write(s, round)
				}
				// All that is to be done at once is done when nothing moves any more.
				synctest.Wait()
				if m := s.Metrics().Tree; m.Runs > 6 || m.Memtables > 1 {
					t.Errorf("before the idle compaction: %d runs and %d memtables", m.Runs, m.Memtables)
				}
				time.Sleep(3 * wayIdle)
				synctest.Wait()
				m, live := s.Metrics().Tree, s.live()
				// Less than 1 MB of dropped keyspaces is not worth a compaction.
				if m.Runs > 1 || m.RunBytes > live+live/4+1<<20 {
					t.Errorf("at rest: %d runs of %d bytes, where %d are live", m.Runs, m.RunBytes, live)
				}
				if used := fs.Used(); used > live+live/4+9<<20 {
					t.Errorf("at rest: files of %d bytes, where %d are live", used, live)
				}
				assert.OK(t, s.Verify(context.Background(), nil))
				assert.OK(t, s.Close())
			})
		})
	}
}
