package txn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// Many workers add to one durable counter. No call gives up, no addition is lost, and 99
// of 100 calls are passed by no more than three times as many others as there are
// workers.
func TestContendedUpdatesTakeTurns(t *testing.T) {
	const workers, calls = 64, 15
	db := storetest.Open(t, brock.Options{Dir: t.TempDir()})
	var done atomic.Int64
	passed := make([][]int64, workers)
	var work sync.WaitGroup
	for w := range workers {
		work.Go(func() {
			for range calls {
				before := done.Load()
				if err := db.Update(func(txn *brock.Txn) error { return addOne(txn, []byte("n")) }); err != nil {
					t.Error(err)
				}
				passed[w] = append(passed[w], done.Add(1)-before)
			}
		})
	}
	work.Wait()
	assert.Equal(t, "sum", binary.BigEndian.Uint64(assert.Must(db.Get([]byte("n")))), workers*calls)
	all := slices.Sorted(slices.Values(slices.Concat(passed...)))
	if n := all[len(all)*99/100]; n > 3*workers {
		t.Errorf("one call in a hundred was passed by %d others", n)
	}
}

// takeTurn calls Update for the key k, conflicts twice by writes of others, and calls fn
// in the third run, which has its turn.
func takeTurn(ctx context.Context, db *brock.DB, fn func(*brock.Txn) error) error {
	return takeTurnAs(ctx, db, brock.TxnOptions{}, fn)
}

func takeTurnAs(ctx context.Context, db *brock.DB, o brock.TxnOptions, fn func(*brock.Txn) error) error {
	runs := 0
	return db.UpdateContext(ctx, o, func(txn *brock.Txn) error {
		storetest.Get(txn, "k")
		if runs++; runs > 2 {
			return fn(txn)
		}
		if err := db.Set([]byte("k"), []byte("other")); err != nil {
			return err
		}
		return storetest.Put(txn, "k=mine")
	})
}

// However the call ends that has its turn, the next one goes on at once. If it does not
// end, the next one waits for 100 ms.
func TestATurnIsGivenUp(t *testing.T) {
	mine := errors.New("mine")
	for name, test := range map[string]struct {
		wait time.Duration
		end  func(cancel func(), txn *brock.Txn) error
	}{
		"commit": {0, func(_ func(), txn *brock.Txn) error { return storetest.Put(txn, "k=mine") }},
		"error":  {0, func(func(), *brock.Txn) error { return mine }},
		"panic":  {0, func(func(), *brock.Txn) error { panic(mine) }},
		"cancel": {0, func(cancel func(), txn *brock.Txn) error {
			cancel()
			return storetest.Put(txn, "k=mine")
		}},
		"hang": {100 * time.Millisecond, func(_ func(), txn *brock.Txn) error {
			<-time.After(time.Hour)
			return storetest.Put(txn, "k=mine")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := storetest.Open(t, brock.Options{})
				ctx, cancel := context.WithCancel(t.Context())
				inTurn, goOn := make(chan struct{}), make(chan struct{})
				go func() {
					defer func() { _ = recover() }()
					_ = takeTurn(ctx, db, func(txn *brock.Txn) error {
						if inTurn != nil {
							close(inTurn)
							<-goOn
							inTurn = nil
						}
						return test.end(cancel, txn)
					})
				}()
				<-inTurn
				next := make(chan error, 1)
				go func() {
					next <- db.Update(func(txn *brock.Txn) error { return storetest.Put(txn, "seen="+storetest.Get(txn, "k"), "k=next") })
				}()
				synctest.Wait() // it waits for its turn
				began := time.Now()
				close(goOn)
				assert.OK(t, <-next)
				if took := time.Since(began); took != test.wait {
					t.Errorf("the next call waited for %v, want %v", took, test.wait)
				}
				<-time.After(2 * time.Hour)
			})
		})
	}
}

