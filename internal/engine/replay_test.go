package engine

import (
	"fmt"
	"math"
	"testing"

	"github.com/brockdb/brock/internal/lsm/memtable"
	"github.com/brockdb/brock/vfs"
)

// A replay seals memtables where the leader did, by what they hold and by how much of
// the journal that is.
func TestReplaySealsAsTheLeader(t *testing.T) {
	for _, limits := range []struct {
		name            string
		memtable, total int
	}{
		{"memory", 9_000, 1 << 30},
		{"journal", 1 << 30, 9_000},
	} {
		t.Run(limits.name, func(t *testing.T) {
			mem := vfs.NewMem()
			s := newStore(t, mem, func(s *store) {
				s.cfg.MemtableBytes, s.cfg.JournalBytes, s.cfg.SegmentBytes = limits.memtable, int64(limits.total), 2_000
			})
			for i := range 300 {
				s.must(s.commit(false, set(fmt.Sprint("k", i), bulk("v", 50+20*(i%2)))))
			}
			s.must(s.engine.unflushed.journal.Sync())
			tables := func() (sizes []int) {
				for _, m := range s.engine.views.Current().Tables {
					sizes = append(sizes, m.Len())
				}
				return sizes
			}
			before, inTable := tables(), s.engine.views.Current().Active().JournalBytes
			s.fs = mem.CrashClone(vfs.CrashOptions{})
			s.must(s.engine.Close())
			s.mustOpen()
			if after := tables(); len(before) < 3 || fmt.Sprint(after) != fmt.Sprint(before) || s.engine.views.Current().Active().JournalBytes != inTable {
				t.Errorf("entries of the memtables: %v, before the crash %v; journal bytes of the last: %d, before %d", after, before, s.engine.views.Current().Active().JournalBytes, inTable)
			}
			s.close()
		})
	}
}

// A memtable is sealed before records that it might have no room for, whatever the
// limits are.
func TestMemtableIsSealedBeforeItIsFull(t *testing.T) {
	s := newStore(t, vfs.NewMem(), func(s *store) { s.cfg.MemtableBytes, s.cfg.JournalBytes = math.MaxInt, math.MaxInt })
	defer s.close()
	s.must(s.commit(false, set("k", bulk("v", 1000))))
	m := s.engine.views.Current().Active()
	for n, want := range map[int64]bool{0: false, 1 << 30: false, memtable.MaxBytes - m.Bytes() - 1: false, memtable.MaxBytes - m.Bytes(): true, 1 << 40: true} {
		if m.IsFull(n) != want {
			t.Errorf("a memtable of %d bytes is full before %d more: %v", m.Bytes(), n, !want)
		}
	}
}
