package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/brockdb/brock"
)

// copies is "bench copies": a store is copied in every way while goroutines write to it,
// and what was restored is compared with it, pair by pair.
type copies struct {
	out     io.Writer
	dir     string
	data    *Dataset
	rest    time.Duration // the writers are alone for so long before each copy
	keys    brock.KeyProvider
	db      *brock.DB
	writers *steadyWriters
	streams []string // the full backup and its increments, in order
	last    *brock.BackupInfo
}

// runCopies is the command: arguments in, a line for each copy out.
func runCopies(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench copies", flag.ContinueOnError)
	flags.SetOutput(stderr)
	pairs := 1_000_000
	flags.Func("pairs", "pairs that are loaded first, k and M allowed (default 1M)", func(text string) (err error) {
		pairs, err = parseCount(text)
		return err
	})
	var (
		value     = flags.Int("value", 1000, "bytes of their values")
		rate      = flags.Int("rate", 50_000, "pairs that are set a second meanwhile, half of them new")
		writers   = flags.Int("writers", 16, "goroutines that set them")
		rest      = flags.Duration("rest", 5*time.Second, "time without a copy before each one")
		encrypted = flags.Bool("encrypted", false, "the store is encrypted")
		parent    = flags.String("dir", "", "directory for the stores; they go into a new one inside (default: the system's temporary directory)")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if pairs < 1 || *value < 8 || *rate < 1 || *writers < 1 || *rest < 0 {
		return errors.New("-pairs, -rate and -writers must be 1 or more, -value 8 or more, and -rest not negative")
	}
	dir, err := os.MkdirTemp(*parent, "brock-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	removeWhenInterrupted(dir)
	c := &copies{out: stdout, dir: dir, data: NewDataset(pairs, *value), rest: *rest}
	if *encrypted {
		c.keys = brock.StaticKey([]byte("a key of 32 bytes for benchmarks"))
	}
	return c.run(*writers, *rate)
}

func (c *copies) path(name string) string { return filepath.Join(c.dir, name) }

func (c *copies) run(writers, rate int) (err error) {
	if err := c.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.db.Close()) }()
	fmt.Fprintf(c.out, "%-12s %8s %8s %9s %8s %8s %8s %10s\n", "", "s", "MB/s", "sets/s", "p50 us", "p99 us", "p99.9 us", "memory MB")
	if err := c.phase("load", c.load); err != nil {
		return err
	}
	stop := c.writers.start(writers, rate)
	err = c.copyBesideWriters()
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	// The last increment has all that there is, so that the restored store must equal the source.
	if err := c.phase("increment", c.backup); err != nil {
		return err
	}
	if err := c.phase("restore", c.restore); err != nil {
		return err
	}
	return c.phase("compare", c.compare)
}

// open makes the store.
func (c *copies) open() (err error) {
	o := brock.Options{Dir: c.path("store"), Durability: brock.Buffered, Keys: c.keys}
	if c.db, err = brock.Open(o); err != nil {
		return err
	}
	c.writers = newSteadyWriters(c.db, c.data)
	return nil
}

// copyBesideWriters makes a checkpoint, a full backup and an increment, and has the writers
// alone before each of them.
func (c *copies) copyBesideWriters() error {
	if err := c.alone(); err != nil {
		return err
	}
	if err := c.phase("checkpoint", c.checkpoint); err != nil {
		return err
	}
	if err := c.removeCheckpoint(); err != nil {
		return err
	}
	if err := c.phase("one a second", c.checkpoints); err != nil {
		return err
	}
	for _, name := range []string{"full backup", "increment"} {
		if err := c.alone(); err != nil {
			return err
		}
		if err := c.phase(name, c.backup); err != nil {
			return err
		}
	}
	return nil
}

func (c *copies) alone() error {
	return c.phase("alone", func() (int64, error) {
		time.Sleep(c.rest)
		return 0, nil
	})
}

// phase does a part of the work, which returns the bytes that it has copied, and prints its line.
func (c *copies) phase(name string, do func() (int64, error)) error {
	c.writers.reset()
	memory := sampleMemory()
	began := time.Now()
	bytes, err := do()
	took := time.Since(began).Seconds()
	peak := memory()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	latencies := c.writers.reset()
	fmt.Fprintf(c.out, "%-12s %8.2f %8.0f %9.0f %8.1f %8.1f %8.1f %10d\n", name, took, float64(bytes)/1e6/took,
		float64(len(latencies))/took, percentile(latencies, 50), percentile(latencies, 99), percentile(latencies, 99.9), peak>>20)
	return nil
}

