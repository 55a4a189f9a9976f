package store

import (
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/deadline"
)

// TestKeyspaceLookupsWaitForNobody: while a keyspace is made, changed or dropped, and the sync of
// that takes long, the others are found, listed and read.
func TestKeyspaceLookupsWaitForNobody(t *testing.T) {
	syncs := func(op faultfs.Op) bool { return op.Kind&faultfs.Syncs != 0 && strings.Contains(op.Path, "MANIFEST") }
	for _, work := range []struct {
		name string
		call func(t *testing.T, db *brock.DB) error
	}{
		{"make", func(_ *testing.T, db *brock.DB) error { _, err := db.Keyspace("new"); return err }},
		{"change", func(_ *testing.T, db *brock.DB) error {
			_, err := db.Keyspace("gone", brock.KeyspaceOptions{ValueThreshold: 100})
			return err
		}},
		{"drop", func(t *testing.T, db *brock.DB) error { return keyspace(t, db, "gone").Drop(t.Context()) }},
	} {
		t.Run(work.name, func(t *testing.T) {
			db, g := openGated(t)
			keyspace(t, db, "gone")
			met, open := g.shut(syncs)
			defer open()
			held, looked := make(chan error, 1), make(chan struct{})
			go func() { held <- work.call(t, db) }()
			deadline.Receive(t, "the work begins", met)
			go func() {
				defer close(looked)
				ks, err := db.Keyspace("other", keyspace(t, db, "other").Options())
				if err != nil {
					t.Error(err)
					return
				}
				value, err := ks.Get(b("x"))
				if err != nil || string(value) != "y" {
					t.Errorf("the other keyspace has %q, %v", value, err)
				}
				listed := 0
				for ks := range db.Keyspaces() {
					if ks.Name() == "other" {
						listed++
					}
				}
				if listed != 1 {
					t.Errorf("the other keyspace is listed %d times", listed)
				}
			}()
			deadline.Receive(t, "the other keyspace is looked up", looked)
			open()
			must(t, <-held)
		})
	}
}
