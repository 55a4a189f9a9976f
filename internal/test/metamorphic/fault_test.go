package metamorphic

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"runtime/debug"
	"syscall"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
)

// faultKind is one way in which the nth operation fails.
type faultKind struct {
	name  string
	fault faultfs.Fault
	// reads: reads must succeed while the fault lasts.
	reads bool
	// refused: the operations change nothing, so the store must go on as it is.
	refused bool
}

var faultKinds = []faultKind{
	{name: "any once"},
	{name: "any from then on", fault: faultfs.Fault{Times: faultfs.Always}},
	{"changes from then on", faultfs.Fault{Kinds: faultfs.Changes | faultfs.Syncs, Times: faultfs.Always}, true, false},
	{"disk full from then on", faultfs.Fault{Kinds: faultfs.Create | faultfs.Write, Times: faultfs.Always, Err: faultfs.ErrNoSpace, Short: true}, true, false},
	{"disk full once", faultfs.Fault{Kinds: faultfs.Create | faultfs.Write, Err: faultfs.ErrNoSpace}, true, false},
	{"short write once", faultfs.Fault{Kinds: faultfs.Write, Short: true}, true, false},
	{"sync once", faultfs.Fault{Kinds: faultfs.Syncs}, true, false},
	{"no file handles", faultfs.Fault{Kinds: faultfs.Opens | faultfs.SyncDir, Times: 12, Err: syscall.EMFILE}, false, true},
	{"refused for a while", faultfs.Fault{Kinds: faultfs.Opens | faultfs.Rename | faultfs.Remove | faultfs.List | faultfs.Stat | faultfs.Size | faultfs.Free | faultfs.Map, Times: 20, Err: faultfs.ErrFiles}, false, true},
	{"reads once", faultfs.Fault{Kinds: faultfs.Read}, false, true},
	{"interrupted for a while", faultfs.Fault{Kinds: faultfs.Read | faultfs.Write, Times: 12, Err: syscall.EINTR, Short: true}, true, true},
	{"writes interrupted for longer", faultfs.Fault{Kinds: faultfs.Write, Times: 40, Err: syscall.EAGAIN}, true, true},
}

var everyFlag = flag.Bool("every", false, "crash and fail at every operation, not each time at others")

func TestFaultAtEveryOperation(t *testing.T) {
	for _, sc := range scripts {
		if sc.big && (testing.Short() || raced) {
			continue
		}
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			points := 0
			for _, kind := range faultKinds {
				step := faultStep(sc)
				for nth := 1 + draw.Rand(t).IntN(step); !deadline.Near(t); nth += step { // a failure names nth
					r := &faultRun{t: t, script: sc, kind: kind, nth: nth}
					if !r.run() {
						break // no operation has failed: the script has fewer
					}
					points++
					if t.Failed() {
						return
					}
				}
			}
			t.Logf("%d injection points", points)
		})
	}
}

// faultStep is how many operations of a script there are for each one that fails.
func faultStep(sc script) int {
	switch {
	case *everyFlag:
		return 1
	case sc.big:
		return 149
	case testing.Short() || raced:
		return 53
	}
	return 29
}

// faultRun is one run of a script in which something fails.
type faultRun struct {
	t      *testing.T
	script script
	kind   faultKind
	nth    int

	mem     *vfs.Mem
	fs      *faultfs.FS
	s       *session
	lastErr error
}

func (r *faultRun) errorf(format string, args ...any) {
	r.t.Helper()
	r.t.Errorf("script %q, operation %d fails (%s), last error %v: %s", r.script.name, r.nth, r.kind.name, r.lastErr, fmt.Sprintf(format, args...))
}

