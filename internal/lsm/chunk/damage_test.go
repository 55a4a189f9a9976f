package chunk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/dump"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
)

var update = flag.Bool("update", false, "write the golden files anew")

// forms has an entry of each form.
func forms() []entry.Entry {
	handle := entry.Handle{Segment: 3, Offset: 4096, Length: 1000}
	return []entry.Entry{
		{Key: []byte("key/a"), Version: 12, Kind: entry.Set, Value: []byte("newer")},
		{Key: []byte("key/a"), Version: 10, Kind: entry.Set, Value: []byte("older"), Meta: 7, Expires: 1_800_000_000_000},
		{Key: []byte("key/b"), Version: 11, Kind: entry.Delete},
		{Key: []byte("key/c"), Version: 13, Kind: entry.SetLatest, Separated: true, Handle: handle},
		{Key: []byte("key/d"), Version: 13, Kind: entry.Set, Separated: true, Handle: handle, Raw: 3000},
		{Key: []byte("key/e"), Version: 13, Kind: entry.Set, Separated: true, Handle: handle, Expires: 1_800_000_000_000},
		{Key: []byte("key/f"), Version: 1 << 50, Kind: entry.Set, Value: []byte("wide, as its version is far from the others")},
		{Key: []byte("key/g"), Version: 1 << 50, Kind: entry.Set, Separated: true, Handle: handle, Raw: 3000, Expires: 1 << 60},
	}
}

// TestGoldenChunk compares a chunk with an entry of each form, and its annotated
// dump, with testdata. A difference is a change of the format.
func TestGoldenChunk(t *testing.T) {
	b := build(t, forms())[0]
	var text bytes.Buffer
	d := dump.New(&text, b.image, 0)
	Dump(d, b.image, 0, b.Layout, false)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]byte{"golden.chunk": b.image, "golden.txt": text.Bytes()} {
		name = filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(name, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs (%v); if it is meant: go test ./internal/lsm/chunk -run Golden -update", name, err)
		}
	}
}

// readAll reads the chunk in all ways and returns the entries that it met; an
// error ends it. What it returns without one must be what was added.
func readAll(c *Chunk, b *built) (all []entry.Entry, err error) {
	var it Cursor
	it.Open(c, b.prefix)
	for it.Next() {
		e := *it.Entry()
		e.Key, e.Value = bytes.Clone(e.Key), bytes.Clone(e.Value)
		all = append(all, e)
	}
	if it.Err() != nil {
		return all, it.Err()
	}
	for range all {
		it.Prev()
		it.SeekGE(b.Last[c.Prefix:])
	}
	if it.Err() != nil {
		return all, it.Err()
	}
	for i := range b.entries {
		var e entry.Entry
		if _, err := c.Get(b.entries[i].Key[c.Prefix:], checksum.HashKey(seed, b.entries[i].Key), b.entries[i].Version, &e); err != nil {
			return all, err
		}
	}
	return all, nil
}

// Each flipped byte is found, by Check and before a reader is given anything
// from its page.
func TestEachFlippedByteIsFound(t *testing.T) {
	b := build(t, forms())[0]
	for i := range b.image {
		if testing.Short() && b.image[i] == 0 && i%64 != 0 {
			continue // one byte of zeros is as good as another
		}
		bad := *b
		bad.image = bytes.Clone(b.image)
		bad.image[i] ^= 1 << (i % 8)
		found := false
		bad.open().Check(&owner, func(err error) {
			if !errors.Is(err, errs.ErrCorrupt) {
				t.Fatalf("byte %d: %v", i, err)
			}
			found = true
		}, func(e *entry.Entry, _ bool) uint64 { return checksum.HashKey(seed, e.Key) })
		if !found {
			t.Fatalf("byte %d: nothing was found", i)
		}
		all, err := readAll(bad.open(), b)
		for k := range all {
			if !same(&all[k], &b.entries[k]) {
				t.Fatalf("byte %d: read %+v, want %+v", i, all[k], b.entries[k])
			}
		}
		if err == nil && len(all) != len(b.entries) {
			t.Fatalf("byte %d: %d entries without an error", i, len(all))
		}
	}
}

// A damaged entry hides no other key whose hash has the same fingerprint; of a key that is not
// found elsewhere it is not known whether it is the damaged one.
func TestDamageHidesNoKeyOfTheSameHash(t *testing.T) {
	const n, equal = 400, 42
	b := NewBuilder()
	defer b.Release()
	key := func(i int) []byte { return fmt.Appendf(nil, "key %04d", i) }
	for i := range n {
		h := checksum.HashKey(seed, key(i))
		if i == 0 || i == n-1 {
			h = equal
		}
		b.Add(&entry.Entry{Key: key(i), Version: 1, Kind: entry.Set, Value: make([]byte, 100)}, h)
	}
	image, info, _ := b.Finish(&owner, 0, nil)
	bad := built{Info: info, image: bytes.Clone(image)}
	bad.image[HeaderSize] ^= 1 // the first entry
	c := bad.open()
	get := func(key []byte) (Result, error) {
		var e entry.Entry
		return c.Get(key[c.Prefix:], equal, 1, &e)
	}
	if res, err := get(key(n - 1)); res != Found || err != nil {
		t.Errorf("the sound key: %v, %v", res, err)
	}
	for _, k := range [][]byte{key(0), key(n)} {
		if _, err := get(k); !errors.Is(err, errs.ErrCorrupt) {
			t.Errorf("%q: %v, want %v", k, err, errs.ErrCorrupt)
		}
	}
}

// A chunk whose checksums are right though its contents are not ends no reader:
// each call returns something or an error.
func TestHostileChunksAreHarmless(t *testing.T) {
	b := build(t, forms())[0]
	small := build(t, someEntries(rand.New(rand.NewPCG(3, 1)), 40))[0]
	for _, b := range []*built{b, small} {
		rng := rand.New(rand.NewPCG(5, 1))
		for range 1500 {
			bad := *b
			bad.image = bytes.Clone(b.image)
			trailer := bad.image[b.TrailerStart():]
			for range 1 + rng.IntN(3) {
				at := rng.IntN(b.End)
				switch rng.IntN(3) {
				case 0:
					at = b.IndexStart() + rng.IntN(b.TrailerStart()-b.IndexStart())
				case 1:
					at = b.TrailerStart() + 4 + rng.IntN(200)
				}
				bad.image[at] = byte(rng.Uint32())
			}
			c := bad.open()
			for p := range c.pages() { // as if all pages had been verified
				c.File.Verified.Set(c.Page + p)
			}
			bad.TrailerChecksum = owner.ID().Sum(b.offset+int64(b.TrailerStart()), trailer[4:])
			binary.LittleEndian.PutUint32(trailer, bad.TrailerChecksum)
			c.TrailerChecksum = bad.TrailerChecksum
			if _, err := readAll(c, b); err != nil && !errors.Is(err, errs.ErrCorrupt) {
				t.Fatal(err)
			}
			c.Check(&owner, func(error) {}, func(e *entry.Entry, _ bool) uint64 { return checksum.HashKey(seed, e.Key) })
		}
	}
}
