package store

import (
	"fmt"
	"sync"
	"testing"

	"github.com/brockdb/brock"
)

// TestKeyspacesAreListedAtOneMoment: while one keyspace takes the place of another, each list has one
// of the two at least.
func TestKeyspacesAreListedAtOneMoment(t *testing.T) {
	db := openTest(t, brock.Options{})
	for i := range 50 { // so that a list takes a moment
		keyspace(t, db, fmt.Sprintf("other%02d", i))
	}
	keyspace(t, db, "turn0000")
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	writers.Go(func() {
		defer close(done)
		for i := 1; i < 200; i++ {
			keyspace(t, db, fmt.Sprintf("turn%04d", i))
			must(t, keyspace(t, db, fmt.Sprintf("turn%04d", i-1)).Drop(t.Context()))
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
