package badger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"

	up "github.com/dgraph-io/badger/v4"

	"github.com/brockdb/brock"
)

// Commits of CommitWith keep their order, whatever the callbacks do, and what comes later sees them. Close
// waits for them.
func TestCommitWithKeepsOrder(t *testing.T) {
	for _, managed := range []bool{false, true} {
		opt := quiet(t.TempDir()).WithNumVersionsToKeep(1 << 20)
		opt.managedTxns = managed
		db := openDB(t, opt)
		const commits = 2*queueLen + 100
		hold := make(chan struct{})
		var called sync.WaitGroup
		var errs [commits + 1]error
		write := func(i int) {
			var txn *Txn
			if managed {
				txn = db.NewTransactionAt(uint64(i), true)
			} else {
				// Of before: one that begins now would wait for the commits.
				txn = db.beginTxn(0, true)
			}
			check(t, txn.Set([]byte("a"), fmt.Append(nil, i)))
			called.Add(1)
			done := func(err error) {
				<-hold
				errs[i] = err
				called.Done()
			}
			if managed {
				check(t, txn.CommitAt(7, done)) // the last write of one version wins
			} else {
				txn.CommitWith(done)
			}
			txn.Discard()
			_, err := txn.Get([]byte("a"))
			wantErr(t, "Get", err, ErrDiscardedTxn)
		}
		for i := range commits {
			write(i)
		}
		if managed {
			check(t, db.Sync())
		}
		wantText(t, "newest", dump(t, db), fmt.Sprintf("a=%d", commits-1))
		write(commits)
		check(t, db.Close())
		close(hold)
		called.Wait()
		check(t, errors.Join(errs[:]...))

		db = openDB(t, opt)
		wantText(t, "after Close", dump(t, db), fmt.Sprintf("a=%d", commits))
		if managed {
			continue
		}
		check(t, db.View(func(txn *Txn) error {
			it := txn.NewKeyIterator([]byte("a"), IteratorOptions{AllVersions: true, PrefetchValues: true})
			defer it.Close()
			n := commits
			for it.Rewind(); it.Valid(); it.Next() {
				wantText(t, "version", value(t, it.Item()), fmt.Sprint(n))
				n--
			}
			if n != -1 {
				t.Errorf("%d versions are not there", n+1)
			}
			return nil
		}))
	}
}

// Of transactions in flight that conflict, the first one wins, as by Commit.
func TestCommitWithConflicts(t *testing.T) {
	for _, managed := range []bool{false, true} {
		opt := memory()
		opt.managedTxns = managed
		db := openDB(t, opt)
		var txns []*Txn
		for range 10 {
			txn := db.beginTxn(1, true)
			get(t, txn, "a")
			check(t, setIn(txn, "a=1"))
			txn.commitTs = 2
			txns = append(txns, txn)
		}
		results := make([]chan error, len(txns))
		for i, txn := range txns {
			results[i] = make(chan error)
			txn.CommitWith(func(err error) { results[i] <- err })
		}
		check(t, <-results[0])
		for _, result := range results[1:] {
			wantErr(t, "later", <-result, ErrConflict)
		}
		txn := db.beginTxn(1, true)
		check(t, setIn(txn, "a=2"))
		txn.commitTs = 3
		check(t, db.Close())
		result := make(chan error)
		txn.CommitWith(func(err error) { result <- err })
		if err := <-result; err != ErrBlockedWrites {
			t.Errorf("after Close: %v", err)
		}
	}
}

// In a managed store those that wait are one commit of Brock. A bad one among them fails alone.
func TestCommitWithRound(t *testing.T) {
	db := openManaged(t, memory())
	round := func(keys ...string) (q []queued) {
		for _, key := range keys {
			e := &Entry{Key: []byte(key), Value: []byte("1")}
			q = append(q, queued{writes: map[string]*Entry{key: e}, version: 5})
		}
		return q
	}
	before := db.store.Version()
	check(t, errors.Join(db.queue.commit(round("a", "b", "c"))...))
	if n := db.store.Version() - before; n != 1 {
		t.Errorf("%d commits", n)
	}
	results := db.queue.commit(round("d", string(make([]byte, brock.MaxKeySize)), "e"))
	if results[0] != nil || !errors.Is(results[1], brock.ErrKeyTooLarge) || results[2] != nil {
		t.Error(results)
	}
	wantText(t, "pairs", dump(t, db), "a=1 b=1 c=1 d=1 e=1")
}

// BenchmarkCommitWith has up to 256 commits of one pair in flight.
func BenchmarkCommitWith(b *testing.B) {
	run := func(b *testing.B, commit func(key, value []byte, done func(error))) {
		flight := make(chan struct{}, 256)
		var all sync.WaitGroup
		for i := range b.N {
			flight <- struct{}{}
			all.Add(1)
			commit(binary.BigEndian.AppendUint64(nil, uint64(i)*0x9e3779b97f4a7c15), make([]byte, trioValue), func(err error) {
				check(b, err)
				<-flight
				all.Done()
			})
		}
		all.Wait()
	}
	for _, synced := range []bool{false, true} {
		name := map[bool]string{false: "buffered", true: "synced"}[synced]
		ours := openManaged(b, quiet(b.TempDir()).WithSyncWrites(synced))
		theirs, err := up.OpenManaged(up.DefaultOptions(b.TempDir()).WithLogger(nil).WithSyncWrites(synced))
		check(b, err)
		b.Cleanup(func() { check(b, theirs.Close()) })
		var ts uint64
		b.Run(name+"/brock", func(b *testing.B) {
			run(b, func(key, value []byte, done func(error)) {
				ts++
				txn := ours.NewTransactionAt(ts, true)
				check(b, txn.Set(key, value))
				check(b, txn.CommitAt(ts, done))
			})
		})
		b.Run(name+"/badger", func(b *testing.B) {
			run(b, func(key, value []byte, done func(error)) {
				ts++
				txn := theirs.NewTransactionAt(ts, true)
				check(b, txn.Set(key, value))
				check(b, txn.CommitAt(ts, done))
			})
		})
	}
}
