package damage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/vfs"
)

// rotStore is a store over mappings that a test damages after everything was read,
// and verified, once.
type rotStore struct {
	*brock.DB
	t    *testing.T
	o    brock.Options
	fs   *faultfs.FS
	want map[string][]byte

	mu     sync.Mutex
	before func(faultfs.Op) // guarded by mu, which is held while it runs
}

// watch has fn called before each operation on files, by one goroutine at a time.
func (s *rotStore) watch(fn func(faultfs.Op)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = fn
}

func newRotStore(t *testing.T) *rotStore {
	t.Helper()
	s := &rotStore{t: t, want: map[string][]byte{}}
	s.fs = faultfs.New(vfs.OS(), faultfs.Options{OwnMaps: true, Before: func(op faultfs.Op) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.before != nil {
			s.before(op)
		}
	}})
	s.o = brock.Options{Dir: t.TempDir(), FS: s.fs, Durability: brock.Buffered,
		Tuning:      brock.Tuning{MemtableSize: 256 << 10, SegmentSize: 1 << 20, RunFileSize: 1 << 20},
		Maintenance: brock.Maintenance{IdleAfter: time.Hour, NoClustering: true}}
	db, err := brock.Open(s.o)
	assert.OK(t, err)
	s.DB = db
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// rotKeys is how many keys a rotStore has; every third one has a separated value.
const rotKeys = 1500

func rotKey(i int) string { return fmt.Sprintf("key %06d", i) }

// write sets some of the keys: those whose number is i modulo every.
func (s *rotStore) write(i, every, round int) {
	s.t.Helper()
	w := s.NewWriter(context.Background())
	for ; i < rotKeys; i += every {
		n := 60
		if i%3 == 0 {
			n = 800
		}
		value := bytes.Repeat(fmt.Appendf(nil, "%06d %02d ", i, round), n/10)
		s.want[rotKey(i)] = value
		assert.OK(s.t, w.Set([]byte(rotKey(i)), value))
	}
	assert.OK(s.t, w.Close())
}

// read compares every key with what it must be, and returns how many reads failed.
func (s *rotStore) read(what string) (failed int) {
	s.t.Helper()
	for key, want := range s.want {
		got, err := s.Get([]byte(key))
		switch {
		case err != nil:
			failed++
			assert.Error(s.t, what, err, brock.ErrCorrupt)
		case !bytes.Equal(got, want):
			s.t.Fatalf("%s: %s is %.30q, want %.30q", what, key, got, want)
		}
	}
	return failed
}

// sound reads everything, as it must be able to, also after reopening with files
// that nothing damages.
func (s *rotStore) sound(what string) {
	s.t.Helper()
	s.fs.Heal()
	assert.OK(s.t, s.Close())
	o := s.o
	o.FS = vfs.OS()
	db, err := brock.Open(o)
	assert.OK(s.t, err)
	s.DB = db
	assert.Equal(s.t, what+": reads that failed after reopening", s.read(what), 0)
	assert.OK(s.t, s.Verify(context.Background(), nil))
}

// copies are the kinds of work that copy data from one file to another: what they
// copy of a value, how to prepare it, and how to do it.
var copies = []struct {
	name, copied string
	prepare, do  func(s *rotStore) error
}{
	{"flush", "000603 0", func(s *rotStore) error { s.write(0, 1, 1); s.write(0, 2, 2); return nil },
		func(s *rotStore) error { return s.Flush(context.Background()) }},
	{"compaction", "000602 0", func(s *rotStore) error {
		s.write(0, 1, 1)
		assert.OK(s.t, s.Flush(context.Background()))
		s.write(1, 7, 2)
		return s.Flush(context.Background())
	}, func(s *rotStore) error { return s.Compact(context.Background()) }},
	{"collection", "000603 0", func(s *rotStore) error {
		s.write(0, 1, 1)
		assert.OK(s.t, s.Compact(context.Background()))
		s.write(0, 2, 2)
		return s.Compact(context.Background())
	}, func(s *rotStore) error { _, err := s.Reclaim(context.Background()); return err }},
}

