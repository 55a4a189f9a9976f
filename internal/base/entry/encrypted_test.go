package entry

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/test/kit/corpus"
)

// zeroReader makes the salts, and so the bytes, of a test the same each time.
type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); p[0] = 1; return len(p), nil }

// testKeys encrypts and decrypts one file.
func testKeys(t testing.TB, random *zeroReader) (*crypt.Encrypter, *crypt.Decrypter) {
	t.Helper()
	unwrap := func(id crypt.ID) (crypt.DataKey, error) {
		return crypt.DataKey{ID: id, Cipher: crypt.AES256GCM, Key: [crypt.KeySize]byte{1, 2, 3}}, nil
	}
	ring := crypt.NewRing(nil, unwrap)
	if random != nil {
		ring = crypt.NewRing(random, unwrap)
	}
	file := crypt.File{UUID: [16]byte{1, 2, 3}, Kind: 'J', Number: 9}
	if err := ring.SetCurrent(crypt.ID{7}); err != nil {
		t.Fatal(err)
	}
	e, keyID, err := ring.New(file)
	if err != nil {
		t.Fatal(err)
	}
	d, err := ring.Open(file, keyID)
	if err != nil {
		t.Fatal(err)
	}
	return e, d
}

// encrypted is the encrypted form of a whole record at offset.
func encrypted(t testing.TB, e *crypt.Encrypter, rec []byte, offset int64) []byte {
	t.Helper()
	size := EncryptedRecordSize(rec)
	attempt, err := e.Begin(offset, int64(size))
	if err != nil {
		t.Fatal(err)
	}
	if ValueSize(rec) < PieceSize {
		b, err := EncryptRecord(nil, rec, e, offset, attempt)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	_, head := RawSize(rec)
	l := NewLarge(rec[:head], e, offset, attempt)
	value := bytes.Clone(rec[ValueAt(rec):][:ValueSize(rec)])
	value = slices.Grow(value, crypt.TagSize)
	begin := l.NextOffset() - offset
	for at := 0; at < len(value); at += 2 * PieceSize {
		if err := l.EncryptPieces(value[at:min(at+2*PieceSize, len(value))]); err != nil {
			t.Fatal(err)
		}
	}
	b, err := l.EncryptHead()
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(b)) != begin {
		t.Fatalf("pieces are to begin at %d of the record, its head has %d bytes", begin, len(b))
	}
	return PadRecords(append(b, value...))
}

// private is b in memory of its own, with the capacity that Decrypt needs.
func private(b []byte) []byte { return slices.Grow(bytes.Clone(b), crypt.TagSize) }

// withoutSums is rec as Decrypt returns it.
func withoutSums(rec []byte) []byte {
	rec = bytes.Clone(rec)
	_, head := RawSize(rec)
	clear(rec[8:16])
	clear(rec[head:ValueAt(rec)])
	return rec
}

func TestEncryptedRecord(t *testing.T) {
	const offset = 4144
	for _, s := range samples() {
		if !s.own {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			e, d := testKeys(t, nil)
			rec := AppendRecord(nil, &s.e, true)
			file := encrypted(t, e, rec, offset)
			if len(file) != EncryptedRecordSize(rec) || uint64(len(file)) > EncryptedBound(uint64(len(rec)), uint64(len(s.e.Value))) {
				t.Fatalf("%d bytes, EncryptedSize says %d, the bound is %d", len(file), EncryptedRecordSize(rec), EncryptedBound(uint64(len(rec)), uint64(len(s.e.Value))))
			}
			for _, secret := range [][]byte{s.e.Key, s.e.Value} {
				// Four bytes lie in a long record by chance.
				if n := min(len(secret), 8); (n == 8 || n >= 4 && len(file) < 1000) && bytes.Contains(file, secret[:n]) {
					t.Fatal("plaintext is in the file")
				}
			}
			plain, err := DecryptRecord(private(append(file, "what follows"...)), d, offset)
			if err != nil || !bytes.Equal(plain, withoutSums(rec)) {
				t.Fatalf("decrypted as %d bytes, want %d: %v", len(plain), len(rec), err)
			}
			want, _ := DecodeRecord(rec)
			if got, err := DecodeRecord(plain); err != nil || got.FileSize(true) != len(file) || got.FileSize(false) != len(rec) || !bytes.Equal(got.Value, want.Value) {
				t.Fatalf("%+v, %v", got, err)
			}
			checkHead(t, d, file, rec, offset)
			if _, err := DecryptRecord(private(file), d, offset+8); !errors.Is(err, crypt.ErrTag) {
				t.Fatalf("at another place: %v", err)
			}
		})
	}
}

