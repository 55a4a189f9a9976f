package journal

import (
	"testing"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// TestFits: a segment that was read up to frame 9, from frame 5 on, and where later sessions have
// found the journal's end.
func TestFits(t *testing.T) {
	keyID := crypt.FileKeyID{Cipher: 1}
	end := func(file entry.FileNum, number uint64, sum uint32) frame.End {
		return frame.End{Name: frame.Name{File: file, KeyID: keyID, Number: number, Sum: sum}}
	}
	s := SegmentInfo{Place: segment.Place{End: end(3, 9, 77)}, FirstFrame: 5}
	other := end(3, 12, 1)
	other.KeyID = crypt.FileKeyID{Cipher: 2}
	for _, c := range []struct {
		name string
		end  frame.End
		want bool
	}{
		{"its last frame", end(3, 9, 77), true},
		{"another last frame", end(3, 9, 78), false},
		{"a later frame of it", end(3, 12, 1), true},
		{"a later frame of another file", other, false},
		{"an earlier frame of it", end(3, 8, 1), false},
		{"in a later segment", end(4, 10, 1), true},
		{"in a later segment, too early", end(4, 9, 1), false},
		{"before it", end(2, 4, 1), true},
		{"in an earlier segment, too late", end(2, 5, 1), false},
	} {
		if got := s.canEndAt(c.end); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
