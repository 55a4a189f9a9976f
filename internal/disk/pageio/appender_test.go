package pageio

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/brockdb/brock/vfs"
)

// writes notes where a file was written.
type writes struct {
	vfs.File
	at [][2]int64
}

func (w *writes) WriteAt(p []byte, off int64) (int, error) {
	w.at = append(w.at, [2]int64{off, int64(len(p))})
	return w.File.WriteAt(p, off)
}

func TestAppenderWritesWholeBlocks(t *testing.T) {
	fs := vfs.NewMem()
	f, err := fs.Create("/f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	w := &writes{File: f}
	a := NewAppender(w)
	var want []byte
	for len(want) < 3*BlockSize+1000 {
		p := make([]byte, rng.IntN(BlockSize/2))
		for i := range p {
			p[i] = byte(len(want) + i)
		}
		want = append(want, p...)
		if n, err := a.Write(p); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := a.Flush(); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("read back: %v, equal %v", err, bytes.Equal(got, want))
	}
	for i, x := range w.at {
		if x[0]%BlockSize != 0 || x[1] != BlockSize && i < len(w.at)-1 {
			t.Errorf("write %d: %d bytes at %d", i, x[1], x[0])
		}
	}
}
