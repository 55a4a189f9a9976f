package repository

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock/internal/test/kit/corpus"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func sampleIndex() *index {
	one := func(name string, size int64, digit string) file {
		sha := strings.Repeat(digit, 64)
		return file{Name: name, Size: size, SHA256: sha, Object: objects + sha + "-abcdefghij"}
	}
	x := &index{
		Store: "00112233445566778899aabbccddeeff", Version: 42, Time: time.Date(2026, 11, 22, 15, 4, 5, 678e6, time.UTC),
		Files: []file{one("000007.run", 81920, "1"), one("000003.log", 12345, "2"), one("MANIFEST-000001", 300, "3"), one("SUPER", 8192, "4")},
		id:    "00112233-20261122T150405.678Z-abcdefghij",
	}
	x.Files[0].Modified, x.Files[0].Ends = 1795359845678000000, strings.Repeat("5", 64)
	return x
}

// TestGolden holds the format of the two kinds of documents.
func TestGolden(t *testing.T) {
	x := sampleIndex()
	m := mark{Objects: []string{x.Files[0].Object, x.Files[1].Object}}
	for _, c := range []struct {
		name, magic string
		v           any
	}{{"index.golden", indexMagic, x}, {"mark.golden", markMagic, &m}} {
		got, err := encodeDocument(c.magic, c.v)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", c.name)
		if *rewrite {
			if err := os.WriteFile(path, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: got\n%s", c.name, got)
		}
	}
	golden, err := os.ReadFile(filepath.Join("testdata", "index.golden"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodeIndex(x.id, golden); err != nil || !reflect.DeepEqual(got, x) {
		t.Errorf("decoded: %+v, %v", got, err)
	}
	// Every flipped bit is found.
	for i := range golden {
		golden[i] ^= 1 << (i % 8)
		if got, err := decodeIndex(x.id, golden); err == nil {
			t.Fatalf("bit %d of byte %d is flipped: %+v", i%8, i, got)
		}
		golden[i] ^= 1 << (i % 8)
	}
}

// TestForgedIndexes changes an index and gives it a right hash.
func TestForgedIndexes(t *testing.T) {
	for name, forge := range map[string]func(x *index){
		"no uuid":            func(x *index) { x.Store = "00112233" },
		"another store":      func(x *index) { x.Store = strings.Repeat("ff", 16) },
		"no files":           func(x *index) { x.Files = nil },
		"no SUPER":           func(x *index) { x.Files = x.Files[:3] },
		"no manifest":        func(x *index) { x.Files = append(x.Files[:2], x.Files[3]) },
		"SUPER first":        func(x *index) { x.Files[0], x.Files[3] = x.Files[3], x.Files[0] },
		"a file twice":       func(x *index) { x.Files[1].Name = x.Files[0].Name },
		"a lock":             func(x *index) { x.Files[1].Name = "LOCK" },
		"a path":             func(x *index) { x.Files[1].Name = "../000003.log" },
		"a foreign file":     func(x *index) { x.Files[1].Name = "passwd" },
		"a negative size":    func(x *index) { x.Files[1].Size = -1 },
		"another object":     func(x *index) { x.Files[1].Object = x.Files[0].Object },
		"no object":          func(x *index) { x.Files[1].Object = "" },
		"no object, no hash": func(x *index) { x.Files[1].Object, x.Files[1].SHA256 = "", "" },
		"an object's path":   func(x *index) { x.Files[1].Object = "../" + x.Files[1].Object },
	} {
		x := sampleIndex()
		forge(x)
		p, err := encodeDocument(indexMagic, x)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeIndex(x.id, p); err == nil {
			t.Errorf("%s: was taken for an index", name)
		}
	}
}

// FuzzIndex: what is decoded encodes to the same index, whatever the bytes are.
func FuzzIndex(f *testing.F) {
	x := sampleIndex()
	p, err := encodeDocument(indexMagic, x)
	if err != nil {
		f.Fatal(err)
	}
	_, body, _ := bytes.Cut(p, []byte("\n"))
	corpus.Add(f, body)
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = decodeIndex(x.id, body)
		got := &index{id: x.id}
		p, err := encodeDocument(indexMagic, jsonRaw(body))
		if err != nil {
			return
		}
		if got, err = decodeIndex(x.id, p); err != nil {
			return
		}
		p, err = encodeDocument(indexMagic, got)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := decodeIndex(x.id, p); err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%+v has become %+v, %v", got, again, err)
		}
	})
}

// jsonRaw is a body as it is.
type jsonRaw []byte

func (r jsonRaw) MarshalJSON() ([]byte, error) { return r, nil }

// TestKeep chooses among backups of some days.
func TestKeep(t *testing.T) {
	begin := time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC) // a Thursday
	var list []*index
	for day := range 40 {
		for _, hour := range []int{0, 12} {
			at := begin.AddDate(0, 0, day).Add(time.Duration(hour) * time.Hour)
			list = append(list, &index{Time: at, id: at.Format("0102-15")})
		}
	}
	for _, c := range []struct {
		keep Keep
		want string
	}{
		{Keep{Last: 1}, "0209-13"},
		{Keep{Last: 3}, "0208-13 0209-01 0209-13"},
		{Keep{Within: 12 * time.Hour}, "0209-01 0209-13"},
		{Keep{Hourly: 2}, "0209-01 0209-13"},
		{Keep{Daily: 3}, "0207-13 0208-13 0209-13"},
		{Keep{Weekly: 3}, "0201-13 0208-13 0209-13"},
		{Keep{Monthly: 5}, "0131-13 0209-13"},
		{Keep{Yearly: 1}, "0209-13"},
		{Keep{Last: 2, Daily: 2, Weekly: 2, Monthly: 2}, "0131-13 0208-13 0209-01 0209-13"},
		{Keep{Within: time.Nanosecond}, "0209-13"},
	} {
		keep, remove := c.keep.choose(list)
		var got []string
		for _, x := range keep {
			got = append(got, x.id)
		}
		if s := strings.Join(got, " "); s != c.want || len(keep)+len(remove) != len(list) {
			t.Errorf("%+v keeps %s, and removes %d of %d", c.keep, s, len(remove), len(list))
		}
	}
	if keep, remove := (Keep{}).choose(list); len(keep) != len(list) || len(remove) != 0 {
		t.Errorf("without a rule %d of %d stay", len(keep), len(list))
	}
}
