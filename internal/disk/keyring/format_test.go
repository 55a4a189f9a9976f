package keyring

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/dump"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/test/kit/corpus"
)

var rewrite = flag.Bool("rewrite", false, "write golden files anew")

var testUUID = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

func goldenContent() *Content {
	return &Content{UUID: testUUID, Number: 3, Keys: []Key{
		{keyHead: keyHead{ID: crypt.ID{0xa, 0xb}, Cipher: crypt.AES256GCM, Created: 1700000000123, Check: crypt.Check{1, 2, 3}}, Wrapped: []byte("wrapped once")},
		{keyHead: keyHead{ID: crypt.ID{0xc}, Cipher: crypt.ChaCha20Poly1305, Created: 1800000000456}, Wrapped: []byte("and twice, in another length")},
	}}
}

// reasons is how many copies Decode has found wrong.
func reasons(wrong error) int {
	if wrong == nil {
		return 0
	}
	return 1 + strings.Count(wrong.Error(), "\n")
}

func same(a, b *Content) bool { return bytes.Equal(a.Encode(), b.Encode()) }

func TestGolden(t *testing.T) {
	data := goldenContent().Encode()
	var b bytes.Buffer
	d := dump.New(&b, data, 0)
	Dump(d, data)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "keyring.golden")
	if *rewrite {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%s: the bytes have changed; if they are meant to, the format has a new version:\n%s", path, b.Bytes())
	}
	c, wrong := Decode(data, testUUID, 3)
	if c == nil || wrong != nil || !same(c, goldenContent()) {
		t.Errorf("read back: %+v, %v", c, wrong)
	}
}

// TestOneDamagedPage: whichever byte is wrong, and wherever the file ends, the other copy
// counts, and what is wrong is told.
func TestOneDamagedPage(t *testing.T) {
	good := goldenContent()
	data := good.Encode()
	used := len(data)/2 - len(bytes.TrimRight(data[:len(data)/2], "\x00"))
	for at := range data {
		if at%(len(data)/2) >= len(data)/2-used {
			continue // zeros behind a copy
		}
		p := bytes.Clone(data)
		p[at] ^= 0x10
		c, wrong := Decode(p, testUUID, good.Number)
		if c == nil || !same(c, good) || reasons(wrong) != 1 {
			t.Fatalf("byte %d changed: %v, %v", at, c, wrong)
		}
	}
	for n := len(data) - 1; n >= len(data)/2; n -= 7 {
		if c, wrong := Decode(data[:n], testUUID, good.Number); c == nil || !same(c, good) || reasons(wrong) != 1 {
			t.Fatalf("cut to %d bytes: %v, %v", n, c, wrong)
		}
	}
	if c, wrong := Decode(data[:100], testUUID, good.Number); c != nil || reasons(wrong) != 2 {
		t.Errorf("cut to 100 bytes: %v, %v", c, wrong)
	}
}

func TestForeignKeyrings(t *testing.T) {
	data := goldenContent().Encode()
	if c, wrong := Decode(data, [16]byte{9}, 3); c != nil || !errors.Is(wrong, errs.ErrKey) {
		t.Errorf("another store's: %v, %v", c, wrong)
	}
	if c, wrong := Decode(data, testUUID, 4); c != nil || !errors.As(wrong, new(*errs.Corruption)) {
		t.Errorf("under another name: %v, %v", c, wrong)
	}
}

// TestFutureVersion: a newer release's keyring isn't taken for a damaged one.
func TestFutureVersion(t *testing.T) {
	c := goldenContent()
	p := c.encodeCopy(0)
	p[8]++
	p = p[:p[12]]
	sum := c.checksumOf(0, p)
	p[44], p[45], p[46], p[47] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
	if _, err := decodeCopy(p, 0, testUUID, 3); !errors.Is(err, errs.ErrFormat) {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	corpus.Add(f, goldenContent().Encode(), false)
	corpus.Add(f, goldenContent().Encode()[:4096+50], true)
	f.Fuzz(func(t *testing.T, p []byte, forge bool) {
		if forge && len(p) >= headerSize {
			forgeSum(p)
		}
		d := dump.New(&bytes.Buffer{}, p, 0)
		Dump(d, p)
		d.Close()
		c, _ := Decode(p, testUUID, 3)
		if c == nil {
			return
		}
		again, wrong := Decode(c.Encode(), testUUID, 3)
		if again == nil || wrong != nil || !same(c, again) {
			t.Errorf("%+v is read back as %+v: %v", c, again, wrong)
		}
	})
}

// forgeSum makes the checksum of the first copy right, whatever it says.
func forgeSum(p []byte) {
	size := min(int(uint32(p[12])|uint32(p[13])<<8|uint32(p[14])<<16), len(p))
	if size < headerSize {
		return
	}
	c := Content{UUID: testUUID, Number: 3}
	copy(p[16:], testUUID[:])
	sum := c.checksumOf(0, p[:size])
	p[44], p[45], p[46], p[47] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
}