// run reports whether a fault was met.
func (r *faultRun) run() bool {
	defer deadline.Watch(r.t, fmt.Sprintf("script %q hangs after operation %d failed (%s)", r.script.name, r.nth, r.kind.name))()
	defer func() {
		if p := recover(); p != nil {
			r.errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	r.mem = vfs.NewMem()
	counted := countHandles(r.mem)
	r.fs = faultfs.New(counted, faultfs.Options{})
	fault := r.kind.fault
	fault.Nth = r.nth
	r.fs.Inject(fault)
	r.s = newSession(r.t, r.fs, r.script.options)
	r.s.failed = r.failed
	r.s.opened = r.resolve
	r.s.hurt = func() bool { return r.fs.Struck() > 0 }
	r.script.run(r.s)
	struck := r.fs.Struck() > 0
	r.fs.Heal()
	r.read(true)
	r.goesOn()
	lost := &crashPoint{promise: r.s.ledger.promise(), fs: r.mem.CrashClone(vfs.CrashOptions{}), where: "the end"}
	if r.s.db != nil {
		if err := r.s.db.Close(); err != nil {
			r.typed("close", err)
		}
		r.s.db = nil
	}
	if leaks := counted.leaks(); leaks != "" {
		r.errorf("left open: %s", leaks)
	}
	r.reopen()
	e := &examiner{t: r.t, script: r.script, ledger: r.s.ledger, o: r.s.o}
	e.o.Mode = brock.ReadWrite
	if !r.t.Failed() {
		if db, _ := e.open(lost, lost.fs); db != nil {
			must(r.t, "close", db.Close())
		}
		if r.t.Failed() {
			r.errorf("so it was with a loss of power at the end")
		}
	}
	return struck
}

// failed checks an error of the script, and that reads still work.
func (r *faultRun) failed(what string, err error) {
	r.lastErr = fmt.Errorf("%s: %w", what, err)
	r.typed(what, err)
	r.read(r.kind.reads)
}

// typed checks that an error is a typed one.
func (r *faultRun) typed(what string, err error) {
	var path *fs.PathError
	known := errors.As(err, &path)
	for _, target := range []error{faultfs.ErrIO, faultfs.ErrNoSpace, brock.ErrRefused, brock.ErrStopped, brock.ErrNotExist} {
		known = known || errors.Is(err, target)
	}
	if !known {
		r.errorf("%s: %v: no error that one can test for", what, err)
	}
	if errors.Is(err, brock.ErrCorrupt) {
		r.errorf("%s: %v: a fault passed for damage", what, err)
	}
	// Where nothing can be looked at, Open doesn't know that there is no store yet. And
	// there is none where it could not be made.
	unseen := what == "open" && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, brock.ErrNotExist))
	if r.kind.refused && !unseen && (errors.Is(err, brock.ErrStopped) || !errors.Is(err, brock.ErrRefused)) {
		r.errorf("%s: %v: should be ErrRefused, and stop nothing", what, err)
	}
	if errors.Is(r.kind.fault.Err, faultfs.ErrNoSpace) && errors.Is(err, faultfs.ErrNoSpace) && !errors.Is(err, brock.ErrNoSpace) {
		r.errorf("%s: %v: should be ErrNoSpace", what, err)
	}
}

// read compares the store with the acknowledged commits.
func (r *faultRun) read(mustWork bool) {
	if r.s.db == nil {
		return
	}
	got, err := dump(r.s.db)
	if err != nil {
		if mustWork {
			r.errorf("read: %v", err)
		} else {
			r.typed("read", err)
		}
		return
	}
	p := r.s.ledger.promise()
	if d := differ(got, r.s.ledger.state(p.acked, p.now)); d != "" {
		r.errorf("read: %s", d)
	}
}

// goesOn checks that nothing has stopped because of calls that were refused: the same
// handle writes, flushes and compacts.
func (r *faultRun) goesOn() {
	if r.s.db == nil || !r.kind.refused || r.s.o.Mode == brock.ReadOnly {
		return
	}
	r.s.failed = func(what string, err error) { r.errorf("%s, with all well again: %v", what, err) }
	r.s.commit(brock.Synced, put("goes on", "1"))
	r.s.flush()
	r.s.commit(brock.Buffered, put("goes on", "2"))
	r.s.try("compact", (*brock.DB).Compact)
	r.s.try("sync", (*brock.DB).Sync)
	r.s.try("verify", func(db *brock.DB, ctx context.Context) error { return db.Verify(ctx, nil) })
	r.read(true)
}

// resolve finds out, in a store that was opened again, whether a commit that
// returned an error is there.
func (r *faultRun) resolve(db *brock.DB) {
	got, err := dump(db)
	if err != nil {
		r.typed("read", err)
		return
	}
	p := r.s.ledger.promise()
	k, err := commitOf(got)
	if err != nil || k < p.acked || k > p.asked {
		r.errorf("opened again, the store goes to commit %d, %v; %d were acknowledged, %d asked for", k, err, p.acked, p.asked)
		return
	}
	r.s.ledger.resolve(k)
	if d := differ(got, r.s.ledger.state(k, p.now)); d != "" {
		r.errorf("opened again: commit %d: %s", k, d)
	}
}

// reopen opens the store on a healthy disk.
func (r *faultRun) reopen() {
	o := r.s.o
	o.Mode = brock.ReadWrite
	db, err := brock.Open(o)
	if err != nil {
		r.errorf("open on a healthy disk: %v", err)
		return
	}
	r.resolve(db)
	if err := db.Verify(context.Background(), nil); err != nil {
		r.errorf("verify: %v", err)
	}
	if err := db.Set([]byte("x"), []byte("y")); err != nil {
		r.errorf("write on: %v", err)
	}
	if err := db.Flush(context.Background()); err != nil {
		r.errorf("flush: %v", err)
	}
	if err := db.Close(); err != nil {
		r.errorf("close on a healthy disk: %v", err)
	}
}
