package typed_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/typed"
	"github.com/brockdb/brock/vfs"
)

// declareOld declares users as an older program did.
func declareOld(ks *brock.Keyspace) *typed.Table[uint64, user] {
	old := typed.NewTable(ks, "users", typed.Uint64, typed.JSON[user]())
	typed.NewUnique(old, "mail", typed.String, mails)
	typed.NewIndex(old, "town", typed.String, func(u *user) []string { return []string{strings.Join(u.Towns, " ")} })
	typed.NewIndex(old, "gone", typed.String, func(u *user) []string { return []string{u.Name} })
	return old
}

// declareNew declares users with another index, and another version of one.
func declareNew(ks *brock.Keyspace) *users {
	u := newUsers(ks)
	u.byTown.WithVersion(2)
	return u
}

// TestDeclaration: a table that is declared otherwise is refused by each call, with what has
// changed; after Rebuild the older declaration is.
func TestDeclaration(t *testing.T) {
	db, ks := memory(t)
	old, u := declareOld(ks), declareNew(ks)
	model := map[uint64]user{}
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		for i := range uint64(20) {
			model[i] = user{Name: fmt.Sprint("n", i), Mail: fmt.Sprint("m", i), Towns: []string{towns[i%5]}}
			r := model[i]
			assert.OK(t, old.Put(txn, i, &r))
		}
		return nil
	}))
	refused := func(what string, table *typed.Table[uint64, user]) (e *typed.DeclarationError) {
		t.Helper()
		assert.OK(t, db.Update(func(txn *brock.Txn) error {
			for call, err := range map[string]error{
				"check":  table.Check(txn),
				"get":    assert.ErrorOf(table.Get(txn, 1)),
				"put":    table.Put(txn, 1, &user{}),
				"insert": table.Insert(txn, 1, &user{}),
				"delete": table.Delete(txn, 1),
			} {
				assert.Error(t, what+": "+call, err, typed.ErrDeclaration)
				errors.As(err, &e)
			}
			for _, err := range table.All(txn) {
				assert.Error(t, what+": all", err, typed.ErrDeclaration)
			}
			return nil
		}))
		for _, err := range table.Verify(t.Context(), db, true) {
			assert.Error(t, what+": verify", err, typed.ErrDeclaration)
		}
		return e
	}
	e := refused("new", u.table)
	want := []string{
		`index "born" was () and is ((int64 string), unique false, version 0)`,
		`index "gone" was (string, unique false, version 0) and is ()`,
		`index "town" was (string, unique false, version 0) and is (string, unique false, version 2)`,
	}
	if e.Table != "users" || !slices.Equal(e.Changes, want) || !strings.Contains(e.Error(), want[0]) {
		t.Errorf("it says %v: %q", e, e.Changes)
	}
	other := typed.NewTable(ks, "users", typed.Int64, typed.Binary[binary]())
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		err := other.Check(txn)
		for _, part := range []string{"key codec was (uint64) and is (int64)", "record codec was (json) and is (binary)"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("it does not say %s: %v", part, err)
			}
		}
		return nil
	}))
	assert.OK(t, u.table.Rebuild(t.Context(), db))
	checkUsers(t, db, u, model)
	refused("old", old)
	// One with nothing to do does nothing.
	before := len(keysOf(t, ks))
	assert.OK(t, u.table.Rebuild(t.Context(), db))
	checkUsers(t, db, u, model)
	assert.Equal(t, "keys", len(keysOf(t, ks)), before)
	// And a new table is at once as it is declared.
	fresh := typed.NewTable(ks, "fresh", typed.Uint64, typed.JSON[user]())
	assert.OK(t, fresh.Rebuild(t.Context(), db))
	assert.OK(t, db.View(func(txn *brock.Txn) error { return fresh.Check(txn) }))
}

func keysOf(t *testing.T, ks *brock.Keyspace) (keys []string) {
	assert.OK(t, ks.View(func(txn *brock.Txn) error {
		for item, err := range txn.All() {
			assert.OK(t, err)
			keys = append(keys, string(item.Key()))
		}
		return nil
	}))
	return keys
}

