package y

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/quick"
	"time"

	genuine "github.com/dgraph-io/badger/v4/y"
	"github.com/dgraph-io/ristretto/v2/z"

	"github.com/brockdb/brock/compat/badger/pb"
)

func TestKeysAreThoseOfBadger(t *testing.T) {
	same := func(key []byte, ts uint64) bool {
		k, g := KeyWithTs(key, ts), genuine.KeyWithTs(key, ts)
		return bytes.Equal(k, g) && ParseTs(k) == genuine.ParseTs(g) &&
			bytes.Equal(ParseKey(k), genuine.ParseKey(g)) && SameKey(k, KeyWithTs(key, ts+1))
	}
	if err := quick.Check(same, nil); err != nil {
		t.Fatal(err)
	}
	order := func(a, b []byte, ta, tb uint64) bool {
		x, y := KeyWithTs(a, ta), KeyWithTs(b, tb)
		return CompareKeys(x, y) == genuine.CompareKeys(x, y) && CompareKeys(x, x) == 0 &&
			SameKey(x, y) == genuine.SameKey(x, y)
	}
	if err := quick.Check(order, nil); err != nil {
		t.Fatal(err)
	}
	if ParseKey([]byte("short")) != nil || ParseTs([]byte("12345678")) != 0 {
		t.Fatal("short keys have neither key nor version")
	}
}

func TestCryptIsThatOfBadger(t *testing.T) {
	iv, err := GenerateIV()
	if err != nil {
		t.Fatal(err)
	}
	key, plain := bytes.Repeat([]byte{7}, 32), []byte("a text that is not of whole blocks")
	secret, err := XORBlockAllocate(plain, key, iv)
	if err != nil {
		t.Fatal(err)
	}
	back, err := genuine.XORBlockAllocate(secret, key, iv)
	if err != nil || !bytes.Equal(back, plain) || bytes.Equal(secret, plain) {
		t.Fatalf("Badger decrypts %q, %v", back, err)
	}
	var w bytes.Buffer
	if err := XORBlockStream(&w, plain, key, iv); err != nil || !bytes.Equal(w.Bytes(), secret) {
		t.Fatalf("stream: %x, %v", w.Bytes(), err)
	}
	for _, err := range []error{
		XORBlock(secret, plain, key[:5], iv), XORBlock(secret, plain, key, iv[:5]),
		XORBlock(secret[:1], plain, key, iv),
	} {
		if err == nil {
			t.Fatal("a wrong length is no error")
		}
	}
}

func TestChecksums(t *testing.T) {
	data := []byte("some data")
	for _, kind := range []pb.Checksum_Algorithm{pb.Checksum_CRC32C, pb.Checksum_XXHash64} {
		sum := CalculateChecksum(data, kind)
		if err := VerifyChecksum(data, &pb.Checksum{Algo: kind, Sum: sum}); err != nil {
			t.Fatal(err)
		}
		if err := VerifyChecksum(data, &pb.Checksum{Algo: kind, Sum: sum + 1}); !errors.Is(err, ErrChecksumMismatch) {
			t.Fatal(err)
		}
	}
}

func TestErrorsReadAsInBadger(t *testing.T) {
	base := errors.New("base")
	if got, want := Wrapf(base, "at %d", 7).Error(), genuine.Wrapf(base, "at %d", 7).Error(); got != want {
		t.Fatalf("%q, in Badger %q", got, want)
	}
	if !errors.Is(Wrap(base, "x"), base) || Wrap(nil, "x") != nil || Wrapf(nil, "x") != nil {
		t.Fatal("Wrap loses its error")
	}
	other := errors.New("other")
	for _, pair := range [][2]error{{base, other}, {base, nil}, {nil, other}} {
		got, want := CombineErrors(pair[0], pair[1]), genuine.CombineErrors(pair[0], pair[1])
		if got.Error() != want.Error() {
			t.Fatalf("%q, in Badger %q", got, want)
		}
	}
	if CombineErrors(nil, nil) != nil {
		t.Fatal("no errors make an error")
	}
	Check(nil)
	Check2(1, nil)
	AssertTrue(true)
	AssertTruef(true, "never")
}

// TestWaterMark begins and ends indices in any order on many goroutines.
func TestWaterMark(t *testing.T) {
	closer := z.NewCloser(1)
	w := &WaterMark{Name: "test"}
	w.Init(closer)
	const count = 2000
	for i := uint64(1); i <= count; i++ {
		w.Begin(i)
	}
	if w.LastIndex() != count || w.DoneUntil() != 0 {
		t.Fatal(w.LastIndex(), w.DoneUntil())
	}
	var ended [count + 1]atomic.Bool
	var all sync.WaitGroup
	for _, i := range rand.Perm(count) {
		index := uint64(i + 1)
		all.Go(func() {
			ended[index].Store(true)
			w.Done(index)
		})
		all.Go(func() {
			if err := w.WaitForMark(context.Background(), index); err != nil {
				t.Error(err)
			}
			for k := uint64(1); k <= index; k++ {
				if !ended[k].Load() {
					t.Errorf("mark %d came before the end of %d", index, k)
					return
				}
			}
		})
	}
	all.Wait()
	if w.DoneUntil() != count {
		t.Fatal(w.DoneUntil())
	}
	closer.SignalAndWait()
}

