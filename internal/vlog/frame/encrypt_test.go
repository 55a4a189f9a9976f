package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/dump"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/invariant"
	"github.com/brockdb/brock/internal/test/kit/corpus"
	"github.com/brockdb/brock/internal/test/kit/draw"
)

// ones is a source of salts that are always the same.
type ones struct{}

func (ones) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 1
	}
	return len(p), nil
}

// testKeys encrypts and decrypts one file, whose file key id random draws.
func testKeys(t testing.TB, random io.Reader) (*crypt.Encrypter, *crypt.Decrypter) {
	t.Helper()
	ring := crypt.NewRing(random, func(id crypt.ID) (crypt.DataKey, error) {
		return crypt.DataKey{ID: id, Cipher: crypt.AES256GCM, Key: [crypt.KeySize]byte{1, 2, 3}}, nil
	})
	if err := ring.SetCurrent(crypt.ID{7}); err != nil {
		t.Fatal(err)
	}
	file := crypt.File{UUID: [16]byte{1, 2, 3, 4}, Kind: 'J', Number: 7}
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

// file is a file in memory.
type file struct {
	b      []byte
	writes int
	last   int64 // where the last write ended
}

func (f *file) write(b []byte, off int64) error {
	if n := off + int64(len(b)) - int64(len(f.b)); n > 0 {
		f.b = append(f.b, make([]byte, n)...)
	}
	copy(f.b[off:], b)
	f.writes, f.last = f.writes+1, off+int64(len(b))
	return nil
}

func (f *file) read(off, n int64) ([]byte, error) {
	return slices.Grow(bytes.Clone(f.b[off:off+n]), crypt.TagSize), nil
}

const frameAt = 4096

var before = crypt.Tag{5, 5, 5}

// encryptTo writes a group to f, at frameAt.
func encryptTo(t testing.TB, f *file, e *crypt.Encrypter, kind Kind, c Content) Header {
	t.Helper()
	c.Kind = kind
	if c.Missing == 0 {
		for i := range c.Payload {
			c.Versions = append(c.Versions, entry.Version(9+i))
		}
	}
	size, err := c.Measure(true)
	if err != nil {
		t.Fatal(err)
	}
	totals := c.Totals
	h := Header{Kind: kind, Size: size, Transactions: uint16(len(c.Payload)), Records: uint32(totals.Records), Chain: 0x01020304, FirstVersion: totals.Min, Number: 2, Unsynced: 1}
	if err := NewEncrypter(e, testID, f.write).EncryptFrame(&h, &c, frameAt, before); err != nil {
		t.Fatal(err)
	}
	if f.last != frameAt+size || size <= stepBytes && f.writes != 1 {
		t.Fatalf("%d writes, the last one up to %d, want %d", f.writes, f.last, frameAt+size)
	}
	return h
}

// decryptFrom reads what encryptTo wrote.
func decryptFrom(f *file, d *crypt.Decrypter, tag *crypt.Tag) (Header, []byte, Totals, error) {
	h, err := Decode(f.b[frameAt:], testID, frameAt)
	if err != nil {
		return h, nil, Totals{}, err
	}
	if !h.Encrypted || h.PayloadSum != 0 {
		return h, nil, Totals{}, fmt.Errorf("header %+v", h)
	}
	if h.Size > int64(len(f.b))-frameAt {
		return h, nil, Totals{}, fmt.Errorf("%w: %d bytes", ErrFrame, h.Size)
	}
	payload, totals, err := NewDecrypter(d, true, f.read).DecryptFrame(&h, frameAt, tag)
	return h, payload, totals, err
}

// payloads makes transactions of random records: short ones, with their own checksum, and
// in pieces.
func payloads(rnd *rand.Rand, transactions, records, longest int) (payload [][]byte) {
	for range transactions {
		var b []byte
		for range 1 + rnd.IntN(records) {
			e := entry.Entry{Key: fmt.Appendf(nil, "\x00key of a pair %d", rnd.IntN(1000)), Value: make([]byte, rnd.IntN(64)), Kind: entry.Set}
			if rnd.IntN(3) == 0 {
				e.Expires = 77
			}
			own := rnd.IntN(2) == 0
			if own {
				e.Value = bytes.Repeat([]byte{'v'}, rnd.IntN(2000))
				if rnd.IntN(8) == 0 {
					e.Value = bytes.Repeat([]byte("pieces.."), rnd.IntN(longest/8))
				}
			}
			b = entry.AppendRecord(b, &e, own)
		}
		payload = append(payload, entry.PadRecords(b))
	}
	return payload
}

// asDecrypted is the payload that a Decrypter returns, and totals of it.
func asDecrypted(t *testing.T, payload [][]byte) (want []byte, totals Totals) {
	t.Helper()
	for i, p := range payload {
		version := entry.Version(8 + i)
		for p = bytes.Clone(p); len(p) > 0; {
			var r entry.Record
			err := r.DecodeNext(p, &version, false)
			if err != nil {
				t.Fatal(err)
			}
			if totals.countRecord(r.Version, r.Own, r.Size); r.Own {
				clear(p[8:16])
				want = append(want, p[:r.BareSize()]...)
				if r.BareSize() < r.Size { // the key's end is not aligned
					clear(want[len(want)-r.BareSize()+r.KeyEnd():])
				}
			} else {
				want = append(want, p[:r.Size]...)
			}
			p = p[r.Size:]
		}
	}
	return want, totals
}

func TestEncryptedFrame(t *testing.T) {
	seed := draw.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for i := range 60 {
		e, d := testKeys(t, nil)
		payload := payloads(rnd, 1+rnd.IntN(4), 20, 300_000)
		f := new(file)
		h := encryptTo(t, f, e, Group, Content{Payload: payload})
		got, b, totals, err := decryptFrom(f, d, &before)
		want, sums := asDecrypted(t, payload)
		if err != nil || !bytes.Equal(b, want) || totals != sums || got != h {
			t.Fatalf("seed %d, %d: %v: %d bytes %+v, want %d %+v; header %+v, want %+v", seed, i, err, len(b), totals, len(want), sums, got, h)
		}
		// Eight bytes and more: shorter texts are in random bytes by chance, four of them in one
		// run of a hundred.
		for _, secret := range []string{"\x00key of a pair", "vvvvvvvv", "pieces.."} {
			if bytes.Contains(f.b, []byte(secret)) {
				t.Fatalf("seed %d, %d: %q is in the file", seed, i, secret)
			}
		}
		checkPlaces(t, f, d, &h, b, payload)
	}
}

// checkPlaces walks the records as a commit does and as a replay does, and reads each at
// its place.
func checkPlaces(t *testing.T, f *file, d *crypt.Decrypter, h *Header, b []byte, payload [][]byte) {
	t.Helper()
	found, at := h.Walk(b, frameAt+HeaderSize), int64(frameAt+HeaderSize)
	for i, p := range payload {
		written := WalkWritten(p, at, entry.Version(9+i), true)
		for written.More() {
			place, again := written.At(), found.At()
			var w, r entry.Record
			err, err2 := written.Next(&w), found.Next(&r)
			if err != nil || err2 != nil || place != again || w.Version != r.Version || !bytes.Equal(w.Key, r.Key) || w.ValueSize != r.ValueSize || w.Own != r.Own {
				t.Fatalf("written at %d: %+v, %v; found at %d: %+v, %v", place, w, err, again, r, err2)
			}
			if !w.Own {
				continue
			}
			plain, err := entry.DecryptRecord(slices.Grow(bytes.Clone(f.b[place:]), crypt.TagSize), d, place)
			if err != nil {
				t.Fatal(err)
			}
			if own, err := entry.DecodeRecord(plain); err != nil || !bytes.Equal(own.Value, w.Value) || !bytes.Equal(own.Key, w.Key) {
				t.Fatalf("at %d: %v", place, err)
			}
		}
		at = written.At()
	}
	if found.More() {
		t.Fatal("more records were found than written")
	}
}

// TestEncryptedFrameInSteps writes and reads frames that are longer than what is in memory at once.
func TestEncryptedFrameInSteps(t *testing.T) {
	e, d := testKeys(t, nil)
	var short, mixed []byte
	for i := 0; len(short) < 3*blockSize; i++ {
		en := entry.Entry{Key: fmt.Appendf(nil, "\x00key%d", i), Value: bytes.Repeat([]byte("v"), i%600), Kind: entry.Set}
		short = entry.AppendRecord(short, &en, false)
		mixed = entry.AppendRecord(mixed, &en, i%3 == 0)
	}
	large := entry.AppendRecord(nil, &entry.Entry{Key: []byte("\x00k"), Value: make([]byte, 3*stepBytes+5), Kind: entry.Set}, true)
	for _, payload := range [][][]byte{{entry.PadRecords(short)}, {entry.PadRecords(mixed)}, {entry.PadRecords(mixed), large, entry.PadRecords(short)}} {
		f := new(file)
		h := encryptTo(t, f, e, Group, Content{Payload: payload})
		_, b, totals, err := decryptFrom(f, d, &before)
		want, sums := asDecrypted(t, payload)
		if err != nil || !bytes.Equal(b, want) || totals != sums {
			t.Fatalf("%v: %d bytes %+v, want %d %+v", err, len(b), totals, len(want), sums)
		}
		// Each block of the rest has a tag.
		rest := int64(8 * binary.LittleEndian.Uint32(f.b[frameAt+h.Size-8:]))
		for i := range blockCount(rest) {
			at := frameAt + h.Size - endSize - blockCount(rest)*crypt.TagSize - rest + i*blockSize
			f.b[at] ^= 1
			if _, _, _, err := decryptFrom(f, d, &before); !errors.Is(err, ErrFrame) {
				t.Fatalf("block %d is damaged: %v", i, err)
			}
			f.b[at] ^= 1
		}
	}
}

// TestEncryptedFromReader writes a record whose value is not in memory.
func TestEncryptedFromReader(t *testing.T) {
	for _, n := range []int{0, 100, entry.PieceSize, 1 << 20, 5<<20 + 3} {
		e, d := testKeys(t, nil)
		value := bytes.Repeat([]byte("abc"), n/3+1)[:n]
		rec := entry.AppendRecord(nil, &entry.Entry{Key: []byte("\x00k"), Value: value, Kind: entry.Set, Version: 9}, true)
		head := rec[:entry.ValueAt(rec)]
		f := new(file)
		c := Content{Kind: Group, Payload: [][]byte{head}, Missing: len(rec) - len(head), Value: bytes.NewReader(value)}
		encryptTo(t, f, e, Group, c)
		if _, _, totals, err := decryptFrom(f, d, &before); err != nil || totals.OwnBytes != uint64(len(rec)) {
			t.Fatalf("%d: %+v, %v", n, totals, err)
		}
		plain, err := entry.DecryptRecord(slices.Grow(f.b[frameAt+HeaderSize:], crypt.TagSize), d, frameAt+HeaderSize)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := entry.DecodeRecord(plain); err != nil || !bytes.Equal(r.Value, value) {
			t.Fatalf("%d: %v", n, err)
		}
		if n == 0 {
			continue
		}
		// A source that ends early, and a second try in the same place.
		c.Value = strings.NewReader("ab")
		size, _ := c.Measure(true)
		h := Header{Kind: Group, Size: size, Records: 1, FirstVersion: 9, Number: 2}
		x := NewEncrypter(e, testID, f.write)
		if err := x.EncryptFrame(&h, &c, frameAt, before); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d: %v", n, err)
		}
		c.Value = bytes.NewReader(value)
		if err := x.EncryptFrame(&h, &c, frameAt, before); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := decryptFrom(f, d, &before); err != nil {
			t.Fatalf("%d, again: %v", n, err)
		}
	}
}

