package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// loadAnew loads n pairs instead of what is there, with a Loader that goes to files.
func loadAnew(db *brock.DB, from, n, size int) error {
	l, err := db.Default().NewLoader(context.Background(), brock.LoadOptions{Sorted: true, Replace: true, MaxMemory: 1})
	if err != nil {
		return err
	}
	defer l.Abort()
	for i := range n {
		if err := l.Set(fmt.Appendf(nil, "key %05d", from+i), storetest.RandomBytes(from+i, size)); err != nil {
			return err
		}
	}
	_, err = l.Finish()
	return err
}

// TestEncryptStoreWithHistory: a store whose files the feed keeps is encrypted. Its history goes on, or
// is refused, and when all was written again nothing of it is plain.
func TestEncryptStoreWithHistory(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	o.KeyspaceDefaults = brock.KeyspaceOptions{ValueThreshold: 200}
	db := assert.Must(brock.Open(o))
	rep := newReplica()
	rep.lossy = true // AdvanceVersion has no changes
	rep.pull(t, db, brock.WatchOptions{}, 1, nil)
	goOn := func(db *brock.DB) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for c, err := range db.Watch(ctx, brock.WatchOptions{After: rep.at}) {
			if errors.Is(err, brock.ErrVersionGone) {
				rep = newReplica()
				rep.lossy = true
				rep.pull(t, db, brock.WatchOptions{Snapshot: true}, -1, nil)
				break
			}
			assert.OK(t, err)
			if rep.apply(t, c); c.Caught {
				break
			}
		}
		assert.SameText(t, "replica", rep.text(), contents(t, db, 0, true))
	}
	for i := range 3 {
		storetest.Set(t, db, "small=secret "+fmt.Sprint(i))
		assert.OK(t, loadAnew(db, 100*i, 400, 1000))
		assert.OK(t, db.Flush(t.Context()))
		assert.OK(t, db.AdvanceVersion(t.Context(), db.Version()+1))
	}
	assert.OK(t, db.Compact(t.Context()))
	assert.OK(t, db.Close())
	o.Keys = storetest.MasterKey(1)
	assert.OK(t, brock.EncryptStore(t.Context(), o))
	db = assert.Must(brock.Open(o))
	defer func() { assert.OK(t, db.Close()) }()
	storetest.Set(t, db, "small=encrypted")
	goOn(db)
	assert.OK(t, db.Verify(t.Context(), func(c *brock.CorruptionError) { t.Error(c) }))
	k := assert.Must(db.Snapshot())
	assert.OK(t, db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}))
	assert.Equal(t, "bytes under old keys", db.Metrics().Tree.OldKeyBytes, 0)
	k.Close()
	assert.OK(t, db.Close())                 // files go while it is open
	secret := storetest.RandomBytes(0, 1000) // of a key that only history had
	for _, name := range storetest.ListFiles(t, mem, "") {
		if strings.HasPrefix(name, "db/") || strings.HasPrefix(name, "/db/") {
			p := storetest.ReadFile(t, mem, name)
			if bytes.Contains(p, secret[:64]) || bytes.Contains(p, []byte("secret 0")) {
				t.Errorf("%s is plain", name)
			}
		}
	}
	db = assert.Must(brock.Open(o))
	goOn(db)
	storetest.Set(t, db, "small=later")
	goOn(db)
}

