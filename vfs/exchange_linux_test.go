package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestExchangeInALayer: overlayfs, the file system of containers, can't exchange what an image has.
func TestExchangeInALayer(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"lower/p/a", "lower/p/b", "upper", "work", "merged"} {
		if err := os.MkdirAll(at(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	layers := "lowerdir=" + at("lower") + ",upperdir=" + at("upper") + ",workdir=" + at("work")
	if err := unix.Mount("overlay", at("merged"), "overlay", 0, layers); err != nil {
		t.Skip("no overlayfs: ", err)
	}
	defer func() { _ = unix.Unmount(at("merged"), unix.MNT_DETACH) }()
	err := OS().(Exchanger).Exchange(at("merged/p/a"), at("merged/p/b"))
	if err != nil && !errors.Is(err, errors.ErrUnsupported) { // some are mounted so that they can
		t.Error(err)
	}
}
