package brock

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/brockdb/brock/vfs"
)

var spaceTimes = flag.Int("space", 6, "how many times the space tests overwrite their data; 20 shows the bound in docs/guarantees.md")

// The space tests run at about a fiftieth of the defaults' sizes: what counts is
// their ratio to the data.
var spaceTuning = Tuning{MemtableSize: 256 << 10, SegmentSize: 8 << 20, RunFileSize: 4 << 20}

const (
	spaceKeys  = 24_000
	spaceValue = 4 << 10
)

type spaceStore struct {
	*DB
	t    *testing.T
	fs   *vfs.Mem
	rng  *rand.Rand
	live map[uint64]int // value length by key
}

func newSpaceStore(t *testing.T, m Maintenance) *spaceStore {
	t.Helper()
	s := &spaceStore{t: t, fs: vfs.NewMem(), rng: rand.New(rand.NewPCG(3, 4)), live: map[uint64]int{}}
	db, err := Open(Options{Dir: "/s", FS: s.fs, Durability: Buffered, Tuning: spaceTuning, Maintenance: m})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s.DB = db
	return s
}

func spaceKey(i uint64) []byte { return binary.BigEndian.AppendUint64(nil, i) }

func (s *spaceStore) set(i uint64, n int) {
	s.t.Helper()
	v := make([]byte, n)
	binary.BigEndian.PutUint64(v, s.rng.Uint64())
	if err := s.Set(spaceKey(i), v); err != nil {
		s.t.Fatal(err)
	}
	s.live[i] = n
}

func (s *spaceStore) load() {
	for _, i := range s.rng.Perm(spaceKeys) {
		s.set(uint64(i), spaceValue)
	}
}

// liveBytes is what keys and values take, with their records and entries.
func (s *spaceStore) liveBytes() int64 {
	var n int64
	for _, v := range s.live {
		n += int64(v) + 8 + 24 + 40
	}
	return n
}

// disk is the length of all files.
func (s *spaceStore) disk() int64 {
	s.t.Helper()
	names, err := s.fs.List("/s")
	if err != nil {
		s.t.Fatal(err)
	}
	var n int64
	for _, name := range names {
		if info, err := s.fs.Stat(filepath.Join("/s", name)); err == nil {
			n += info.Size
		}
	}
	return n
}

func (s *spaceStore) ratio() float64 { return float64(s.disk()) / float64(s.liveBytes()) }

// settled waits until the store has tidied up after the last write.
func (s *spaceStore) settled(bound float64) {
	s.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	bound += float64(10<<20) / float64(s.liveBytes())
	for s.ratio() > bound && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond) // there is no event for "nothing left to do"
	}
	if r := s.ratio(); r > bound {
		s.t.Errorf("a quiet store takes %.2f times what is live in it, want %.2f:\n%s", r, bound, s.Metrics().String())
	}
	if err := s.Verify(context.Background(), nil); err != nil {
		s.t.Error(err)
	}
}

// Random overwrites with nothing else: disk use stays bounded all the time, and
// shrinks by itself afterwards.
func TestSpaceUnderOverwrites(t *testing.T) {
	for _, garbage := range []float64{0, 0.25} {
		t.Run(fmt.Sprintf("ratio %v", garbage), func(t *testing.T) {
			s := newSpaceStore(t, Maintenance{GarbageRatio: garbage, IdleAfter: 100 * time.Millisecond})
			s.load()
			worst, sum, n := 0.0, 0.0, 0
			for i := range *spaceTimes * spaceKeys {
				s.set(s.rng.Uint64N(spaceKeys), spaceValue)
				if i%256 == 0 && i > 2*spaceKeys {
					r := s.ratio()
					worst, sum, n = max(worst, r), sum+r, n+1
				}
			}
			m := s.Metrics()
			t.Logf("overwritten %d times: disk %.2f times live on average, %.2f at worst; written %.2f times\n%s", *spaceTimes, sum/float64(max(n, 1)), worst, m.WriteAmp(), m)
			s.settled(1.25)
			t.Logf("quiet: %.2f", s.ratio())
		})
	}
}
