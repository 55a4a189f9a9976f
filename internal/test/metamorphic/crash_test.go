package metamorphic

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
)

// crashPoint is a file system that a crash may have left.
type crashPoint struct {
	promise
	index int // among all points, those that are not taken included
	fs    *vfs.Mem
	mode  vfs.CrashMode
	seed  uint64
	where string // the operation that was about to be done
}

func (p *crashPoint) String() string {
	return fmt.Sprintf("crash %s, seed %d, before %s (commits safe %d, acknowledged %d, asked for %d)",
		modeName(p.mode), p.seed, p.where, p.safe, p.acked, p.asked)
}

func modeName(m vfs.CrashMode) string { return []string{"lost", "all", "prefix", "chaos"}[m] }

// least is the number of commits that must have survived.
func (p *crashPoint) least() int {
	if p.mode == vfs.All {
		return p.acked
	}
	return p.safe
}

// crashes collects crash points while a script runs.
type crashes struct {
	mem    *vfs.Mem
	ledger *ledger
	seeds  int              // of prefix and of chaos each
	wanted func(i int) bool // which points to take; nil: all
	mu     sync.Mutex
	met    int // points so far
	points []*crashPoint
}

// take clones what a crash now would leave. It reads the promises before the clone
// and the number of commits asked for after it, as commits go on meanwhile.
func (c *crashes) take(where string, mode vfs.CrashMode, seed uint64) {
	c.mu.Lock()
	i := c.met
	c.met++
	c.mu.Unlock()
	if c.wanted != nil && !c.wanted(i) {
		return // a clone that nobody opens takes memory
	}
	p := c.ledger.promise()
	clone := c.mem.CrashClone(vfs.CrashOptions{Mode: mode, Seed: seed})
	p.asked = c.ledger.promise().asked
	c.mu.Lock()
	c.points = append(c.points, &crashPoint{promise: p, index: i, fs: clone, mode: mode, seed: seed, where: where})
	c.mu.Unlock()
}

func (c *crashes) takeAll(where string, n int) {
	c.take(where, vfs.Lost, 0)
	c.take(where, vfs.All, 0)
	for i := range c.seeds {
		c.take(where, vfs.Prefix, uint64(n*100+i))
		c.take(where, vfs.Chaos, uint64(n*100+50+i))
	}
}

// before takes crash points before operations that change the file system. A crash
// before a read leaves the same as one before the next change.
func (c *crashes) before(op faultfs.Op) {
	if op.Kind&(faultfs.Changes|faultfs.Syncs|faultfs.Lock) != 0 {
		c.takeAll(op.String(), op.N)
	}
}

func TestCrashAtEveryOperation(t *testing.T) {
	for _, sc := range scripts {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewMem()
			c := &crashes{mem: mem, seeds: 1, wanted: crashesOf(t, sc.big)}
			if *everyFlag && !sc.big {
				c.seeds = 3
			}
			s := newSession(t, faultfs.New(mem, faultfs.Options{Before: c.before}), sc.options)
			c.ledger = s.ledger
			sc.run(s)
			if sc.clusters && s.clusterings.Load() == 0 {
				t.Error("nothing was clustered")
			}
			c.takeAll("the end", 1<<20)
			e := &examiner{t: t, script: sc, ledger: s.ledger, o: s.o}
			e.o.Mode = brock.ReadWrite
			for _, p := range c.points {
				if deadline.Near(t) {
					break
				}
				e.examine(p)
				if t.Failed() {
					break
				}
			}
			t.Logf("%d crash states, %d of them in a recovery", e.states+e.second, e.second)
		})
	}
}

// crashesOf chooses crash points of a script. Four follow each other, one of each mode: of an
// operation the n-th is chosen, of the next operation the one behind it.
func crashesOf(t *testing.T, big bool) func(i int) bool {
	every := 4
	switch {
	case *everyFlag:
		every = 1
	case big:
		every = 36
	case raced:
		every = 12
	}
	first := draw.Rand(t).IntN(every)
	return func(i int) bool { return (i+i/4)%every == first }
}

// examiner opens what crashes have left and compares it with the promises.
type examiner struct {
	t      *testing.T
	script script
	ledger *ledger
	o      brock.Options
	states int
	second int
}

func (e *examiner) options(fs vfs.FS, p *crashPoint) brock.Options {
	o := e.o
	l := newLedger()
	l.now = p.now
	o.FS, o.Now = fs, l.clock
	return o
}

func (e *examiner) errorf(p *crashPoint, format string, args ...any) {
	e.t.Helper()
	e.t.Errorf("script %q: %v: %s", e.script.name, p, fmt.Sprintf(format, args...))
}

