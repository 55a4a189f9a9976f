package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// TestTornTailRule harms each frame of a manifest in each way. A frame that
// something proves durable must be missed: the first one, one that SUPER records,
// and one that a later frame follows. Only the last frame may pass for a torn tail.
func TestTornTailRule(t *testing.T) {
	fsys, o, _, _ := filled(t, false)
	o.ReadOnly = true
	const path = "db/MANIFEST-000001"
	whole := get(t, fsys, path)
	starts, sums := []int64{0}, []uint32{0} // by frame number
	_, err := scan(bytes.NewReader(whole), int64(len(whole)), &Super{UUID: testStore.UUID, Manifest: 1}, nil, func(off int64, h *frame.Header, _ []byte) error {
		starts, sums = append(starts, off), append(sums, h.Sum)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	n := len(starts) - 1
	harms := map[string]func(file []byte, start int64) (out []byte, cut bool){
		"header":   func(b []byte, at int64) ([]byte, bool) { b[at+5] ^= 1; return b, false },
		"payload":  func(b []byte, at int64) ([]byte, bool) { b[at+frame.HeaderSize] ^= 1; return b, false },
		"zeros":    func(b []byte, at int64) ([]byte, bool) { clear(b[at : at+frame.HeaderSize+8]); return b, false },
		"cut":      func(b []byte, at int64) ([]byte, bool) { return b[:at], true },
		"cut half": func(b []byte, at int64) ([]byte, bool) { return b[:at+frame.HeaderSize+8], true },
	}
	for k := 1; k <= n; k++ {
		for name, harm := range harms {
			for _, recorded := range []int{0, k - 1, k, n} {
				proven := max(1, recorded)
				out, cut := harm(slices.Clone(whole), starts[k])
				if !cut && k < n {
					proven = max(proven, n-1) // frame n was written after the sync of frame n-1
				}
				put(t, fsys, path, out)
				s := Super{Major: FormatMajor, UUID: testStore.UUID, Manifest: 1, Epoch: 2, Durable: uint64(recorded), Sum: sums[recorded]}
				put(t, fsys, "db/SUPER", append(plainSlot(&s, 0), plainSlot(&s, slotSize)...))
				what := fmt.Sprintf("frame %d of %d, %s, %d recorded", k, n, name, recorded)
				l, err := Open(o)
				if k <= proven {
					if !errors.Is(err, errs.ErrCorrupt) {
						t.Errorf("%s: frame %d had been durable: %v", what, proven, err)
					}
				} else if err != nil || l.Layout().LastVersion() != entry.Version(k-2) {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
	}
}
