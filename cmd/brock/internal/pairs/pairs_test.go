package pairs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/test/kit/corpus"
)

func readAll(f Format, text string) (all []Pair, err error) {
	err = each(NewReader(Form{Format: f}, strings.NewReader(text), "test"), func(p Pair) error {
		all = append(all, p)
		return nil
	})
	return all, err
}

func samePair(a, b Pair) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && a.Meta == b.Meta && a.Expires.Equal(b.Expires)
}

// FuzzRead reads anything without harm; and what it takes for pairs comes back
// the same from what each format writes of it.
func FuzzRead(f *testing.F) {
	formats := []Format{JSONL, CSV, TSV}
	for i, text := range []string{
		"{\"key\":\"a\",\"value\":\"b\",\"meta\":1,\"expires\":\"2030-01-01T00:00:00Z\"}\n{\"keyB64\":\"/w==\",\"valueB64\":\"\"}",
		"key,value,attributes\na,b,meta=7 expires=1\n/w==,,base64\n", "a,\"b\r\n\"\"c\",d\n",
		"a\tb\nkey\tvalue\n\tx",
	} {
		corpus.Add(f, min(i, 2), text)
	}
	f.Fuzz(func(t *testing.T, format int, text string) {
		if format < 0 || format > 2 {
			return
		}
		read, err := readAll(formats[format], text)
		var syntax *SyntaxError
		if err != nil && !errors.As(err, &syntax) {
			t.Fatalf("%v is no SyntaxError", err)
		}
		for _, to := range formats {
			var out bytes.Buffer
			w := NewWriter(to, &out)
			for _, p := range read {
				if p.Expires.Year() > 9999 || p.Expires.Nanosecond()%1e6 != 0 || p.Expires.UnixMilli() < 0 {
					return // not an expiry that a store gives out
				}
				if err := w.Write(p); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			again, err := readAll(to, out.String())
			if err != nil || !slices.EqualFunc(read, again, samePair) {
				t.Fatalf("%s: %v read again as %v, %v", to, read, again, err)
			}
		}
	})
}

func TestLongLines(t *testing.T) {
	for _, f := range []Format{JSONL, CSV, TSV} {
		var out bytes.Buffer
		w := NewWriter(f, &out)
		want := []Pair{
			{Key: []byte("a"), Value: bytes.Repeat([]byte("x"), 3<<20)},
			{Key: []byte("b"), Value: bytes.Repeat([]byte{0xff}, 1<<20)},
			{Key: []byte("c"), Value: []byte{}},
		}
		for _, p := range want {
			if err := w.Write(p); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		got, err := readAll(f, out.String())
		if err != nil || !slices.EqualFunc(got, want, samePair) {
			t.Errorf("%s: %d pairs, %v", f, len(got), err)
		}
	}
}

// TestAgain reads each pair of a file a second time, from where it lies.
func TestAgain(t *testing.T) {
	for name, text := range map[string]string{
		"x.jsonl": "\uFEFF{\"key\":\"a\",\"value\":\"1\"}\r\n\n{\"key\":\"b\",\"value\":2}",
		"x.csv":   "\uFEFFa,1\r\n\n\"b\",\"2\n\"\nc,3,4\n",
		"y.csv":   "attributes,value,key\nbase64,MQ==,YQ==\n,\"2\n\",b\n",
		"x.tsv":   "value\tkey\n1\ta\n\n2\tb\n",
		"y.tsv":   "a\t1\n\uFEFFb\t2\nkey\tvalue\nc\t3\t4\n",
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(path, Form{})
		if err != nil {
			t.Fatal(err)
		}
		var all []Pair
		var places []Place
		if err := s.Each(func(p Pair, at Place) error { all, places = append(all, p), append(places, at); return nil }); err != nil {
			t.Fatal(err)
		}
		again := s.Again()
		for i, p := range slices.Backward(all) {
			if got, err := again.Value(p.Key, places[i]); err != nil || !bytes.Equal(got, p.Value) {
				t.Errorf("%s: %q has %q, read again %q, %v", name, p.Key, p.Value, got, err)
			}
		}
		if len(all) < 2 || string(all[0].Key) != "a" || string(all[0].Value) != "1" || places[1].Line < 2 {
			t.Errorf("%s: %v at %v", name, all, places)
		}
		// The text is in memory by now. What a reader of a larger file meets:
		s.(*fileSource).again = s.(*fileSource).file
		for _, changed := range []string{strings.Repeat("\"\n", 50), strings.Repeat("\n", 100), text[:places[1].Offset+1]} {
			if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := again.Value(all[1].Key, places[1]); !errors.Is(err, ErrChanged) {
				t.Errorf("%s is %q now: %v", name, changed, err)
			}
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := again.Value(all[1].Key, places[1]); err != nil || !bytes.Equal(got, all[1].Value) {
			t.Errorf("%s is again as it was: %q, %v", name, got, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAgainReadsOnePair: what a pair costs is not what a buffer for the whole file costs.
func TestAgainReadsOnePair(t *testing.T) {
	for name, line := range map[string]string{"x.jsonl": "{\"key\":\"a\",\"value\":\"b\"}\n", "x.csv": "a,b\n", "x.tsv": "a\tb\n"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(path, Form{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		err = s.Each(func(p Pair, at Place) error {
			const calls = 1000
			var before, after runtime.MemStats
			again := s.Again()
			runtime.ReadMemStats(&before)
			for range calls {
				if _, err := again.Value(p.Key, at); err != nil {
					return err
				}
			}
			runtime.ReadMemStats(&after)
			if bytes := (after.TotalAlloc - before.TotalAlloc) / calls; bytes > 1<<10 {
				t.Errorf("%s: %d bytes are allocated for a pair", name, bytes)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a/b"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a/b/c", "d"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("d", filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	s, err := Open(dir, Form{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var got []string
	if err := s.Each(func(p Pair, at Place) error {
		again, err := s.Again().Value(p.Key, at)
		got = append(got, string(p.Key), string(p.Value), string(again))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a/b/c", "a/b/c", "a/b/c", "d", "d", "d"}; !slices.Equal(got, want) || s.Bytes() != 6 {
		t.Errorf("%q of %d bytes", got, s.Bytes())
	}
}