// TestRebuildBesideWriters: writers of the old declaration, Serializable and at SnapshotIsolation,
// by Update and by hand, write until the declaration refuses them. Then each index has what the
// table has. Writers of the new declaration then write beside the next Rebuild.
func TestRebuildBesideWriters(t *testing.T) {
	r := draw.Rand(t)
	for range rounds(2) {
		rebuildBesideWriters(t, r)
	}
}

func rebuildBesideWriters(t *testing.T, r *rand.Rand) {
	db, ks := memory(t)
	old, u := declareOld(ks), declareNew(ks)
	fill(t, db, old, 600)
	run := func(table *typed.Table[uint64, user], u *users) {
		var done atomic.Bool
		var wg sync.WaitGroup
		for w := range 6 {
			seed := r.Uint64()
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, 0))
				for !done.Load() {
					err := writeOnce(t.Context(), db, table, r, w)
					switch {
					case errors.Is(err, typed.ErrDeclaration):
						return
					case errors.Is(err, typed.ErrDuplicate), errors.Is(err, brock.ErrConflict):
					case err != nil:
						t.Error(err)
						return
					}
				}
			})
		}
		assert.OK(t, u.table.Rebuild(t.Context(), db))
		done.Store(true)
		wg.Wait()
		checkVerified(t, db, u)
		for _, key := range keysOf(t, ks) {
			if strings.HasPrefix(key, "\x02users\x00\x15\x03") {
				t.Errorf("a mark is left: %x", key)
			}
		}
	}
	run(old, u)
	next := declareNew(ks)
	next.byBorn.WithVersion(1)
	next.byMail.WithVersion(1)
	run(u.table, next)
}

// rounds is n, or 1 with -short.
func rounds(n int) int {
	if testing.Short() {
		return 1
	}
	return n
}

