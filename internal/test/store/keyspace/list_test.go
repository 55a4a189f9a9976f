package keyspace

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// TestKeyspacesAreListedAtOneMoment: while one keyspace takes the place of another, each list has one
// of the two at least.
func TestKeyspacesAreListedAtOneMoment(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	for i := range 50 { // so that a list takes a moment
		storetest.OpenKeyspace(t, db, fmt.Sprintf("other%02d", i))
	}
	storetest.OpenKeyspace(t, db, "turn0000")
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	writers.Go(func() {
		defer close(done)
		for i := 1; i < 200; i++ {
			storetest.OpenKeyspace(t, db, fmt.Sprintf("turn%04d", i))
			assert.OK(t, storetest.OpenKeyspace(t, db, fmt.Sprintf("turn%04d", i-1)).Drop(t.Context()))
		}
	})
	for range 2 {
		readers.Go(func() {
			for {
				var turns []string
				for ks := range db.Keyspaces() {
					if name := ks.Name(); name[:4] == "turn" {
						turns = append(turns, name)
					}
				}
				if len(turns) < 1 || len(turns) > 2 {
					t.Errorf("listed: %q", turns)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	writers.Wait()
	readers.Wait()
}

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
		{"drop", func(t *testing.T, db *brock.DB) error { return storetest.OpenKeyspace(t, db, "gone").Drop(t.Context()) }},
	} {
		t.Run(work.name, func(t *testing.T) {
			db, g := storetest.OpenGated(t)
			storetest.OpenKeyspace(t, db, "gone")
			met, open := g.Shut(syncs)
			defer open()
			held, looked := make(chan error, 1), make(chan struct{})
			go func() { held <- work.call(t, db) }()
			deadline.Receive(t, "the work begins", met)
			go func() {
				defer close(looked)
				ks, err := db.Keyspace("other", storetest.OpenKeyspace(t, db, "other").Options())
				if err != nil {
					t.Error(err)
					return
				}
				value, err := ks.Get([]byte("x"))
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
			assert.OK(t, <-held)
		})
	}
}