func TestEveryFlipOfAnEncryptedFrameIsFound(t *testing.T) {
	e, d := testKeys(t, nil)
	seal := make([]byte, 40)
	seal[3] = 1
	for kind, payload := range map[Kind][]byte{Group: records(), Seal: seal} {
		f := new(file)
		encryptTo(t, f, e, kind, Content{Payload: [][]byte{payload}})
		if _, b, _, err := decryptFrom(f, d, &before); err != nil || kind == Seal && !bytes.Equal(b, seal) {
			t.Fatalf("%v: %v", kind, err)
		}
		for bit := 8 * frameAt; bit < 8*len(f.b); bit++ {
			for _, right := range []bool{false, true} {
				f.b[bit/8] ^= 1 << (bit % 8)
				sum := binary.LittleEndian.Uint32(f.b[frameAt:])
				if right { // with a checksum that fits, only the tag tells
					binary.LittleEndian.PutUint32(f.b[frameAt:], testID.Sum(frameAt, f.b[frameAt+4:frameAt+HeaderSize]))
				}
				h, _, _, err := decryptFrom(f, d, &before)
				if right && bit/8 < frameAt+4 {
					err = ErrFrame // the checksum is as it was
				}
				if right && errors.Is(err, errs.ErrFormat) {
					err = ErrFrame // that of another flag or kind, as a later release may write them
				}
				if err == nil || h.Encrypted && h.Kind.isKnown() && !errors.Is(err, ErrFrame) && h.PayloadSum == 0 {
					t.Errorf("%v, bit %d, checksum made right %v: %v", kind, bit-8*frameAt, right, err)
				}
				binary.LittleEndian.PutUint32(f.b[frameAt:], sum)
				f.b[bit/8] ^= 1 << (bit % 8)
				if _, _, _, err := decryptFrom(f, d, &before); err != nil && bit%512 == 0 {
					t.Fatalf("the test has damaged the frame: %v", err)
				}
			}
		}
		if _, _, _, err := decryptFrom(f, d, &crypt.Tag{5}); !errors.Is(err, ErrFrame) {
			t.Errorf("behind another frame: %v", err)
		}
		if _, _, _, err := decryptFrom(f, d, nil); err != nil {
			t.Errorf("behind any frame: %v", err)
		}
	}
}

