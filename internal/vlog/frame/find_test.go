package frame

import (
	"testing"

	"github.com/brockdb/brock/internal/base/checksum"
)

// A header is found wherever it lies between the windows that a search reads, also if some of them
// can't be read.
func TestFind(t *testing.T) {
	id := checksum.New([16]byte{1}, 2, 3)
	for _, at := range []int64{0, 8, 48, 4096, searchWindow - 48, searchWindow - 40, searchWindow, searchWindow + 8, searchWindow + 56, 3*searchWindow - 80} {
		b := make([]byte, 3*searchWindow)
		if at+HeaderSize <= int64(len(b)) {
			(&Header{Kind: Group, Size: 64, Number: 7}).Put(b[at:], id, at)
		}
		for _, bad := range []int64{-1, 8} {
			h, got := FindHeader(id, 0, 0, int64(len(b)), func(off, n int64) []byte {
				if off == bad {
					return nil
				}
				return b[off:][:n]
			})
			switch {
			case bad < 0 && (got != at || h.Number != 7):
				t.Errorf("frame at %d: found at %d, %+v", at, got, h)
			case bad > 0 && got != at && got != int64(len(b)):
				t.Errorf("frame at %d, and %d can't be read: found at %d", at, bad, got)
			}
		}
	}
}
