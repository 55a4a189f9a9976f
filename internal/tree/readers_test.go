package tree

import (
	"errors"
	"runtime"
	"testing"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/hash"
	"github.com/brockdb/brock/vfs"
)

// While the commit leader looks at a View, nothing of it is released.
func TestLeaderHoldsTheViewItReads(t *testing.T) {
	s := newStore(t, vfs.NewMem(), nil)
	defer s.close()
	s.must(s.commit(false, set("a", []byte("1"))))
	v := s.tree.lead()
	s.flush()
	s.tree.reclaim()
	var e entry.Entry
	if !v.tables[0].Get([]byte("a"), hash.Sum(s.tree.cfg.Seed, []byte("a")), entry.MaxVersion, &e) {
		t.Fatal("the memtable that the leader reads was released")
	}
	s.tree.leave(s.tree.leader)
	s.tree.reclaim()
	if v.tables[0].Len() != 0 {
		t.Error("the memtable was not released after the leader had left")
	}
}

// Work that goes on for long holds a View, but no version: what is flushed
// meanwhile keeps no more history for it.
func TestWorkHoldsNoVersion(t *testing.T) {
	s := newStore(t, vfs.NewMem(), nil)
	defer s.close()
	s.must(s.commit(false, set("a", []byte("1"))))
	work, err := s.tree.hold()
	s.must(err)
	defer work.Release()
	s.must(s.commit(false, set("a", []byte("2"))))
	s.must(s.commit(false, set("a", []byte("3"))))
	s.flush()
	if n := s.tree.layout().Runs()[0].Entries; n != 1 {
		t.Errorf("%d entries were kept", n)
	}
	if n := s.tree.Stats().Readers; n != 0 {
		t.Errorf("%d readers are counted", n)
	}
	if _, _, found := s.lookup(work, "a"); !found {
		t.Error("the held View is gone")
	}
}

func TestVersionsThatCannotBeRead(t *testing.T) {
	s := newStore(t, vfs.NewMem(), nil)
	defer s.close()
	for range 3 {
		s.must(s.commit(false, set("a", []byte("1"))))
	}
	if _, err := s.tree.Acquire(4); !errors.Is(err, errs.ErrInvalid) {
		t.Errorf("a version to come: %v", err)
	}
	s.pin(2).Release()
	s.flush()
	if _, err := s.tree.Acquire(2); !errors.Is(err, errs.ErrVersionGone) {
		t.Errorf("a version gone: %v", err)
	}
	if n, _, _, _ := s.tree.views.readers.active(); n != 0 {
		t.Errorf("%d readers are left of refused ones", n)
	}
	s.pin(3).Release()
}

// What a leaked Pin held is released once the collector has found it.
func TestLeakedPinIsFound(t *testing.T) {
	s := newStore(t, vfs.NewMem(), nil)
	defer s.close()
	s.must(s.commit(false, set("a", []byte("1"))))
	old := s.tree.views.current.Load().tables[0]
	leaked := s.pin(0)
	s.flush()
	s.tree.reclaim()
	if old.Len() == 0 {
		t.Fatal("released while the pin was held")
	}
	runtime.KeepAlive(leaked) // and no longer
	found := make(chan struct{})
	s.tree.views.readers.freed = func() { close(found) }
	for wait := true; wait; {
		runtime.GC()
		select {
		case <-found:
			wait = false
		default:
			runtime.Gosched()
		}
	}
	s.tree.reclaim()
	if old.Len() != 0 {
		t.Error("the memtable is still held")
	}
}

// A release only looks for work if it may have been the one waited for.
func TestReleaseOfAYoungPinLooksForNothing(t *testing.T) {
	s := newStore(t, vfs.NewMem(), nil)
	defer s.close()
	s.must(s.commit(false, set("a", []byte("1"))))
	old := s.pin(0)
	s.flush()
	for { // what the flush has kicked
		if _, ok, _ := s.tree.cfg.Jobs.Step(); !ok {
			break
		}
	}
	s.pin(0).Release()
	if waiting := s.tree.cfg.Jobs.Waiting(); len(waiting) > 0 {
		t.Errorf("the young pin kicked %v", waiting)
	}
	old.Release()
	if waiting := s.tree.cfg.Jobs.Waiting(); len(waiting) != 1 {
		t.Errorf("the old pin kicked %v", waiting)
	}
}

// A reader keeps the memtable that it reads and none that came and went after it; work
// on files keeps no memtable at all.
func TestWorkOnFilesKeepsNoMemtable(t *testing.T) {
	s := newStore(t, vfs.NewMem(), nil)
	defer s.close()
	s.must(s.commit(false, set("a", []byte("old"))))
	reader := s.pin(0)
	hold, err := s.tree.hold()
	s.must(err)
	files, release := hold.narrow(func(part *View) { part.tables = nil })
	held := s.tree.views.current.Load().tables[0]
	var passed []*table
	for range 20 {
		s.must(s.commit(false, set("a", []byte("new"))))
		passed = append(passed, s.tree.views.current.Load().tables[0])
		s.flush()
	}
	s.tree.reclaim()
	for i, m := range passed[1:] { // the first is the one that the reader reads
		if m.Len() != 0 {
			t.Errorf("memtable %d was flushed and is still in memory", i+1)
		}
	}
	if e, _, found := s.lookup(reader, "a"); !found || string(e) != "old" || held.Len() == 0 {
		t.Errorf("the reader finds %q, %v", e, found)
	}
	if n := s.tree.Stats().Memory.Tables; n > 3 {
		t.Errorf("%d memtables are in memory", n)
	}
	reader.Release()
	s.tree.reclaim()
	if held.Len() != 0 {
		t.Error("work on files keeps a memtable")
	}
	if len(files.tables) != 0 {
		t.Error("work on files has memtables")
	}
	release()
	s.tree.reclaim()
	if n := s.tree.Stats().Memory.Tables; n != 1 {
		t.Errorf("%d memtables are in memory once nobody reads", n)
	}
}
