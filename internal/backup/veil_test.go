package backup

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"testing"

	"github.com/brockdb/brock/vfs"
)

// TestVeil writes and reads a file in parts of any length. On the disk nothing of it can be read,
// and nothing is written twice at one place.
func TestVeil(t *testing.T) {
	mem := vfs.NewMem()
	v := newVeil(mem, [16]byte{7})
	rng := rand.New(rand.NewPCG(1, 2))
	f, err := v.Create("/f")
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	for len(want) < 3*pieceBytes {
		p := bytes.Repeat([]byte("a secret."), rng.IntN(20000))
		var n int
		if rng.IntN(2) == 0 {
			n, err = f.WriteAt(p, int64(len(want)))
		} else {
			n, err = f.WriteVec([][]byte{p[:len(p)/3], nil, p[len(p)/3:]}, int64(len(want)))
		}
		if n != len(p) || err != nil {
			t.Fatal(n, err)
		}
		want = append(want, p...)
	}
	if _, err := f.WriteAt([]byte{1}, int64(len(want)-1)); !errors.Is(err, errTwice) {
		t.Errorf("write again: %v", err)
	}
	raw, err := mem.Open("/f")
	if err != nil {
		t.Fatal(err)
	}
	stored := make([]byte, len(want))
	if _, err := raw.ReadAt(stored, veilHead); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(stored, []byte("secret")) || bytes.Equal(stored[:9000], stored[9000:18000]) {
		t.Error("the file can be read")
	}
	r, err := v.Open("/f")
	if err != nil {
		t.Fatal(err)
	}
	if size, err := r.Size(); size != int64(len(want)) || err != nil {
		t.Errorf("size %d, want %d: %v", size, len(want), err)
	}
	for range 200 {
		at := rng.IntN(len(want))
		p := make([]byte, rng.IntN(5000))
		n, err := r.ReadAt(p, int64(at))
		if n < min(len(p), len(want)-at) || n < len(p) && err != io.EOF || !bytes.Equal(p[:n], want[at:at+n]) {
			t.Fatal(at, n, err)
		}
	}
	if _, err := r.WriteAt([]byte{1}, int64(len(want))); !errors.Is(err, errTwice) {
		t.Errorf("write to a file that is read: %v", err)
	}
	if _, err := r.Map(10); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := newVeil(mem, [16]byte{7}).Open("/f"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open what another has made: %v", err)
	}
	if err := errors.Join(f.Close(), r.Close(), raw.Close()); err != nil {
		t.Fatal(err)
	}
}