// TestSnapshotBelowDiscard: a Snapshot and its copies keep what SetDiscardVersion and loads
// give up later, over jumps of versions.
func TestSnapshotBelowDiscard(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	o.KeyspaceDefaults = brock.KeyspaceOptions{ValueThreshold: 200, Versions: brock.Retention{Manual: true}}
	clock := storetest.NewClock(1_000_000)
	o.Now = clock.Now
	db := storetest.Open(t, o)
	for i := range 5 {
		clock.Add(time.Minute)
		b := db.NewBatch()
		for j := range 3 {
			assert.OK(t, b.At(uint64(1000*i+100*j+10)))
			assert.OK(t, b.Set([]byte("k"), fmt.Appendf(nil, "%d", 1000*i+100*j+10)))
			assert.OK(t, b.Set(nil, storetest.RandomBytes(i, 500)))
		}
		assert.Must(b.Commit(t.Context(), brock.Synced))
		if i == 2 {
			assert.OK(t, db.Flush(t.Context()))
		}
	}
	k := assert.Must(db.Snapshot())
	defer k.Close()
	want := contents(t, db, 0, true)
	at := clock.Now()
	clock.Add(time.Minute)
	assert.OK(t, db.AdvanceVersion(t.Context(), 1<<40))
	clock.Add(time.Minute)
	assert.OK(t, loadAnew(db, 0, 400, 1000))
	assert.OK(t, db.Default().SetDiscardVersion(db.Version()))
	for range 2 {
		assert.OK(t, db.Compact(t.Context()))
	}
	assert.Must(db.Reclaim(t.Context()))
	_, err := db.VersionAt(at)
	assert.Error(t, "VersionAt a time before the discard", err, brock.ErrVersionGone)
	err = db.ViewContext(t.Context(), brock.TxnOptions{ReadAt: k.Version()}, func(txn *brock.Txn) error { _, err := txn.Get([]byte("k")); return err })
	assert.Error(t, "ReadAt", err, brock.ErrVersionGone)
	check := func(what string, db *brock.DB) {
		t.Helper()
		assert.Equal(t, what, db.Version(), k.Version())
		assert.SameText(t, what, contents(t, db, 0, true), want)
		for i := range 5 {
			v := uint64(1000*i + 100)
			if i == 0 {
				continue
			}
			assert.OK(t, db.ViewContext(t.Context(), brock.TxnOptions{ReadAt: v}, func(txn *brock.Txn) error {
				assert.Equal(t, fmt.Sprint(what, " at ", v), storetest.Get(txn, "k"), fmt.Sprint(1000*i+10))
				return nil
			}))
		}
		assert.OK(t, db.Verify(t.Context(), func(c *brock.CorruptionError) { t.Error(c) }))
	}
	to := o
	to.Dir = "checkpoint"
	assert.OK(t, k.Checkpoint(t.Context(), to.Dir))
	check("checkpoint", storetest.OpenExisting(t, to))
	var stream bytes.Buffer
	assert.Must(k.Backup(t.Context(), &stream, brock.BackupOptions{}))
	to.Dir = "restored"
	assert.Must(brock.Restore(t.Context(), &stream, to))
	check("restored", storetest.OpenExisting(t, to))
}

