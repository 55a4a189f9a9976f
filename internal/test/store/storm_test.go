package store

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

var stormFor = flag.Duration("storm", 300*time.Millisecond, "how long TestStorm goes on")

// TestStorm does everything at once that a store can do: transactions of all kinds, keyspaces that
// come and go, background work, changes of keys, copies, followers, readers of old versions. Each
// state of the store describes itself, so all who see one check it.
func TestStorm(t *testing.T) {
	r := draw.Rand(t)
	fs := vfs.NewMem()
	s := &storm{t: t, fs: fs, full: r.IntN(3) == 0, clock: storetest.NewClock(1_800_000_000_000), end: make(chan struct{})}
	s.o = brock.Options{
		Dir: "db", FS: fs, Keys: storetest.DrawKeys(t), Durability: brock.Buffered, Now: s.clock.Now,
		KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: []int{6, 64, 512, -1}[r.IntN(4)]},
		Tuning:           brock.Tuning{MemtableSize: 64 << 10, RunFileSize: 64 << 10, SegmentSize: []int64{64 << 10, 8 << 20}[r.IntN(2)]},
		Maintenance:      brock.Maintenance{IdleAfter: time.Millisecond},
	}
	db, err := brock.Open(s.o)
	assert.OK(t, err)
	s.db = db
	s.kept = storetest.OpenKeyspace(t, db, "kept", brock.KeyspaceOptions{ValueThreshold: 64, Compression: brock.S2, CompressAbove: 1, Versions: brock.Retention{Age: time.Hour}})
	assert.OK(t, db.Update(func(txn *brock.Txn) error { return s.change(rand.New(rand.NewPCG(1, 1)), txn) }))
	var wg sync.WaitGroup
	parts := []func(*rand.Rand) error{
		s.write, s.write, s.write, s.write, s.read, s.readAt, s.comeAndGo, s.work, s.work, s.copies, s.follow, s.rotate, s.setOptions, s.crash,
	}
	for i, part := range parts {
		seed := draw.Seed(t)
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for {
				select {
				case <-s.end:
					return
				default:
				}
				if err := part(r); err != nil && !s.passes(err) {
					t.Errorf("part %d: %v", i, err)
					return
				}
			}
		})
	}
	if s.full {
		wg.Go(func() {
			r := draw.Rand(t)
			for {
				select {
				case <-s.end:
					fs.SetCapacity(0)
					return
				case <-time.After(time.Duration(r.IntN(20)) * time.Millisecond):
				}
				fs.SetCapacity([]int64{0, fs.Used() + r.Int64N(1<<20)}[r.IntN(2)])
			}
		})
	}
	<-time.After(*stormFor)
	close(s.end)
	wg.Wait()
	if s.follower != nil {
		assert.OK(t, s.follower.Close())
	}
	assert.OK(t, db.Verify(t.Context(), nil))
	t.Logf("%d commits, %d reads, %d of old versions, %d copies, %d of a follower, %d crashes, %d times the disk was full", db.Version(), s.reads.Load(), s.old.Load(), s.copied.Load(), s.followed.Load(), s.crashed.Load(), s.refused.Load())
	assert.OK(t, db.Close())
}

type storm struct {
	t                                              *testing.T
	fs                                             *vfs.Mem
	full                                           bool // the disk fills up at times
	o                                              brock.Options
	db, follower                                   *brock.DB
	kept                                           *brock.Keyspace
	clock                                          *storetest.Clock
	end                                            chan struct{}
	versions                                       sync.Map // of commits: the number that they have written
	reads, old, copied, followed, refused, crashed atomic.Int64
	dirs                                           atomic.Int64
}

// passes reports whether err says that the disk is full for now.
func (s *storm) passes(err error) bool {
	if !s.full || !errors.Is(err, brock.ErrNoSpace) || errors.Is(err, brock.ErrStopped) {
		return false
	}
	s.refused.Add(1)
	return true
}

const stormKeys = 30

func stormKey(i int) []byte { return fmt.Appendf(nil, "k%02d", i) }

