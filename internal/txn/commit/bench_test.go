package commit

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
)

// void is a Store that keeps nothing and a Journal that costs nothing, so that
// what is measured is the pipeline.
type void struct{ groups int }

func (*void) Throttle(context.Context, []byte) error { return nil }
func (*void) Prepare([][]byte, int, int) error       { return nil }
func (*void) Apply(_ []byte, at entry.Position, _ entry.Version) (entry.Position, error) {
	return at, nil
}
func (*void) SortSince(entry.Version)                                         {}
func (*void) CheckReads(*ReadSet, entry.Version) (v entry.Version, err error) { return 0, nil }
func (*void) EachArrival(entry.Version, func(lo, hi []byte) error) (all bool, err error) {
	return true, nil
}
func (*void) ReadBases([]Operation) (entry.Version, error) { return 0, nil }
func (*void) FindRecent([]byte, uint64, entry.Version, int, *entry.Entry) (newer, known bool, err error) {
	return false, true, nil
}
func (*void) CatchUp()                                                          {}
func (v *void) Publish(entry.Version)                                           { v.groups++ }
func (*void) Newest([]byte, uint64, entry.Version) (entry.Version, bool, error) { return 0, false, nil }
func (*void) ChangedSince(lo, hi []byte, since entry.Version) (bool, error)     { return false, nil }
func (*void) Append(entry.Version, []entry.Version, [][]byte) (entry.Position, error) {
	return entry.Position{}, nil
}
func (*void) Sync() error    { return nil }
func (*void) Retract() error { return nil }

// file is a Journal over blocks that were written before, as a segment with zeros ahead has.
type file struct {
	f   *os.File
	off int64
	buf []byte
}

const fileSize = 64 << 20

func openFile(b *testing.B) *file {
	f, err := os.Create(filepath.Join(b.TempDir(), "journal"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	zero := make([]byte, 1<<20)
	for off := int64(0); off < fileSize; off += int64(len(zero)) {
		if _, err := f.WriteAt(zero, off); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	return &file{f: f}
}

func (j *file) Append(_ entry.Version, _ []entry.Version, transactions [][]byte) (entry.Position, error) {
	j.buf = append(j.buf[:0], make([]byte, 48)...)
	for _, p := range transactions {
		j.buf = append(j.buf, p...)
	}
	if j.off+int64(len(j.buf)) > fileSize {
		j.off = 0
	}
	at := entry.Position{Segment: 1, Offset: j.off + 48}
	_, err := j.f.WriteAt(j.buf, j.off)
	j.off += int64(len(j.buf))
	return at, err
}

func (j *file) Sync() error { return syncData(j.f) }

func (j *file) Retract() error { panic("never refused") }

// run commits b.N transactions of one small record from n goroutines.
func run(b *testing.B, j Journal, n int, synced bool) {
	store := new(void)
	p := New(Config{Store: store, Journal: j, Now: time.Now})
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			key := binary.BigEndian.AppendUint64(make([]byte, 0, 22), uint64(i))
			record := entry.AppendRecord(nil, &entry.Entry{Kind: entry.Set, Key: key, Value: make([]byte, 100)}, false)
			record = entry.PadRecords(record)
			r := &Request{Payload: record, Records: 1, Check: Check{Isolation: LastWriterWins}, Synced: synced}
			for left.Add(-1) >= 0 {
				if _, err := p.Commit(context.Background(), r); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/float64(store.groups), "txns/group")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

func BenchmarkBuffered(b *testing.B) {
	for _, n := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("committers=%d", n), func(b *testing.B) {
			run(b, new(void), n, false)
		})
	}
}

func BenchmarkBufferedFile(b *testing.B) {
	for _, n := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("committers=%d", n), func(b *testing.B) {
			run(b, openFile(b), n, false)
		})
	}
}

func BenchmarkSynced(b *testing.B) {
	for _, n := range []int{1, 2, 4, 16, 64} {
		b.Run(fmt.Sprintf("committers=%d", n), func(b *testing.B) {
			run(b, openFile(b), n, true)
		})
	}
}

// A group of transactions that each read two keys and a range, in one group.
func BenchmarkCheckInGroup(b *testing.B) {
	for _, n := range []int{16, 64, 1024} {
		b.Run(fmt.Sprintf("transactions=%d", n), func(b *testing.B) {
			p := New(Config{Store: new(void), Journal: new(void), HashSeed: testSeed})
			g := new(group)
			for i := range n {
				r := request(0, Serializable, fmt.Sprintf("w%06d", i))
				r.Check.Reads = reads([]string{fmt.Sprintf("r%06d", i), fmt.Sprintf("s%06d", i)}, [][2]string{{fmt.Sprintf("t%06d", i), fmt.Sprintf("u%06d", i)}})
				g.addMember(r)
			}
			for b.Loop() {
				p.leader.decideMembers(g.members)
				p.leader.forgetGroup()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/txn")
		})
	}
}
