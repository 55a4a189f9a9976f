package space

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
)

// compressible is Go's own source, some megabytes of it.
func compressible(t testing.TB) []byte {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(root)), "src", "*", "*.go"))
	assert.OK(t, err)
	var all []byte
	for _, f := range files {
		all = append(all, assert.Must(os.ReadFile(f))...)
		if len(all) > 32<<20 {
			break
		}
	}
	if len(all) < 1<<20 {
		t.Skip("no source of Go is here")
	}
	return all
}

// BenchmarkCompression loads a store of text or random values, compacts it, and
// reads values at random: by Get, which copies, and in a transaction.
// "disk" is the bytes in files for each byte of value.
func BenchmarkCompression(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	noise := make([]byte, 16<<20)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	for _, from := range []struct {
		name  string
		bytes []byte
	}{{"text", compressible(b)}, {"random", noise}} {
		for _, size := range []int{16, 128, 1 << 10, 16 << 10, 64 << 10} {
			for _, c := range []struct {
				name        string
				compression brock.Compression
			}{{"none", brock.NoCompression}, {"s2", brock.S2}, {"zstd", brock.Zstd}} {
				b.Run(fmt.Sprintf("%s/%d/%s", from.name, size, c.name), func(b *testing.B) {
					benchmarkCompression(b, from.bytes, size, c.compression)
				})
			}
		}
	}
}

func benchmarkCompression(b *testing.B, from []byte, size int, c brock.Compression) {
	n := min(128<<20/size, 200_000)
	if testing.Short() {
		n = min(n, 1<<20/size)
	}
	value := func(i int) []byte {
		at := i * 7919 % (len(from) - size)
		return from[at : at+size]
	}
	rng := rand.New(rand.NewPCG(1, 1))
	var load, get, view time.Duration
	var disk, reads int64
	for b.Loop() {
		db := assert.Must(brock.Open(brock.Options{Dir: b.TempDir(), Durability: brock.Buffered, KeyspaceDefaults: brock.KeyspaceOptions{Compression: c}}))
		begin := time.Now()
		w := db.NewWriter(context.Background())
		for i := range n {
			assert.OK(b, w.Set(fmt.Appendf(nil, "key%08d", i), value(i)))
		}
		assert.OK(b, w.Close())
		load += time.Since(begin)
		assert.OK(b, db.Compact(context.Background()))
		m := db.Metrics()
		disk += m.Tree.RunBytes + m.Tree.SegmentBytes
		for i := range n {
			assert.Must(db.Get(fmt.Appendf(nil, "key%08d", i)))
		}
		rounds := min(n, 50_000)
		begin = time.Now()
		for range rounds {
			assert.Must(db.Get(fmt.Appendf(nil, "key%08d", rng.IntN(n))))
		}
		get += time.Since(begin)
		begin = time.Now()
		assert.OK(b, db.View(func(txn *brock.Txn) error {
			for range rounds {
				assert.Must(assert.Must(txn.Get(fmt.Appendf(nil, "key%08d", rng.IntN(n)))).Value())
			}
			return nil
		}))
		view += time.Since(begin)
		reads += int64(rounds)
		assert.OK(b, db.Close())
	}
	written := float64(b.N) * float64(n)
	b.ReportMetric(float64(load.Nanoseconds())/written, "ns/set")
	b.ReportMetric(float64(get.Nanoseconds())/float64(reads), "ns/get")
	b.ReportMetric(float64(view.Nanoseconds())/float64(reads), "ns/view")
	b.ReportMetric(float64(disk)/written/float64(size), "disk")
	b.ReportMetric(0, "ns/op")
}
