// Package failure tests stores whose disk is full, or whose file system or memory fails or
// refuses calls.
package failure

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/process"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

var (
	rowSeed = flag.Uint64("rowseed", 0, "the seed of TestFailedCallsInARow; 0 = draw seeds")
	rowRuns = flag.Int("rowruns", 0, "runs of TestFailedCallsInARow; 0 = a few")
)

// TestFailedCallsInARow: calls of the file system fail in one session after the other, in the same
// system: what was read from memory may never have been on the disk. A loss of power at any
// moment leaves a store that opens, is sound, and has what was acknowledged.
func TestFailedCallsInARow(t *testing.T) {
	t.Parallel()
	if *rowSeed != 0 {
		newRow(t, *rowSeed).run()
		return
	}
	runs := 9
	if testing.Short() || process.RaceEnabled {
		runs = 3
	}
	if *rowRuns > 0 {
		runs = *rowRuns
	}
	for range runs {
		newRow(t, draw.Seed(t)).run()
		if t.Failed() {
			return
		}
	}
}

// row is one history of sessions in which calls fail.
type row struct {
	t     *testing.T
	seed  uint64
	rng   *rand.Rand
	mem   *vfs.Mem
	fs    *faultfs.FS
	o     brock.Options
	small bool // only syncs of small files fail
	n     int  // of the next value
	log   []string

	mu     sync.Mutex
	acked  map[string]int          // the newest acknowledged value of each key
	asked  map[string]map[int]bool // values that may be there as well: asked for since
	crash  *rand.Rand
	every  int
	points []rowPoint
}

// rowPoint is what a crash may have left.
type rowPoint struct {
	where string
	fs    *vfs.Mem
	acked map[string]int
	asked map[string]map[int]bool
}

func newRow(t *testing.T, seed uint64) *row {
	r := &row{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), crash: rand.New(rand.NewPCG(seed, 2)), mem: vfs.NewMem(), acked: map[string]int{}, asked: map[string]map[int]bool{}}
	r.small = r.rng.IntN(3) > 0
	if r.every = 1 + r.rng.IntN(12); r.small {
		r.every = 1
	}
	r.fs = faultfs.New(r.mem, faultfs.Options{Before: r.before})
	r.o = brock.Options{
		Dir: "/s/d", MemoryLimit: 4 << 20,
		Tuning: brock.Tuning{MemtableSize: 64 << 10, SegmentSize: 64 << 10, RunFileSize: 64 << 10},
	}
	if r.rng.IntN(2) == 0 {
		r.o.ValueDir = "/s/v"
	}
	if r.rng.IntN(3) > 0 {
		r.o.Keys = storetest.MasterKey(1)
	}
	return r
}

func (r *row) logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

// before takes a crash point before a call that changes files.
func (r *row) before(op faultfs.Op) {
	if op.Kind&(faultfs.Changes|faultfs.Syncs) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.crash.IntN(r.every) != 0 || len(r.points) > 400 {
		return
	}
	acked := maps.Clone(r.acked)
	mode, seed := vfs.CrashMode(r.crash.IntN(4)), r.crash.Uint64()
	if r.small && seed%2 == 0 {
		mode = vfs.Lost
	}
	clone := r.mem.CrashClone(vfs.CrashOptions{Mode: mode, Seed: seed})
	asked := map[string]map[int]bool{}
	for k, m := range r.asked {
		asked[k] = maps.Clone(m)
	}
	r.points = append(r.points, rowPoint{fmt.Sprintf("after %d steps, crash %v, seed %d, before %v", len(r.log), mode, seed, op), clone, acked, asked})
}

// run makes the history, then looks at what the crashes have left.
func (r *row) run() {
	sessions := 2 + r.rng.IntN(4)
	if r.small {
		sessions *= 3
	}
	for range sessions {
		r.session()
		if r.t.Failed() {
			return
		}
	}
	r.fs.Heal()
	r.look(rowPoint{"the end", r.mem.CrashClone(vfs.CrashOptions{Mode: vfs.All}), r.acked, r.asked})
	for _, p := range r.points {
		if r.t.Failed() {
			return
		}
		r.look(p)
	}
}

