package journal

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/segment"
	"github.com/brockdb/brock/vfs"
)

func benchConfig(b *testing.B) Config {
	return Config{Config: segment.Config{FS: vfs.OS(), Dir: b.TempDir(), UUID: uuid, Ring: testRing}, Owner: new(owner)}
}

// arena holds n encoded records.
func arena(n, valueBytes int, own bool) []byte {
	var p []byte
	for i := range n {
		p = entry.AppendRecord(p, &entry.Entry{Key: fmt.Appendf(nil, "\x00key%018d", i), Value: make([]byte, valueBytes), Kind: entry.Set}, own)
	}
	return entry.PadRecords(p)
}

func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct {
		name     string
		n, value int
		own      bool
	}{{"small", 1000, 16, false}, {"own1K", 1000, 1024, true}, {"one", 1, 16, false}} {
		b.Run(c.name, func(b *testing.B) {
			cfg := benchConfig(b)
			j := New(cfg)
			g := [][]byte{arena(c.n, c.value, c.own)}
			b.SetBytes(int64(len(g[0])))
			b.ReportAllocs()
			appended := 0
			for b.Loop() {
				if _, err := j.Append(0, ascending(len(g)), g); err != nil {
					b.Fatal(err)
				}
				if appended += len(g[0]); appended > 200<<20 { // keep the page cache out of it
					b.StopTimer()
					last := j.End().Segment
					_, err := j.Rotate()
					if err == nil {
						err = j.SyncSealed()
					}
					if err == nil {
						err = cfg.FS.Remove(cfg.Dir + "/" + filename.Of(filename.Journal, last))
					}
					if err != nil {
						b.Fatal(err)
					}
					appended = 0
					b.StartTimer()
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.n), "ns/record")
		})
	}
}

func BenchmarkAppendSync(b *testing.B) {
	j := New(benchConfig(b))
	g := [][]byte{arena(1, 1024, true)}
	for b.Loop() {
		if _, err := j.Append(0, ascending(len(g)), g); err != nil {
			b.Fatal(err)
		}
		if err := j.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReplay(b *testing.B) {
	for _, c := range []struct {
		name     string
		n, value int
		own      bool
	}{{"small", 1000, 16, false}, {"own1K", 100, 1024, true}} {
		b.Run(c.name, func(b *testing.B) {
			cfg := benchConfig(b)
			j := New(cfg)
			g := [][]byte{arena(c.n, c.value, c.own)}
			size := 0
			for size < 64<<20 {
				if _, err := j.Append(0, []entry.Version{1}, [][]byte{bytes.Clone(g[0])}); err != nil {
					b.Fatal(err)
				}
				size += len(g[0])
			}
			b.SetBytes(int64(size))
			for b.Loop() {
				n := 0
				_, err := Replay(ReplayConfig{Config: segment.Config{FS: cfg.FS, Dir: cfg.Dir, UUID: uuid, Ring: testRing}, ReadOnly: true}, func(_ entry.Position, payload []byte, _ frame.Header) error {
					n += len(payload)
					return nil
				})
				if err != nil || n != size {
					b.Fatal(n, err)
				}
			}
		})
	}
}
