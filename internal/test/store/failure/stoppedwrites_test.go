package failure

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestFailedSyncStopsWrites fails one sync of the journal. That commit and all later
// ones return ErrStopped, acknowledged data stays readable, and the next Open works.
func TestFailedSyncStopsWrites(t *testing.T) {
	for _, fault := range []error{faultfs.ErrIO, faultfs.ErrNoSpace} {
		mem := vfs.NewMem()
		faulty := faultfs.New(mem, faultfs.Options{})
		db, err := brock.Open(brock.Options{Dir: storetest.Dir, FS: faulty})
		assert.OK(t, err)
		storetest.Set(t, db, "a=1")
		assert.OK(t, db.Err())
		assert.Equal(t, "Stopped", db.Metrics().Stopped, false)
		faulty.Inject(faultfs.Fault{Kinds: faultfs.Sync | faultfs.SyncData, Path: ".log", Err: fault})
		for i := range 3 {
			err := db.Set([]byte("a"), []byte("2"))
			assert.Error(t, fmt.Sprintf("commit %d", i), err, brock.ErrStopped)
			assert.Error(t, fmt.Sprintf("commit %d", i), err, fault)
			if errors.Is(fault, brock.ErrNoSpace) {
				assert.Error(t, fmt.Sprintf("commit %d", i), err, brock.ErrNoSpace)
			}
			if !strings.Contains(fmt.Sprint(err), "writes are stopped") {
				t.Errorf("error %q does not say that writes are stopped", err)
			}
		}
		wantStopped(t, db, fault)
		assert.OK(t, db.View(func(txn *brock.Txn) error { assert.Equal(t, "a", storetest.Get(txn, "a"), "1"); return nil }))
		assert.Error(t, "Sync", db.Sync(t.Context()), brock.ErrStopped)
		assert.Error(t, "Close", db.Close(), brock.ErrStopped)

		db, err = brock.Open(brock.Options{Dir: storetest.Dir, FS: mem.CrashClone(vfs.CrashOptions{})})
		assert.OK(t, err)
		v, err := db.Get([]byte("a"))
		assert.OK(t, err)
		if !slices.Contains([]string{"1", "2"}, string(v)) {
			t.Errorf("a is %q", v)
		}
		assert.OK(t, db.Close())
	}
}

// wantStopped checks that the store says that it has stopped, and why.
func wantStopped(t *testing.T, db *brock.DB, cause error) {
	t.Helper()
	assert.Error(t, "DB.Err", db.Err(), brock.ErrStopped)
	assert.Error(t, "DB.Err", db.Err(), cause)
	assert.Equal(t, "Stopped", db.Metrics().Stopped, true)
}

// TestErrOfAStoreThatWorks asks stores for DB.Err that have not stopped.
func TestErrOfAStoreThatWorks(t *testing.T) {
	mem := vfs.NewMem()
	db, err := brock.Open(brock.Options{Dir: storetest.Dir, FS: mem})
	assert.OK(t, err)
	storetest.Set(t, db, "a=1")
	mem.SetCapacity(1)
	assert.Error(t, "Set on a full disk", db.Set([]byte("big"), storetest.RandomBytes(1, 1<<20)), brock.ErrNoSpace)
	assert.OK(t, db.Err())
	mem.SetCapacity(0)
	assert.Equal(t, "no backup", db.Metrics().LastBackup, time.Time{})
	assert.Must(db.Backup(t.Context(), io.Discard, brock.BackupOptions{}))
	if m := db.Metrics(); m.LastBackup.IsZero() || m.OpenTime <= 0 {
		t.Errorf("last backup %v, open time %v", m.LastBackup, m.OpenTime)
	}
	assert.OK(t, db.Close())
	assert.Error(t, "Err of a closed store", db.Err(), brock.ErrClosed)
	assert.Equal(t, "Stopped once closed", db.Metrics().Stopped, false)
	db, err = brock.Open(brock.Options{Dir: storetest.Dir, FS: mem, Mode: brock.ReadOnly})
	assert.OK(t, err)
	assert.OK(t, db.Err())
	assert.OK(t, db.Close())
}

