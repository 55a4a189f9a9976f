package vfs

import "testing"

// A write that is torn off at a chunk's beginning must leave a file that maps.
func TestTornFileMaps(t *testing.T) {
	m := NewMem()
	f, err := m.Create("f")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 3*chunkSize), 0); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(200) {
		clone := m.CrashClone(CrashOptions{Mode: Prefix, Seed: seed})
		g, err := clone.Open("f")
		if err != nil {
			t.Fatal(err)
		}
		size, err := g.Size()
		if err != nil {
			t.Fatal(err)
		}
		mapping, err := g.Map(size)
		if err != nil || int64(len(mapping.Data())) != size {
			t.Fatalf("seed %d: map of %d bytes: %v", seed, size, err)
		}
	}
}
