package read

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// TestAppendValue: values of all kinds are appended, and go to the caller's memory if it has room.
func TestAppendValue(t *testing.T) {
	for _, keys := range []brock.KeyProvider{nil, brock.StaticKey(make([]byte, 32))} {
		for _, compression := range []brock.Compression{brock.NoCompression, brock.S2} {
			db := storetest.Open(t, brock.Options{Keys: keys, KeyspaceDefaults: brock.KeyspaceOptions{Compression: compression, ValueThreshold: 512}})
			sizes := []int{0, 1, 100, 600, 5000, 70_000, 300_000}
			for flushed := range 2 {
				for _, n := range sizes {
					key, value := fmt.Appendf(nil, "%d", n), bytes.Repeat([]byte("value "), n/6+1)[:n]
					assert.OK(t, db.Set(key, value))
					if flushed == 1 {
						assert.OK(t, db.Flush(t.Context()))
					}
					for _, front := range []string{"", "front"} {
						for _, room := range []int{0, n - 1, n, n + 100_000} {
							dst := append(make([]byte, 0, len(front)+max(0, room)), front...)
							got := assert.Must(db.AppendValue(dst, key))
							if string(got) != front+string(value) {
								t.Fatalf("value of %d bytes behind %q: %d bytes", n, front, len(got))
							}
							if room >= n && n > 0 && &got[0] != &dst[:1][0] {
								t.Errorf("value of %d bytes: not in the memory of %d", n, cap(dst))
							}
						}
					}
				}
			}
			got, err := db.AppendValue([]byte("front"), []byte("absent"))
			assert.Error(t, "absent", err, brock.ErrKeyNotFound)
			assert.Equal(t, "absent", string(got), "front")
		}
	}
}
