package chunk

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
)

// The moves that LookAhead knows of lead where it says, and read nothing of the chunk:
// here it is overwritten meanwhile.
func TestKnownMoves(t *testing.T) {
	known := 0
	each(t, 24, func(t *testing.T, rng *rand.Rand, chunks []*built) {
		for _, b := range chunks {
			c := b.open()
			c.Data = bytes.Clone(b.image)
			var it Cursor
			it.Open(c, b.prefix)
			at, ok := 0, it.First()
			for ok && at < len(b.entries) {
				until, least, most := b.entries[rng.IntN(len(b.entries))].Key, entry.Version(0), entry.MaxVersion
				if rng.IntN(2) == 0 {
					until = bytes.Repeat([]byte{0xff}, 8)
				}
				if rng.IntN(4) == 0 {
					least, most = 2, b.entries[at].Version
				}
				n := it.LookAhead(until, least, most)
				known += n
				clear(c.Data)
				got := make([]entry.Entry, n)
				for i := range got {
					if !it.Next() {
						t.Fatalf("move %d of %d: %v", i, n, it.Err())
					}
					got[i] = *it.Entry()
					got[i].Key = bytes.Clone(got[i].Key)
				}
				copy(c.Data, b.image)
				for i := range got {
					e, want := &got[i], &b.entries[at+1+i]
					if !same(e, want) || e.Kind != entry.Set || e.Meta != 0 || e.Expires != 0 || e.Raw != 0 ||
						e.Version < least || e.Version > most || bytes.Compare(e.Key, until) >= 0 {
						t.Fatalf("entry %d of [%d, %d] before %q: %+v, want %+v", at+1+i, least, most, until, e, want)
					}
					if bytes.Equal(e.Key, b.entries[at+i].Key) {
						t.Fatalf("%q was known and is an older version", e.Key)
					}
				}
				at += n
				if rng.IntN(3) == 0 && at > 0 {
					ok = it.Prev()
					at--
					if ok && same(it.Entry(), &b.entries[at]) {
						ok = it.Next()
						at++
					}
				}
				if ok && !same(it.Entry(), &b.entries[at]) {
					t.Fatalf("at %d is %+v, want %+v", at, it.Entry(), &b.entries[at])
				}
				ok = ok && it.Next()
				at++
			}
			if it.Err() != nil || at != len(b.entries) {
				t.Fatalf("the walk ended at %d of %d: %v", at, len(b.entries), it.Err())
			}
			it.Close()
		}
	})
	if known == 0 {
		t.Error("nothing was known")
	}
}
