package objects

import (
	"bufio"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
)

// Flags of TestLargeObject.
var (
	largeBytes = flag.Int64("large", 48<<20, "length of the object of TestLargeObject, in bytes")
	largeDir   = flag.String("largedir", "", "where TestLargeObject makes its store; empty = a temporary directory")
)

// TestLargeObject writes one object that is larger than the memory of its store, overwrites it, and
// reads it back. The heap stays as small as for a short one.
//
//	go test ./objects -run TestLargeObject -v -large 10000000000 -largedir /tmp -timeout 1h
func TestLargeObject(t *testing.T) {
	if testing.Short() {
		t.Skip("48 MB are written to the disk")
	}
	dir := t.TempDir()
	if *largeDir != "" {
		var err error
		dir, err = os.MkdirTemp(*largeDir, "brock-large-")
		assert.OK(t, err)
		defer os.RemoveAll(dir)
	}
	db, err := brock.Open(brock.Options{Dir: dir, MemoryLimit: 32 << 20})
	assert.OK(t, err)
	defer func() { assert.OK(t, db.Close()) }()
	s, err := Open(db, "o", Options{})
	assert.OK(t, err)
	key, before := []byte("large"), peakMemory()
	report := func(what string, began time.Time) {
		took := time.Since(began)
		t.Logf("%s: %.1f s, %.0f MB/s; peak of memory %d MB, of which not of files at most %d MB; disk %d MB",
			what, took.Seconds(), float64(*largeBytes)/1e6/took.Seconds(), peakMemory()["VmHWM"]>>20, anonymous()>>20, diskBytes(dir)>>20)
	}
	began := time.Now()
	info, err := s.Upload(t.Context(), key, newStream(1), PutOptions{Size: *largeBytes}, nil)
	assert.OK(t, err)
	report("upload", began)
	began = time.Now()
	assert.OK(t, db.UpdateContext(t.Context(), brock.TxnOptions{}, func(txn *brock.Txn) error {
		info, err = s.Put(txn, key, newStream(2), PutOptions{Size: *largeBytes})
		return err
	}))
	report("put over it", began)
	began = time.Now()
	assert.OK(t, db.ViewContext(context.Background(), brock.TxnOptions{}, func(txn *brock.Txn) error {
		o, err := s.Open(txn, key)
		assert.OK(t, err)
		n, err := io.Copy(io.Discard, o)
		assert.Equal(t, "read", n, *largeBytes)
		report("read", began)
		began = time.Now()
		p, want := make([]byte, 64<<10), make([]byte, 64<<10)
		rng := rand.New(rand.NewPCG(1, 1))
		for range 200 {
			at := rng.Int64N(*largeBytes - int64(len(p)))
			assert.Must(o.ReadAt(p, at))
			streamAt(2, want, at)
			assert.SameText(t, "piece", string(p), string(want))
		}
		t.Logf("200 pieces of 64 KB at random: %.2f s", time.Since(began).Seconds())
		return err
	}))
	began = time.Now()
	assert.OK(t, s.Verify(t.Context(), func(d *DamageError) { t.Error(d) }))
	report("verify", began)
	assert.Equal(t, "size", info.Size, *largeBytes)
	if grown := anonymous() - before["RssAnon"]; grown > 64<<20 {
		t.Errorf("memory that is not of files has grown by %d MB", grown>>20)
	}
}

// streamAt fills p with the content of a stream from an offset. It differs in each 8 bytes.
func streamAt(seed uint64, p []byte, at int64) {
	word := func(at int64) uint64 { return (uint64(at)/8 + 1) * (0x9e3779b97f4a7c15 + 2*seed) }
	for ; at%8 == 0 && len(p) >= 8; at, p = at+8, p[8:] {
		binary.LittleEndian.PutUint64(p, word(at))
	}
	for i := range p {
		n := at + int64(i)
		p[i] = byte(word(n) >> (n % 8 * 8))
	}
}

// stream is a reader of largeBytes bytes.
type stream struct {
	seed uint64
	at   int64
}

func newStream(seed uint64) io.Reader { return &stream{seed: seed} }

func (s *stream) Read(p []byte) (int, error) {
	p = p[:min(int64(len(p)), *largeBytes-s.at)]
	if len(p) == 0 {
		return 0, io.EOF
	}
	streamAt(s.seed, p, s.at)
	s.at += int64(len(p))
	return len(p), nil
}

// peakMemory returns what Linux tells of the process's memory, in bytes; nothing elsewhere.
func peakMemory() map[string]int64 {
	found := map[string]int64{}
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return found
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		if n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64); err == nil {
			found[name] = n << 10
		}
	}
	return found
}

// anonymous is the memory that is not of files.
func anonymous() int64 { return peakMemory()["RssAnon"] }

// diskBytes is how many bytes the files of a directory have.
func diskBytes(dir string) (n int64) {
	files, err := os.ReadDir(dir)
	if err != nil {
		panic(fmt.Sprint("the directory of the store: ", err))
	}
	for _, f := range files {
		if info, err := f.Info(); err == nil {
			n += info.Size()
		}
	}
	return n
}
