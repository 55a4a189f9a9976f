package debug_test

import (
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/debug"
)

// BenchmarkCommit measures Buffered commits without a handler, with one that nobody looks at, and while
// a page shows the first screen or the heat map.
func BenchmarkCommit(b *testing.B) {
	for _, how := range []string{"no handler", "nobody looks", "live", "heat"} {
		b.Run(how, func(b *testing.B) {
			db := openStore(b, brock.Options{})
			if how != "no handler" {
				server := mount(b, debug.Handler(db))
				if how != "nobody looks" {
					first := map[string]string{"live": "state", "heat": "grid"}[how]
					events, _ := look(b, server, how)
					await(b, events, first, func(json.RawMessage) bool { return true })
				}
			}
			for i := 0; b.Loop(); i++ {
				if err := db.Set(fmt.Appendf(nil, "key%08d", i%100000), []byte("value of a usual length, not much")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAnswer measures what the answers of the first screen cost.
func BenchmarkAnswer(b *testing.B) {
	db := openStore(b, brock.Options{})
	w := db.NewWriter(b.Context())
	for i := range 100_000 {
		if err := w.Set(fmt.Appendf(nil, "part%d/key%08d", i%7, i), []byte("value")); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	if err := db.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	server := mount(b, debug.Handler(db))
	for _, name := range []string{"state", "files", "keyspaces", "keys", "sizes", "shape"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				res, err := server.Client().Get(server.URL + "/debug/brock/" + name)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil {
					b.Fatal(err)
				}
				_ = res.Body.Close()
			}
		})
	}
}