// fault has a call fail soon. Directories are synced: after a failed sync of one, Brock relies on
// the next one.
func (r *row) fault() {
	const sync = faultfs.Sync | faultfs.SyncData
	kinds := []faultfs.Kind{sync, sync, sync, faultfs.Remove, faultfs.Remove, faultfs.Write, faultfs.Rename, faultfs.Truncate, faultfs.Create, faultfs.Close}
	paths := []string{"", "", "SUPER", "SUPER", "KEYS", "MANIFEST", ".log", ".val", ".run"}
	f := faultfs.Fault{Kinds: kinds[r.rng.IntN(len(kinds))], Path: paths[r.rng.IntN(len(paths))], Nth: 1 + r.rng.IntN(6), Times: 1 + r.rng.IntN(2)}
	if f.Path == "" {
		f.Nth = 1 + r.rng.IntN(60)
	}
	if r.small {
		f = faultfs.Fault{Kinds: sync, Path: []string{"SUPER", "SUPER", "KEYS", "MANIFEST"}[r.rng.IntN(4)], Nth: 1 + r.rng.IntN(5)}
		if r.rng.IntN(5) == 0 {
			f.Kinds, f.Nth = faultfs.Remove, 1+r.rng.IntN(2)
		}
	}
	f.Short = r.rng.IntN(2) == 0
	if !r.small && r.rng.IntN(5) == 0 {
		f.Err = faultfs.ErrNoSpace
	}
	r.logf("fault %v %q nth %d times %d %v", f.Kinds, f.Path, f.Nth, f.Times, f.Err)
	r.fs.Inject(f)
}

// session opens the store and uses it, while calls may fail.
func (r *row) session() {
	for range r.rng.IntN(4) {
		r.fault()
	}
	o := r.o
	o.FS = r.fs
	db, err := brock.Open(o)
	r.logf("open: %v", err)
	if err != nil {
		if errors.Is(err, brock.ErrKey) || errors.Is(err, brock.ErrCorrupt) || errors.Is(err, brock.ErrForeign) {
			r.errorf("open: %v", err)
		}
		if r.rng.IntN(2) == 0 {
			r.logf("heal")
			r.fs.Heal()
		}
		return
	}
	r.check(db, "opened")
	steps := 25
	if r.small {
		steps = 5
	}
	for range r.rng.IntN(steps) {
		r.step(db)
	}
	if r.rng.IntN(3) == 0 {
		r.logf("heal")
		r.fs.Heal()
	}
	err = db.Close()
	r.logf("close: %v", err)
}

// step makes one call.
func (r *row) step(db *brock.DB) {
	ctx := context.Background()
	var what string
	var err error
	n := r.rng.IntN(20)
	if r.small && n >= 9 && n < 17 && n != 12 {
		n = 13 + r.rng.IntN(4)
	}
	switch {
	case n < 9:
		size := []int{10, 100, 2000, 20000}[r.rng.IntN(4)]
		k := fmt.Sprintf("k%d", r.rng.IntN(8))
		what, err = r.set(k, func(v []byte) error { return db.Set([]byte(k), v) }, size)
	case n < 11:
		what, err = "flush", db.Flush(ctx)
	case n < 13:
		what, err = "compact", db.Compact(ctx)
	case n == 13 && r.o.Keys != nil:
		what, err = "rotate", db.RotateKey(ctx, brock.RotateOptions{Master: true})
	case n == 14 && r.o.Keys != nil:
		what, err = "rotate rewrite", db.RotateKey(ctx, brock.RotateOptions{Rewrite: true})
	case n == 15 && r.o.Keys != nil:
		what, err = "rotate data", db.RotateKey(ctx, brock.RotateOptions{})
	case n == 16:
		var ks *brock.Keyspace
		name := fmt.Sprintf("ks%d", r.rng.IntN(3))
		what = "keyspace " + name
		ks, err = db.Keyspace(name)
		if err == nil {
			_, err = r.set(name+"/a", func(v []byte) error { return ks.Set([]byte("a"), v) }, 1000)
		}
	case n == 17:
		what, err = "checkpoint", db.Checkpoint(ctx, fmt.Sprintf("/s/c%d", len(r.log)))
	case n == 18:
		what, err = r.set("big", func(v []byte) error {
			return db.UpdateContext(ctx, brock.TxnOptions{MaxMemory: 64 << 10}, func(txn *brock.Txn) error {
				for i := range 12 {
					if err := txn.Set(fmt.Appendf(nil, "fill%d", i), storetest.RandomBytes(i, 20000)); err != nil {
						return err
					}
				}
				return txn.Set([]byte("big"), v)
			})
		}, 100)
	default:
		what = "backup"
		_, err = db.Backup(ctx, io.Discard, brock.BackupOptions{})
	}
	r.logf("%s: %v", what, err)
	if errors.Is(err, brock.ErrCorrupt) {
		r.errorf("%s: %v", what, err)
	}
}

