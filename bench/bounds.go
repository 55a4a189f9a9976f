package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/bench/internal/result"
)

// bounds is "bench bounds": what Brock promises in figures, beside what was
// measured here. Other stores have no part in it.
type bounds struct {
	out  io.Writer
	dir  string
	keys int   // pairs that are deleted, or written by one transaction
	big  int64 // bytes of the transaction with large values
	wait Waits
	slow []string
}

// bound is a promise and how it is measured.
type bound struct {
	name    string
	measure func(b *bounds) error
}

func allBounds() []bound {
	return []bound{
		{"ranges", (*bounds).ranges},
		{"deletes", (*bounds).deletes},
		{"keyspaces", (*bounds).keyspaces},
		{"readers", (*bounds).readers},
		{"manykeys", func(b *bounds) error { return b.transaction(10*b.keys, 16) }},
		{"manybytes", func(b *bounds) error { return b.transaction(int(b.big>>20), 1<<20) }},
	}
}

// runBounds is the command: arguments in, a line for each figure out.
func runBounds(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench bounds", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var names []string
	for _, b := range allBounds() {
		names = append(names, b.name)
	}
	var (
		only   = flags.String("only", strings.Join(names, ","), "what to measure, with commas between")
		keys   = flags.Int("keys", 1_000_000, "pairs deleted; a tenth of those in one transaction")
		gb     = flags.Float64("gb", 10, "GB in one transaction")
		smoke  = flags.Bool("smoke", false, "wait next to not at all, so that figures mean nothing")
		parent = flags.String("dir", "", "directory for the stores; they go into a new one inside (default: the system's temporary directory)")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *keys < 1000 || *gb <= 0 {
		return errors.New("-keys must be 1000 or more, and -gb positive")
	}
	dir, err := os.MkdirTemp(*parent, "brock-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	removeWhenInterrupted(dir)
	b := &bounds{out: stdout, dir: dir, keys: *keys, big: int64(*gb * (1 << 30)), wait: fullWaits()}
	if *smoke {
		b.wait = tinyWaits()
	}
	for name := range strings.SplitSeq(*only, ",") {
		i := slices.IndexFunc(allBounds(), func(b bound) bool { return b.name == name })
		if i < 0 {
			return fmt.Errorf("-only: there is no %q, but %s", name, strings.Join(names, ", "))
		}
		if err := allBounds()[i].measure(b); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if len(b.slow) > 0 {
		return fmt.Errorf("above the bound: %s", strings.Join(b.slow, "; "))
	}
	return nil
}

// report prints a figure and notes one above its bound; 0 is none.
func (b *bounds) report(what string, got, most float64, unit string) {
	text := fmt.Sprintf("%-77s %10.4g %-3s", what, got, unit)
	if most > 0 {
		text += fmt.Sprintf(" of %g", most)
		if got > most {
			b.slow = append(b.slow, what)
		}
	}
	fmt.Fprintln(b.out, text)
}

// open opens a fresh store, which forget removes.
func (b *bounds) open(name string, o brock.Options) (db *brock.DB, forget func() error, err error) {
	o.Dir = filepath.Join(b.dir, name)
	db, err = brock.Open(o)
	return db, func() error { return errors.Join(db.Close(), os.RemoveAll(o.Dir)) }, err
}

func boundKey(dst []byte, i int) []byte { return fmt.Appendf(dst[:0], "key-%012d", i) }

// fill writes n pairs in order, to the default keyspace or another one.
func fill(w *brock.Writer, n, size int) error {
	rng := rand.New(rand.NewPCG(1, uint64(size)))
	value := make([]byte, size)
	var key []byte
	for i := range n {
		for j := 0; j+8 <= size; j += 8 {
			*(*[8]byte)(value[j:]) = bytes8(rng.Uint64())
		}
		key = boundKey(key, i)
		if err := w.Set(key, value); err != nil {
			return err
		}
	}
	return w.Close()
}

// ranges: a range delete takes the same time whatever it deletes, and the space
// of what it has deleted comes back.
func (b *bounds) ranges() error {
	const size = 1000
	db, forget, err := b.open("ranges", brock.Options{})
	if err != nil {
		return err
	}
	if err := fill(db.NewWriter(context.Background()), b.keys, size); err != nil {
		return err
	}
	var took []time.Duration
	for _, share := range []int{1000, 100, 10, 2} {
		lo, hi := boundKey(nil, b.keys/share/2), boundKey(nil, b.keys/share)
		begin := time.Now()
		if err := db.DeleteRange(lo, hi); err != nil {
			return err
		}
		took = append(took, time.Since(begin))
	}
	begin := time.Now()
	if err := db.DropAll(context.Background()); err != nil {
		return err
	}
	took = append(took, time.Since(begin))
	b.report(fmt.Sprintf("DeleteRange of up to %d pairs, the slowest of %d, durable", b.keys, len(took)), millis(slices.Max(took)), 10, "ms")
	begin = time.Now()
	for {
		files, _, err := diskSize(filepath.Join(b.dir, "ranges"))
		if err != nil {
			return err
		}
		if files < 64<<20 || time.Since(begin) > time.Minute {
			b.report("  files of the empty store afterwards", float64(files)/(1<<20), 64, "MB")
			b.report("  which took", time.Since(begin).Seconds(), 60, "s")
			break
		}
		time.Sleep(idlePoll)
	}
	return forget()
}

// keyspaces: a drop takes the same time whatever it ends.
func (b *bounds) keyspaces() error {
	db, forget, err := b.open("keyspaces", brock.Options{})
	if err != nil {
		return err
	}
	var took []time.Duration
	for _, n := range []int{10, b.keys / 100, b.keys} {
		for _, clear := range []bool{true, false} {
			ks, err := db.Keyspace(fmt.Sprint(n))
			if err != nil {
				return err
			}
			if err := fill(ks.NewWriter(context.Background()), n, 1000); err != nil {
				return err
			}
			begin := time.Now()
			if clear {
				err = ks.Clear(context.Background())
			} else {
				err = ks.Drop(context.Background())
			}
			if err != nil {
				return err
			}
			took = append(took, time.Since(begin))
		}
	}
	b.report(fmt.Sprintf("Clear and Drop of a keyspace of up to %d pairs, the slowest of %d", b.keys, len(took)), millis(slices.Max(took)), 10, "ms")
	return forget()
}

// readers: what a long reader costs writers. Two stores are overwritten in
// turn, one of them with a reader from before.
func (b *bounds) readers() error {
	const size, pieces, slice = 1000, 30, 200 * time.Millisecond
	n := b.keys / 10
	rates := make([][]float64, 2)
	var stores []*brock.DB
	var ends []func() error
	for i := range rates {
		db, forget, err := b.open(fmt.Sprint("reader", i), brock.Options{Durability: brock.Buffered})
		if err != nil {
			return err
		}
		stores, ends = append(stores, db), append(ends, forget)
		if err := fill(db.NewWriter(context.Background()), n, size); err != nil {
			return err
		}
	}
	reader := stores[1].NewTransaction(false)
	defer reader.Discard()
	if _, err := reader.Get(boundKey(nil, 0)); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	value := make([]byte, size)
	var key []byte
	for range pieces {
		for i, db := range stores {
			count, begin := 0, time.Now()
			for time.Since(begin) < slice {
				for range 100 {
					key = boundKey(key, rng.IntN(n))
					if err := db.Set(key, value); err != nil {
						return err
					}
				}
				count += 100
			}
			rates[i] = append(rates[i], float64(count)/time.Since(begin).Seconds())
		}
	}
	alone, beside := result.Median(rates[0]), result.Median(rates[1])
	b.report("writers lose beside a long reader", max(0, 100*(1-beside/alone)), 5, "%")
	m := stores[1].Metrics().Tree
	fmt.Fprintf(b.out, "  %.0f and %.0f sets/s; the reader keeps %d MB in files, %d MB in memory; it began in %s\n", alone, beside, m.PinnedBytes>>20, m.PinnedMemory>>20, m.PinnedBy)
	reader.Discard()
	return errors.Join(ends[0](), ends[1]())
}

// transaction: one transaction of n pairs, far more than memory.
func (b *bounds) transaction(n, size int) error {
	const limit = 64 << 20
	before := procNumber("/proc/self/status", "RssAnon:") << 10
	db, forget, err := b.open("transaction", brock.Options{MemoryLimit: limit})
	if err != nil {
		return err
	}
	peak, stop := int64(0), make(chan struct{})
	sampled := make(chan struct{})
	go func() {
		defer close(sampled)
		for {
			peak = max(peak, procNumber("/proc/self/status", "RssAnon:")<<10-before)
			select {
			case <-stop:
				return
			case <-time.After(memorySample):
			}
		}
	}()
	begin := time.Now()
	err = db.Update(func(txn *brock.Txn) error {
		rng := rand.New(rand.NewPCG(1, uint64(size)))
		value := make([]byte, size)
		at := newPermutation(uint64(n), 1)
		var key []byte
		for i := range n {
			*(*[8]byte)(value) = bytes8(rng.Uint64())
			key = boundKey(key, int(at.of(uint64(i))))
			if err := txn.Set(key, value); err != nil {
				return err
			}
		}
		return nil
	})
	close(stop)
	<-sampled
	if err != nil {
		return err
	}
	took := time.Since(begin)
	count := 0
	err = db.View(func(txn *brock.Txn) error {
		for _, err := range txn.Items(brock.IteratorOptions{KeysOnly: true}) {
			if err != nil {
				return err
			}
			count++
		}
		return nil
	})
	if err != nil || count != n {
		return fmt.Errorf("%d pairs of %d are there: %w", count, n, err)
	}
	b.report(fmt.Sprintf("a transaction of %d pairs, %.1f GB: memory, with a limit of 64 MB", n, float64(n)*float64(size+16)/(1<<30)), float64(peak)/(1<<20), 96, "MB")
	b.report("  which took", took.Seconds(), 0, "s")
	return forget()
}