// A call whose commit takes long, as it waits for a slow disk, loses its turn like one whose function
// does. So does one that runs again as a keyspace was dropped.
func TestATurnEndsDuringACommit(t *testing.T) {
	for _, how := range []string{"slow disk", "dropped keyspace"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var slow atomic.Bool
				db := storetest.Open(t, brock.Options{Dir: "/store", FS: faultfs.New(vfs.NewMem(), faultfs.Options{Before: func(op faultfs.Op) {
					if op.Kind == faultfs.Sync && strings.HasSuffix(op.Path, ".run") && slow.Load() {
						<-time.After(time.Hour)
					}
				}})})
				ks := storetest.OpenKeyspace(t, db, "dropped")
				inTurn, ended := make(chan struct{}), make(chan error, 1)
				runs := 0
				go func() {
					ended <- takeTurnAs(t.Context(), db, brock.TxnOptions{MaxMemory: 1}, func(txn *brock.Txn) error {
						runs++
						switch {
						case runs == 1 && how == "slow disk":
							slow.Store(true)
							close(inTurn)
						case runs == 1:
							storetest.Get(txn.In(ks), "k")
							assert.OK(t, ks.Drop(t.Context()))
						case runs == 2 && how == "dropped keyspace":
							close(inTurn)
							<-time.After(time.Hour)
						}
						return storetest.Put(txn, "seen="+storetest.Get(txn, "k"), "k=mine")
					})
				}()
				<-inTurn
				began := time.Now()
				assert.OK(t, db.Update(func(txn *brock.Txn) error { return storetest.Put(txn, "seen="+storetest.Get(txn, "k"), "k=next") }))
				if took := time.Since(began); took > 100*time.Millisecond {
					t.Errorf("the next call waited for %v, want 100 ms at most", took)
				}
				slow.Store(false)
				assert.OK(t, <-ended)
				assert.Equal(t, "k in the end", string(assert.Must(db.Get([]byte("k")))), "mine")
			})
		})
	}
}

// A call that is refused because another has its turn does not try again beside it: it
// runs for the second time in its own turn, and commits.
func TestACallYieldsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := storetest.Open(t, brock.Options{})
		const calls = 10
		runs, done := 0, make(chan error, calls)
		assert.OK(t, takeTurn(t.Context(), db, func(txn *brock.Txn) error {
			for range calls {
				go func() {
					done <- db.Update(func(txn *brock.Txn) error {
						runs++ // a race unless they run one after the other
						return storetest.Put(txn, "k="+storetest.Get(txn, "k")+"+")
					})
				}()
				synctest.Wait()
			}
			assert.Equal(t, "runs beside the turn", runs, calls)
			return storetest.Put(txn, "k=mine")
		}))
		for range calls {
			assert.OK(t, <-done)
		}
		assert.Equal(t, "runs", runs, 2*calls)
		assert.Equal(t, "k", string(assert.Must(db.Get([]byte("k")))), "mine"+strings.Repeat("+", calls))
	})
}

// A call that waits for its turn returns when its context ends, and holds nobody up.
func TestACancelledCallLeavesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := storetest.Open(t, brock.Options{})
		began := time.Now()
		assert.OK(t, takeTurn(t.Context(), db, func(txn *brock.Txn) error {
			ctx, cancel := context.WithCancel(t.Context())
			waits, last := make(chan error, 1), make(chan error, 1)
			add := func(txn *brock.Txn) error { return storetest.Put(txn, "k="+storetest.Get(txn, "k")+"+") }
			go func() { waits <- db.UpdateContext(ctx, brock.TxnOptions{}, add) }()
			synctest.Wait()
			go func() { last <- db.Update(add) }()
			synctest.Wait()
			cancel()
			assert.Error(t, "cancelled", <-waits, context.Canceled)
			// Without a turn, nothing holds up others, nor writes of other keys.
			assert.OK(t, db.Set([]byte("k"), []byte("set")))
			assert.OK(t, db.Update(func(txn *brock.Txn) error { return storetest.Put(txn, "other="+storetest.Get(txn, "other")) }))
			return nil
		}))
		synctest.Wait()
		assert.Equal(t, "k", string(assert.Must(db.Get([]byte("k")))), "set+")
		assert.Equal(t, "time", time.Since(began), 0)
	})
}