// set has a key set to the next value, and notes what may be there then.
func (r *row) set(k string, set func(v []byte) error, size int) (string, error) {
	r.mu.Lock()
	r.n++
	n := r.n
	if r.asked[k] == nil {
		r.asked[k] = map[int]bool{}
	}
	r.asked[k][n] = true
	r.mu.Unlock()
	err := set(append(fmt.Appendf(nil, "%d ", n), storetest.RandomBytes(n, size)...))
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.acked[k] = n
		r.asked[k] = map[int]bool{}
	} else if !errors.Is(err, brock.ErrStopped) {
		delete(r.asked[k], n)
	}
	return fmt.Sprintf("set %s=%d", k, n), err
}

// values reads the number of each key's value.
func (r *row) values(db *brock.DB) (map[string]int, error) {
	got := map[string]int{}
	read := func(prefix string, each func(fn func(txn *brock.Txn) error) error) error {
		return each(func(txn *brock.Txn) error {
			for item, err := range txn.All() {
				if err != nil {
					return err
				}
				v, err := item.Value()
				if err != nil {
					return err
				}
				if strings.HasPrefix(string(item.Key()), "fill") {
					continue
				}
				n := 0
				fmt.Sscanf(string(v[:min(20, len(v))]), "%d ", &n)
				got[prefix+string(item.Key())] = n
			}
			return nil
		})
	}
	if err := read("", db.View); err != nil {
		return nil, err
	}
	for ks := range db.Keyspaces() {
		if ks.Name() == "" {
			continue
		}
		if err := read(ks.Name()+"/", ks.View); err != nil {
			return nil, err
		}
	}
	return got, nil
}

// wrong tells of a value that should not be there; "" is none.
func wrong(got, acked map[string]int, asked map[string]map[int]bool) string {
	for k, n := range acked {
		if got[k] != n && !asked[k][got[k]] {
			return fmt.Sprintf("%s is %d, want %d or one of %v", k, got[k], n, slices.Collect(maps.Keys(asked[k])))
		}
	}
	for k, n := range got {
		if acked[k] != n && !asked[k][n] {
			return fmt.Sprintf("%s is %d, want %d or one of %v", k, n, acked[k], slices.Collect(maps.Keys(asked[k])))
		}
	}
	return ""
}

// check compares an open store, and settles what is known of its values.
func (r *row) check(db *brock.DB, what string) {
	got, err := r.values(db)
	if err != nil {
		r.logf("read: %v", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := wrong(got, r.acked, r.asked); w != "" {
		r.errorf("%s: %s", what, w)
	}
	// Open has made durable what it shows.
	r.acked = got
	for k := range r.asked {
		r.asked[k] = map[int]bool{}
	}
}

// look opens what a crash has left.
func (r *row) look(p rowPoint) {
	o := r.o
	o.FS = p.fs
	db, err := brock.Open(o)
	if err != nil {
		r.errorf("%s: open: %v", p.where, err)
		return
	}
	got, err := r.values(db)
	if err != nil {
		r.errorf("%s: read: %v", p.where, err)
	}
	if w := wrong(got, p.acked, p.asked); w != "" {
		r.errorf("%s: %s", p.where, w)
	}
	if err := db.Verify(context.Background(), func(c *brock.CorruptionError) { r.errorf("%s: verify: %v", p.where, c) }); err != nil {
		r.errorf("%s: verify: %v", p.where, err)
	}
	if err := db.Close(); err != nil {
		r.errorf("%s: close: %v", p.where, err)
	}
	if db, err = brock.Open(o); err != nil {
		r.errorf("%s: second open: %v", p.where, err)
	} else {
		assert.OK(r.t, db.Close())
	}
}

func (r *row) errorf(format string, args ...any) {
	r.t.Helper()
	r.t.Errorf("-rowseed %d: %s\n%s", r.seed, fmt.Sprintf(format, args...), strings.Join(r.log, "\n"))
}
