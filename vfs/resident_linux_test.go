package vfs

import (
	"path/filepath"
	"testing"
)

func TestResidentPagesOfAFileJustWritten(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f, err := OS().Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(make([]byte, 5*4096), 0); err != nil {
		t.Fatal(err)
	}
	m, err := f.Map(8 * 4096)
	if err != nil {
		t.Skip("no mapping here:", err)
	}
	defer m.Close()
	r, ok := m.(Resident)
	if !ok {
		t.Skip("no word of resident pages here")
	}
	pages := []byte{0, 0, 0, 0, 9, 9, 9}
	if err := r.Resident(4096, pages); err != nil {
		t.Fatal(err)
	}
	for i, p := range pages {
		if want := byte(0); i < 4 {
			want = 1
			if p&1 != want {
				t.Errorf("page %d was just written and is not in memory", i+1)
			}
		} else if p&1 != want {
			t.Errorf("page %d lies beyond the file and is in memory", i+1)
		}
	}
	if r.Resident(4096, make([]byte, 8)) == nil || r.Resident(1, pages) == nil {
		t.Error("a range outside of the mapping, or off its pages, is accepted")
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if r.Resident(0, pages) == nil {
		t.Error("a closed mapping tells of its pages")
	}
}
