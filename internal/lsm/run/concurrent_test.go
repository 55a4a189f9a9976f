package run

import (
	"sync"
	"testing"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/pageio"
)

// Readers verify pages and fill the cache at the same time.
func TestReadersRunTogether(t *testing.T) { forms(t, testReadersRunTogether) }

func testReadersRunTogether(t *testing.T) {
	s := &shapes[2]
	all := s.generate(9)
	cfg := writerConfig(t.TempDir())
	cfg.FileBytes = s.fileBytes
	m := writeRun(t, cfg, all)
	for _, noMap := range []bool{false, true} {
		oc := openConfig(cfg.Dir, noMap)
		oc.Cache = pageio.NewCache(2 << 20)
		r := openRun(t, oc, m)
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				var e entry.Entry
				for i := g; i < len(all); i += 37 {
					k := all[i].Key
					if ok, err := r.Get(k, checksum.HashKey(testSeed, k), all[i].Version, &e); !ok || err != nil || !same(&e, &all[i]) {
						t.Errorf("get: %v %v %s", ok, err, brief(&e))
						return
					}
				}
				it := r.Iterator()
				n := 0
				for ok := it.First(); ok && n < 20000; ok = it.Next() {
					if !same(it.Entry(), &all[n]) {
						t.Errorf("entry %d: %s", n, brief(it.Entry()))
						return
					}
					n++
				}
			})
		}
		wg.Wait()
	}
}

func TestMappedReadsDoNotAllocate(t *testing.T) { forms(t, testMappedReadsDoNotAllocate) }

func testMappedReadsDoNotAllocate(t *testing.T) {
	s := &shapes[1]
	all := s.generate(9)
	dir := t.TempDir()
	r := openRun(t, openConfig(dir, false), writeRun(t, writerConfig(dir), all))
	if r.files[0].Mapped() == nil {
		t.Skip("no mapping here")
	}
	var e entry.Entry
	it := r.Iterator()
	for ok := it.First(); ok; ok = it.Next() {
	}
	i := 0
	if n := testing.AllocsPerRun(1000, func() {
		k := all[i*7919%len(all)].Key
		i++
		if ok, err := r.Get(k, checksum.HashKey(testSeed, k), entry.MaxVersion, &e); !ok || err != nil {
			t.Error(ok, err)
		}
		it.SeekGE(k)
		it.Next()
		it.Prev()
	}); n > 0.1 && !raceEnabled {
		t.Errorf("%v allocations a read", n)
	}
}
