package engine

import (
	"fmt"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/txn/commit"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/vfs"
)

// A keyspace can be made at any moment, also between the edit of a Spill and the
// publication of its version.
func TestCreateKeyspaceBesideASpill(t *testing.T) {
	s := newStore(t, vfs.NewMem(), nil)
	defer s.close()
	if err := s.commit(true, set("a", []byte("1"))); err != nil {
		t.Fatal(err)
	}
	spill := s.newSpill()
	defer spill.Discard()
	record := entry.AppendRecord(nil, &entry.Entry{Key: []byte("b"), Value: []byte("2"), Kind: entry.Set}, false)
	if err := spill.Add(t.Context(), record, 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := spill.Prepare(t.Context(), commit.Check{}); err != nil {
		t.Fatal(err)
	}
	v := s.last + 1
	if err := spill.Commit(v, commit.Check{}); err != nil {
		t.Fatal(err)
	}
	k, err := s.engine.Keyspaces.Create(s.engine.Views.Visible()+1, "early", layout.KeyspaceOptions{Versions: 1})
	if err != nil {
		t.Fatalf("before the version of the spill is published: %v", err)
	}
	if last := s.engine.views.Current().Layout.LastVersion(); last != v {
		t.Fatalf("last version %d, want %d", last, v)
	}
	if floor := s.engine.views.Current().Layout.Keyspace(k.ID).Floor(); floor >= v {
		t.Fatalf("a floor of %d is above what is published", floor)
	}
	s.engine.Commits.Publish(v)
}

// To drop a keyspace takes no look at what is in memory, which would have to be
// sorted for it; what is left there is known when the store rests.
func TestDropLeavesTheMemtableUnsorted(t *testing.T) {
	s := newStore(t, vfs.NewMem(), nil)
	defer s.close()
	k, err := s.engine.Keyspaces.Create(s.engine.Views.Visible()+1, "short-lived", layout.KeyspaceOptions{Versions: 1})
	s.must(err)
	const n, size = 500, 100
	var ops []op
	for i := range n {
		ops = append(ops, set(string(entry.AppendKeyspace(nil, k.ID))+fmt.Sprintf("k%03d", i), bulk("v", size)), set(fmt.Sprintf("\x00k%03d", i), nil))
	}
	s.must(s.commit(false, ops...))
	active := s.engine.views.Current().Active()
	if left := s.engine.views.DroppedFrom(active); left != 0 {
		t.Errorf("%d bytes are of dropped keyspaces before the drop", left)
	}
	s.must(s.commit(false, ops...))
	sorted := active.Between(nil, nil)
	s.must(s.engine.Keyspaces.Drop(s.engine.Views.Visible()+1, k.ID))
	if got := active.Between(nil, nil); got != sorted {
		t.Errorf("the drop has sorted %d entries", got-sorted)
	}
	if left := s.engine.views.DroppedFrom(active); left < n*size {
		t.Errorf("%d bytes are left in memory, want %d at least", left, n*size)
	}
}
