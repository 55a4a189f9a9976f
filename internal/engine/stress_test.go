package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/jobs"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/vfs"
)

// Every transaction of the stress test writes all of these keys.
const stressKeys = 12

func stressKey(i int) string { return fmt.Sprintf("key%02d", i) }

// stressValue is what version writes to key i: small and large values, and
// now and then none.
func stressValue(i int, version entry.Version) op {
	key := stressKey(i)
	if (uint64(version)+uint64(i))%7 == 0 {
		return del(key)
	}
	return set(key, bytes.Repeat(fmt.Appendf(nil, "%s.%d.", key, version), 1+i*i))
}

// prefixed is a file system below a directory, so that "/s" is there.
type prefixed struct {
	vfs.FS
	root string
}

func (p prefixed) Create(name string) (vfs.File, error) { return p.FS.Create(p.root + name) }
func (p prefixed) Open(name string) (vfs.File, error)   { return p.FS.Open(p.root + name) }
func (p prefixed) OpenReadWrite(name string) (vfs.File, error) {
	return p.FS.OpenReadWrite(p.root + name)
}
func (p prefixed) Remove(name string) error           { return p.FS.Remove(p.root + name) }
func (p prefixed) Rename(from, to string) error       { return p.FS.Rename(p.root+from, p.root+to) }
func (p prefixed) MkdirAll(dir string) error          { return p.FS.MkdirAll(p.root + dir) }
func (p prefixed) List(dir string) ([]string, error)  { return p.FS.List(p.root + dir) }
func (p prefixed) Stat(name string) (vfs.Info, error) { return p.FS.Stat(p.root + name) }
func (p prefixed) SyncDir(dir string) error           { return p.FS.SyncDir(p.root + dir) }

// crowd is the readers and workers beside one writer.
type crowd struct {
	*store
	errs    chan error
	reads   atomic.Int64
	leading jobs.Turn // in the place of a commit pipeline
	done    atomic.Bool
}

func (c *crowd) fail(format string, args ...any) {
	select {
	case c.errs <- fmt.Errorf(format, args...):
	default:
	}
	c.done.Store(true)
}

// read checks everything that one pin shows.
func (c *crowd) read(p *view.Pin, rng *rand.Rand) error {
	var e entry.Entry
	for n := range stressKeys {
		i := (n + rng.IntN(stressKeys)) % stressKeys
		want := stressValue(i, p.Version())
		found, err := p.Get([]byte(want.key), hashOf(c.engine, want.key), &e)
		if err != nil {
			return err
		}
		if err := c.same(p, i, &e, found && e.Kind != entry.Delete, want); err != nil {
			return err
		}
	}
	if rng.IntN(8) > 0 {
		return nil
	}
	it := p.Iterator()
	defer it.Close()
	last := ""
	for ok := it.First(); ok; ok = it.Next() {
		e := it.Entry()
		if e.Version > p.Version() || string(e.Key) == last {
			continue
		}
		last = string(e.Key)
		var i int
		fmt.Sscanf(last, "key%d", &i)
		if err := c.same(p, i, e, e.Kind != entry.Delete, stressValue(i, p.Version())); err != nil {
			return fmt.Errorf("walk: %w", err)
		}
	}
	return it.Err()
}

func (c *crowd) same(p *view.Pin, i int, e *entry.Entry, found bool, want op) error {
	c.reads.Add(1)
	if wanted := want.kind != entry.Delete && p.Version() > 0; found != wanted {
		return fmt.Errorf("%s at version %d: found %v, want %v", want.key, p.Version(), found, wanted)
	}
	if !found {
		return nil
	}
	value, err := valueOf(p, []byte(want.key), e)
	if err != nil {
		return err
	}
	if e.Version != p.Version() || !bytes.Equal(value, want.value) {
		return fmt.Errorf("%s at version %d is %.40q of version %d", want.key, p.Version(), value, e.Version)
	}
	return nil
}

// write commits transactions, and looks as a leader for conflicts before.
func (c *crowd) write(transactions int) error {
	for range transactions {
		if c.done.Load() {
			return nil
		}
		if err := c.engine.Commits.Throttle(context.Background(), make([]byte, 100)); err != nil {
			return err
		}
		if err := c.lead(); err != nil {
			return err
		}
	}
	return nil
}

