package vfs

import (
	"bytes"
	"testing"
)

// A file system with a capacity takes what fits, says what is left, and goes on
// when there is disk space again; a crash doesn't change its size.
func TestMemCapacity(t *testing.T) {
	m := NewMem()
	must(t, m.MkdirAll("/d"))
	if free, err := m.Free("/d"); free != -1 || err != nil {
		t.Errorf("free without a capacity: %d, %v", free, err)
	}
	m.SetCapacity(10 * chunkSize)
	f, err := m.Create("/d/f")
	must(t, err)
	defer f.Close()
	n, err := f.WriteAt(bytes.Repeat([]byte{1}, 7*chunkSize-10), 0)
	must(t, err)
	if free, _ := m.Free("/d"); n != 7*chunkSize-10 || free != 3*chunkSize || m.Used() != 7*chunkSize {
		t.Errorf("wrote %d, %d are free, %d used", n, free, m.Used())
	}
	n, err = f.WriteAt(bytes.Repeat([]byte{2}, 5*chunkSize), 7*chunkSize)
	if n != 3*chunkSize || !IsNoSpace(err) {
		t.Errorf("a write beyond the capacity: %d, %v", n, err)
	}
	for name, err := range map[string]error{
		"truncate":   f.Truncate(11 * chunkSize),
		"none of it": func() error { _, err := f.WriteAt([]byte{3}, 10*chunkSize); return err }(),
	} {
		if !IsNoSpace(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if size, _ := f.Size(); size != 10*chunkSize {
		t.Errorf("the file has %d bytes", size)
	}
	_, err = f.WriteAt([]byte{4}, 5)
	must(t, err) // in place
	must(t, f.Sync())
	must(t, m.SyncDir("/"))
	must(t, m.SyncDir("/d"))
	m.SetCapacity(5 * chunkSize) // others took the rest
	if _, err = f.WriteAt([]byte{4}, 6); err != nil || m.Used() != 10*chunkSize {
		t.Errorf("in place on less than nothing: %v, %d used", err, m.Used())
	}
	clone := m.CrashClone(CrashOptions{})
	if free, _ := clone.Free("/d"); free != 0 || clone.Used() != 10*chunkSize {
		t.Errorf("after a crash %d are free, %d used", free, clone.Used())
	}
	m.SetCapacity(11 * chunkSize)
	_, err = f.WriteAt([]byte{5}, 10*chunkSize)
	must(t, err)
	must(t, m.Remove("/d/f"))
	if free, _ := m.Free("/d"); free != 11*chunkSize {
		t.Errorf("%d are free after a removal", free)
	}
}
