package damage

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
)

// openScrubbed opens the rotStore s again, with these events.
func (s *rotStore) openScrubbed(every time.Duration, found func(*brock.CorruptionError)) {
	s.t.Helper()
	assert.OK(s.t, s.Close())
	s.o.Maintenance.ScrubEvery, s.o.Events.Corruption = every, found
	s.DB = assert.Must(brock.Open(s.o))
}

// A store that nobody touches verifies every byte in time, and goes on where it was
// when it is opened again.
func TestScrub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRotStore(t)
		found := 0
		s.openScrubbed(24*time.Hour, func(*brock.CorruptionError) { found++ })
		s.write(0, 1, 1)
		assert.OK(t, s.Compact(context.Background()))
		s.write(0, 5, 2)
		assert.OK(t, s.Flush(context.Background()))
		<-time.After(6 * time.Hour)
		m := s.Metrics().Tree
		files := m.RunBytes + m.SegmentBytes + m.ForwardingBytes
		if m.ScrubbedBytes == 0 || m.ScrubbedBytes > files*3/4 || m.Scrubs != 0 {
			t.Errorf("after a quarter of the time %d bytes of %d are verified, %d times all", m.ScrubbedBytes, files, m.Scrubs)
		}
		before := m.ScrubbedBytes
		s.openScrubbed(24*time.Hour, func(*brock.CorruptionError) { found++ })
		<-time.After(7 * time.Hour)
		m = s.Metrics().Tree
		if all := before + m.ScrubbedBytes; m.Scrubs != 1 || all < m.RunBytes || all > files*3/2 || m.LastScrub.IsZero() {
			t.Errorf("after half of the time %d bytes of %d are verified, %d times all, last at %v", all, files, m.Scrubs, m.LastScrub)
		}
		<-time.After(10 * time.Hour)
		assert.Equal(t, "passes before the time is over", s.Metrics().Tree.Scrubs, 1)
		assert.Equal(t, "damage", found, 0)
		s.fs.Rot("", flipIn("000602 0")) // in a run
		s.fs.Rot("", flipIn("000603 0")) // in a segment
		<-time.After(14 * time.Hour)
		m = s.Metrics().Tree
		if m.Scrubs != 2 || found < 2 || m.Damaged != int64(found) {
			t.Errorf("%d passes, %d damaged places, %d events", m.Scrubs, m.Damaged, found)
		}
		s.sound("scrub")
	})
}

// Every byte of every file is read.
func TestScrubReadsEveryByte(t *testing.T) {
	s := newRotStore(t)
	s.write(0, 1, 1)
	assert.OK(t, s.Compact(context.Background()))
	s.write(0, 2, 2)
	assert.OK(t, s.DeleteRange([]byte(rotKey(100)), []byte(rotKey(110))))
	for i := 100; i < 110; i++ {
		delete(s.want, rotKey(i))
	}
	assert.OK(t, s.Flush(context.Background()))
	synctest.Test(t, func(t *testing.T) {
		s.t = t
		read := map[string]map[int64]bool{} // pages
		s.openScrubbed(time.Hour, nil)
		s.watch(func(op faultfs.Op) {
			if op.Kind == faultfs.Read {
				if read[op.Path] == nil {
					read[op.Path] = map[int64]bool{}
				}
				for p := op.Offset / 4096; p <= (op.Offset+op.Len-1)/4096; p++ {
					read[op.Path][p] = true
				}
			}
		})
		<-time.After(40 * time.Minute)
		assert.Equal(t, "passes", s.Metrics().Tree.Scrubs, 1)
		s.watch(nil)
		names := assert.Must(s.fs.List(s.o.Dir))
		for _, name := range names {
			if !strings.HasSuffix(name, ".run") && !strings.HasSuffix(name, ".val") && !strings.HasPrefix(name, "MANIFEST") && name != "SUPER" {
				continue
			}
			path := fmt.Sprint(s.o.Dir, "/", name)
			size := assert.Must(s.fs.Stat(path)).Size
			pages := read[path]
			if pages == nil {
				pages = read[name]
			}
			for p := range (size + 4095) / 4096 {
				if !pages[p] {
					t.Errorf("%s: page %d of %d bytes was not read", name, p, size)
					break
				}
			}
		}
		assert.OK(t, s.Close())
	})
	s.t = t
	s.DB = assert.Must(brock.Open(s.o))
}

// A negative time turns it off; Close waits for no pass.
func TestNoScrub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRotStore(t)
		s.write(0, 1, 1)
		s.openScrubbed(-1, nil)
		<-time.After(365 * 24 * time.Hour)
		assert.Equal(t, "scrubbed", s.Metrics().Tree.ScrubbedBytes, 0)
		s.sound("no scrub")
	})
}
