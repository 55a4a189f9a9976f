package objects

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// state is what objects and blobs there are.
type state struct {
	objects map[string][]byte
	blobs   map[Digest][]byte
	refs    map[Digest]uint64
}

func (s *state) clone() *state {
	return &state{maps.Clone(s.objects), maps.Clone(s.blobs), maps.Clone(s.refs)}
}

// program is a store with objects and blobs, and what its steps do.
type program struct {
	t  *testing.T
	db *brock.DB
	s  *Store
	b  *Blobs

	mu          sync.Mutex // guards:
	done, doing *state     // acknowledged, and once the step has ended
	err         error      // of the first step that failed, if any may; no step follows
	mayFail     bool
}

// step runs do, after which expect has changed the state.
func (p *program) step(expect func(s *state), do func() error) {
	if p.err != nil {
		return
	}
	p.mu.Lock()
	p.doing = p.done.clone()
	expect(p.doing)
	p.mu.Unlock()
	if p.err = do(); p.err != nil {
		if !p.mayFail {
			p.t.Fatal(p.err)
		}
		return
	}
	p.mu.Lock()
	p.done = p.doing
	p.mu.Unlock()
}

// update is a step in one transaction, whose writes go to files above a few parts.
func (p *program) update(expect func(s *state), fn func(txn *brock.Txn) error) {
	p.step(expect, func() error {
		return p.db.UpdateContext(p.t.Context(), brock.TxnOptions{MaxMemory: 4 * part}, fn)
	})
}

func (p *program) put(key string, c []byte) {
	p.update(func(s *state) { s.objects[key] = c }, func(txn *brock.Txn) error {
		_, err := p.s.Put(txn, []byte(key), bytes.NewReader(c), PutOptions{})
		return err
	})
}

func (p *program) putBlob(c []byte, upload bool) (d Digest) {
	expect := func(s *state) {
		d = sumOf(c)
		s.blobs[d] = c
		s.refs[d]++
	}
	if upload {
		p.step(expect, func() error {
			_, err := p.b.Upload(p.t.Context(), bytes.NewReader(c), PutOptions{}, nil)
			return err
		})
		return d
	}
	p.update(expect, func(txn *brock.Txn) error {
		_, err := p.b.Put(txn, bytes.NewReader(c), PutOptions{})
		return err
	})
	return d
}

func (p *program) release(d Digest) {
	p.update(func(s *state) {
		if s.refs[d]--; s.refs[d] == 0 {
			delete(s.refs, d)
			delete(s.blobs, d)
		}
	}, func(txn *brock.Txn) error {
		_, err := p.b.Release(txn, d)
		return err
	})
}

// run does all that changes objects, small and large.
func (p *program) run() {
	small, large, other := content(1, 2*part+1), content(2, 30*part+5), content(3, 20*part)
	p.put("a", small)
	p.put("b", large)
	p.put("b", other) // over a large one
	p.put("a", small[:5])
	p.step(func(s *state) { s.objects["c"] = large }, func() error {
		_, err := p.s.Upload(p.t.Context(), []byte("c"), bytes.NewReader(large), PutOptions{}, nil)
		return err
	})
	p.update(func(s *state) { s.objects["d"] = small; delete(s.objects, "b") }, func(txn *brock.Txn) error {
		// The one that fails half-way leaves nothing in what is committed.
		_, err := p.s.Put(txn, []byte("e"), failAfter(other, errTest), PutOptions{})
		if !errors.Is(err, errTest) {
			return cmp.Or(err, errors.New("the reader's error is lost"))
		}
		if err := p.s.Delete(txn, []byte("b")); err != nil {
			return err
		}
		_, err = p.s.Put(txn, []byte("d"), bytes.NewReader(small), PutOptions{})
		return err
	})
	p.update(func(s *state) { delete(s.objects, "c") }, func(txn *brock.Txn) error { return p.s.Delete(txn, []byte("c")) })
	d := p.putBlob(large, true)
	p.putBlob(large, false)
	p.putBlob(small, true)
	p.putBlob(large, true)
	for range 3 {
		p.release(d)
	}
}

// open makes or opens the store.
func (p *program) open(o brock.Options) {
	p.db = storetest.Open(p.t, o)
	p.s, p.b = openStore(p.t, p.db), openBlobs(p.t, p.db)
}

