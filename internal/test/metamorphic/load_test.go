package metamorphic

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
)

// TestFaultUnderLoad makes an operation fail while many clients write and the store
// flushes and compacts. Every call returns, and acknowledged data is there when the
// store is opened again, on the same disk or after a loss of power.
func TestFaultUnderLoad(t *testing.T) {
	n := 40
	switch {
	case *seedFlag != 0:
		n = 1
	case testing.Short():
		n = 15
	}
	struck := 0
	for range n {
		seed := *seedFlag
		if seed == 0 {
			seed = draw.Seed(t)
		}
		l := &load{t: t, seed: seed}
		if l.run() {
			struck++
		}
		if t.Failed() {
			t.Fatalf("replay: go test ./internal/test/metamorphic -run TestFaultUnderLoad -seed %d", seed)
		}
	}
	t.Logf("%d of %d runs met a fault", struck, n)
}

type load struct {
	t     *testing.T
	seed  uint64
	o     brock.Options
	mu    sync.Mutex
	acked [8]int // greatest number of an acknowledged write of each client
	asked [8]int
}

func (l *load) run() (struck bool) {
	defer deadline.Watch(l.t, fmt.Sprintf("seed %d: the store hangs", l.seed))()
	rng := rand.New(rand.NewPCG(l.seed, 77))
	mem := vfs.NewMem()
	files := countHandles(mem)
	fs := faultfs.New(files, faultfs.Options{})
	l.o = brock.Options{Dir: "db", FS: fs, Tuning: small, Keys: keysOf(l.seed)}
	db, err := brock.Open(l.o)
	must(l.t, "open", err)
	fault := pick(rng, faultKinds...).fault
	fault.Nth = 1 + rng.IntN(400)
	fs.Inject(fault)

	var users, background sync.WaitGroup
	stop := make(chan struct{})
	for i := range l.acked {
		users.Go(func() { l.user(db, i, rand.New(rand.NewPCG(l.seed, uint64(i)))) })
	}
	background.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			work := db.Flush
			if i%3 == 2 {
				work = db.Compact
			}
			if err := work(context.Background()); err != nil {
				l.typed("background", err)
				return
			}
		}
	})
	users.Wait()
	close(stop)
	background.Wait()
	fs.Heal()
	lost := mem.CrashClone(vfs.CrashOptions{})
	if err := db.Close(); err != nil {
		l.typed("close", err)
	}
	if leaks := files.leaks(); leaks != "" {
		l.t.Errorf("left open: %s", leaks)
	}
	l.check("after a loss of power", lost)
	l.check("opened again", mem)
	return fs.Struck() > 0
}

// user commits growing numbers, the same under all its keys, until a commit fails,
// and reads them.
func (l *load) user(db *brock.DB, i int, rng *rand.Rand) {
	for n := 1; n <= 40; n++ {
		l.mu.Lock()
		l.asked[i] = n
		l.mu.Unlock()
		err := db.Update(func(txn *brock.Txn) error {
			for j := range 3 {
				if err := txn.Set(userKey(i, j), numbered(n, rng.IntN(3000))); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			l.typed("commit", err)
			l.read(db, i, n-1, n)
			return
		}
		l.mu.Lock()
		l.acked[i] = n
		l.mu.Unlock()
		if n%4 == 0 {
			l.read(db, i, n, n)
		}
	}
}

func userKey(i, j int) []byte { return fmt.Appendf(nil, "key%d/%d", j, i) }

func numbered(n, size int) []byte {
	return append(fmt.Appendf(nil, "%06d", n), make([]byte, size)...)
}

// read checks that all keys of a user have one number between two bounds, or that the
// error is a typed one.
func (l *load) read(db *brock.DB, i, least, most int) {
	n := -1
	err := db.View(func(txn *brock.Txn) error {
		for j := range 3 {
			item, err := txn.Get(userKey(i, j))
			got := 0
			if err == nil {
				v, err := item.Value()
				if err != nil {
					return err
				}
				if got, err = strconv.Atoi(string(v[:6])); err != nil {
					return err
				}
			} else if !errors.Is(err, brock.ErrKeyNotFound) {
				return err
			}
			if n < 0 {
				n = got
			} else if got != n {
				l.t.Errorf("user %d: half of a transaction: %d and %d", i, n, got)
			}
		}
		return nil
	})
	switch {
	case err != nil:
		l.typed("read", err)
	case n < least || n > most:
		l.t.Errorf("user %d: reads %d, want %d to %d", i, n, least, most)
	}
}

func (l *load) typed(what string, err error) {
	r := &faultRun{t: l.t}
	r.typed(fmt.Sprintf("seed %d: %s", l.seed, what), err)
}

func (l *load) check(what string, fs vfs.FS) {
	o := l.o
	o.FS = fs
	db, err := brock.Open(o)
	if err != nil {
		l.t.Errorf("%s: open: %v", what, err)
		return
	}
	for i := range l.acked {
		l.read(db, i, l.acked[i], l.asked[i])
	}
	if err := db.Verify(context.Background(), nil); err != nil {
		l.t.Errorf("%s: verify: %v", what, err)
	}
	if err := db.Close(); err != nil {
		l.t.Errorf("%s: close: %v", what, err)
	}
}
