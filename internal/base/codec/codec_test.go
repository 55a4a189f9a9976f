package codec

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/brockdb/brock/internal/test/kit/corpus"
)

// text is some megabytes of Go's own source.
func text(t testing.TB) []byte {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(root)), "src", "*", "*.go"))
	var all []byte
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, b...); len(all) > 8<<20 {
			return all
		}
	}
	if err != nil || len(all) < 1<<20 {
		t.Skipf("%d bytes of source: %v", len(all), err)
	}
	return all
}

func random(n int) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// samples are values of many lengths, from zeros to noise.
func samples(t testing.TB) [][]byte {
	source, noise := text(t), random(200_000)
	var all [][]byte
	for _, n := range []int{1, 2, 15, 16, 17, 63, 64, 65, 1023, 1024, 1025, 4096, 65535, 65536, 65537, 200_000} {
		half := append(bytes.Clone(source[:n/2]), noise[:n-n/2]...)
		all = append(all, source[:n], noise[:n], make([]byte, n), half)
	}
	return all
}

func TestRoundTrip(t *testing.T) {
	var d Coder
	for _, c := range []Codec{S2, Zstd} {
		for i, v := range samples(t) {
			for _, room := range []int{0, len(v) - 1, len(v), 2 * len(v)} {
				encoded := d.Encode(make([]byte, 0, room), c, v)
				if len(encoded) > len(v)+len(v)/32+64 {
					t.Errorf("%v, sample %d: %d bytes became %d", c, i, len(v), len(encoded))
				}
				dst := make([]byte, 0, room)
				got, err := d.Decode(dst, c, encoded, len(v))
				if err != nil || !bytes.Equal(got, v) {
					t.Errorf("%v, sample %d of %d bytes: %d bytes, %v", c, i, len(v), len(got), err)
				}
				if room >= len(v) && &got[0] != &dst[:1][0] {
					t.Errorf("%v, sample %d: not in the memory that was given", c, i)
				}
			}
		}
	}
}

// What was once written is read by every later release.
func TestGolden(t *testing.T) {
	var d Coder
	want := bytes.Repeat([]byte("0123456789abcdef"), 200)
	for _, g := range []struct {
		codec  Codec
		length int
		bytes  string
	}{
		{S2, 3000, "\xb8\x17<0123456789abcdef\x11\x10\x19\x00\x9c\n"},
		{Zstd, 3001, "(\xb5/\xfd`\xb9\n\xd5\x00\x00\x04\x010123456789abcdef\x01T\x10\x04/L7\x01"},
	} {
		got, err := d.Decode(nil, g.codec, []byte(g.bytes), g.length)
		if err != nil || !bytes.Equal(got, want[:g.length]) {
			t.Errorf("%v: %d bytes, %v", g.codec, len(got), err)
		}
	}
}

func TestManyGoroutinesShareACoder(t *testing.T) {
	var d Coder
	var wg sync.WaitGroup
	all := samples(t)
	for g := range 8 {
		wg.Go(func() {
			for i := range 60 {
				v, c := all[(g*7+i)%len(all)], S2+Codec(i%2)
				if got, err := d.Decode(nil, c, d.Encode(nil, c, v), len(v)); err != nil || !bytes.Equal(got, v) {
					t.Errorf("%v of %d bytes: %v", c, len(v), err)
				}
			}
		})
	}
	wg.Wait()
}

// What is not the value of the length that was asked for is an error, and asks
// for no more memory than that length.
func TestLiesAreFound(t *testing.T) {
	var d Coder
	for _, c := range []Codec{S2, Zstd} {
		v := text(t)[:5000]
		good := d.Encode(nil, c, v)
		refuse := func(what string, src []byte, length int) {
			t.Helper()
			if got, err := d.Decode(nil, c, src, length); !errors.Is(err, ErrDamaged) || got != nil {
				t.Errorf("%v, %s: %d bytes, %v", c, what, len(got), err)
			}
		}
		refuse("shorter", good, 4999)
		refuse("longer", good, 5001)
		refuse("no length", good, 0)
		refuse("negative length", good, -1)
		refuse("a length beyond the bound", good, MaxLength+1)
		refuse("nothing", nil, 5000)
		refuse("cut", good[:len(good)-1], 5000)
		refuse("cut to one byte", good[:1], 5000)
		refuse("a second value", append(bytes.Clone(good), good...), 5000)
		bomb := d.Encode(nil, c, make([]byte, 16<<20))
		allocated := testing.AllocsPerRun(1, func() { refuse("a bomb", bomb, 100) })
		if allocated > 20 {
			t.Errorf("%v: %v allocations", c, allocated)
		}
	}
	if _, err := d.Decode(nil, Zstd+1, []byte{1, 2}, 2); !errors.Is(err, ErrDamaged) {
		t.Errorf("unknown codec: %v", err)
	}
	if (Zstd + 1).Known() || !None.Known() || !Zstd.Known() {
		t.Error("known codecs")
	}
}

func FuzzDecode(f *testing.F) {
	var d Coder
	for _, v := range samples(f)[:40] {
		for _, c := range []Codec{S2, Zstd} {
			corpus.Add(f, uint8(c), d.Encode(nil, c, v), len(v))
		}
	}
	f.Fuzz(func(t *testing.T, c uint8, src []byte, length int) {
		length %= 1 << 20
		got, err := d.Decode(nil, Codec(c), src, length)
		switch {
		case err != nil && !errors.Is(err, ErrDamaged):
			t.Fatalf("error %v is no ErrDamaged", err)
		case err == nil && (len(got) != length || cap(got) != length):
			t.Fatalf("%d bytes in room for %d, want %d", len(got), cap(got), length)
		case err == nil && length > 0:
			again, err := d.Decode(nil, Codec(c), d.Encode(nil, Codec(c), got), length)
			if err != nil || !bytes.Equal(again, got) {
				t.Fatalf("what was decoded does not come back: %v", err)
			}
		}
	})
}

func BenchmarkCoder(b *testing.B) {
	for _, from := range []struct {
		name  string
		bytes []byte
	}{{"text", text(b)}, {"random", random(4 << 20)}} {
		for _, size := range []int{1 << 10, 4 << 10, 16 << 10, 64 << 10} {
			for _, c := range []Codec{S2, Zstd} {
				var d Coder
				buf := make([]byte, 0, 2*size)
				piece := func(i int) []byte {
					at := i * size % (len(from.bytes) - size)
					return from.bytes[at : at+size]
				}
				b.Run(fmt.Sprintf("encode/%s/%v/%d", from.name, c, size), func(b *testing.B) {
					b.SetBytes(int64(size))
					in, out := 0, 0
					for i := 0; b.Loop(); i++ {
						in, out = in+size, out+len(d.Encode(buf, c, piece(i)))
					}
					b.ReportMetric(float64(out)/float64(in), "ratio")
				})
				b.Run(fmt.Sprintf("decode/%s/%v/%d", from.name, c, size), func(b *testing.B) {
					b.SetBytes(int64(size))
					var encoded [16][]byte
					for i := range encoded {
						encoded[i] = bytes.Clone(d.Encode(nil, c, piece(7*i)))
					}
					for i := 0; b.Loop(); i++ {
						if _, err := d.Decode(buf, c, encoded[i%16], size); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