// What is copied to a new file was verified in the memory that it is written from.
// Pages that were verified before, and came back from the medium with other
// bytes, are not asked: here all of them have.
func TestNothingIsCopiedFromPagesThatWereVerified(t *testing.T) {
	for _, tc := range copies {
		t.Run(tc.name, func(t *testing.T) {
			s := newRotStore(t)
			assert.OK(t, tc.prepare(s))
			assert.Equal(t, "reads that failed", s.read("before"), 0)
			s.fs.RotMaps("", faultfs.Invert)
			assert.OK(t, tc.do(s))
			s.sound(tc.name)
		})
	}
}

// Data that has rotted since it was verified is not copied: the work fails, and
// what the store has stays as it is.
func TestRotIsNotCopied(t *testing.T) {
	for _, tc := range copies {
		t.Run(tc.name, func(t *testing.T) {
			s := newRotStore(t)
			assert.OK(t, tc.prepare(s))
			assert.Equal(t, "reads that failed", s.read("before"), 0)
			damage := flipIn(tc.copied)
			s.fs.Rot("", damage)
			s.fs.RotMaps("", damage)
			if err := tc.do(s); tc.name != "collection" { // which leaves a damaged segment alone
				assert.Error(t, tc.name, err, brock.ErrCorrupt)
			}
			assert.Error(t, "verify", s.Verify(context.Background(), nil), brock.ErrCorrupt)
			s.sound(tc.name)
		})
	}
}

// Handles are rewritten, and deaths recorded, by forwarding tables that are verified as they are
// read.
func TestForwardingsAreNotBelievedForEver(t *testing.T) {
	s := newRotStore(t)
	s.write(0, 1, 1)
	assert.OK(t, s.Compact(context.Background()))
	s.write(0, 2, 2)
	assert.OK(t, s.Compact(context.Background()))
	maps, rots := 0, 0
	s.watch(func(op faultfs.Op) {
		switch {
		case op.Kind == faultfs.Create && strings.HasSuffix(op.Path, ".map"):
			maps++
		case op.Kind == faultfs.Create && strings.HasSuffix(op.Path, ".run") && maps > 0:
			rots++
			s.fs.RotMaps(".map", faultfs.Invert)
		}
	})
	assert.Must(s.Reclaim(context.Background()))
	if maps == 0 || rots == 0 {
		t.Fatalf("%d forwarding tables were written, and %d runs after them", maps, rots)
	}
	s.watch(nil)
	s.sound("rewriting handles")
}

// Filters are verified again, too: none that has rotted hides a key.
func TestFiltersAreNotBelievedForEver(t *testing.T) {
	process.RequireMappings(t)
	synctest.Test(t, func(t *testing.T) {
		s := newRotStore(t)
		s.write(0, 1, 1)
		assert.OK(t, s.Compact(context.Background()))
		s.write(0, 2, 2)
		assert.OK(t, s.Flush(context.Background()))
		assert.Equal(t, "reads that failed", s.read("before"), 0)
		s.fs.RotMaps("", func(_ int64, p []byte) { clear(p) })
		<-time.After(2 * time.Minute)
		assert.Equal(t, "reads that failed", s.read("later"), rotKeys)
		s.sound("filters")
	})
}

