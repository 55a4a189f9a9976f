package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/bench/internal/kv"
)

// memoryPlan is what -memory measures: the anonymous memory of a process that
// works on far more data than Brock's MemoryLimit.
type memoryPlan struct {
	Limits []int64 // MemoryLimits, bytes
	Times  int     // bytes of data written, in MemoryLimits
	Sizes  []int   // of values
	Dir    string
}

// memoryTask is the part of a run that one process does. The first one writes
// and ends without closing the store; the second opens what it left.
type memoryTask struct {
	Dir       string
	Limit     int64
	ValueSize int
	Keys      int // distinct keys loaded
	Replay    bool
}

// memoryPhase is what one phase took.
type memoryPhase struct {
	Name      string
	Took      time.Duration
	Anon      int64 // greatest RssAnon, bytes
	Heap      int64 // memory in objects of the Go heap at that moment, dead ones included,
	Free      int64 // in spans without objects that the runtime keeps,
	Memtables int64 // in memtables, those included that somebody still holds,
	Known     int64 // and in what is known of pages
}

const (
	memorySample = 5 * time.Millisecond
	memoryAbove  = 32 << 20  // that a store may take above its MemoryLimit, the whole process included
	memoryBatch  = 256 << 10 // bytes of a batch
	memoryScan   = 2_000_000 // pairs that are scanned: values that lie as they came are a disk access each
)

func (p *memoryPlan) run(out io.Writer) error {
	fmt.Fprintf(out, "\nAnonymous memory (RssAnon, MB) above MemoryLimit, at its greatest in each phase, and what there was at that moment.\n")
	worst := int64(math.MinInt64)
	for _, limit := range p.Limits {
		for _, size := range p.Sizes {
			above, err := p.measure(out, limit, size)
			if err != nil {
				return fmt.Errorf("limit %d MB, values of %d B: %w", limit>>20, size, err)
			}
			worst = max(worst, above)
		}
	}
	fmt.Fprintf(out, "at most %+.1f MB, to be %d at most\n", float64(worst)/(1<<20), memoryAbove>>20)
	if worst > memoryAbove {
		return fmt.Errorf("a phase took %d bytes more than MemoryLimit and %d MB", worst-memoryAbove, memoryAbove>>20)
	}
	return nil
}

// measure runs all phases at one limit and size of values, in two processes, and
// returns how far memory was above the limit.
func (p *memoryPlan) measure(out io.Writer, limit int64, size int) (above int64, err error) {
	dir, err := os.MkdirTemp(p.Dir, "memory-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	total := limit * int64(p.Times)
	keys := int(total * 6 / 10 / int64(keySize+size))
	fmt.Fprintf(out, "limit %d MB, %d MB written, values of %d B, %d keys\n", limit>>20, total>>20, size, keys)
	above = math.MinInt64
	for _, replay := range []bool{false, true} {
		task := childTask{Task: "memory", Memory: memoryTask{Dir: dir, Limit: limit, ValueSize: size, Keys: max(keys, 1), Replay: replay}}
		cmd, err := child(task)
		if err != nil {
			return 0, err
		}
		text, err := cmd.Output()
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(text)) {
			var ph memoryPhase
			if err := json.Unmarshal([]byte(line), &ph); err != nil {
				return 0, err
			}
			ph.print(out, limit)
			above = max(above, ph.Anon-limit)
		}
	}
	return above, nil
}

func (ph *memoryPhase) print(out io.Writer, limit int64) {
	mb := func(n int64) float64 { return float64(n) / (1 << 20) }
	fmt.Fprintf(out, "  %-10s %+7.1f  Go heap %6.1f, free %6.1f, memtables %6.1f, known pages %5.1f  %6.1f s\n",
		ph.Name, mb(ph.Anon-limit), mb(ph.Heap), mb(ph.Free), mb(ph.Memtables), mb(ph.Known), ph.Took.Seconds())
}

// parseMemory reads the list of -memory, in MB.
func parseMemory(list string) (limits []int64, err error) {
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil || n < 4 {
			return nil, fmt.Errorf("-memory: %q is no number of MB from 4 on", s)
		}
		limits = append(limits, n<<20)
	}
	return limits, nil
}

// childMemory does a memoryTask and prints a line for each phase.
func childMemory(t memoryTask) error {
	m := &memorySampler{out: json.NewEncoder(os.Stdout)}
	if t.Replay {
		return t.replay(m)
	}
	return t.write(m) // runChild ends the process: the store is not closed
}

func (t *memoryTask) options() brock.Options {
	return brock.Options{Dir: filepath.Join(t.Dir, "store"), Durability: brock.Buffered, MemoryLimit: t.Limit}
}

// write loads, overwrites, compacts, collects and scans; then it leaves a journal
// behind.
func (t *memoryTask) write(m *memorySampler) error {
	db, err := brock.Open(t.options())
	if err != nil {
		return err
	}
	ctx := context.Background()
	m.db.Store(db)
	err = m.phases([]memoryStep{
		{"load", func() error { return t.put(db, 0, 1, t.Keys) }},
		{"overwrite", func() error { return t.put(db, 1, 3, t.Keys/2) }},
		{"flush", func() error { return db.Flush(ctx) }},
		{"compact", func() error { return db.Compact(ctx) }},
		{"collect", func() error { _, err := db.Reclaim(ctx); return err }},
		{"scan", func() error { return t.scan(db) }},
		{"get", func() error { return t.get(db) }},
	})
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	m.db.Store(nil)
	if db, err = brock.Open(t.options()); err != nil {
		return err
	}
	if err := t.put(db, 2, 7, t.Keys/8); err != nil {
		return err
	}
	return db.Sync(ctx)
}