// TestCrashLeavesNoHalf crashes at operations of the file system during puts, overwrites, deletes,
// uploads and releases. What was acknowledged is there, the step that was going on is there whole
// or not at all, and no part is left without a head but those that Sweep removes.
func TestCrashLeavesNoHalf(t *testing.T) {
	storetest.AtEachStep(t, 40, func(t *testing.T, at int) bool {
		mem, clock := vfs.NewMem(), storetest.NewClock(1e12)
		var after *vfs.Mem
		var done, doing *state
		p := &program{t: t, done: &state{map[string][]byte{}, map[Digest][]byte{}, map[Digest]uint64{}}}
		p.doing = p.done
		ops := 0
		o := storetest.Place{Dir: "/"}.TinyOptions("store", "")
		o.Durability, o.Now = brock.Synced, clock.Now
		crash := vfs.CrashOptions{Mode: vfs.CrashMode((at + at/40) % 4), Seed: uint64(at)}
		o.FS = faultfs.New(mem, faultfs.Options{Before: func(faultfs.Op) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if ops++; ops == at {
				after, done, doing = mem.CrashClone(crash), p.done, p.doing
			}
		}})
		t.Run(fmt.Sprint("operation ", at), func(t *testing.T) {
			p.t = t
			p.open(o)
			p.run()
		})
		if after == nil {
			return false
		}
		o.FS = after
		clock.Add(time.Hour)
		left := &program{t: t}
		left.open(o)
		checkLeft(t, left, done, doing)
		// All goes on.
		left.done = doing
		if state := left.readState(); !state.equal(doing) {
			left.done = done
		}
		left.run()
		return !t.Failed()
	})
}

// TestFailedCallsLeaveNoHalf lets a call of the file system fail during puts, overwrites, deletes,
// uploads and releases. A step that returns an error has changed nothing, unless that is ErrStopped.
func TestFailedCallsLeaveNoHalf(t *testing.T) {
	storetest.AtEachStep(t, 30, func(t *testing.T, at int) bool {
		mem, clock := vfs.NewMem(), storetest.NewClock(1e12)
		faults := faultfs.New(mem, faultfs.Options{})
		o := storetest.Place{Dir: "/"}.TinyOptions("store", "")
		o.Durability, o.Now, o.FS = brock.Synced, clock.Now, faults
		p := &program{t: t, mayFail: true, done: &state{map[string][]byte{}, map[Digest][]byte{}, map[Digest]uint64{}}}
		p.doing = p.done
		db, err := brock.Open(o)
		assert.OK(t, err)
		p.db, p.s, p.b = db, openStore(t, db), openBlobs(t, db)
		full := at%2 == 0
		fault := faultfs.Fault{Kinds: faultfs.Changes | faultfs.Syncs, Nth: (at + 1) / 2}
		if full {
			fault.Err = syscall.ENOSPC
		}
		faults.Inject(fault)
		p.run()
		struck := faults.Struck() > 0
		faults.Heal()
		if p.err == nil || !errors.Is(p.err, brock.ErrStopped) {
			// The session goes on, and so does a step that failed.
			checkState(t, at, p, p.done)
		}
		_ = db.Close() // an error, after ErrStopped
		o.FS = mem
		clock.Add(2 * time.Hour)
		left := &program{t: t}
		left.open(o)
		doing := p.doing
		if p.err != nil && !errors.Is(p.err, brock.ErrStopped) {
			doing = p.done
		}
		checkLeft(t, left, p.done, doing)
		return struck && !t.Failed()
	})
}

// checkState wants exactly this state.
func checkState(t *testing.T, at int, p *program, want *state) {
	t.Helper()
	if !p.readState().equal(want) {
		t.Errorf("fault %d: after %v the state is another one", at, p.err)
	}
}

// checkLeft compares what a crash has left with the two states that are possible.
func checkLeft(t *testing.T, p *program, done, doing *state) {
	t.Helper()
	assert.OK(t, p.s.Verify(t.Context(), func(d *DamageError) { t.Errorf("objects: %v", d) }))
	assert.OK(t, p.b.Verify(t.Context(), func(d *DamageError) { t.Errorf("blobs: %v", d) }))
	state := p.readState()
	if !state.equal(done) && !state.equal(doing) {
		t.Errorf("%d objects and %d blobs are left, which were at no time", len(state.objects), len(state.blobs))
	}
	for _, sweep := range []func() (int, error){
		func() (int, error) { return p.s.Sweep(t.Context()) },
		func() (int, error) { return p.b.Sweep(t.Context()) },
	} {
		n, err := sweep()
		assert.OK(t, err)
		if n > 1 {
			t.Errorf("one crash has left %d uploads", n)
		}
	}
	checkAll(t, &p.s.space, partsOf(state.objects))
	checkAll(t, &p.b.space, partsOf(state.blobs))
}

// readState reads all objects and blobs.
func (p *program) readState() *state {
	s := &state{map[string][]byte{}, map[Digest][]byte{}, map[Digest]uint64{}}
	assert.OK(p.t, p.db.View(func(txn *brock.Txn) error {
		for info, err := range p.s.List(txn, nil) {
			assert.OK(p.t, err)
			s.objects[string(info.Key)] = getBytes(p.t, &p.s.space, txn, info.Key)
		}
		for info, err := range p.b.List(txn) {
			assert.OK(p.t, err)
			s.blobs[info.Digest] = getBytes(p.t, &p.b.space, txn, info.Key)
			s.refs[info.Digest] = info.Refs
		}
		return nil
	}))
	return s
}

func (s *state) equal(other *state) bool {
	return maps.EqualFunc(s.objects, other.objects, bytes.Equal) && maps.EqualFunc(s.blobs, other.blobs, bytes.Equal) && maps.Equal(s.refs, other.refs)
}
