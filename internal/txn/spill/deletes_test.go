package spill

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/iterator"
)

// deletes is an iterator over deletes of the keys 0 to n-1.
type deletes struct {
	iterator.Iterator
	n, at uint64
	e     entry.Entry
}

func (d *deletes) move(at uint64) bool {
	d.at = at
	d.e = entry.Entry{Key: binary.BigEndian.AppendUint64(d.e.Key[:0], at), Kind: entry.Delete}
	return at < d.n
}

func (d *deletes) First() bool         { return d.move(0) }
func (d *deletes) Next() bool          { return d.move(d.at + 1) }
func (d *deletes) Entry() *entry.Entry { return &d.e }
func (d *deletes) Close()              {}

// However much a large transaction deletes, few keys of it are kept, and these are spread over all
// of it.
func TestSomeDeletesAreFew(t *testing.T) {
	for _, n := range []uint64{0, 1, 511, 512, 513, 100_000, 512 * (mostSought - 1), 512 * mostSought, 3 << 22, 1 << 24} {
		keys := someDeletes(&deletes{n: n}, n)
		least := min((n+511)/512, mostSought/2)
		if got := uint64(len(keys)); got < least || got >= mostSought {
			t.Errorf("of %d deletes %d keys are kept, not %d to %d", n, got, least, mostSought-1)
		}
		if len(keys) < 2 {
			continue
		}
		step := binary.BigEndian.Uint64(keys[1])
		for i, k := range keys {
			if want := binary.BigEndian.AppendUint64(nil, uint64(i)*step); !bytes.Equal(k, want) {
				t.Fatalf("of %d deletes key %d is %x, not %x", n, i, k, want)
			}
		}
		if covered := uint64(len(keys)) * step; covered < n || covered >= n+step {
			t.Errorf("of %d deletes the keys stand for %d", n, covered)
		}
	}
}
