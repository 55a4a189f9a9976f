package keyring

import (
	"errors"
	"testing"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/vfs"
)

// changing is a provider whose master key is replaced.
type changing struct{ Provider }

// TestRewrappedElsewhere: a follower that has read the keyring before its keys were wrapped by
// another master key reads it again when the old one is gone.
func TestRewrappedElsewhere(t *testing.T) {
	mem := vfs.NewMem()
	if err := mem.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	key := func(n byte) Provider { k := [32]byte{n}; return StaticKey(k[:]) }
	writer, err := Create(Options{FS: mem, Dir: "/d", UUID: [16]byte{1}, Keys: key(1)})
	if err != nil {
		t.Fatal(err)
	}
	id := writer.Content().Keys[0].ID
	p := &changing{key(1)}
	follower, err := Open(Options{FS: mem, Dir: "/d", UUID: [16]byte{1}, Keys: p})
	if err != nil {
		t.Fatal(err)
	}
	p.Provider = key(2)
	if _, err := follower.unwrapKey(id); !errors.Is(err, errs.ErrKey) || errors.Is(err, ErrAbsent) {
		t.Errorf("by another master key: %v", err)
	}
	if err := rewrap(writer, key(2)); err != nil {
		t.Fatal(err)
	}
	if _, err := follower.unwrapKey(id); err != nil {
		t.Errorf("wrapped again: %v", err)
	}
	if _, err := follower.unwrapKey([16]byte{9}); !errors.Is(err, ErrAbsent) {
		t.Errorf("a key that was never there: %v", err)
	}
}