// With VerifyReads no read returns what has rotted since the one before.
func TestVerifyReads(t *testing.T) {
	process.RequireMappings(t)
	for _, damage := range []faultfs.Damage{
		flipIn("000602 0"), flipIn("000603 0"), faultfs.Invert, func(_ int64, p []byte) { clear(p) },
	} {
		s := newRotStore(t)
		assert.OK(t, s.Close())
		s.o.VerifyReads = true
		s.DB = assert.Must(brock.Open(s.o))
		s.write(0, 1, 1)
		assert.OK(t, s.Compact(context.Background()))
		s.write(0, 5, 2)
		assert.OK(t, s.Flush(context.Background()))
		assert.Equal(t, "reads that failed", s.read("before"), 0)
		s.fs.RotMaps("", damage)
		if s.read("later") == 0 {
			t.Error("no read failed")
		}
		assert.OK(t, s.View(func(txn *brock.Txn) error {
			for _, reverse := range []bool{false, true} {
				it := txn.NewIterator(brock.IteratorOptions{Reverse: reverse})
				var err error
				for it.Rewind(); it.Valid() && err == nil; it.Next() {
					var v []byte
					if v, err = it.Item().Value(); err == nil && !bytes.Equal(v, s.want[string(it.Item().Key())]) {
						t.Fatalf("%q has %.30q", it.Item().Key(), v)
					}
				}
				assert.Error(t, "scan", errors.Join(err, it.Close()), brock.ErrCorrupt)
			}
			return nil
		}))
		s.sound("verified reads")
	}
}

// flipIn flips a bit wherever text stands.
func flipIn(text string) faultfs.Damage {
	return func(_ int64, p []byte) {
		for at := bytes.Index(p, []byte(text)); at >= 0; at = bytes.Index(p, []byte(text)) {
			p[at+1] ^= 1
		}
	}
}

// What rots after it was read is found a minute later at most: nothing is believed for
// longer. A store that nobody reads has no timer for this.
func TestRotIsFoundInTime(t *testing.T) {
	process.RequireMappings(t)
	synctest.Test(t, func(t *testing.T) {
		s := newRotStore(t)
		s.write(0, 1, 1)
		assert.OK(t, s.Compact(context.Background()))
		s.write(0, 5, 2)
		assert.OK(t, s.Flush(context.Background()))
		assert.Equal(t, "reads that failed", s.read("before"), 0)
		s.fs.RotMaps("", flipIn("000600 0"))
		s.fs.RotMaps("", flipIn("000602 0"))
		s.fs.RotMaps("", flipIn("000603 0"))
		<-time.After(2 * time.Minute)
		if n := s.read("later"); n < 3 {
			t.Errorf("%d reads failed, want 3 at least", n)
		}
		s.sound("rot in time")
	})
}

// Where damage was found, readers verify again at once.
func TestVerifyEndsTheEpoch(t *testing.T) {
	s := newRotStore(t)
	s.write(0, 1, 1)
	assert.OK(t, s.Compact(context.Background()))
	assert.Equal(t, "reads that failed", s.read("before"), 0)
	for _, text := range []string{"000602 0", "000603 0"} {
		s.fs.Rot("", flipIn(text))
		s.fs.RotMaps("", flipIn(text))
	}
	assert.Error(t, "verify", s.Verify(context.Background(), nil), brock.ErrCorrupt)
	if s.read("after") == 0 {
		t.Error("no read failed")
	}
	s.sound("verified")
}

// A transaction larger than its memory compacts its own files.
func TestSpillsAreNotCopiedFromPagesThatWereVerified(t *testing.T) {
	s := newRotStore(t)
	txn, err := s.Begin(t.Context(), brock.TxnOptions{Update: true, MaxMemory: 4 << 10})
	assert.OK(t, err)
	defer txn.Discard()
	for i := range rotKeys {
		key := rotKey(i)
		s.want[key] = bytes.Repeat([]byte(key), 8)
		assert.OK(t, txn.Set([]byte(key), s.want[key]))
		if i == rotKeys/2 || i == rotKeys-1 {
			for k := i; k > i-rotKeys/3; k-- {
				_, err := txn.Get([]byte(rotKey(k)))
				assert.OK(t, err)
			}
			s.fs.RotMaps(".run", faultfs.Invert)
		}
	}
	assert.OK(t, txn.Commit())
	s.sound("spill")
}
