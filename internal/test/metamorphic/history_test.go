package metamorphic

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/history"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
)

// TestHistoriesAcrossCrashes has clients lengthen lists while flushes and
// compactions run. The power fails or the process dies, and the clients go on with
// what is left. All of it together must be one serializable history.
func TestHistoriesAcrossCrashes(t *testing.T) {
	n := 12
	switch {
	case *seedFlag != 0:
		n = 1
	case raced:
		n = 4
	case testing.Short():
		n = 6
	}
	total := 0
	for i := 0; i < n && !deadline.Near(t); i++ {
		seed := *seedFlag
		if seed == 0 {
			seed = draw.Seed(t)
		}
		h := &clients{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 8)), versions: map[*history.Txn]uint64{}}
		total += h.run()
		if t.Failed() {
			t.Fatalf("replay: go test ./internal/test/metamorphic -run TestHistoriesAcrossCrashes -seed %d", seed)
		}
	}
	t.Logf("%d transactions", total)
}

// clients are concurrent users of a store.
type clients struct {
	t        *testing.T
	seed     uint64
	rng      *rand.Rand
	o        brock.Options
	mode     vfs.CrashMode
	level    brock.Isolation
	number   atomic.Int64 // the next to append
	recorder history.Recorder

	mu       sync.Mutex
	versions map[*history.Txn]uint64 // of commits
	all      []*history.Txn
}

const lists = 7

func listKey(i int) string { return fmt.Sprintf("list%d", i) }

func (c *clients) run() int {
	mem := vfs.NewMem()
	c.mode = vfs.CrashMode(c.rng.IntN(4))
	c.level = pick(c.rng, brock.Serializable, brock.Serializable, brock.SnapshotIsolation)
	c.o = brock.Options{Dir: "db", FS: mem, Tuning: small, Keys: keysOf(c.seed), Durability: pick(c.rng, brock.Synced, brock.Buffered)}
	db, err := brock.Open(c.o)
	must(c.t, "open", err)

	var left *vfs.Mem
	after := 100 + c.rng.IntN(500) // commits, then the crash
	var crashed *history.Txn
	var commits atomic.Int64
	c.work(db, 120, func() {
		if commits.Add(1) == int64(after) {
			// The crash has a time in the history: what had ended before it is certain.
			crashed = c.begin()
			left = mem.CrashClone(vfs.CrashOptions{Mode: c.mode, Seed: c.seed})
		}
	})
	must(c.t, "close", db.Close())
	if left == nil {
		crashed = c.begin()
		left = mem
	}
	c.o.FS = left
	db, err = brock.Open(c.o)
	if err != nil {
		c.t.Errorf("open after the crash: %v", err)
		return 0
	}
	c.cut(db, crashed)
	c.work(db, 60, func() {})
	c.final(db)
	if err := db.Verify(context.Background(), nil); err != nil {
		c.t.Errorf("verify: %v", err)
	}
	must(c.t, "close", db.Close())
	level := history.StrictSerializable
	if c.level == brock.SnapshotIsolation {
		level = history.SnapshotIsolation
	}
	h := c.recorder.History()
	if found := history.Check(h, level); len(found) > 0 {
		c.t.Errorf("seed %d, crash %s, durability %d: %s", c.seed, modeName(c.mode), c.o.Durability, history.Text(found))
	}
	return len(h)
}

// work has clients run transactions, beside flushes and compactions.
func (c *clients) work(db *brock.DB, each int, committed func()) {
	var background, users sync.WaitGroup
	stop := make(chan struct{})
	background.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			work := db.Flush
			if i%4 == 3 {
				work = db.Compact
			}
			if err := work(context.Background()); err != nil {
				c.t.Errorf("background: %v", err)
				return
			}
		}
	})
	for i := range 8 {
		users.Go(func() {
			rng := rand.New(rand.NewPCG(c.seed, uint64(i)))
			for range each {
				if c.transaction(db, rng) {
					committed()
				}
			}
		})
	}
	users.Wait()
	close(stop)
	background.Wait()
}

func (c *clients) begin() *history.Txn {
	x := c.recorder.Begin()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, x)
	return x
}

