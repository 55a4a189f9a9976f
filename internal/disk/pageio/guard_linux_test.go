package pageio

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/vfs"
)

// touch reads one byte of the mapping, guarded.
func touch(f *File, off int64) (b byte, err error) {
	defer Guard(Arm(), &err, f.Name())
	return f.Mapped()[off], nil
}

func TestTruncatedFileUnderAMapping(t *testing.T) {
	path := filepath.Join(t.TempDir(), "000007.run")
	if err := os.WriteFile(path, make([]byte, 64<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := NewFiles(vfs.OS(), 0).Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Mapped() == nil {
		t.Skip("no mapping on this platform")
	}
	if _, err := touch(f, 60<<10); err != nil {
		t.Fatalf("before truncation: %v", err)
	}
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	for range 3 { // not just once
		_, err = touch(f, 60<<10)
		var c *errs.Corruption
		if !errors.As(err, &c) || c.File != "000007.run" {
			t.Fatalf("beyond the new end: got %v, want a corruption of 000007.run", err)
		}
	}
	if _, err := touch(f, 100); err != nil {
		t.Errorf("before the new end: %v", err)
	}
	var c *errs.Corruption
	// The system may say that what was cut off is still in memory.
	if err := f.Prime(32<<10, 4096); err != nil && !errors.As(err, &c) {
		t.Errorf("Prime beyond the new end: got %v, want a corruption", err)
	}
}

// Touch meets each page that can't be read, wherever in a page its slice begins and ends.
func TestTouchReadsEachPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "000007.run")
	if err := os.WriteFile(path, make([]byte, 4*PageSize), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := NewFiles(vfs.OS(), 0).Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Mapped() == nil {
		t.Skip("no mapping on this platform")
	}
	last := 3 * int64(os.Getpagesize())
	if last >= f.Size() {
		t.Skip("the file is shorter than four pages")
	}
	if err := os.Truncate(path, last); err != nil {
		t.Fatal(err)
	}
	touched := func(from, to int64) (err error) {
		defer Guard(Arm(), &err, f.Name())
		Touch(f.Mapped()[from:to])
		return nil
	}
	for _, from := range []int64{0, 1, PageSize - 1, PageSize, last - PageSize - 1, last - 1} {
		if err := touched(from, last); err != nil {
			t.Errorf("[%d, %d), which is there: got %v", from, last, err)
		}
		for _, to := range []int64{last + 1, last + 100, last + PageSize} {
			if err := touched(from, to); !errors.Is(err, errs.ErrCorrupt) {
				t.Errorf("[%d, %d), with a page that is gone: got %v, want a corruption", from, to, err)
			}
		}
	}
	if err := touched(last, last); err != nil {
		t.Errorf("nothing: got %v", err)
	}
}

func TestMappingGrowsWithItsFile(t *testing.T) {
	raw, err := vfs.OS().Create(filepath.Join(t.TempDir(), "000001.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	f, err := NewFiles(vfs.OS(), 0).Open(raw.Name(), Options{Size: 1 << 20, Grows: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Mapped() == nil {
		t.Skip("no mapping on this platform")
	}
	if _, err := touch(f, 0); !errors.Is(err, errs.ErrCorrupt) {
		t.Errorf("empty file: got %v, want a corruption", err)
	}
	if _, err := raw.WriteAt([]byte("x"), 100_000); err != nil {
		t.Fatal(err)
	}
	if b, err := touch(f, 100_000); err != nil || b != 'x' {
		t.Errorf("after growth: got %q, %v", b, err)
	}
}
