package engine

import (
	"errors"
	"testing"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/vfs"
)

// Work that goes on for long holds a View, but no version: what is flushed
// meanwhile keeps no more history for it.
func TestWorkHoldsNoVersion(t *testing.T) {
	s := newStore(t, vfs.NewMem(), nil)
	defer s.close()
	s.must(s.commit(false, set("a", []byte("1"))))
	work, err := s.engine.views.Hold()
	s.must(err)
	defer work.Release()
	s.must(s.commit(false, set("a", []byte("2"))))
	s.must(s.commit(false, set("a", []byte("3"))))
	s.flush()
	if n := s.engine.views.Current().Layout.Runs()[0].Entries; n != 1 {
		t.Errorf("%d entries were kept", n)
	}
	if r := s.engine.views.LongReader(); r.Version != 0 {
		t.Errorf("a reader of version %d is counted", r.Version)
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
	if _, err := s.engine.Views.Acquire(4); !errors.Is(err, errs.ErrInvalid) {
		t.Errorf("a version to come: %v", err)
	}
	s.pin(2).Release()
	s.flush()
	if _, err := s.engine.Views.Acquire(2); !errors.Is(err, errs.ErrVersionGone) {
		t.Errorf("a version gone: %v", err)
	}
	if r := s.engine.views.LongReader(); r.Version != 0 {
		t.Errorf("a reader of version %d is left of refused ones", r.Version)
	}
	s.pin(3).Release()
}

// A release only looks for work if it may have been the one waited for.
func TestReleaseOfAYoungPinLooksForNothing(t *testing.T) {
	s := newStore(t, vfs.NewMem(), nil)
	defer s.close()
	s.must(s.commit(false, set("a", []byte("1"))))
	old := s.pin(0)
	s.flush()
	for { // what the flush has kicked
		if _, ok, _ := s.engine.cfg.Jobs.Step(); !ok {
			break
		}
	}
	s.pin(0).Release()
	if waiting := s.engine.cfg.Jobs.Waiting(); len(waiting) > 0 {
		t.Errorf("the young pin kicked %v", waiting)
	}
	old.Release()
	if waiting := s.engine.cfg.Jobs.Waiting(); len(waiting) != 1 {
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
	hold, err := s.engine.views.Hold()
	s.must(err)
	files, release := hold.HoldPart(func(part *view.View) { part.Tables = nil })
	held := s.engine.views.Current().Tables[0]
	var passed []*view.Table
	for range 20 {
		s.must(s.commit(false, set("a", []byte("new"))))
		passed = append(passed, s.engine.views.Current().Tables[0])
		s.flush()
	}
	s.engine.views.ReclaimViews()
	for i, m := range passed[1:] { // the first is the one that the reader reads
		if m.Len() != 0 {
			t.Errorf("memtable %d was flushed and is still in memory", i+1)
		}
	}
	if e, _, found := s.lookup(reader, "a"); !found || string(e) != "old" || held.Len() == 0 {
		t.Errorf("the reader finds %q, %v", e, found)
	}
	if n, _ := s.engine.views.CountMemtables(); n > 3 {
		t.Errorf("%d memtables are in memory", n)
	}
	reader.Release()
	s.engine.views.ReclaimViews()
	if held.Len() != 0 {
		t.Error("work on files keeps a memtable")
	}
	if len(files.Tables) != 0 {
		t.Error("work on files has memtables")
	}
	release()
	s.engine.views.ReclaimViews()
	if n, _ := s.engine.views.CountMemtables(); n != 1 {
		t.Errorf("%d memtables are in memory once nobody reads", n)
	}
}