// transaction reads and lengthens some lists.
func (c *clients) transaction(db *brock.DB, rng *rand.Rand) (committed bool) {
	x := c.begin()
	txn, err := db.Begin(context.Background(), brock.TxnOptions{Update: true, Isolation: c.level, MaxMemory: pick[int64](rng, 0, 0, 0, 0, 0, 1)})
	if err != nil {
		c.t.Errorf("begin: %v", err)
		return false
	}
	defer txn.Discard()
	for range 1 + rng.IntN(4) {
		var err error
		switch rng.IntN(5) {
		case 0:
			err = scanLists(txn, x, rng.IntN(2) == 0)
		case 1, 2:
			_, err = readList(txn, x, listKey(rng.IntN(lists)))
		default:
			err = c.lengthen(txn, x, listKey(rng.IntN(lists)))
		}
		if err != nil {
			c.t.Errorf("in a transaction: %v", err)
			return false
		}
	}
	err = txn.Commit()
	switch {
	case errors.Is(err, brock.ErrConflict):
		c.recorder.End(x, history.Aborted)
	case err != nil:
		c.t.Errorf("commit: %v", err)
	default:
		c.mu.Lock()
		c.versions[x] = txn.CommitVersion()
		c.mu.Unlock()
		c.recorder.End(x, history.Committed)
		return true
	}
	return false
}

func readList(txn *brock.Txn, x *history.Txn, key string) ([]int, error) {
	var list []int
	item, err := txn.Get([]byte(key))
	if err == nil {
		list, err = numbers(item)
	} else if errors.Is(err, brock.ErrKeyNotFound) {
		err = nil
	}
	x.Ops = append(x.Ops, history.Read(key, list...))
	return list, err
}

func numbers(item *brock.Item) (list []int, err error) {
	v, err := item.Value()
	if err != nil {
		return nil, err
	}
	for _, s := range strings.Fields(string(v)) {
		n, err := strconv.Atoi(s)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

// scanLists reads all lists, also those that don't exist yet.
func scanLists(txn *brock.Txn, x *history.Txn, reverse bool) error {
	found := map[string][]int{}
	for item, err := range txn.Items(brock.IteratorOptions{Prefix: []byte("list"), Reverse: reverse}) {
		if err != nil {
			return err
		}
		list, err := numbers(item)
		if err != nil {
			return err
		}
		found[string(item.Key())] = list
	}
	for i := range lists {
		x.Ops = append(x.Ops, history.Read(listKey(i), found[listKey(i)]...))
	}
	return nil
}

func (c *clients) lengthen(txn *brock.Txn, x *history.Txn, key string) error {
	list, err := readList(txn, x, key)
	if err != nil {
		return err
	}
	n := int(c.number.Add(1))
	x.Ops = append(x.Ops, history.Append(key, n))
	text := ""
	for _, v := range append(list, n) {
		text += strconv.Itoa(v) + " "
	}
	return txn.Set([]byte(key), []byte(text))
}

// cut sets the status of transactions that the crash may have lost to unknown. Those
// are the ones that had not ended before it and, after a loss of power, those that
// were not synced. Commits are lost from some version on, never one in between.
func (c *clients) cut(db *brock.DB, crashed *history.Txn) {
	survived := map[int]bool{}
	must(c.t, "read after the crash", db.View(func(txn *brock.Txn) error {
		for item, err := range txn.All() {
			if err != nil {
				return err
			}
			list, err := numbers(item)
			if err != nil {
				return err
			}
			for _, n := range list {
				survived[n] = true
			}
		}
		return nil
	}))
	durable := c.o.Durability == brock.Synced || c.mode == vfs.All
	first, last := uint64(1<<63), uint64(0) // first version lost, last version left
	for _, x := range c.all {
		v := c.versions[x]
		for _, op := range x.Ops {
			if !op.Read && v != 0 {
				if survived[op.Value] {
					last = max(last, v)
				} else {
					first = min(first, v)
				}
			}
		}
		if x.Status == history.Committed && x.End > 0 && (!durable || x.End > crashed.Begin) {
			x.Status = history.Unknown
		}
	}
	if last > first {
		c.t.Errorf("after a crash (%s) version %d is lost and %d is there", modeName(c.mode), first, last)
	}
	crashed.Status = history.Aborted
}

// final reads all lists once more, so that the history has every append.
func (c *clients) final(db *brock.DB) {
	x := c.begin()
	must(c.t, "read at the end", db.View(func(txn *brock.Txn) error { return scanLists(txn, x, false) }))
	c.recorder.End(x, history.Committed)
}