// checkHead reads the record piece by piece.
func checkHead(t *testing.T, d *crypt.Decrypter, file, rec []byte, offset int64) {
	t.Helper()
	c, ok := ParseClear(file)
	if !ok || c.Size != int64(len(file)) {
		t.Fatalf("%+v", c)
	}
	head := make([]byte, c.Head-TagSize)
	x, err := DecryptHead(head, bytes.Clone(file[:c.Head]), d, offset)
	want, _ := DecodeRecord(rec)
	if err != nil || !bytes.Equal(x.Key, want.Key) || x.Version != want.Version || x.ValueSize != want.ValueSize || x.InPieces() != (want.ValueSize >= PieceSize) {
		t.Fatalf("%+v, %v", x, err)
	}
	if !x.InPieces() {
		return
	}
	if got := x.AppendPlainHead(nil, head); !bytes.Equal(got, withoutSums(rec)[:want.UnpaddedSize()-want.ValueSize]) {
		t.Fatal("AppendHead makes another head of it")
	}
	version := Version(0)
	var bare Record
	err = bare.DecodeNext(head[:x.BareSize()], &version, true)
	if err != nil || !bytes.Equal(bare.Key, want.Key) || version != want.Version || bare.Value != nil || bare.ValueSize != want.ValueSize || bare.Size != want.Size {
		t.Fatalf("%+v, %v", bare, err)
	}
	for at := 0; at < x.ValueSize; at += PieceSize {
		part := private(file[c.Head+at : c.Head+min(at+PieceSize, x.ValueSize)])
		if err := x.DecryptPieces(part, at, d, offset); err != nil || !bytes.Equal(part, want.Value[at:at+len(part)]) {
			t.Fatalf("piece at %d: %v", at, err)
		}
	}
}

func TestEveryFlipOfAnEncryptedRecordIsFound(t *testing.T) {
	const offset = 8192
	e, d := testKeys(t, nil)
	for _, value := range []int{0, 30, PieceSize + 1} {
		rec := AppendRecord(nil, &Entry{Key: []byte("\x00key"), Value: bytes.Repeat([]byte("v"), value), Version: 3, Kind: Set, Expires: 9}, true)
		file := encrypted(t, e, rec, offset)
		step := 1
		if value > 1000 {
			step = 8*41 + 1 // some of the bits, and all of the head below
		}
		for bit := 0; bit < 8*len(file); bit += step {
			if bit > 8*200 && bit < 8*200+step {
				continue
			}
			raw := private(file)
			raw[bit/8] ^= 1 << (bit % 8)
			plain, err := DecryptRecord(raw, d, offset)
			behind := bit/8 >= len(file)-7 && value > 1000 // zeros behind pieces carry nothing
			if err == nil && !(behind && bytes.Equal(plain, withoutSums(rec))) || err != nil && !errors.Is(err, ErrRecord) && !errors.Is(err, crypt.ErrTag) {
				t.Fatalf("value of %d, bit %d flipped: %v", value, bit, err)
			}
		}
	}
}

// FuzzDecrypt gives Decrypt clear bytes that may lie, and plaintext that may be no record,
// under a right key.
func FuzzDecrypt(f *testing.F) {
	e, _ := testKeys(f, nil)
	for _, s := range samples() {
		if s.own && len(s.e.Key) < 1000 && len(s.e.Value) < 1000 {
			rec := AppendRecord(nil, &s.e, true)
			file := encrypted(f, e, rec, 4096)
			corpus.Add(f, binary.LittleEndian.Uint64(file), append(bytes.Clone(rec[:8]), rec[16:]...), 0)
		}
	}
	f.Fuzz(func(t *testing.T, word uint64, secret []byte, more int) {
		e, d := testKeys(t, nil)
		if len(secret) > 1<<20 {
			return
		}
		raw := make([]byte, 8, 8+len(secret)+3*crypt.TagSize)
		binary.LittleEndian.PutUint64(raw, word)
		raw = append(raw, secret...)
		if _, err := e.Begin(4096, int64(len(raw))); err != nil {
			t.Fatal(err)
		}
		tag, err := e.Encrypt(raw[8:], raw[8:], crypt.Record, 4096, raw[:8])
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, tag[:]...)
		raw = slices.Grow(append(raw, make([]byte, more&0x1ffff)...), crypt.TagSize)
		plain, err := DecryptRecord(raw, d, 4096)
		if err != nil {
			if !errors.Is(err, ErrRecord) && !errors.Is(err, crypt.ErrTag) {
				t.Fatalf("error %v", err)
			}
			return
		}
		r, err := DecodeRecord(plain)
		if err != nil || r.Size != len(plain) || !r.Own {
			t.Fatalf("%d bytes: %+v, %v", len(plain), r, err)
		}
	})
}

// TestDecryptKeepsToItsMemory: whatever the lengths of key and value, nothing is written further
// than 16 bytes behind what the caller gives.
func TestDecryptKeepsToItsMemory(t *testing.T) {
	e, d := testKeys(t, nil)
	at := int64(4096)
	for key := range 8 {
		for more := range 8 {
			en := Entry{Key: make([]byte, 1+key), Value: make([]byte, PieceSize+more), Version: 1, Kind: Set}
			rec := AppendRecord(nil, &en, true)
			file := encrypted(t, e, rec, at)
			n := len(file)
			all := append(file, bytes.Repeat([]byte{0xa5}, 64)...)
			plain, err := DecryptRecord(all[:n:n+crypt.TagSize], d, at)
			if err != nil || !bytes.Equal(plain, withoutSums(rec)) {
				t.Fatalf("key of %d bytes, value of %d: %v", 1+key, len(en.Value), err)
			}
			if behind := all[n+crypt.TagSize:]; len(bytes.Trim(behind, "\xa5")) > 0 {
				t.Errorf("key of %d bytes, value of %d: behind the memory is %x", 1+key, len(en.Value), behind)
			}
			at += int64(n)
		}
	}
}