// A ConflictError tells the keyspace, the key or range, and the runs.
func TestConflictError(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	ks := assert.Must(db.Keyspace("named"))
	other := func(ks *brock.Keyspace, key string) {
		assert.OK(t, db.UpdateContext(t.Context(), brock.TxnOptions{Isolation: brock.LastWriterWins}, func(txn *brock.Txn) error {
			return txn.In(ks).Set([]byte(key), []byte("other"))
		}))
	}
	walk := func(o brock.IteratorOptions) func(*brock.Txn) {
		return func(txn *brock.Txn) {
			for _, err := range txn.Items(o) {
				assert.OK(t, err)
			}
		}
	}
	long := strings.Repeat("x", 5000)
	for name, test := range map[string]struct {
		o       brock.TxnOptions
		ks      *brock.Keyspace
		do      func(*brock.Txn)
		changes string
		want    brock.ConflictError
	}{
		"key":             {do: func(txn *brock.Txn) { storetest.Get(txn, "a") }, changes: "a", want: brock.ConflictError{Key: []byte("a")}},
		"key of another":  {ks: ks, do: func(txn *brock.Txn) { storetest.Get(txn, "a") }, changes: "a", want: brock.ConflictError{Keyspace: "named", Key: []byte("a")}},
		"written key":     {o: brock.TxnOptions{Isolation: brock.SnapshotIsolation}, ks: ks, do: func(txn *brock.Txn) { storetest.Put(txn, "a=1") }, changes: "a", want: brock.ConflictError{Keyspace: "named", Key: []byte("a")}},
		"range":           {do: walk(brock.IteratorOptions{Lower: []byte("b"), Upper: []byte("c")}), changes: "bb", want: brock.ConflictError{Lower: []byte("b"), Upper: []byte("c")}},
		"all of another":  {ks: ks, do: walk(brock.IteratorOptions{}), changes: "c", want: brock.ConflictError{Keyspace: "named"}},
		"deleted range":   {o: brock.TxnOptions{Isolation: brock.SnapshotIsolation}, do: func(txn *brock.Txn) { assert.OK(t, txn.DeleteRange([]byte("d"), []byte("e"))) }, changes: "dd", want: brock.ConflictError{Lower: []byte("d"), Upper: []byte("e")}},
		"key, in files":   {o: brock.TxnOptions{MaxMemory: 1000}, do: func(txn *brock.Txn) { storetest.Get(txn, "a"); storetest.Put(txn, "f="+long) }, changes: "a", want: brock.ConflictError{Key: []byte("a")}},
		"write, in files": {o: brock.TxnOptions{MaxMemory: 1000, Isolation: brock.SnapshotIsolation}, do: func(txn *brock.Txn) { storetest.Put(txn, "f="+long) }, changes: "f", want: brock.ConflictError{Key: []byte("f")}},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(txn *brock.Txn) error {
				test.do(txn.In(test.ks))
				other(test.ks, test.changes)
				return storetest.Put(txn, "z=1")
			}
			test.o.Update, test.want.Runs = true, 1
			txn := assert.Must(db.Begin(t.Context(), test.o))
			assert.OK(t, run(txn))
			wantConflict(t, txn.Commit(), test.want)
			test.o.Retries, test.want.Runs = 2, 3
			wantConflict(t, db.UpdateContext(t.Context(), test.o, run), test.want)
		})
	}
	txn := db.NewTransaction(true)
	storetest.Get(txn.In(ks), "a")
	assert.OK(t, storetest.Put(txn, "z=1"))
	assert.OK(t, ks.Drop(t.Context()))
	wantConflict(t, txn.Commit(), brock.ConflictError{Keyspace: "named", Runs: 1})
}

// wantConflict checks that err is a conflict as wanted, and that its text has no key.
func wantConflict(t *testing.T, err error, want brock.ConflictError) {
	t.Helper()
	var got *brock.ConflictError
	if !errors.As(err, &got) || !errors.Is(err, brock.ErrConflict) {
		t.Fatalf("error %v, want a conflict", err)
	}
	show := func(e *brock.ConflictError) string {
		return fmt.Sprintf("%q %q [%q, %q) %d", e.Keyspace, e.Key, e.Lower, e.Upper, e.Runs)
	}
	assert.Equal(t, "conflict", show(got), show(&want))
	text := brock.ErrConflict.Error()
	if want.Keyspace != "" {
		text += fmt.Sprintf(" in keyspace %q", want.Keyspace)
	}
	if want.Runs > 1 {
		text += fmt.Sprintf(" in each of %d runs", want.Runs)
	}
	assert.Equal(t, "text", err.Error(), text)
}
