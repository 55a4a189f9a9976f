package segment

import (
	"errors"
	"io"
	"testing"

	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/test/faultfs"
)

// Whatever the lengths of frames: each byte is read once, in order. It was asked for before,
// once, and 512 KiB ahead of what is read at least.
func TestFramesAreReadOnceAndAskedForAhead(t *testing.T) {
	forms(t, testFramesAreReadOnceAndAskedForAhead)
}

func testFramesAreReadOnceAndAskedForAhead(t *testing.T, testConfig func(testing.TB) Config) {
	cfg := testConfig(t)
	w := must(Create(cfg, Header{Kind: filename.Journal, Number: 3}))(t)
	lengths := []int{100, 1 << 20, 300 << 10, 5000, 64, 3 << 20}
	for i := range 300 {
		must(w.Append(journalFrame(i, lengths[i%len(lengths)]/(1+i/6), true)))(t)
	}
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
	const ahead = 512 << 10
	read, asked := int64(0), int64(HeaderSize)
	cfg.FS = faultfs.New(cfg.FS, faultfs.Options{Before: func(o faultfs.Op) {
		switch o.Kind {
		case faultfs.ReadStart:
			if o.Offset != max(asked, read) {
				t.Errorf("asks for what is at %d behind %d, read to %d", o.Offset, asked, read)
			}
			asked = o.Offset + o.Len
		case faultfs.Read:
			if o.Offset == 0 { // the header
				return
			}
			if read > 0 && (o.Offset != read || asked < min(read+ahead, w.End())) {
				t.Errorf("reads at %d, read to %d, asked to %d", o.Offset, read, asked)
			}
			read = o.Offset + o.Len
		}
	}})
	r := must(openAny(cfg, filename.Journal, 3, OpenOptions{End: w.End(), NoMap: true}))(t)
	defer r.Close()
	n := 0
	for s := r.Frames(true); ; n++ {
		if _, err := s.Next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n != 300 || read != w.End() || asked != w.End() {
		t.Errorf("%d frames of 300, read to %d, asked to %d, want %d", n, read, asked, w.End())
	}
}
