package wire

import (
	"bytes"
	"errors"
	"testing"

	"github.com/brockdb/brock/bench/internal/kv"
)

func TestStoreBehindTheWire(t *testing.T) {
	for _, name := range []string{"brock", "badger", "bbolt"} {
		s, err := kv.Open(name, kv.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		c, err := Serve(s)
		if err != nil {
			t.Fatal(err)
		}
		value := bytes.Repeat([]byte("large"), 1<<20)
		if err := c.Set([]byte("k"), value); err != nil {
			t.Fatal(err)
		}
		if sum, found, err := c.Get([]byte("k")); sum != kv.Touch(value) || !found || err != nil {
			t.Errorf("%s: Get: %d, %v, %v", name, sum, found, err)
		}
		if _, found, err := c.Get([]byte("none")); found || err != nil {
			t.Errorf("%s: Get of a missing key: %v, %v", name, found, err)
		}
		if err := errors.Join(c.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestCodec(t *testing.T) {
	for _, want := range []message{{}, {key: []byte("k")}, {value: []byte("v")}, {key: bytes.Repeat([]byte("k"), 300), value: []byte("v")}} {
		b, err := codec{}.Marshal(&want)
		if err != nil {
			t.Fatal(err)
		}
		var got message
		if err := (codec{}).Unmarshal(b, &got); err != nil || !bytes.Equal(got.key, want.key) || !bytes.Equal(got.value, want.value) {
			t.Errorf("%q came back as %q, %v", want, got, err)
		}
	}
	for _, bad := range []string{"", "\x05key", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if err := (codec{}).Unmarshal([]byte(bad), new(message)); !errors.Is(err, errMessage) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