// fill puts users whose mails are all different.
func fill(t *testing.T, db *brock.DB, table *typed.Table[uint64, user], n int) {
	for i := 0; i < n; i += 100 {
		assert.OK(t, db.Update(func(txn *brock.Txn) error {
			for k := uint64(i); k < uint64(i+100); k++ {
				if err := table.Put(txn, k, &user{Mail: fmt.Sprint("first", k), Towns: towns[k%7:]}); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

// writeOnce is one transaction of a writer: w decides how.
func writeOnce(ctx context.Context, db *brock.DB, table *typed.Table[uint64, user], r *rand.Rand, w int) error {
	o := brock.TxnOptions{Isolation: brock.Isolation(w % 2), Update: true}
	fn := func(txn *brock.Txn) error {
		for range 1 + r.IntN(3) {
			k := uint64(r.IntN(800))
			v := drawUser(r)
			if v.Mail != "" {
				v.Mail = fmt.Sprint("m", r.IntN(5000))
			}
			err := error(nil)
			if r.IntN(3) == 0 {
				err = table.Delete(txn, k)
			} else {
				err = table.Put(txn, k, v)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if w < 4 {
		return db.UpdateContext(ctx, o, fn)
	}
	txn, err := db.Begin(ctx, o)
	if err != nil {
		return err
	}
	defer txn.Discard()
	if err := fn(txn); err != nil {
		return err
	}
	return txn.Commit()
}

// TestOlderTransactions: a transaction at SnapshotIsolation that began before a Rebuild, and would
// commit in the middle of it, is waited for.
func TestOlderTransactions(t *testing.T) {
	db, ks := memory(t)
	old, u := declareOld(ks), declareNew(ks)
	fill(t, db, old, 300)
	txn := assert.Must(db.Begin(t.Context(), brock.TxnOptions{Update: true, Isolation: brock.SnapshotIsolation}))
	assert.OK(t, old.Put(txn, 7, &user{Name: "late", Mail: "late"}))
	ended := make(chan error, 1)
	go func() { ended <- u.table.Rebuild(t.Context(), db) }()
	deadline.Wait(t, "the Rebuild has begun", func() bool {
		return strings.Contains(string(assert.Must(ks.Get([]byte("\x02users\x00\x14")))), "building")
	})
	select {
	case err := <-ended:
		t.Fatalf("it has not waited: %v", err)
	default:
	}
	assert.OK(t, txn.Commit())
	assert.OK(t, deadline.Receive(t, "the Rebuild", ended))
	checkVerified(t, db, u)
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		k, _, err := u.byMail.Get(txn, "late")
		assert.Equal(t, "key", k, 7)
		return err
	}))

	// It gives up with its context, and leaves the old declaration.
	txn = assert.Must(db.Begin(t.Context(), brock.TxnOptions{}))
	defer txn.Discard()
	assert.OK(t, u.table.Check(txn))
	ctx, cancel := context.WithCancel(t.Context())
	before := keysOf(t, ks)
	go func() { ended <- declareOld(ks).Rebuild(ctx, db) }()
	deadline.Wait(t, "the Rebuild has begun", func() bool {
		return strings.Contains(string(assert.Must(ks.Get([]byte("\x02users\x00\x14")))), "building")
	})
	cancel()
	assert.Error(t, "ended", deadline.Receive(t, "the Rebuild", ended), context.Canceled)
	assert.Equal(t, "keys", len(keysOf(t, ks)), len(before))
	checkVerified(t, db, u)
}

// TestTransactionsAcrossTheSwitch: a transaction of the old declaration that began before the
// switch, and commits after it, is a conflict at both levels, whatever it does.
func TestTransactionsAcrossTheSwitch(t *testing.T) {
	for _, level := range []brock.Isolation{brock.Serializable, brock.SnapshotIsolation} {
		for _, call := range []string{"put", "insert", "delete"} {
			db, ks := memory(t)
			old, u := declareOld(ks), declareNew(ks)
			fill(t, db, old, 600)
			// The function of the new index is called in the middle: there a writer begins.
			var txn *brock.Txn
			typed.NewIndex(u.table, "middle", typed.String, func(*user) []string {
				if txn == nil {
					txn = assert.Must(db.Begin(t.Context(), brock.TxnOptions{Update: true, Isolation: level}))
					switch call {
					case "put": // entries of the old indexes stay as they are
						v := *assert.Must(old.Get(txn, 599))
						v.Born = 7
						assert.OK(t, old.Put(txn, 599, &v))
					case "insert":
						assert.OK(t, old.Insert(txn, 1000, &user{}))
					case "delete":
						assert.OK(t, old.Delete(txn, 3))
					}
				}
				return nil
			})
			assert.OK(t, u.table.Rebuild(t.Context(), db))
			assert.Error(t, fmt.Sprint(level, " ", call), txn.Commit(), brock.ErrConflict)
			checkVerified(t, db, u)
		}
	}
}

// TestFailedRebuilds: records that a new unique index can't have, and a Rebuild that another one
// has taken over, leave the old declaration, or that of the other.
func TestFailedRebuilds(t *testing.T) {
	db, ks := memory(t)
	old := declareOld(ks)
	fill(t, db, old, 600)
	before := keysOf(t, ks)
	double := declareOld(ks)
	typed.NewUnique(double, "born", typed.Int64, func(u *user) []int64 { return []int64{u.Born} })
	err := double.Rebuild(t.Context(), db)
	var dup *typed.DuplicateError[uint64]
	if !errors.As(err, &dup) || dup.Index != "born" || dup.Key == dup.Other || !errors.Is(err, typed.ErrDuplicate) {
		t.Errorf("rebuild: %v", err)
	}
	assert.Equal(t, "keys", len(keysOf(t, ks)), len(before))
	assert.OK(t, db.Update(func(txn *brock.Txn) error { return old.Delete(txn, 3) }))

	// Keys or records that the new codecs can't read.
	assert.Error(t, "other keys", typed.NewTable(ks, "users", typed.String, typed.JSON[user]()).Rebuild(t.Context(), db), typed.ErrDecode)
	assert.Error(t, "other records", typed.NewTable(ks, "users", typed.Uint64, typed.JSON[int]()).Rebuild(t.Context(), db), typed.ErrDecode)
	assert.OK(t, db.View(func(txn *brock.Txn) error { return old.Check(txn) }))

	u, inner := declareNew(ks), declareNew(ks)
	var once sync.Once
	typed.NewIndex(u.table, "x", typed.String, func(*user) []string {
		once.Do(func() {
			// It waits for the reads of the outer one, so it is only begun.
			ctx, cancel := context.WithCancel(t.Context())
			before := string(assert.Must(ks.Get([]byte("\x02users\x00\x14"))))
			go func() {
				deadline.Wait(t, "the inner Rebuild has begun", func() bool {
					return string(assert.Must(ks.Get([]byte("\x02users\x00\x14")))) != before
				})
				cancel()
			}()
			assert.Error(t, "the inner Rebuild", inner.table.Rebuild(ctx, db), context.Canceled)
		})
		return nil
	})
	assert.Error(t, "the outer Rebuild", u.table.Rebuild(t.Context(), db), typed.ErrTakenOver)
	assert.OK(t, db.View(func(txn *brock.Txn) error { return old.Check(txn) }))
}

// TestRebuildCrashes: the power is lost in the middle of a Rebuild. The old declaration goes on, and
// the next Rebuild begins anew and leaves nothing of the first.
func TestRebuildCrashes(t *testing.T) {
	r := draw.Rand(t)
	for range rounds(5) {
		fsys := vfs.NewMem()
		options := brock.Options{Dir: "db", FS: fsys}
		db := assert.Must(brock.Open(options))
		ks := assert.Must(db.Keyspace("tables"))
		old, u := declareOld(ks), declareNew(ks)
		fill(t, db, old, 400)
		var crashed *vfs.Mem
		at, n := r.IntN(900), 0
		model := map[uint64]user{}
		typed.NewIndex(u.table, "middle", typed.String, func(*user) []string {
			if n++; n == at {
				// A writer leaves marks.
				assert.OK(t, db.Update(func(txn *brock.Txn) error {
					assert.OK(t, old.Put(txn, uint64(r.IntN(400)), &user{Mail: "marked"}))
					return old.Delete(txn, uint64(r.IntN(400)))
				}))
				crashed = fsys.CrashClone(vfs.CrashOptions{Mode: vfs.CrashMode(r.IntN(4)), Seed: r.Uint64()})
			}
			return nil
		})
		assert.OK(t, u.table.Rebuild(t.Context(), db))
		if crashed == nil {
			crashed = fsys.CrashClone(vfs.CrashOptions{Mode: vfs.Lost})
		}
		assert.OK(t, db.Close())

		options.FS = crashed
		db = assert.Must(brock.Open(options))
		ks = assert.Must(db.Keyspace("tables"))
		old, u = declareOld(ks), declareNew(ks)
		if n >= at && at > 0 {
			for f, err := range old.Verify(t.Context(), db, false) {
				assert.OK(t, err)
				t.Errorf("found in the old table %+v", f)
			}
			assert.OK(t, db.Update(func(txn *brock.Txn) error { return old.Put(txn, 5, &user{Name: "after"}) }))
		}
		assert.OK(t, u.table.Rebuild(t.Context(), db))
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			for row, err := range u.table.All(txn) {
				assert.OK(t, err)
				model[row.Key] = *row.Record
			}
			return nil
		}))
		checkUsers(t, db, u, model)
		entries := len(model) + 1 // records, and the declaration
		for _, v := range model {
			entries += 1 + len(mails(&v)) + len(slices.Compact(slices.Sorted(slices.Values(v.Towns))))
		}
		assert.Equal(t, "keys", len(keysOf(t, ks)), entries)
		assert.OK(t, db.Close())
	}
}

// TestDeadRebuilds: a Rebuild that died in its last moments has closed the table to writes. That of
// either declaration opens it, and leaves nothing of the dead one.
func TestDeadRebuilds(t *testing.T) {
	for _, again := range []string{"old", "new"} {
		db, ks := memory(t)
		old, u := declareOld(ks), declareNew(ks)
		fill(t, db, old, 300)
		before := len(keysOf(t, ks))
		at := []byte("\x02users\x00\x14")
		stored := assert.Must(ks.Get(at))
		assert.OK(t, ks.Set(at, []byte(strings.Replace(string(stored), `"next":3`, `"next":9,"building":8,"closed":true`, 1))))
		assert.OK(t, ks.Set([]byte("\x02users\x00\x15\x03\x15\x07"), []byte{0}))            // a mark
		assert.OK(t, ks.Set([]byte("\x02users\x00\x15\x02\x15\x06\x02x\x00\x15\x07"), nil)) // an entry of index 6
		assert.OK(t, db.Update(func(txn *brock.Txn) error {
			assert.Error(t, "put", old.Put(txn, 1, &user{}), typed.ErrDeclaration)
			assert.Error(t, "delete", old.Delete(txn, 1), typed.ErrDeclaration)
			return assert.ErrorOf(old.Get(txn, 1)) // reads go on
		}))
		table := old
		if again == "new" {
			table = u.table
		}
		assert.OK(t, table.Rebuild(t.Context(), db))
		assert.OK(t, db.Update(func(txn *brock.Txn) error {
			r, err := table.Get(txn, 1)
			if err != nil {
				return err
			}
			return table.Put(txn, 1, r)
		}))
		for f, err := range table.Verify(t.Context(), db, false) {
			assert.OK(t, err)
			t.Errorf("%s: found %+v", again, f)
		}
		if again == "old" {
			assert.Equal(t, "keys", len(keysOf(t, ks)), before)
		}
	}
}

// TestUniqueUnderContention: 64 goroutines insert records of few values, at both levels: each value
// has one record, and each refusal names it.
func TestUniqueUnderContention(t *testing.T) {
	for _, level := range []brock.Isolation{brock.Serializable, brock.SnapshotIsolation} {
		db, ks := memory(t)
		u := newUsers(ks)
		seed := draw.Seed(t)
		var wg sync.WaitGroup
		var mu sync.Mutex
		owners := map[string]uint64{}
		for g := range uint64(64) {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, g))
				for i := range uint64(30) {
					key, mail := g<<32|i, fmt.Sprint("m", r.IntN(40))
					err := db.UpdateContext(t.Context(), brock.TxnOptions{Isolation: level}, func(txn *brock.Txn) error {
						return u.table.Insert(txn, key, &user{Mail: mail, Towns: []string{"Bonn"}})
					})
					mu.Lock()
					other, taken := owners[mail]
					var dup *typed.DuplicateError[uint64]
					switch {
					case err == nil && taken:
						t.Errorf("%s belongs to %x and %x", mail, other, key)
					case err == nil:
						owners[mail] = key
					case !errors.As(err, &dup) || taken && dup.Other != other:
						t.Errorf("%s of %x: %v", mail, other, err)
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			for mail, key := range owners {
				got, _, err := u.byMail.Get(txn, mail)
				assert.OK(t, err)
				assert.Equal(t, mail, got, key)
			}
			assert.Equal(t, "records", len(collect(u.table.All(txn))), len(owners))
			assert.Equal(t, "records of the town", len(collect(u.byTown.Of(txn, "Bonn"))), len(owners))
			return nil
		}))
		checkVerified(t, db, u)
	}
}

// TestInsertsOfOneValueDoNotMeet: two transactions that give one value of an index to two records
// both commit.
func TestInsertsOfOneValueDoNotMeet(t *testing.T) {
	for _, level := range []brock.Isolation{brock.Serializable, brock.SnapshotIsolation} {
		db, ks := memory(t)
		u := newUsers(ks)
		assert.OK(t, db.Update(func(txn *brock.Txn) error { return u.table.Put(txn, 1, &user{}) }))
		var txns []*brock.Txn
		for k := range uint64(3) {
			txn := assert.Must(db.Begin(t.Context(), brock.TxnOptions{Update: true, Isolation: level}))
			assert.OK(t, u.table.Put(txn, k+10, &user{Towns: []string{"Bonn"}}))
			txns = append(txns, txn)
		}
		for _, txn := range txns {
			assert.OK(t, txn.Commit())
		}
		checkVerified(t, db, u)
	}
}

// TestVerify finds what was planted, and repairs it, so that nothing is left to find.
func TestVerify(t *testing.T) {
	r := draw.Rand(t)
	db, ks := memory(t)
	u := newUsers(ks)
	model := map[uint64]user{}
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		for i := range uint64(1000) {
			model[i] = user{Name: "n", Mail: fmt.Sprint("x", i), Towns: []string{towns[i%3]}}
			v := model[i]
			assert.OK(t, u.table.Put(txn, i, &v))
		}
		return nil
	}))
	const name = "\x02users\x00"
	var keys []string
	for _, key := range keysOf(t, ks) {
		if strings.HasPrefix(key, name+"\x15\x02") {
			keys = append(keys, key)
		}
	}
	missing, surplus := map[string]bool{}, map[string]bool{}
	for range 300 {
		key := keys[r.IntN(len(keys))]
		missing[key] = true
	}
	for i := range 300 { // of records that are there, of none, and no entries at all
		surplus[fmt.Sprintf(name+"\x15\x02\x15\x01\x02no%d\x00\x15%c", i, 1+i%200)] = true
		surplus[fmt.Sprintf(name+"\x15\x02\x15\x01\x02no%d\x00\x17\x01%c\x02", i, 1+i%100)] = true
		surplus[fmt.Sprintf(name+"\x15\x02\x15\x02rubbish%d", i)] = true
		surplus[fmt.Sprintf(name+"\x15\x02\x14\x02mail%d\x00", i)] = true
	}
	assert.OK(t, ks.Update(func(txn *brock.Txn) error {
		for key := range missing {
			assert.OK(t, txn.Delete([]byte(key)))
		}
		for key := range surplus {
			assert.OK(t, txn.Set([]byte(key), []byte{0x15, 9}))
		}
		// One entry belongs to another record, wrongly.
		missing[name+"\x15\x02\x14\x02x5\x00"] = true
		return txn.Set([]byte(name+"\x15\x02\x14\x02x5\x00"), []byte{0x15, 6})
	}))
	for _, repair := range []bool{false, true} {
		found := map[string]typed.FindingKind{}
		for f, err := range u.table.Verify(t.Context(), db, repair) {
			assert.OK(t, err)
			found[string(f.Stored)+string(f.Kind)] = f.Kind
			if f.Kind == typed.Missing && !missing[string(f.Stored)] || f.Kind == typed.Surplus && !surplus[string(f.Stored)] && string(f.Stored) != name+"\x15\x02\x14\x02x5\x00" {
				t.Errorf("found %s %q", f.Kind, f.Stored)
			}
		}
		for key := range missing {
			assert.Equal(t, key, found[key+"missing"], typed.Missing)
		}
		for key := range surplus {
			assert.Equal(t, key, found[key+"surplus"], typed.Surplus)
		}
	}
	checkUsers(t, db, u, model)

	// Two records with one value of a unique index: no repair can choose.
	assert.OK(t, ks.Set([]byte(name+"\x15\x01\x15\x07"), []byte(`{"Mail":"x8"}`)))
	double := 0
	for f, err := range u.table.Verify(t.Context(), db, true) {
		assert.OK(t, err)
		if f.Kind == typed.Double && f.Key == 7 && f.Index == "mail" {
			double++
		}
	}
	assert.Equal(t, "double", double, 1)
	model[7] = user{}
	assert.OK(t, db.Update(func(txn *brock.Txn) error { return u.table.Put(txn, 7, &user{}) }))
	checkUsers(t, db, u, model)
}

