package pageio

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/vfs"
)

// To ask a part for bytes that it doesn't have is an error, also where they are copied;
// and a part that can't be read leaves nothing behind.
func TestPartInPlace(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789abcdef"), 1024)
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, noMap := range []bool{false, true} {
		files := NewFiles(vfs.OS(), 0)
		f, err := files.Open(path, Options{NoMap: noMap})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		s, _, err := f.SumPart(100, 9000)
		if err != nil {
			t.Fatal(err)
		}
		for _, bytesAt := range []func(int64, int) ([]byte, error){s.Bytes, s.Copier().Bytes} {
			if b, err := bytesAt(4000, 500); err != nil || !bytes.Equal(b, text[4100:4600]) {
				t.Errorf("noMap %v: %d bytes, %v", noMap, len(b), err)
			}
			for _, off := range []int64{-1, 8999, 9001, 1 << 40} {
				if _, err := bytesAt(off, 2); !errors.Is(err, errs.ErrCorrupt) {
					t.Errorf("noMap %v: 2 bytes at %d of 9000: %v", noMap, off, err)
				}
			}
		}
		s.Free()
	}
	files := NewFiles(vfs.OS(), 0)
	f, err := files.Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, 5000); err != nil {
		t.Skip(err) // a file that is mapped can't be cut here
	}
	if _, _, err := f.SumPart(0, int64(len(text))); !errors.Is(err, errs.ErrCorrupt) {
		t.Errorf("Sum of a cut file: %v", err)
	}
	if n := len(files.Bits.pages); n != 0 {
		t.Errorf("%d sets of pages stay", n)
	}
}
