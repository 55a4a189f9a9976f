package journal

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// TestTornTailRule harms each frame of a journal in each way. A frame that
// something proves durable must be missed; any other is cut, with all after it.
func TestTornTailRule(t *testing.T) {
	h := newHistory(t, newDisk(), 1<<20)
	starts, proves := []int64{0}, []uint64{0} // by frame number; what the frame says of those before it
	at := int64(segment.HeaderSize)
	for i := range 14 {
		starts, proves = append(starts, at), append(proves, uint64(h.durable))
		h.must(h.append(0, 10, 300))
		if i%5 == 2 {
			h.sync()
		}
		at = h.j.End().Offset
	}
	n := len(h.groups)
	end := at
	harms := map[string]func(file []byte, start int64) (out []byte, cut bool){
		"header":   func(b []byte, at int64) ([]byte, bool) { b[at+5] ^= 1; return b, false },
		"payload":  func(b []byte, at int64) ([]byte, bool) { b[at+frame.HeaderSize] ^= 1; return b, false },
		"zeros":    func(b []byte, at int64) ([]byte, bool) { clear(b[at : at+frame.HeaderSize+8]); return b, false },
		"cut":      func(b []byte, at int64) ([]byte, bool) { return b[:at], true },
		"cut half": func(b []byte, at int64) ([]byte, bool) { return b[:at+frame.HeaderSize+8], true },
	}
	for k := 1; k <= n; k++ {
		for name, harm := range harms {
			for _, recorded := range []uint64{0, uint64(k - 1), uint64(k), uint64(h.durable)} {
				proven := recorded
				d := h.d.kill()
				node := d.files["db/000002.log"]
				out, cut := harm(node.data[:end], starts[k])
				node.data = out
				if !cut && k < n {
					proven = max(proven, slices.Max(proves[k+1:]))
				}
				what := fmt.Sprintf("frame %d of %d, %s, %d recorded", k, n, name, recorded)
				groups, _, err := readBack(d, Point{}, known(h.d, recorded), true)
				if uint64(k) <= proven {
					if !errors.Is(err, errs.ErrCorrupt) {
						t.Errorf("%s: frame %d had been durable: %v", what, proven, err)
					}
				} else if err != nil || !slices.Equal(groups, h.groups[:k-1]) {
					t.Errorf("%s: %d groups, %v", what, len(groups), err)
				}
			}
		}
	}
}
