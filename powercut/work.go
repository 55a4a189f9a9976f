package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/brockdb/brock"
)

// shape is how the store of a round is made.
type shape struct{ encrypted, valueDir bool }

func shapeOf(seed uint64) shape { return shape{encrypted: seed&1 != 0, valueDir: seed&2 != 0} }

func (s shape) String() string {
	text := "plain"
	if s.encrypted {
		text = "encrypted"
	}
	if s.valueDir {
		text += ", with a ValueDir"
	}
	return text
}

// options are those of the store. Its files are small, so that all kinds of background work
// happen within seconds.
func options(dir string, seed uint64) brock.Options {
	o := brock.Options{Dir: dir, MemoryLimit: 16 << 20}
	o.Tuning = brock.Tuning{MemtableSize: 1 << 20, SegmentSize: 2 << 20, RunFileSize: 1 << 20}
	s := shapeOf(seed)
	if s.encrypted {
		o.Keys = brock.StaticKey([]byte("32 bytes are a key for the tests"))
	}
	if s.valueDir {
		o.ValueDir = dir + ".values"
	}
	return o
}

// runWork writes to a store until its time is over, and says what was acknowledged.
func runWork(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("powercut work", flag.ContinueOnError)
	dir := flags.String("dir", "", "directory of the store")
	seed := flags.Uint64("seed", 0, "of what is written")
	limit := flags.Duration("for", time.Second, "how long")
	if err := flags.Parse(args); err != nil {
		return err
	}
	w := work{dir: *dir, seed: *seed, out: stdout}
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	return w.run(ctx)
}

// workers is how many goroutines write.
const workers = 8

// work is a store that is written to.
type work struct {
	dir  string
	seed uint64
	db   *brock.DB

	mu  sync.Mutex // guards:
	out io.Writer
}

// run has all goroutines write until ctx ends, or one of them fails.
func (w *work) run(ctx context.Context) (err error) {
	if w.db, err = brock.Open(options(w.dir, w.seed)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error)
	start := func(fn func() error) {
		go func() {
			err := fn()
			if err != nil {
				cancel()
			}
			errs <- err
		}()
	}
	start(func() error { return w.disturb(ctx) })
	for worker := range workers {
		start(func() error { return w.commits(ctx, worker) })
	}
	for range workers + 1 {
		err = errors.Join(err, <-errs)
	}
	if w.seed&4 != 0 { // else the store is as after kill -9
		err = errors.Join(err, w.db.Close())
	}
	return err
}

// tell says that all commits of a worker up to this one were acknowledged.
func (w *work) tell(worker, commit int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(w.out, "%d:%d\n", worker, commit)
}

// commits makes one commit after the other until ctx ends. Each is Synced or, for some workers,
// Buffered with a Sync after 20 of them.
func (w *work) commits(ctx context.Context, worker int) error {
	buffered := worker%3 == 2
	for n := 1; ctx.Err() == nil; n++ {
		if err := w.commit(worker, n, buffered); err != nil {
			return fmt.Errorf("worker %d, commit %d: %w", worker, n, err)
		}
		if buffered && n%20 != 0 {
			continue
		}
		if buffered {
			if err := w.db.Sync(context.Background()); err != nil {
				return err
			}
		}
		w.tell(worker, n)
	}
	return nil
}

func (w *work) commit(worker, n int, buffered bool) error {
	o := brock.TxnOptions{Update: true, Durability: brock.Synced}
	if buffered {
		o.Durability = brock.Buffered
	}
	txn, err := w.db.Begin(context.Background(), o)
	if err != nil {
		return err
	}
	defer txn.Discard()
	for _, c := range changes(w.seed, worker, n) {
		switch {
		case c.to != "":
			err = txn.DeleteRange([]byte(c.key), []byte(c.to))
		case c.value == nil:
			err = txn.Delete([]byte(c.key))
		default:
			err = txn.Set([]byte(c.key), c.value)
		}
		if err != nil {
			return err
		}
	}
	return txn.Commit()
}

// disturb asks for what else happens to a store, until ctx ends.
func (w *work) disturb(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(w.seed, 2))
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Duration(100+rng.IntN(300)) * time.Millisecond):
		}
		var err error
		switch rng.IntN(6) {
		case 0:
			err = w.db.Compact(context.Background())
		case 1:
			_, err = w.db.Reclaim(context.Background())
		case 2:
			err = w.checkpoint()
		case 3:
			_, err = w.db.Backup(context.Background(), io.Discard, brock.BackupOptions{})
		case 4:
			if shapeOf(w.seed).encrypted {
				err = w.db.RotateKey(context.Background(), brock.RotateOptions{Rewrite: rng.IntN(2) == 0})
			}
		}
		if err != nil {
			return err
		}
	}
}

// checkpoint makes one and removes it.
func (w *work) checkpoint() error {
	dir := filepath.Join(filepath.Dir(w.dir), "checkpoint")
	if err := w.db.Checkpoint(context.Background(), dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// change is an operation of a commit: it sets a key, or deletes it, or deletes a range.
type change struct {
	key   string
	to    string // of a range
	value []byte // nil deletes
}

// changes returns the operations of the n-th commit of a worker. Each worker has keys of its own,
// so that its commits alone say what they hold.
func changes(seed uint64, worker, n int) (all []change) {
	const keys = 400
	rng := rand.New(rand.NewPCG(seed, uint64(worker)<<32|uint64(n)))
	key := func(i int) string { return fmt.Sprintf("%sk%04d", prefix(worker), i) }
	count := 1 + rng.IntN(6)
	large := rng.IntN(200) == 0 // a transaction of more than a memtable
	if large {
		count = 300
	}
	for range count {
		i := rng.IntN(keys)
		switch x := rng.IntN(100); {
		case x < 8:
			all = append(all, change{key: key(i)})
		case x < 10:
			all = append(all, change{key: key(i), to: key(i + 1 + rng.IntN(30))})
		default:
			all = append(all, change{key: key(i), value: value(rng, large)})
		}
	}
	return append(all, change{key: counter(worker), value: []byte(fmt.Sprint(n))})
}

// value is small, or of a few kilobytes, or sometimes large.
func value(rng *rand.Rand, large bool) []byte {
	size := 8 + rng.IntN(200)
	switch x := rng.IntN(60); {
	case x < 20:
		size = 500 + rng.IntN(3000)
	case x == 59 && !large:
		size = 20_000 + rng.IntN(150_000)
	}
	v := make([]byte, 0, size+8)
	for len(v) < size {
		v = binary.LittleEndian.AppendUint64(v, rng.Uint64())
	}
	return v[:size]
}

func prefix(worker int) string { return fmt.Sprintf("%d/", worker) }

// counter is the key with the number of a worker's last commit.
func counter(worker int) string { return prefix(worker) + "commits" }