// examine checks one crash point, and crashes in the recovery from it.
func (e *examiner) examine(p *crashPoint) {
	e.states++
	full := !testing.Short() || e.states%5 == 0
	seen := -1
	if full {
		seen = e.readOnly(p)
	}
	rng := rand.New(rand.NewPCG(uint64(p.index), 99))
	again := &crashes{mem: p.fs, ledger: e.ledger}
	fs := p.fs.CrashClone(vfs.CrashOptions{Mode: vfs.All}) // later checks need p.fs unchanged
	again.mem = fs
	n, at := 0, 1+rng.IntN(30)
	hooked := faultfs.New(fs, faultfs.Options{Before: func(op faultfs.Op) {
		if op.Kind&(faultfs.Changes|faultfs.Syncs) == 0 {
			return
		}
		again.mu.Lock()
		n++
		hit := n == at || !testing.Short() && n%at == 0
		mode, seed := vfs.CrashMode(rng.IntN(4)), rng.Uint64()
		again.mu.Unlock()
		if hit && full {
			again.take(op.String(), mode, seed)
		}
	}})
	db, k := e.open(p, hooked)
	if db == nil {
		return
	}
	again.mu.Lock() // background work still runs
	recovering := again.points
	again.mu.Unlock()
	if seen >= 0 && seen != k {
		e.errorf(p, "read-only it goes to commit %d, else to %d", seen, k)
	}
	if full {
		if err := db.Verify(context.Background(), nil); err != nil {
			e.errorf(p, "verify: %v", err)
		}
		e.goOn(p, db, fs, k)
	} else if err := db.Close(); err != nil {
		e.errorf(p, "close: %v", err)
	}
	for _, r := range recovering {
		e.second++
		q := *p
		q.fs, q.where = r.fs, fmt.Sprintf("%s; then %s, seed %d, before %s", p.where, modeName(r.mode), r.seed, r.where)
		if r.mode != vfs.All {
			q.acked = q.safe // after a crash of the process alone all acknowledged commits are there; not after this one
		}
		if db, _ := e.open(&q, r.fs); db != nil {
			if err := db.Verify(context.Background(), nil); err != nil {
				e.errorf(&q, "verify: %v", err)
			}
			must(e.t, "close", db.Close())
		}
	}
}

// open opens a crashed store and checks its content. It returns nil if there is no
// store, or after an error.
func (e *examiner) open(p *crashPoint, fs vfs.FS) (*brock.DB, int) {
	e.t.Helper()
	db, err := brock.Open(e.options(fs, p))
	if err != nil {
		e.errorf(p, "open: %v", err)
		return nil, 0
	}
	k, ok := e.check(p, db)
	if !ok {
		_ = db.Close()
		return nil, 0
	}
	return db, k
}

// check finds the last commit in db, and compares the content with the ledger.
func (e *examiner) check(p *crashPoint, db *brock.DB) (k int, ok bool) {
	e.t.Helper()
	got, err := dump(db)
	if err != nil {
		e.errorf(p, "read: %v", err)
		return 0, false
	}
	k, err = commitOf(got)
	if err != nil || k < p.least() || k > p.asked {
		e.errorf(p, "the store goes to commit %d, %v", k, err)
		return 0, false
	}
	if d := differ(got, e.ledger.state(k, p.now)); d != "" {
		e.errorf(p, "commit %d: %s", k, d)
		return 0, false
	}
	return k, true
}

// readOnly checks that a store can be read without a write. It returns the last commit.
func (e *examiner) readOnly(p *crashPoint) int {
	fs := faultfs.New(p.fs, faultfs.Options{})
	o := e.options(fs, p)
	o.Mode = brock.ReadOnly
	db, err := brock.Open(o)
	if err != nil {
		if p.created || !errors.Is(err, brock.ErrNotExist) {
			e.errorf(p, "open read-only: %v", err)
		}
		return -1
	}
	k, _ := e.check(p, db)
	if err := db.Verify(context.Background(), nil); err != nil {
		e.errorf(p, "verify read-only: %v", err)
	}
	if err := db.Close(); err != nil {
		e.errorf(p, "close read-only: %v", err)
	}
	if n := fs.Count(faultfs.Changes|faultfs.Syncs, ""); n != 0 {
		e.errorf(p, "%d operations of a read-only store change files", n)
	}
	return k
}

// goOn writes to a store that was recovered up to commit k, crashes it, and closes
// it. Commits that the recovery has cut off must never come back.
func (e *examiner) goOn(p *crashPoint, db *brock.DB, fs *vfs.Mem, k int) {
	want := e.ledger.state(k, p.now)
	fork := func(i int) {
		err := db.UpdateContext(context.Background(), brock.TxnOptions{Durability: brock.Synced}, func(txn *brock.Txn) error {
			for key, value := range map[string]string{
				"fork": fmt.Sprint(i), key(1): text("fork", i, 700), "shared": "", marker: "0",
			} {
				want[key] = value
				if err := txn.Set([]byte(key), []byte(value)); err != nil {
					return err
				}
			}
			delete(want, key(2))
			return txn.Delete([]byte(key(2)))
		})
		if err != nil {
			e.errorf(p, "write on: %v", err)
		}
	}
	again := func(what string, fs *vfs.Mem) {
		db, err := brock.Open(e.options(fs, p))
		if err != nil {
			e.errorf(p, "%s: open: %v", what, err)
			return
		}
		got, err := dump(db)
		if err != nil {
			e.errorf(p, "%s: read: %v", what, err)
		} else if d := differ(got, want); d != "" {
			e.errorf(p, "%s after commit %d: %s", what, k, d)
		}
		if err := db.Verify(context.Background(), nil); err != nil {
			e.errorf(p, "%s: verify: %v", what, err)
		}
		if err := db.Close(); err != nil {
			e.errorf(p, "%s: close: %v", what, err)
		}
	}
	fork(1)
	for _, mode := range []vfs.CrashMode{vfs.Lost, vfs.Chaos} {
		again("written on, then "+modeName(mode), fs.CrashClone(vfs.CrashOptions{Mode: mode, Seed: p.seed}))
	}
	fork(2)
	if err := db.Close(); err != nil {
		e.errorf(p, "close: %v", err)
		return
	}
	again("written on, closed and lost", fs.CrashClone(vfs.CrashOptions{}))
	again("written on and closed", fs)
}