func (c *crowd) lead() error {
	c.leading.Always()
	defer c.leading.Leave()
	var ops []op
	for i := range stressKeys {
		key := []byte(stressKey(i))
		v, found, err := c.engine.Commits.Newest(key, checksum.HashKey(c.engine.cfg.Seed, key), 0)
		deleted := stressValue(i, c.last).kind == entry.Delete
		if err != nil || !deleted && c.last > 0 && (!found || v != c.last) {
			return fmt.Errorf("newest %s is %d, %v, %w; want %d", key, v, found, err, c.last)
		}
		ops = append(ops, stressValue(i, c.last+1))
	}
	changed, err := c.engine.Commits.ChangedSince([]byte("key"), nil, c.last-min(c.last, 1))
	if err != nil || changed != (c.last > 0) {
		return fmt.Errorf("changed since %d: %v, %w", c.last-1, changed, err)
	}
	return c.commit(c.last%64 == 0, ops...)
}

// Readers with pins, a writer, everything that works in the background and Close
// go on at the same time, over files that are really mapped.
func TestReadersBesideFlushMergeAndClose(t *testing.T) {
	transactions := 500
	if testing.Short() {
		transactions = 100
	}
	fs := newCounting(prefixed{vfs.OS(), filepath.ToSlash(t.TempDir())})
	c := &crowd{errs: make(chan error, 1), leading: jobs.NewTurn()}
	c.store = newStore(t, fs, func(s *store) {
		s.busy = true
		s.cfg.MemtableBytes = 64 << 10
		s.cfg.JournalBytes = 256 << 10
		s.cfg.SegmentBytes = 128 << 10
		s.cfg.RunFileBytes = 64 << 10
		s.cfg.Exclusive = func(ctx context.Context, fn func() error) error {
			if err := c.leading.Take(ctx); err != nil {
				return err
			}
			defer c.leading.Leave()
			return fn()
		}
	})
	var group sync.WaitGroup
	ends := func(err error) bool {
		if err == nil || c.done.Load() && (errors.Is(err, errs.ErrClosed) || errors.Is(err, context.Canceled)) {
			return c.done.Load()
		}
		c.fail("%w", err)
		return true
	}
	for n := range 4 {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(n), 1))
			var held []*view.Pin
			for {
				p, err := c.engine.Views.Acquire(0)
				if err != nil {
					ends(err)
					break
				}
				if err := c.read(p, rng); err != nil {
					c.fail("%w", err)
				}
				if held = append(held, p); len(held) > n*2 {
					i := rng.IntN(len(held))
					if err := c.read(held[i], rng); err != nil {
						c.fail("held: %w", err)
					}
					held[i].Release()
					held = append(held[:i], held[i+1:]...)
				}
			}
			for _, p := range held { // they outlive the tree
				if err := c.read(p, rng); err != nil {
					c.fail("after Close: %w", err)
				}
				p.Release()
			}
		})
	}
	group.Go(func() { // asks for the version that comes next
		rng := rand.New(rand.NewPCG(9, 9))
		for {
			p, err := c.engine.Views.Acquire(c.engine.Views.Visible() + 1)
			if errors.Is(err, errs.ErrInvalid) || errors.Is(err, errs.ErrVersionGone) {
				continue
			}
			if err != nil {
				ends(err)
				return
			}
			if err := c.read(p, rng); err != nil {
				c.fail("the newest version: %w", err)
			}
			p.Release()
		}
	})
	for _, work := range []func() error{
		func() error { return c.engine.Work.Flush(context.Background()) },
		func() error { return c.engine.Work.Compact(context.Background()) },
		func() error {
			c.engine.Metrics()
			if p, err := c.engine.Views.Acquire(0); err == nil {
				p.EstimateSize(nil, nil)
				p.SplitRange(nil, nil, 3)
				p.Release()
			}
			return c.engine.Verify(context.Background(), func(d *errs.Corruption) { c.fail("verify: %w", d) })
		},
	} {
		group.Go(func() {
			for !ends(work()) {
			}
		})
	}
	if err := c.write(transactions); err != nil {
		c.fail("write: %w", err)
	}
	c.done.Store(true)
	c.leading.Always() // the pipeline is closed first
	err := c.engine.Close()
	c.leading.Leave()
	group.Wait()
	select {
	case failed := <-c.errs:
		t.Fatal(failed)
	default:
	}
	s := c.engine.Metrics()
	t.Logf("%d reads, %d flushes, %d merges, %d failures to release", c.reads.Load(), s.Flushes, s.Compactions, s.ReleaseFailures)
	if err != nil || c.failure != nil {
		t.Fatal(err, c.failure)
	}
	fs.checkClosed(t)
	c.busy = false
	c.mustOpen()
	defer c.close()
	if problems := c.check(); problems != "" {
		t.Error(problems)
	}
	if c.rec.Removed > 0 {
		t.Errorf("Close left %d files that nobody needs", c.rec.Removed)
	}
}