// change writes the next state: some keys, and what there is in all.
func (s *storm) change(r *rand.Rand, txn *brock.Txn) error {
	for _, ks := range []*brock.Keyspace{nil, s.kept} {
		in := txn.In(ks)
		n, has, err := s.described(in)
		if err != nil {
			return err
		}
		for range r.IntN(4) {
			lo, hi := r.IntN(stormKeys), r.IntN(stormKeys)
			if err := in.DeleteRange(stormKey(lo), stormKey(hi)); err != nil {
				return err
			}
			for i := lo; i < hi; i++ {
				has[i] = 0
			}
		}
		for range r.IntN(8) {
			i := r.IntN(stormKeys)
			if r.IntN(3) == 0 {
				has[i] = 0
				err = in.Delete(stormKey(i))
			} else {
				has[i] = n + 1
				size := r.IntN(1500)
				if r.IntN(20) == 0 {
					size = 100_000
				}
				err = in.Set(stormKey(i), []byte(fmt.Sprintf("%d ", n+1)+strings.Repeat("x", size)))
			}
			if err != nil {
				return err
			}
		}
		var b bytes.Buffer
		fmt.Fprint(&b, n+1)
		for _, m := range has {
			fmt.Fprintf(&b, " %d", m)
		}
		if err := in.Set([]byte("state"), b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// described is the number of the state, and which number each key has; 0: none.
func (s *storm) described(in *brock.Txn) (n int, has [stormKeys]int, err error) {
	item, err := in.Get([]byte("state"))
	if errors.Is(err, brock.ErrKeyNotFound) {
		return 0, has, nil
	}
	if err != nil {
		return 0, has, err
	}
	v, err := item.Value()
	if err != nil {
		return 0, has, err
	}
	from := bytes.NewReader(v)
	if _, err := fmt.Fscan(from, &n); err != nil {
		return 0, has, err
	}
	for i := range has {
		if _, err := fmt.Fscan(from, &has[i]); err != nil {
			return 0, has, err
		}
	}
	return n, has, nil
}

// check compares a state with its description.
func (s *storm) check(in *brock.Txn, reverse bool) (int, error) {
	n, has, err := s.described(in)
	if err != nil {
		return 0, err
	}
	var got [stormKeys]int
	for item, err := range in.Items(brock.IteratorOptions{Prefix: []byte("k"), Reverse: reverse}) {
		if err != nil {
			return 0, err
		}
		v, err := item.Value()
		if err != nil {
			return 0, err
		}
		var i, m int
		if _, err := fmt.Sscanf(string(item.Key()), "k%d", &i); err != nil {
			return 0, err
		}
		if _, err := fmt.Sscan(string(v[:bytes.IndexByte(v, ' ')]), &m); err != nil {
			return 0, err
		}
		got[i] = m
	}
	if got != has {
		return 0, fmt.Errorf("state %d of version %d has\n%d, want\n%d", n, in.ReadVersion(), got, has)
	}
	for i := range got {
		found, err := in.Has(stormKey(i))
		if err != nil || found != (has[i] > 0) {
			return 0, fmt.Errorf("state %d of version %d: has %d: %v, %v", n, in.ReadVersion(), i, found, err)
		}
	}
	return n, nil
}

func (s *storm) checkBoth(txn *brock.Txn, kept *brock.Keyspace, reverse bool) error {
	a, err := s.check(txn, reverse)
	if err != nil {
		return fmt.Errorf("default: %w", err)
	}
	b, err := s.check(txn.In(kept), reverse)
	if err != nil {
		return fmt.Errorf("kept: %w", err)
	}
	if a != b {
		return fmt.Errorf("version %d: state %d in the default keyspace, %d in the other", txn.ReadVersion(), a, b)
	}
	return nil
}

func (s *storm) write(r *rand.Rand) error {
	s.clock.Add(time.Duration(r.IntN(3)) * time.Millisecond)
	var last *brock.Txn
	n := 0
	o := brock.TxnOptions{MaxMemory: []int64{0, 0, 0, 1, 2000}[r.IntN(5)]}
	err := s.db.UpdateContext(context.Background(), o, func(txn *brock.Txn) (err error) {
		last = txn
		if err = s.change(r, txn); err == nil {
			n, _, err = s.described(txn)
		}
		if err == nil && r.IntN(4) == 0 {
			err = s.checkBoth(txn, s.kept, false)
		}
		return err
	})
	if errors.Is(err, brock.ErrConflict) {
		return nil
	}
	if err == nil {
		s.versions.Store(last.CommitVersion(), n)
	}
	return err
}

func (s *storm) read(r *rand.Rand) error {
	s.reads.Add(1)
	<-time.After(time.Duration(r.IntN(3)) * time.Millisecond)
	return s.db.View(func(txn *brock.Txn) error {
		for range 1 + r.IntN(3) {
			if err := s.checkBoth(txn, s.kept, r.IntN(2) == 0); err != nil {
				return fmt.Errorf("reader: %w", err)
			}
		}
		return nil
	})
}

func (s *storm) readAt(r *rand.Rand) error {
	<-time.After(time.Duration(r.IntN(3)) * time.Millisecond)
	at := s.db.Version()
	at -= r.Uint64N(min(at, 300))
	txn, err := s.db.Begin(context.Background(), brock.TxnOptions{ReadAt: at})
	if errors.Is(err, brock.ErrVersionGone) && at < 4 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read at %d: %w", at, err)
	}
	defer txn.Discard()
	n, err := s.check(txn.In(s.kept), r.IntN(2) == 0)
	if errors.Is(err, brock.ErrVersionGone) && at < 4 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("kept at %d: %w", at, err)
	}
	if want, found := s.versions.Load(at); found && want != n {
		return fmt.Errorf("version %d has state %d, want %d", at, n, want)
	}
	m, err := s.check(txn, false)
	if err == nil && m != n {
		err = fmt.Errorf("version %d has states %d and %d", at, m, n)
	}
	if errors.Is(err, brock.ErrVersionGone) {
		err = nil
	}
	s.old.Add(1)
	return err
}

// comeAndGo makes a keyspace, writes to it, and drops it.
func (s *storm) comeAndGo(r *rand.Rand) error {
	ks, err := s.db.Keyspace("temp", brock.KeyspaceOptions{ValueThreshold: []int{-1, 64}[r.IntN(2)], Versions: brock.Retention{Versions: 1 + r.IntN(3)}})
	if err != nil {
		return err
	}
	for i := range r.IntN(40) {
		err := s.db.UpdateContext(context.Background(), brock.TxnOptions{MaxMemory: []int64{0, 0, 1}[r.IntN(3)]}, func(txn *brock.Txn) error {
			if txn.In(ks).Set(stormKey(i), make([]byte, r.IntN(2000))) != nil {
				return txn.In(ks).DeleteRange(nil, nil)
			}
			return txn.Set([]byte("temp"), []byte{byte(i)})
		})
		if err != nil {
			return err
		}
	}
	err = s.db.View(func(txn *brock.Txn) error {
		for item, err := range txn.In(ks).All() {
			if err != nil {
				return err
			}
			if _, err := item.Value(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return ks.Drop(context.Background())
}

func (s *storm) work(r *rand.Rand) error {
	ctx := context.Background()
	switch r.IntN(5) {
	case 0:
		return s.db.Flush(ctx)
	case 1:
		return s.db.Compact(ctx)
	case 2:
		_, err := s.db.Reclaim(ctx)
		return err
	case 3:
		return s.db.Verify(ctx, nil)
	}
	<-time.After(time.Duration(r.IntN(20)) * time.Millisecond)
	return nil
}

func (s *storm) copies(r *rand.Rand) error {
	ctx := context.Background()
	o := s.o
	o.Dir, o.MustExist = fmt.Sprint("copy", s.dirs.Add(1)), true
	if r.IntN(2) == 0 {
		if err := s.db.Checkpoint(ctx, o.Dir); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
	} else {
		var b bytes.Buffer
		if _, err := s.db.Backup(ctx, &b, brock.BackupOptions{}); err != nil {
			return fmt.Errorf("backup: %w", err)
		}
		restored := o
		restored.MustExist = false
		if _, err := brock.Restore(ctx, &b, restored); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
	}
	db, err := brock.Open(o)
	if err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	defer db.Close()
	s.copied.Add(1)
	kept, err := db.Keyspace("kept")
	if err != nil {
		return err
	}
	for _, work := range []func(context.Context) error{nil, db.Compact} {
		if work != nil {
			if err := work(ctx); err != nil {
				return err
			}
		}
		err = db.View(func(txn *brock.Txn) error { return s.checkBoth(txn, kept, r.IntN(2) == 0) })
		if err != nil {
			return fmt.Errorf("copy: %w", err)
		}
	}
	return db.Verify(ctx, nil)
}

func (s *storm) follow(r *rand.Rand) error {
	ctx := context.Background()
	if s.follower == nil {
		o := s.o
		o.Mode = brock.Follow
		f, err := brock.Open(o)
		if err != nil {
			return fmt.Errorf("follower: %w", err)
		}
		s.follower = f
	}
	f := s.follower
	for range 10 {
		least := uint64(0)
		if r.IntN(2) == 0 {
			least = s.db.Version()
			if err := s.db.Sync(ctx); err != nil {
				return err
			}
		}
		v, err := f.Refresh(ctx)
		if err != nil {
			return fmt.Errorf("refresh: %w", err)
		}
		if v < least {
			return fmt.Errorf("refreshed to %d, %d was durable", v, least)
		}
		kept, err := f.Keyspace("kept")
		if err != nil {
			return err
		}
		txn, err := f.Begin(ctx, brock.TxnOptions{})
		if err != nil {
			return err
		}
		for range 2 {
			if err == nil {
				err = s.checkBoth(txn, kept, r.IntN(2) == 0)
			}
			if err == nil {
				_, err = f.Refresh(ctx)
			}
		}
		txn.Discard()
		if err != nil {
			return fmt.Errorf("follower: %w", err)
		}
		s.followed.Add(1)
	}
	if r.IntN(3) == 0 {
		s.follower = nil
		return f.Close()
	}
	return nil
}

func (s *storm) rotate(r *rand.Rand) error {
	<-time.After(time.Duration(r.IntN(100)) * time.Millisecond)
	if s.o.Keys == nil {
		return nil
	}
	return s.db.RotateKey(context.Background(), brock.RotateOptions{Rewrite: r.IntN(2) == 0, Master: r.IntN(3) == 0})
}

func (s *storm) setOptions(r *rand.Rand) error {
	<-time.After(time.Duration(r.IntN(50)) * time.Millisecond)
	return s.kept.SetOptions(brock.KeyspaceOptions{
		ValueThreshold: []int{6, 64, 512, -1}[r.IntN(4)], Compression: brock.Compression(r.IntN(4)), CompressAbove: 1,
		Versions: brock.Retention{Age: time.Hour, Versions: r.IntN(4)},
	})
}

// crash looks at what a crash would leave now.
func (s *storm) crash(r *rand.Rand) error {
	<-time.After(time.Duration(r.IntN(30)) * time.Millisecond)
	ctx := context.Background()
	least := 0
	err := s.db.View(func(txn *brock.Txn) (err error) {
		least, _, err = s.described(txn)
		return err
	})
	if err != nil {
		return err
	}
	mode := vfs.CrashMode(r.IntN(4))
	if mode != vfs.All {
		if err := s.db.Sync(ctx); err != nil {
			return err
		}
	}
	o := s.o
	clone := s.fs.CrashClone(vfs.CrashOptions{Mode: mode, Seed: r.Uint64()})
	clone.SetCapacity(0)
	o.FS, o.MustExist = clone, true
	db, err := brock.Open(o)
	if err != nil {
		return fmt.Errorf("after a crash of mode %d: %w", mode, err)
	}
	defer db.Close()
	s.crashed.Add(1)
	kept, err := db.Keyspace("kept")
	if err != nil {
		return err
	}
	for _, work := range []func(context.Context) error{nil, db.Compact} {
		if work != nil {
			if err := work(ctx); err != nil {
				return err
			}
		}
		err = db.View(func(txn *brock.Txn) error {
			if n, _, err := s.described(txn); err != nil || n < least {
				return fmt.Errorf("state %d, want %d at least: %w", n, least, err)
			}
			return s.checkBoth(txn, kept, r.IntN(2) == 0)
		})
		if err != nil {
			return fmt.Errorf("after a crash of mode %d: %w", mode, err)
		}
	}
	return db.Verify(ctx, nil)
}
