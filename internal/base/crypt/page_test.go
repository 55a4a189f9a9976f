package crypt

import (
	"errors"
	"testing"
)

func TestHeaderPage(t *testing.T) {
	key, err := NewDataKey(nil, AES256GCM)
	if err != nil {
		t.Fatal(err)
	}
	r := NewRing(nil, func(ID) (DataKey, error) { return key, nil })
	if err := r.SetCurrent(key.ID); err != nil {
		t.Fatal(err)
	}
	f := File{Kind: 'R', Number: 7}
	e, keyID, err := r.New(f)
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, pageBytes)
	copy(p, "BRKH")
	if l, err := PageKeyID(p); err != nil || !l.IsZero() {
		t.Fatalf("a plain page has the file key id %v, %v", l, err)
	}
	if err := e.PutPage(p, keyID); err != nil {
		t.Fatal(err)
	}
	if l, err := PageKeyID(p); err != nil || l != keyID {
		t.Fatalf("file key id %v, %v, want %v", l, err, keyID)
	}
	d, err := r.Open(f, keyID)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.CheckPage(p); err != nil {
		t.Fatal(err)
	}
	if err := e.PutPage(make([]byte, pageBytes), keyID); err == nil {
		t.Error("a second header page, that nobody could read")
	}
	for bit := range (pageTagAt + TagSize) * 8 {
		p[bit/8] ^= 1 << (bit % 8)
		if err := d.CheckPage(p); !errors.Is(err, ErrTag) {
			t.Errorf("bit %d is flipped: %v", bit, err)
		}
		p[bit/8] ^= 1 << (bit % 8)
	}
}
