package tree

import (
	"testing"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/manifest"
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
	spill := s.tree.NewSpill()
	defer spill.Discard()
	record := entry.AppendRecord(nil, &entry.Entry{Key: []byte("b"), Value: []byte("2"), Kind: entry.Set}, false)
	if err := spill.Add(t.Context(), record, 1, nil); err != nil {
		t.Fatal(err)
	}
	if err := spill.Prepare(t.Context(), func(Changes) error { return nil }); err != nil {
		t.Fatal(err)
	}
	v := s.last + 1
	if err := spill.Commit(v, nil); err != nil {
		t.Fatal(err)
	}
	k, err := s.tree.CreateKeyspace("early", manifest.KeyspaceOptions{Versions: 1})
	if err != nil {
		t.Fatalf("before the version of the spill is published: %v", err)
	}
	if last := s.tree.layout().LastVersion(); last != v {
		t.Fatalf("last version %d, want %d", last, v)
	}
	if floor := s.tree.layout().Keyspace(k.ID).Floor(); floor >= v {
		t.Fatalf("a floor of %d is above what is published", floor)
	}
	s.tree.Publish(v)
}