// TestMeetings: loads, given versions, spills, counters, keyspaces, Snapshots with copies, key changes,
// and Watches at the same time. What a Watch makes of the feed is what each Snapshot, and each copy of
// one, has at its version.
func TestMeetings(t *testing.T) {
	seed := draw.Rand(t)
	mem := vfs.NewMem()
	o := options(mem)
	o.Keys = storetest.DrawKeys(t)
	o.KeyspaceDefaults = brock.KeyspaceOptions{ValueThreshold: 500}
	db := storetest.Open(t, o)
	ks := storetest.OpenKeyspace(t, db, "other")
	ctx, end := context.WithTimeout(t.Context(), 4*time.Second)
	defer end()
	var all sync.WaitGroup
	forever := func(fn func(r *rand.Rand, i int) error) {
		r := rand.New(rand.NewPCG(seed.Uint64(), 0))
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := fn(r, i); err != nil && !errors.Is(err, brock.ErrVersionMismatch) {
					t.Error(err)
					return
				}
				if r.IntN(4) == 0 {
					time.Sleep(time.Duration(r.IntN(3000)) * time.Microsecond)
				}
			}
		})
	}
	var mu sync.Mutex
	texts := map[uint64]string{}
	all.Go(func() {
		rep := newReplica()
		for c, err := range db.Watch(t.Context(), brock.WatchOptions{Snapshot: true}) {
			if err != nil {
				t.Error(err)
				return
			}
			if c.Snapshot {
				rep.keyspaces = map[string]map[string]string{"": {}}
			} else if c.Version < rep.at.Version() {
				t.Errorf("version %d after %d", c.Version, rep.at.Version())
			}
			for ch, err := range c.Changes() {
				if err != nil {
					t.Error(err)
					return
				}
				rep.applyChange(t, ch)
			}
			rep.at = c.Position()
			mu.Lock()
			texts[c.Version] = rep.text()
			mu.Unlock()
			if ctx.Err() != nil && c.Version == db.Version() {
				return
			}
		}
	})
	for range 2 {
		forever(func(r *rand.Rand, i int) error {
			return loadAnew(db, r.IntN(100), []int{10, 300}[r.IntN(2)], 1+r.IntN(1500))
		})
	}
	forever(func(r *rand.Rand, i int) error {
		b := db.NewBatch()
		v := db.Version() + 1 + r.Uint64N(1<<(1+r.IntN(34)))
		for j := range uint64(1 + r.IntN(3)) {
			if err := b.At(v + j*3); err != nil {
				return err
			}
			if err := b.In([]*brock.Keyspace{nil, ks}[r.IntN(2)]).Set(fmt.Append(nil, r.IntN(20)), storetest.RandomBytes(i, r.IntN(900))); err != nil {
				return err
			}
		}
		_, err := b.Commit(ctx, brock.Durability(1+r.IntN(2)))
		if errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		return err
	})
	forever(func(r *rand.Rand, i int) error {
		_, err := db.Default().Add(t.Context(), nil, 1)
		if errors.Is(err, brock.ErrInvalid) {
			return db.Delete(nil)
		}
		return err
	})
	forever(func(r *rand.Rand, i int) error {
		if err := db.AdvanceVersion(t.Context(), db.Version()+r.Uint64N(5)); err != nil {
			return err
		}
		name := fmt.Sprint("short ", r.IntN(2))
		short, err := db.Keyspace(name)
		if err == nil {
			err = short.Set([]byte("a"), []byte(name))
		}
		if err == nil {
			err = short.Drop(t.Context())
		}
		return err
	})
	forever(func(r *rand.Rand, i int) error {
		return db.UpdateContext(t.Context(), brock.TxnOptions{Update: true, MaxMemory: []int64{0, 1}[r.IntN(2)]}, func(txn *brock.Txn) error {
			for j := range 60 {
				if err := txn.In(ks).Set(fmt.Append(nil, r.IntN(20)), storetest.RandomBytes(j, r.IntN(1200))); err != nil {
					return err
				}
			}
			return txn.In(ks).DeleteRange([]byte("1"), []byte("15"))
		})
	})
	if o.Keys != nil {
		forever(func(r *rand.Rand, i int) error {
			time.Sleep(300 * time.Millisecond)
			return db.RotateKey(t.Context(), brock.RotateOptions{})
		})
	}
	type copied struct {
		version uint64
		text    string
	}
	var copies []copied
	forever(func(r *rand.Rand, i int) error {
		k, err := db.Snapshot()
		if err != nil {
			return err
		}
		defer k.Close()
		to := o
		to.Dir = fmt.Sprint("copy ", i)
		runtime.Gosched()
		if i%2 == 0 {
			err = k.Checkpoint(t.Context(), to.Dir)
		} else {
			var stream bytes.Buffer
			if _, err = k.Backup(t.Context(), &stream, brock.BackupOptions{}); err == nil {
				_, err = brock.Restore(t.Context(), &stream, to)
			}
		}
		if errors.Is(err, brock.ErrKey) {
			return nil // its key is gone
		}
		if err != nil {
			return err
		}
		made, err := brock.Open(to)
		if err != nil {
			return err
		}
		copies = append(copies, copied{k.Version(), contents(t, made, 0, true)})
		if made.Version() != k.Version() {
			t.Errorf("version %d of a copy of %d", made.Version(), k.Version())
		}
		return errors.Join(made.Verify(t.Context(), func(c *brock.CorruptionError) { t.Error(c) }), made.Close())
	})
	<-ctx.Done()
	// The Watch ends with the next commit.
	time.Sleep(50 * time.Millisecond)
	for ended := make(chan struct{}); ; {
		go func() { all.Wait(); close(ended) }()
		for {
			select {
			case <-ended:
			case <-time.After(20 * time.Millisecond):
				assert.OK(t, db.Set([]byte("the end"), nil))
				continue
			}
			break
		}
		break
	}
	t.Logf("%d commits, %d copies", len(texts), len(copies))
	versions := slices.Sorted(maps.Keys(texts))
	for _, c := range copies {
		want, ok := texts[c.version]
		if c.version < versions[0] || c.version > versions[len(versions)-1] { // before or after the Watch
			continue
		} else if !ok {
			t.Errorf("the feed had no version %d", c.version)
		} else if want != c.text {
			assert.SameText(t, fmt.Sprint("copy of version ", c.version), c.text, want)
		}
	}
	assert.OK(t, db.Verify(t.Context(), func(c *brock.CorruptionError) { t.Error(c) }))
}