func (c *copies) load() (int64, error) {
	w := c.db.NewWriter(context.Background())
	order := newPermutation(uint64(c.data.Keys), 2)
	var key []byte
	for i := range c.data.Keys {
		n := int(order.of(uint64(i)))
		key = c.data.AppendKey(key[:0], n)
		if err := w.Set(key, c.data.Value(n)); err != nil {
			return 0, errors.Join(err, w.Close())
		}
	}
	return c.data.RawBytes(), w.Close()
}

// checkpoint copies nothing but the end of the manifest, so that it has no bytes to tell of.
func (c *copies) checkpoint() (int64, error) {
	return 0, c.db.Checkpoint(context.Background(), c.path("checkpoint"))
}

// checkpoints makes one each second, for as long as the writers were alone before: a checkpoint
// by itself is too short for a 99th percentile.
func (c *copies) checkpoints() (int64, error) {
	tick := time.NewTicker(min(time.Second, max(c.rest, time.Millisecond)))
	defer tick.Stop()
	for end := time.Now().Add(c.rest); ; {
		if _, err := c.checkpoint(); err != nil {
			return 0, err
		}
		if err := os.RemoveAll(c.path("checkpoint")); err != nil {
			return 0, err
		}
		if <-tick.C; !time.Now().Before(end) {
			return 0, nil
		}
	}
}

// removeCheckpoint checks that the checkpoint opens, and removes it: as long as it stays, it
// keeps the disk space of files that the store needs no more.
func (c *copies) removeCheckpoint() error {
	db, err := brock.Open(brock.Options{Dir: c.path("checkpoint"), Keys: c.keys})
	if err != nil {
		return err
	}
	return errors.Join(db.Close(), os.RemoveAll(c.path("checkpoint")))
}

// backup writes a full backup, or one that follows the last, to a file of its own.
func (c *copies) backup() (_ int64, err error) {
	name := c.path(fmt.Sprintf("backup-%d", len(c.streams)))
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := c.db.Backup(context.Background(), f, brock.BackupOptions{Since: c.last})
	if err != nil {
		return 0, err
	}
	c.streams, c.last = append(c.streams, name), info
	return info.StreamBytes, f.Sync()
}

// restore makes a store of all backups.
func (c *copies) restore() (n int64, err error) {
	var all []io.Reader
	for _, name := range c.streams {
		f, err := os.Open(name)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return 0, err
		}
		n += info.Size()
		all = append(all, f)
	}
	o := brock.Options{Dir: c.path("restored"), Keys: c.keys}
	if _, err := brock.Restore(context.Background(), bufio.NewReaderSize(io.MultiReader(all...), 1<<20), o); err != nil {
		return 0, err
	}
	for _, name := range c.streams {
		if err := os.Remove(name); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// compare walks the store and the restored one together.
func (c *copies) compare() (n int64, err error) {
	restored, err := brock.Open(brock.Options{Dir: c.path("restored"), Keys: c.keys})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, restored.Close()) }()
	err = c.db.View(func(source *brock.Txn) error {
		return restored.View(func(copied *brock.Txn) error {
			n, err = sameItems(source.NewIterator(brock.IteratorOptions{}), copied.NewIterator(brock.IteratorOptions{}))
			return err
		})
	})
	return n, err
}

// sameItems returns the bytes of all pairs that a and b walk over, and an error unless keys,
// values and versions are the same. It closes both.
func sameItems(a, b *brock.Iterator) (n int64, err error) {
	defer func() { err = errors.Join(err, a.Close(), b.Close()) }()
	a.Rewind()
	b.Rewind()
	for a.Valid() && b.Valid() {
		x, err := a.Item().Value()
		if err != nil {
			return n, err
		}
		y, err := b.Item().Value()
		if err != nil {
			return n, err
		}
		if !bytes.Equal(a.Item().Key(), b.Item().Key()) || !bytes.Equal(x, y) || a.Item().Version() != b.Item().Version() {
			return n, fmt.Errorf("%q is not what it was in the store: %w", b.Item().Key(), errMismatch)
		}
		n += int64(len(a.Item().Key()) + len(x))
		a.Next()
		b.Next()
	}
	if err := errors.Join(a.Err(), b.Err()); err != nil {
		return n, err
	}
	if a.Valid() || b.Valid() {
		return n, fmt.Errorf("the restored store has another number of pairs: %w", errMismatch)
	}
	return n, nil
}