// After a failed write or sync of the manifest every commit returns ErrStopped, though
// the journal is sound. What was acknowledged stays readable.
func TestFailedManifestStopsWrites(t *testing.T) {
	for _, kinds := range []faultfs.Kind{faultfs.Syncs, faultfs.Write} {
		mem := vfs.NewMem()
		faulty := faultfs.New(mem, faultfs.Options{})
		db, err := brock.Open(brock.Options{Dir: storetest.Dir, FS: faulty})
		assert.OK(t, err)
		storetest.Set(t, db, "a=1")
		faulty.Inject(faultfs.Fault{Kinds: kinds, Path: "MANIFEST"})
		_, err = db.Keyspace("k")
		assert.Error(t, "make a keyspace", err, brock.ErrStopped)
		wantStopped(t, db, faultfs.ErrIO)
		faulty.Heal()
		for i := range 3 {
			err := db.Set([]byte("a"), []byte("2"))
			assert.Error(t, fmt.Sprintf("commit %d", i), err, brock.ErrStopped)
			assert.Error(t, fmt.Sprintf("commit %d", i), err, faultfs.ErrIO)
		}
		assert.Error(t, "flush", db.Flush(t.Context()), brock.ErrStopped)
		assert.OK(t, db.View(func(txn *brock.Txn) error { assert.Equal(t, "a", storetest.Get(txn, "a"), "1"); return nil }))
		assert.Error(t, "Close", db.Close(), brock.ErrStopped)
		db, err = brock.Open(brock.Options{Dir: storetest.Dir, FS: mem.CrashClone(vfs.CrashOptions{})})
		assert.OK(t, err)
		assert.OK(t, db.View(func(txn *brock.Txn) error { assert.Equal(t, "a", storetest.Get(txn, "a"), "1"); return nil }))
		assert.OK(t, db.Close())
	}
}

// TestFailedFlushStopsWrites makes writes of runs fail. An event reports it at
// once. Writers get ErrStopped when memory is full.
func TestFailedFlushStopsWrites(t *testing.T) {
	faulty := faultfs.New(vfs.NewMem(), faultfs.Options{})
	failed := make(chan error, 1)
	db, err := brock.Open(brock.Options{
		Dir: storetest.Dir, FS: faulty, Durability: brock.Buffered, Tuning: brock.Tuning{MemtableSize: 64 << 10},
		Events: brock.Events{BackgroundError: func(err error) { failed <- err }},
	})
	assert.OK(t, err)
	defer db.Close()
	faulty.Inject(faultfs.Fault{Kinds: faultfs.Write, Path: ".run", Times: faultfs.Always})
	for i := 0; err == nil; i++ {
		err = db.Set(fmt.Appendf(nil, "key %d", i), make([]byte, 400))
	}
	assert.Error(t, "Set", err, brock.ErrStopped)
	assert.Error(t, "Set", err, faultfs.ErrIO)
	assert.Error(t, "the event", <-failed, faultfs.ErrIO)
	assert.Error(t, "Flush", db.Flush(t.Context()), brock.ErrStopped)
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		assert.Equal(t, "length", len(storetest.Get(txn, "key 0")), 400)
		return nil
	}))
}

// TestFailedBackgroundSyncIsTold makes the sync of a sealed journal segment fail, in the background.
// An event reports it at once and not only the next write, as there may be none.
func TestFailedBackgroundSyncIsTold(t *testing.T) {
	faulty := faultfs.New(vfs.NewMem(), faultfs.Options{})
	failed := make(chan error, 2)
	db, err := brock.Open(brock.Options{
		Dir: storetest.Dir, FS: faulty, Durability: brock.Buffered, Tuning: brock.Tuning{SegmentSize: 256 << 10},
		Events: brock.Events{BackgroundError: func(err error) { failed <- err }},
	})
	assert.OK(t, err)
	ks := storetest.OpenKeyspace(t, db, "new")
	assert.OK(t, db.Set([]byte("key 0"), storetest.RandomBytes(0, 20000)))
	faulty.Inject(faultfs.Fault{Kinds: faultfs.Syncs &^ faultfs.SyncDir, Path: ".log", Times: faultfs.Always})
	// Background work is asked to look for what is to be done again and again, as it may still look
	// because the keyspace was made, and find less than was sealed.
	var told error
	for i := 0; told == nil; i++ {
		for k := 1; err == nil && k < 40; k++ {
			err = db.Set(fmt.Appendf(nil, "key %d", k), storetest.RandomBytes(k, 20000)) // fills segments, and no memtable
		}
		if err == nil {
			err = ks.SetOptions(brock.KeyspaceOptions{ValueThreshold: 600 + i})
		}
		select {
		case told = <-failed:
		case <-time.After(5 * time.Second):
		}
	}
	assert.Error(t, "the event", told, brock.ErrStopped)
	assert.Error(t, "the event", told, faultfs.ErrIO)
	wantStopped(t, db, faultfs.ErrIO)
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		assert.Equal(t, "length", len(storetest.Get(txn, "key 0")), 20000)
		return nil
	}))
	assert.Error(t, "Set", db.Set([]byte("a"), []byte("1")), brock.ErrStopped)
	assert.Error(t, "Close", db.Close(), brock.ErrStopped)
	if len(failed) > 0 {
		t.Error("told twice")
	}
}