// TestFramesOfTwoTries mixes frames that were written to one place, one after the other.
func TestFramesOfTwoTries(t *testing.T) {
	e, d := testKeys(t, nil)
	first, second := new(file), new(file)
	h := encryptTo(t, first, e, Group, Content{Payload: [][]byte{records()}})
	encryptTo(t, second, e, Group, Content{Payload: [][]byte{records()}})
	if bytes.Equal(first.b[frameAt+HeaderSize:], second.b[frameAt+HeaderSize:]) {
		t.Fatal("two tries have the same nonces")
	}
	for n := int64(HeaderSize + 8); n < h.Size; n += 8 {
		mixed := &file{b: append(bytes.Clone(first.b[:frameAt+n]), second.b[frameAt+n:]...)}
		if _, _, _, err := decryptFrom(mixed, d, &before); !errors.Is(err, ErrFrame) {
			t.Fatalf("%d bytes of one try, the rest of another: %v", n, err)
		}
	}
}

func TestMeasureRefusesWhatIsNoRecord(t *testing.T) {
	good := records()
	for _, n := range []int{1, 8, 24, 31, 40, len(good) - 1, len(good) - 8} {
		c := Content{Kind: Group, Payload: [][]byte{good[:n]}}
		if _, err := c.Measure(true); !errors.Is(err, entry.ErrRecord) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	c := Content{Kind: Group, Versions: []entry.Version{1, 2}, Payload: [][]byte{good, nil}}
	if _, err := c.Measure(true); !errors.Is(err, entry.ErrRecord) {
		t.Errorf("a transaction without records: %v", err)
	}
}

// TestNoMemoryForEncryptedFrames counts what frames of small commits allocate.
func TestNoMemoryForEncryptedFrames(t *testing.T) {
	if invariant.Enabled {
		t.Skip("the ledger of nonces takes memory")
	}
	e, d := testKeys(t, nil)
	f := &file{b: make([]byte, 1<<20)}
	x := NewEncrypter(e, testID, f.write)
	whole := f.b[frameAt : frameAt+1<<19]
	y := NewDecrypter(d, true, func(off, n int64) ([]byte, error) { return whole[off-frameAt:][:n], nil })
	c := Content{Kind: Group, Versions: []entry.Version{9}, Payload: [][]byte{records()}}
	size, _ := c.Measure(true)
	h := Header{Kind: Group, Size: size, Records: 4, FirstVersion: 9, Number: 2}
	if n := testing.AllocsPerRun(100, func() {
		if err := x.EncryptFrame(&h, &c, frameAt, before); err != nil {
			t.Fatal(err)
		}
		if _, _, err := y.DecryptFrame(&h, frameAt, &before); err != nil {
			t.Fatal(err)
		}
	}); n >= 1 { // a pool may lose some
		t.Errorf("%v allocations", n)
	}
}

func TestEncryptedGolden(t *testing.T) {
	e, _ := testKeys(t, ones{})
	f := new(file)
	encryptTo(t, f, e, Group, Content{Payload: [][]byte{records()}})
	checkGolden(t, "encrypted.golden", f.b[frameAt:])
}

func checkGolden(t *testing.T, name string, b []byte) {
	t.Helper()
	var text bytes.Buffer
	d := dump.New(&text, b, frameAt)
	DumpFrame(d, b, 0)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	name = filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(name, text.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text.Bytes(), want) {
		t.Errorf("got\n%s\nwant\n%s", text.Bytes(), want)
	}
}

// FuzzDecryptFrame gives a Decrypter frames under a right key that no Encrypter makes.
func FuzzDecryptFrame(f *testing.F) {
	own := entry.AppendRecord(nil, &entry.Entry{Key: []byte("\x00b"), Value: []byte("a value of its own"), Version: 9, Kind: entry.Set}, true)
	secret := append(bytes.Clone(own[:8]), own[16:]...)
	stub := []byte{stubMark, 0, 0, 0, 1, 0, 0, 0}
	corpus.Add(f, stub, secret, uint64(len(own)+16)/8|uint64(len(secret)/8)<<29, uint32(1), uint32(1))
	corpus.Add(f, []byte("\x81\x01\x01kv\x00\x00\x00"), []byte{}, uint64(0), uint32(1), uint32(1))
	f.Fuzz(func(t *testing.T, rest, secret []byte, word uint64, count, stated uint32) {
		if len(rest)+len(secret) > 1<<19 {
			return
		}
		e, d := testKeys(t, nil)
		rest, secret = entry.PadRecords(rest), entry.PadRecords(secret)
		size := EncryptedFrameSize(0, int64(len(rest)))
		if len(secret) > 0 {
			size += int64(len(secret)) + 24
		}
		attempt, err := e.Begin(frameAt, size)
		if err != nil {
			t.Fatal(err)
		}
		h := Header{Kind: Group, Size: size, Records: count, FirstVersion: 9, Number: 2, Encrypted: true}
		b := make([]byte, HeaderSize, size+crypt.TagSize)
		h.Put(b, testID, frameAt)
		if len(secret) > 0 {
			at := len(b)
			b = append(binary.LittleEndian.AppendUint64(b, word), secret...)
			tag, err := e.Encrypt(b[at+8:], b[at+8:], crypt.Record, frameAt+int64(at), b[at:at+8])
			if err != nil {
				t.Fatal(err)
			}
			b = append(b, tag[:]...)
		}
		var data [crypt.TagSize + HeaderSize + 4]byte
		putData(&data, &before, b, int64(len(rest)))
		at := len(b)
		b = append(b, rest...)
		tag, err := e.Encrypt(b[at:], b[at:], crypt.Frame, frameAt, data[:])
		if err != nil {
			t.Fatal(err)
		}
		b = append(append(b, tag[:]...), before[:]...)
		if stated %= 4; stated != 0 { // a length that doesn't fit
			stated = uint32(len(rest)/8) + stated - 1
		}
		b = binary.LittleEndian.AppendUint32(b, stated)
		b = binary.LittleEndian.AppendUint32(b, attempt)
		read := &file{b: append(make([]byte, frameAt), b...)}
		payload, totals, err := NewDecrypter(d, true, read.read).DecryptFrame(&h, frameAt, &before)
		if err != nil {
			if !errors.Is(err, ErrFrame) {
				t.Fatalf("error %v", err)
			}
			return
		}
		n := uint64(0)
		for r := h.Walk(payload, frameAt+HeaderSize); r.More(); n++ {
			if err := r.Next(new(entry.Record)); err != nil {
				t.Fatalf("record %d of %d: %v", n, totals.Records, err)
			}
		}
		if n != totals.Records {
			t.Fatalf("%d records, want %d", n, totals.Records)
		}
	})
}
