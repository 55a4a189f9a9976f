package importers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/brockdb/brock"
)

// TestKeyspace: sources come one by one into keyspaces of one store, without a change to what is there.
func TestKeyspace(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	want := make(map[string]*record)
	var all []Options
	for _, name := range []string{"leveldb", "pebble2", "badger4", "badger1"} {
		f := fixtureNamed(t, name)
		o := Options{Peer: f.peer, Source: f.closed(t, dir), Keyspace: name + "/all", Store: brock.Options{Dir: store}, chunkBytes: 100_000}
		s := imports(t, o)
		want[o.Keyspace] = f.want[""]
		if s.Pairs == 0 || s.Keyspaces != 1 || s.Compared.Pairs != s.Pairs {
			t.Errorf("%s: %+v", name, s)
		}
		wantNewest(t, store, want)
		all = append(all, o)
	}
	for _, o := range all {
		if c, err := Compare(t.Context(), o); err != nil || c.Pairs == 0 {
			t.Errorf("%s: %v, %+v", o.Keyspace, err, c)
		}
		if _, err := Import(t.Context(), o); !errors.Is(err, ErrNotEmpty) {
			t.Errorf("%s again: %v", o.Keyspace, err)
		}
		o.Keyspace = "other"
		if c, err := Compare(t.Context(), o); !errors.Is(err, ErrDiffers) || c.Differences != 1 {
			t.Errorf("a keyspace that is not there: %v, %+v", err, c)
		}
		o.Source = filepath.Join(dir, "absent")
		if _, err := Import(t.Context(), o); err == nil {
			t.Error("a source that is not there")
		}
	}
	change(t, store, all[0].Keyspace, func(txn *brock.Txn) error { return txn.Set([]byte("more"), nil) })
	if c, err := Compare(t.Context(), all[0]); !errors.Is(err, ErrDiffers) || c.Differences != 1 {
		t.Errorf("a changed keyspace: %v, %+v", err, c)
	}
	if _, err := os.Stat(store + WorkSuffix); !os.IsNotExist(err) {
		t.Errorf("the directory of an import is left: %v", err)
	}
	for _, o := range []Options{
		{Peer: Bbolt, Source: "s", Keyspace: "k", Store: brock.Options{Dir: store}},
		{Peer: Badger4, Source: "s", Keyspace: "k", History: true, Store: brock.Options{Dir: "new"}},
	} {
		if _, err := Import(t.Context(), o); !errors.Is(err, ErrUsage) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestKeyspaceInterrupted: an import into a keyspace of a store with other data goes on where it was.
func TestKeyspaceInterrupted(t *testing.T) {
	f := fixtureNamed(t, "leveldb")
	dir := t.TempDir()
	o := Options{Peer: f.peer, Source: f.closed(t, dir), Keyspace: "in", Store: brock.Options{Dir: filepath.Join(dir, "store")}, chunkBytes: 50_000}
	first := o
	first.Keyspace = "first"
	imports(t, first)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Progress = func(p Progress) {
		if p.Bytes > 200_000 {
			cancel()
		}
	}
	if _, err := Import(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	if _, err := Import(t.Context(), first); !errors.Is(err, ErrNotEmpty) { // another plan
		t.Errorf("another import meanwhile: %v", err)
	}
	o.Progress = nil
	if s := imports(t, o); !s.Resumed || s.Pairs == s.Compared.Pairs {
		t.Errorf("%+v", s)
	}
	wantNewest(t, o.Store.Dir, map[string]*record{"first": f.want[""], "in": f.want[""]})
}