// replay opens the store that was not closed, and uses it.
func (t *memoryTask) replay(m *memorySampler) error {
	var db *brock.DB
	return m.phases([]memoryStep{
		{"replay", func() (err error) {
			db, err = brock.Open(t.options())
			m.db.Store(db)
			return err
		}},
		{"settle", func() error { time.Sleep(5 * time.Second); return nil }},
		{"scan", func() error { return t.scan(db) }},
		{"close", func() error { m.db.Store(nil); return db.Close() }},
	})
}

// put writes n pairs in random order, those of every stride-th key.
func (t *memoryTask) put(db *brock.DB, round, stride, n int) error {
	const writers = 2
	at := newPermutation(uint64(t.Keys), 1)
	var wg sync.WaitGroup
	failures := make([]error, writers)
	for w := range writers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(round), uint64(w)))
			var key, value []byte
			value = make([]byte, t.ValueSize)
			batch, held := db.NewBatch(), 0
			for i := w; i < n && failures[w] == nil; i += writers {
				key = appendMemoryKey(key[:0], at.of(uint64(i*stride)%uint64(t.Keys)))
				for j := 0; j+8 <= len(value); j += 8 {
					*(*[8]byte)(value[j:]) = bytes8(rng.Uint64())
				}
				failures[w] = batch.Set(key, value)
				if held += len(key) + len(value); held >= memoryBatch || i+writers >= n {
					_, err := batch.Commit(context.Background(), brock.DefaultDurability)
					failures[w] = errors.Join(failures[w], err)
					batch.Reset()
					held = 0
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(failures...)
}

func bytes8(n uint64) (b [8]byte) {
	for i := range b {
		b[i] = byte(n >> (8 * i))
	}
	return b
}

func appendMemoryKey(b []byte, n uint64) []byte { return fmt.Appendf(b, "key-%018d", n) }

// scan reads the first pairs in order, each value whole.
func (t *memoryTask) scan(db *brock.DB) error {
	found, want := 0, min(t.Keys, memoryScan)
	err := db.View(func(txn *brock.Txn) error {
		it := txn.NewIterator(brock.IteratorOptions{})
		for it.Rewind(); it.Valid() && found < want; it.Next() {
			v, err := it.Item().Value()
			if err != nil {
				return errors.Join(err, it.Close())
			}
			kv.Touch(v)
			found++
		}
		return it.Close()
	})
	if err == nil && found != want {
		err = fmt.Errorf("found %d keys, want %d", found, want)
	}
	return err
}

// get reads random keys.
func (t *memoryTask) get(db *brock.DB) error {
	rng := rand.New(rand.NewPCG(9, 9))
	var key []byte
	for range min(t.Keys, 200_000) {
		key = appendMemoryKey(key[:0], rng.Uint64N(uint64(t.Keys)))
		err := db.View(func(txn *brock.Txn) error { // DB.Get would copy the value
			item, err := txn.Get(key)
			if err != nil {
				return err
			}
			v, err := item.Value()
			kv.Touch(v)
			return err
		})
		if err != nil {
			return fmt.Errorf("get %s: %w", key, err)
		}
	}
	return nil
}

// memorySampler reports the peaks of phases.
type memorySampler struct {
	out *json.Encoder
	db  atomic.Pointer[brock.DB] // nil: none is open
}

// memoryStep is what happens in one phase.
type memoryStep struct {
	name string
	do   func() error
}

func (m *memorySampler) phases(steps []memoryStep) error {
	for _, s := range steps {
		if err := m.phase(s.name, s.do); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func (m *memorySampler) phase(name string, do func() error) error {
	ph := memoryPhase{Name: name}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			ph.sample(m.db.Load())
			select {
			case <-stop:
				return
			case <-time.After(memorySample):
			}
		}
	}()
	begin := time.Now()
	err := do()
	ph.Took = time.Since(begin)
	close(stop)
	<-done
	return errors.Join(err, m.out.Encode(&ph))
}

var heapMetrics = []string{"/memory/classes/heap/objects:bytes", "/memory/classes/heap/free:bytes"}

func (ph *memoryPhase) sample(db *brock.DB) {
	anon := procNumber("/proc/self/status", "RssAnon:") << 10
	if anon <= ph.Anon {
		return
	}
	ph.Anon = anon
	s := make([]metrics.Sample, len(heapMetrics))
	for i, name := range heapMetrics {
		s[i].Name = name
	}
	metrics.Read(s)
	ph.Heap, ph.Free = int64(s[0].Value.Uint64()), int64(s[1].Value.Uint64())
	if db != nil {
		m := db.Metrics().Tree.Memory
		ph.Memtables, ph.Known = m.Memtables, m.Known
	}
}
