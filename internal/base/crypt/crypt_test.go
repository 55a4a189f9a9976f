package crypt

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/brockdb/brock/internal/base/invariant"
)

// testRing has one data key for each cipher, of which that for c is current.
func testRing(t testing.TB, c Cipher) *Ring {
	t.Helper()
	r := NewRing(nil, func(id ID) (DataKey, error) {
		return DataKey{ID: id, Cipher: Cipher(id[0]), Key: [KeySize]byte{1, 2, 3}}, nil
	})
	if err := r.SetCurrent(ID{byte(c)}); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestUnits encrypts units and reads them back, with each of the things changed that a
// tag covers.
func TestUnits(t *testing.T) {
	for _, c := range []Cipher{AES256GCM, ChaCha20Poly1305} {
		r := testRing(t, c)
		f := File{UUID: [16]byte{7}, Kind: 'J', Number: 3}
		e, keyID, err := r.New(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 1, 16, 48, 4096} {
			text := bytes.Repeat([]byte{'x'}, n)
			attempt, err := e.Begin(8192, 8192)
			if err != nil {
				t.Fatal(err)
			}
			whole := bytes.Repeat([]byte{0xaa}, n+TagSize)
			tag, err := e.Encrypt(whole[:n], text, Record, 8200, []byte("data"))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(whole[n:], bytes.Repeat([]byte{0xaa}, TagSize)) {
				t.Fatalf("%v, %d bytes: those behind have changed", c, n)
			}
			if n >= 16 && bytes.Contains(whole[:n], text[:16]) {
				t.Fatalf("%v, %d bytes: plaintext is in the ciphertext", c, n)
			}
			open := func(l FileKeyID, f File, u Unit, offset int64, attempt uint32, tag Tag, cipher []byte, data string) ([]byte, error) {
				d, err := r.Open(f, l)
				if err != nil {
					return nil, err
				}
				b := append(bytes.Clone(cipher), make([]byte, TagSize)...)[:len(cipher)]
				err = d.Decrypt(b, b, &tag, u, offset, attempt, []byte(data))
				return b, err
			}
			got, err := open(keyID, f, Record, 8200, attempt, tag, whole[:n], "data")
			if err != nil || !bytes.Equal(got, text) {
				t.Fatalf("%v, %d bytes: %v, equal is %t", c, n, err, bytes.Equal(got, text))
			}
			other := keyID
			other.Salt[15] ^= 1
			fork := f
			fork.UUID[0]++
			next := f
			next.Number++
			kind := f
			kind.Kind = 'V'
			wrongTag := tag
			wrongTag[0] ^= 0x80
			for name, err := range map[string]error{
				"file key id": second(open(other, f, Record, 8200, attempt, tag, whole[:n], "data")),
				"store":       second(open(keyID, fork, Record, 8200, attempt, tag, whole[:n], "data")),
				"number":      second(open(keyID, next, Record, 8200, attempt, tag, whole[:n], "data")),
				"kind":        second(open(keyID, kind, Record, 8200, attempt, tag, whole[:n], "data")),
				"unit":        second(open(keyID, f, Piece, 8200, attempt, tag, whole[:n], "data")),
				"offset":      second(open(keyID, f, Record, 8201, attempt, tag, whole[:n], "data")),
				"attempt":     second(open(keyID, f, Record, 8200, attempt+1, tag, whole[:n], "data")),
				"tag":         second(open(keyID, f, Record, 8200, attempt, wrongTag, whole[:n], "data")),
				"data":        second(open(keyID, f, Record, 8200, attempt, tag, whole[:n], "date")),
			} {
				if !errors.Is(err, ErrTag) {
					t.Errorf("%v, %d bytes, another %s: %v", c, n, name, err)
				}
			}
			for i := range min(n, 64) * 8 {
				b := bytes.Clone(whole[:n])
				b[i/8] ^= 1 << (i % 8)
				if _, err := open(keyID, f, Record, 8200, attempt, tag, b, "data"); !errors.Is(err, ErrTag) {
					t.Fatalf("%v, %d bytes, bit %d flipped: %v", c, n, i, err)
				}
			}
		}
	}
}

func second(_ []byte, err error) error { return err }

// TestOnce reads back a unit with a key of its own, and not as that of another place.
func TestOnce(t *testing.T) {
	r := testRing(t, AES256GCM)
	f := File{UUID: [16]byte{7}, Kind: 'M', Number: 1}
	b := append(make([]byte, 0, 64), "an edit"...)
	tag, keyID, err := r.EncryptOnce(b, b, f, Edit, 96, []byte("chain"))
	if err != nil {
		t.Fatal(err)
	}
	moved := bytes.Clone(b[:cap(b)])[:len(b)]
	if err := r.DecryptOnce(moved, moved, &tag, f, keyID, Edit, 104, []byte("chain")); !errors.Is(err, ErrTag) {
		t.Errorf("at another place: %v", err)
	}
	if err := r.DecryptOnce(b, b, &tag, f, keyID, Edit, 96, []byte("chain")); err != nil || string(b) != "an edit" {
		t.Errorf("read back %q: %v", b, err)
	}
}

// TestBegin: an offset that comes back has another attempt, and nothing is encrypted
// outside of what was begun.
func TestBegin(t *testing.T) {
	e, _, err := testRing(t, AES256GCM).New(File{})
	if err != nil {
		t.Fatal(err)
	}
	begin := func(offset, size int64, want uint32) {
		t.Helper()
		if got, err := e.Begin(offset, size); got != want || err != nil {
			t.Errorf("Begin(%d, %d) = %d, %v; want attempt %d", offset, size, got, err, want)
		}
	}
	begin(0, 4096, 0)
	begin(4096, 100, 0)
	begin(4096, 50, 1)
	begin(4196, 100, 1)
	begin(4146, 10, 2)
	begin(4156, 10, 2) // where the attempts before were, too
	begin(5000, 10, 2)
	b := make([]byte, 10, 10+TagSize)
	for _, offset := range []int64{0, 4999, 5001, 5010} {
		if _, err := e.Encrypt(b, b, Record, offset, nil); err == nil {
			t.Errorf("encrypted 10 bytes at %d", offset)
		}
	}
	if _, err := e.Begin(-1, 1); err == nil {
		t.Error("began at -1")
	}
	if _, err := e.Encrypt(b, b, Record, 5000, nil); err == nil {
		t.Error("encrypted after a Begin that failed")
	}
	begin(6000, 10, 2)
	for _, offset := range []int64{6010, math.MaxInt64, -1} {
		if _, err := e.Encrypt(nil, nil, Record, offset, nil); err == nil {
			t.Errorf("encrypted a unit of no bytes at %d", offset)
		}
	}
	for e.attempt < MaxAttempt {
		begin(0, 1, e.attempt+1)
	}
	if _, err := e.Begin(0, 1); err == nil {
		t.Error("began once more than attempts can tell")
	}
}

// TestLedger: a nonce that comes back under a key panics where invariants are checked.
func TestLedger(t *testing.T) {
	if !invariant.Enabled {
		t.Skip("needs the build tag invariants, or race")
	}
	e, _, err := testRing(t, AES256GCM).New(File{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Begin(0, 64); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("the second one didn't panic")
		}
	}()
	b := make([]byte, 8, 8+TagSize)
	for range 2 {
		if _, err := e.Encrypt(b, b, Record, 8, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDecryptAllocatesNothing counts allocations, also for units of no bytes.
func TestDecryptAllocatesNothing(t *testing.T) {
	if invariant.Enabled {
		t.Skip("the race detector allocates")
	}
	r := testRing(t, AES256GCM)
	e, keyID, err := r.New(File{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := r.Open(File{}, keyID)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 100, 4096} {
		b := make([]byte, n, n+TagSize)
		kept := make([]byte, n)
		attempt, err := e.Begin(0, 4096)
		if err != nil {
			t.Fatal(err)
		}
		tag, err := e.Encrypt(b, b, Page, 0, []byte{1, 2, 3})
		if err != nil {
			t.Fatal(err)
		}
		copy(kept, b)
		if got := testing.AllocsPerRun(100, func() {
			copy(b, kept)
			data := [...]byte{1, 2, 3}
			if err := d.Decrypt(b, b, &tag, Page, 0, attempt, data[:]); err != nil {
				t.Fatal(err)
			}
		}); got != 0 {
			t.Errorf("%d bytes: %v allocations", n, got)
		}
	}
}
