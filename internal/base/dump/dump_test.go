package dump

import (
	"errors"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/test/kit/corpus"
)

func TestWriter(t *testing.T) {
	data := append([]byte("BRKJ\x01\x00\x02\x00"), make([]byte, 40)...)
	data = append(data, "the tail of it, longer than one line"...)
	for _, tc := range []struct {
		name string
		do   func(d *Writer)
		want string
	}{
		{"fields, gap, zeros, rest", func(d *Writer) {
			d.Section("header")
			d.Bytes(0, 4, "magic")
			d.U16(4, "format")
			d.Note("flags are not shown")
			d.Field(8, 40, "reserved", "")
			d.Field(48, 10, "text", "%s", "ten bytes")
		}, `
# header
00001000  42 52 4b 4a             magic = "BRKJ"
00001004  01 00                   format = 1
                                  ; flags are not shown
00001006  02 00
00001008  00 * 40                 reserved
00001030  74 68 65 20 74 61 69 6c text = ten bytes
00001038  20 6f
0000103a  66 20 69 74 2c 20 6c 6f
00001042  6e 67 65 72 20 74 68 61
0000104a  6e 20 6f 6e 65 20 6c 69
00001052  6e 65
`},
		{"nothing named", func(d *Writer) {}, `
00001000  42 52 4b 4a 01 00 02
00001007  00 * 41                 zeros
00001030  74 68 65 20 74 61 69 6c
00001038  20 6f 66 20 69 74 2c 20
00001040  6c 6f 6e 67 65 72 20 74
00001048  68 61 6e 20 6f 6e 65 20
00001050  6c 69 6e 65
`},
		{"beyond the end", func(d *Writer) {
			d.U32(82, "cut")
			d.U64(200, "far")
			d.Bytes(-1, 3, "before")
			d.Bytes(1, 1<<31-1, "huge")
		}, `
00001000  42 52 4b 4a 01 00 02
00001007  00 * 41                 zeros
00001030  74 68 65 20 74 61 69 6c
00001038  20 6f 66 20 69 74 2c 20
00001040  6c 6f 6e 67 65 72 20 74
00001048  68 61 6e 20 6f 6e 65 20
00001050  6c 69
00001052  6e 65                   cut (2 bytes of 4 missing)
00001054                          far (8 bytes of 8 missing)
00001054                          before (3 bytes of 3 missing)
00001001  52 4b 4a 01 00 02       huge (2147483564 bytes of 2147483647 missing)
00001007  00 * 41                 zeros
00001030  74 68 65 20 74 61 69 6c
00001038  20 6f 66 20 69 74 2c 20
00001040  6c 6f 6e 67 65 72 20 74
00001048  68 61 6e 20 6f 6e 65 20
00001050  6c 69 6e 65
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			d := New(&out, data, 0x1000)
			tc.do(d)
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if got, want := out.String(), strings.TrimPrefix(tc.want, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

type full struct{}

var errFull = errors.New("full")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriteErrorIsKept(t *testing.T) {
	d := New(full{}, []byte("abc"), 0)
	d.U8(0, "a")
	if err := d.Close(); !errors.Is(err, errFull) {
		t.Errorf("got %v, want %v", err, errFull)
	}
}

func FuzzWriter(f *testing.F) {
	corpus.Add(f, []byte("abc\x00\x00"), 1, 2)
	f.Fuzz(func(t *testing.T, data []byte, off, n int) {
		var out strings.Builder
		d := New(&out, data, 0)
		d.Field(off, n, "field", "%d", n)
		d.Bytes(off, n, "bytes")
		d.U64(off, "number")
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