// TestVerifyBesideWriters: a repair takes nothing that a writer has just written.
func TestVerifyBesideWriters(t *testing.T) {
	db, ks := memory(t)
	u := newUsers(ks)
	fill(t, db, u.table, 400)
	seed := draw.Seed(t)
	var done atomic.Bool
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(w)))
			for !done.Load() {
				if err := writeOnce(t.Context(), db, u.table, r, w); err != nil && !errors.Is(err, typed.ErrDuplicate) && !errors.Is(err, brock.ErrConflict) {
					t.Error(err)
					return
				}
			}
		})
	}
	plants := 0
	// Further on, if writers have made each repair conflict before it found something.
	for i := 0; i < rounds(5) || plants == 0; i++ {
		var key []byte
		assert.OK(t, ks.View(func(txn *brock.Txn) error {
			for item, err := range txn.Items(brock.IteratorOptions{Lower: []byte("\x02users\x00\x15\x02\x15"), Limit: 1 + 40*(i%5)}) {
				assert.OK(t, err)
				key = item.KeyCopy(nil)
			}
			return nil
		}))
		assert.OK(t, ks.Delete(key))
		assert.OK(t, ks.Set([]byte(fmt.Sprintf("\x02users\x00\x15\x02\x14\x02y%d\x00", i)), []byte{0x15, 1}))
		for _, err := range u.table.Verify(t.Context(), db, true) {
			if errors.Is(err, brock.ErrConflict) {
				break
			}
			assert.OK(t, err)
			plants++
		}
	}
	done.Store(true)
	wg.Wait()
	for range u.table.Verify(t.Context(), db, true) {
	}
	checkVerified(t, db, u)
}