func TestWaterMarkEdges(t *testing.T) {
	closer := z.NewCloser(1)
	defer closer.SignalAndWait()
	w := &WaterMark{}
	w.Init(closer)
	w.SetDoneUntil(10)
	w.BeginMany([]uint64{12, 13})
	w.Begin(12)
	w.DoneMany([]uint64{12, 13})
	if w.DoneUntil() != 10 { // 12 has begun twice
		t.Fatal(w.DoneUntil())
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.WaitForMark(ctx, 13); err != context.Canceled || len(w.waiters) != 0 {
		t.Fatal(err, w.waiters)
	}
	w.Done(12)
	if w.DoneUntil() != 13 {
		t.Fatal(w.DoneUntil())
	}
	w.Done(20) // without Begin, as after a restart
	if w.DoneUntil() != 20 {
		t.Fatal(w.DoneUntil())
	}
	w.Begin(5)
	w.Done(5)
	if w.DoneUntil() != 20 {
		t.Fatal("DoneUntil went back to", w.DoneUntil())
	}
	w.BeginMany(nil)
}

func TestThrottle(t *testing.T) {
	throttle := NewThrottle(3)
	var running atomic.Int64
	for range 50 {
		if err := throttle.Do(); err != nil {
			t.Fatal(err)
		}
		go func() {
			if n := running.Add(1); n > 3 {
				t.Errorf("%d workers at a time", n)
			}
			running.Add(-1)
			throttle.Done(nil)
		}()
	}
	if err := throttle.Finish(); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("worker")
	if err := throttle.Do(); err != nil {
		t.Fatal(err)
	}
	throttle.Done(failed)
	if throttle.Do() != failed || throttle.Finish() != failed || throttle.Finish() != failed {
		t.Fatal("the worker's error is lost")
	}
	defer func() {
		if recover() == nil {
			t.Fatal("Done without Do does not panic")
		}
	}()
	throttle.Done(nil)
}

func TestSmallHelpers(t *testing.T) {
	for _, size := range []uint64{0, 9, 10, 1023, 1024, 12312412, 1 << 40, 1<<64 - 1} {
		if got, want := IBytesToString(size, 1), genuine.IBytesToString(size, 1); got != want {
			t.Errorf("%d: %q, in Badger %q", size, got, want)
		}
	}
	for _, text := range []string{"1s", "61s", "3h2m1s", "100h"} {
		d := parseDuration(t, text)
		if got, want := FixedDuration(d), genuine.FixedDuration(d); got != want {
			t.Errorf("%s: %q, in Badger %q", text, got, want)
		}
	}
	if BytesToU16(U16ToBytes(7)) != 7 || BytesToU32(U32ToBytes(1<<31)) != 1<<31 ||
		BytesToU64(U64ToBytes(1<<63)) != 1<<63 || !bytes.Equal(U64ToBytes(9), genuine.U64ToBytes(9)) {
		t.Fatal("numbers")
	}
	if SafeCopy(nil, nil) == nil || Copy(nil) == nil || string(SafeCopy([]byte("xx"), []byte("abc"))) != "abc" {
		t.Fatal("copies")
	}
	var s Slice
	if len(s.Resize(5)) != 5 || len(s.Resize(3)) != 3 || cap(s.Resize(1)) < 5 {
		t.Fatal("Slice")
	}
	if NewKV(nil) == nil {
		t.Fatal("NewKV")
	}
	name := filepath.Join(t.TempDir(), "f")
	if _, err := OpenExistingFile(name, Sync); err == nil {
		t.Fatal("a missing file was opened")
	}
	f, err := CreateSyncedFile(name, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("text"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := CreateSyncedFile(name, false); err == nil {
		t.Fatal("a file was created twice")
	}
	checkFile(t, name)
}

func parseDuration(t *testing.T, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// checkFile opens a file of the content "text" in each way.
func checkFile(t *testing.T, name string) {
	read := func(f *os.File, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := read(OpenExistingFile(name, ReadOnly)); got != "text" {
		t.Fatal(got)
	}
	if got := read(OpenSyncedFile(name, true)); got != "text" {
		t.Fatal(got)
	}
	if got := read(OpenTruncFile(name, true)); got != "" {
		t.Fatal(got)
	}
}
