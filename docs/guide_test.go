package docs_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"expvar"
	"fmt"
	"io"
	"iter"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/objects"
	"github.com/brockdb/brock/typed"
	"github.com/brockdb/brock/vfs"
)

// The code of guide.md, and code for what its text says, each piece in a function that a test or
// example calls. internal/test/arch compares the two: a block of the guide stands here as it is,
// or indented as the body of a function.

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// memory is an empty store.
func memory(t *testing.T) *brock.DB {
	t.Helper()
	db, err := brock.Open(brock.Options{InMemory: true})
	check(t, err)
	t.Cleanup(func() { check(t, db.Close()) })
	return db
}

// filled is a store with the customers' orders of the guide.
func filled() *brock.DB {
	db, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	for i, customer := range []string{"ann", "anna", "ann", "ann", "bob"} {
		if err := db.Set(orderKey(customer, uint64(i)), fmt.Appendf(nil, "%s's", customer)); err != nil {
			log.Fatal(err)
		}
	}
	return db
}

func remember(db *brock.DB, name, url string) error {
	return db.Set([]byte("mark/"+name), []byte(url))
}

func list(db *brock.DB) error {
	return db.View(func(txn *brock.Txn) error {
		for item, err := range txn.Prefix([]byte("mark/")) {
			if err != nil {
				return err
			}
			url, err := item.Value()
			if err != nil {
				return err
			}
			fmt.Printf("%s %s\n", item.Key()[len("mark/"):], url)
		}
		return nil
	})
}

func marks(dir string, args []string) error {
	db, err := brock.Open(brock.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer db.Close()
	if len(args) == 2 {
		return remember(db, args[0], args[1])
	}
	return list(db)
}

func Example_marks() {
	dir, err := os.MkdirTemp("", "brock")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for _, args := range [][]string{{"go", "https://go.dev"}, {"brock", "https://github.com/brockdb/brock"}, nil} {
		if err := marks(dir, args); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// brock https://github.com/brockdb/brock
	// go https://go.dev
}

func opening(dir string) error {
	db, err := brock.Open(brock.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Set([]byte("k"), []byte("v"))
}

func openingAndWaiting(dir string) error {
	db, err := brock.Open(brock.Options{Dir: dir, LockWait: 2 * time.Second})
	switch {
	case errors.Is(err, brock.ErrLocked):
		return fmt.Errorf("in use elsewhere: %w", err) // the text says which process has it
	case errors.Is(err, brock.ErrCorrupt):
		return fmt.Errorf("restore a backup: %w", err) // the text names file and offset
	case err != nil:
		return err
	}
	defer db.Close()
	return nil
}

func openingWithKeys(dir, path string) error {
	db, err := brock.Open(brock.Options{Dir: dir, Keys: brock.KeyFile(path)})
	if errors.Is(err, brock.ErrKey) {
		return fmt.Errorf("the wrong key file: %w", err) // nothing was touched
	}
	if err != nil {
		return err
	}
	return db.Close()
}

func rotating(ctx context.Context, db *brock.DB) error {
	// Add a key first (brock keygen FILE), so that the new data key is wrapped by it.
	if err := db.RotateKey(ctx, brock.RotateOptions{Rewrite: true}); err != nil {
		return err
	}
	// Nothing is under the old keys any more. Only backups from before need them.
	return nil
}

func encrypting(ctx context.Context, dir, path string) error {
	if err := brock.EncryptStore(ctx, brock.Options{Dir: dir, Keys: brock.KeyFile(path)}); err != nil {
		return err
	}
	return nil
}

func following(ctx context.Context, dir string, key []byte, more func() bool, use func([]byte)) error {
	db, err := brock.Open(brock.Options{Dir: dir, Mode: brock.Follow})
	if err != nil {
		return err
	}
	defer db.Close()
	for more() {
		if _, err := db.Refresh(ctx); err != nil { // to the newest durable version
			return err
		}
		value, err := db.Get(key) // reads as those of any store
		if err != nil {
			return err
		}
		use(value)
	}
	return nil
}

func snapshots(ctx context.Context, db *brock.DB, dir string, report func(*brock.Txn) error) error {
	snapshot, err := db.Snapshot()
	if err != nil {
		return err
	}
	defer snapshot.Close()
	if err := snapshot.View(ctx, report); err != nil {
		return err
	}
	return snapshot.Checkpoint(ctx, dir) // what the report has seen
}

func TestSnapshots(t *testing.T) {
	db := memory(t)
	dir := filepath.Join(t.TempDir(), "copy")
	check(t, db.Set([]byte("a"), []byte("1")))
	check(t, snapshots(t.Context(), db, dir, func(*brock.Txn) error { return db.Set([]byte("a"), []byte("2")) }))
	made, err := brock.Open(brock.Options{Dir: dir})
	check(t, err)
	defer made.Close()
	if v, err := made.Get([]byte("a")); string(v) != "1" {
		t.Errorf("%q, %v", v, err)
	}
}

func booking(txn *brock.Txn, orders []string, book func(*brock.Txn, string) error) error {
	for _, order := range orders {
		before := txn.Savepoint()
		if err := book(txn, order); err != nil {
			if err := txn.RollbackTo(before); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestBooking(t *testing.T) {
	db := memory(t)
	check(t, db.Update(func(txn *brock.Txn) error {
		return booking(txn, []string{"a", "b", "c"}, func(txn *brock.Txn, order string) error {
			check(t, txn.Set([]byte(order), nil))
			if order == "b" {
				return errors.New("sold out")
			}
			return nil
		})
	}))
	for key, want := range map[string]bool{"a": true, "b": false, "c": true} {
		if _, err := db.Get([]byte(key)); (err == nil) != want {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func watching(ctx context.Context, db *brock.DB, position brock.Position, index func(*brock.Change)) error {
	for commit, err := range db.Watch(ctx, brock.WatchOptions{After: position}) {
		if err != nil {
			return err // ErrVersionGone: begin again with Snapshot
		}
		for change, err := range commit.Changes() {
			if err != nil {
				return err
			}
			index(change)
		}
		position = commit.Position()
	}
	return nil
}

func TestWatching(t *testing.T) {
	db, err := brock.Open(brock.Options{InMemory: true})
	check(t, err)
	defer db.Close()
	var position brock.Position
	for commit, err := range db.Watch(t.Context(), brock.WatchOptions{}) {
		check(t, err)
		position = commit.Position()
		break
	}
	check(t, db.Set([]byte("a"), []byte("1")))
	check(t, db.Delete([]byte("b")))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	err = watching(ctx, db, position, func(c *brock.Change) {
		if got = append(got, c.Kind.String()+" "+string(c.Key)); len(got) == 2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || strings.Join(got, ", ") != "set a, delete b" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestFollowing(t *testing.T) {
	dir := t.TempDir()
	db, err := brock.Open(brock.Options{Dir: dir})
	check(t, err)
	defer db.Close()
	n, got := 0, []string{}
	more := func() bool {
		n++
		check(t, db.Set([]byte("k"), []byte(strconv.Itoa(n))))
		return n < 4
	}
	err = following(t.Context(), dir, []byte("k"), more, func(v []byte) { got = append(got, string(v)) })
	if errors.Is(err, brock.ErrUnsupported) {
		t.Skip(err)
	}
	check(t, err)
	if strings.Join(got, " ") != "1 2 3" {
		t.Errorf("followed %q", got)
	}
}

func TestOpening(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	check(t, opening(dir))
	check(t, openingAndWaiting(dir))

	db, err := brock.Open(brock.Options{Dir: dir})
	check(t, err)
	begin := time.Now()
	if err := openingAndWaiting(dir); !errors.Is(err, brock.ErrLocked) || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("a store in use: %v, want ErrLocked that names process %d", err, os.Getpid())
	}
	if time.Since(begin) < 2*time.Second {
		t.Error("Open did not wait for the lock")
	}
	check(t, db.Close())

	_, err = brock.Open(brock.Options{Dir: dir + "x", MustExist: true})
	if !errors.Is(err, brock.ErrNotExist) {
		t.Errorf("MustExist without a store: %v", err)
	}
	_, err = brock.Open(brock.Options{Dir: dir, MustBeNew: true})
	if !errors.Is(err, brock.ErrExist) {
		t.Errorf("MustBeNew with a store: %v", err)
	}
}

func TestEncryption(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(t.TempDir(), "keys")
	for _, key := range [][]byte{bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)} {
		line := fmt.Sprintf("2026-01 %s\n", base64.StdEncoding.EncodeToString(key))
		check(t, os.WriteFile(path, []byte(line), 0o600))
		if err := openingWithKeys(dir, path); errors.Is(err, brock.ErrKey) != (key[0] == 2) {
			t.Errorf("master key %d: %v", key[0], err)
		}
	}
	plain := filepath.Join(t.TempDir(), "plain")
	db, err := brock.Open(brock.Options{Dir: plain})
	check(t, err)
	check(t, db.Close())
	check(t, encrypting(t.Context(), plain, path))
	db, err = brock.Open(brock.Options{Dir: plain, Keys: brock.KeyFile(path)})
	check(t, err)
	check(t, rotating(t.Context(), db))
	check(t, db.Close())
}

// orderKey is "order/", the customer, a zero byte and the order's number.
func orderKey(customer string, number uint64) []byte {
	key := append([]byte("order/"), customer...)
	key = append(key, 0)
	return binary.BigEndian.AppendUint64(key, number)
}

func newestFirst(db *brock.DB) error {
	err := db.View(func(txn *brock.Txn) error {
		newest := brock.IteratorOptions{Prefix: []byte("order/ann\x00"), Reverse: true, Limit: 2}
		for item, err := range txn.Items(newest) {
			if err != nil {
				return err
			}
			fmt.Printf("%x\n", item.Key()[len("order/ann\x00"):])
		}
		return nil
	})
	return err
}

func Example_reverse() {
	db := filled()
	defer db.Close()
	if err := newestFirst(db); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 0000000000000003
	// 0000000000000002
}

func TestPages(t *testing.T) {
	db := filled()
	defer db.Close()
	prefix, last := []byte("order/"), orderKey("ann", 2)
	page := brock.IteratorOptions{Prefix: prefix, Lower: append(bytes.Clone(last), 0), Limit: 10}
	check(t, db.View(func(txn *brock.Txn) error {
		for item, err := range txn.Items(page) {
			check(t, err)
			if want := orderKey("ann", 3); !bytes.Equal(item.Key(), want) {
				t.Errorf("the page begins with %q, want %q", item.Key(), want)
			}
			break
		}
		return nil
	}))
}

func withdrawing(db *brock.DB) (int, error) {
	var balance int
	err := db.Update(func(txn *brock.Txn) error {
		item, err := txn.Get([]byte("balance/ann"))
		if err != nil {
			return err
		}
		value, err := item.Value()
		if err != nil {
			return err
		}
		if balance, err = strconv.Atoi(string(value)); err != nil {
			return err
		}
		balance -= 10
		return txn.Set([]byte("balance/ann"), []byte(strconv.Itoa(balance)))
	})
	return balance, err
}

func TestUpdateRunsAgain(t *testing.T) {
	db := memory(t)
	check(t, db.Set([]byte("balance/ann"), []byte("100")))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := withdrawing(db); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if v, err := db.Get([]byte("balance/ann")); string(v) != "60" {
		t.Errorf("balance %q, %v; want 60", v, err)
	}
}

// conflicts begins an update that does as read says, writes elsewhere, and reports
// whether it is refused when meanwhile was committed before it.
func conflicts(t *testing.T, db *brock.DB, read, meanwhile func(txn *brock.Txn) error) bool {
	t.Helper()
	txn, err := db.Begin(t.Context(), brock.TxnOptions{Update: true})
	check(t, err)
	defer txn.Discard()
	check(t, read(txn))
	check(t, txn.Set([]byte("elsewhere"), nil))
	check(t, db.Update(meanwhile))
	err = txn.Commit()
	if err != nil && !errors.Is(err, brock.ErrConflict) {
		t.Fatal(err)
	}
	return err != nil
}

// TestWhatCountsAsRead holds the guide's table.
func TestWhatCountsAsRead(t *testing.T) {
	set := func(key string) func(*brock.Txn) error {
		return func(txn *brock.Txn) error { return txn.Set([]byte(key), []byte("new")) }
	}
	first := func(n int) func(*brock.Txn) error {
		return func(txn *brock.Txn) error {
			for _, err := range txn.Items(brock.IteratorOptions{Prefix: []byte("k"), Limit: n}) {
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
	for _, c := range []struct {
		name      string
		read      func(*brock.Txn) error
		meanwhile func(*brock.Txn) error
		want      bool
	}{
		{"a key", func(txn *brock.Txn) error { _, err := txn.Get([]byte("k1")); return err }, set("k1"), true},
		{"a key, and another changes", func(txn *brock.Txn) error { _, err := txn.Get([]byte("k1")); return err }, set("k2"), false},
		{"an absent key", func(txn *brock.Txn) error { _, err := txn.Has([]byte("none")); return err }, set("none"), true},
		{"a range, and it grows at its end", first(0), set("k9"), true},
		{"an empty range", func(txn *brock.Txn) error {
			for range txn.Prefix([]byte("z")) {
			}
			return nil
		}, set("z1"), true},
		{"the begin of a range, and its end changes", first(2), set("k3"), false},
		{"the begin of a range, and it changes", first(2), set("k15"), true},
		{"its own write", func(txn *brock.Txn) error {
			if err := txn.Set([]byte("k1"), []byte("mine")); err != nil {
				return err
			}
			_, err := txn.Get([]byte("k1"))
			return err
		}, set("k1"), false},
		{"nothing: it writes", set("k1"), set("k1"), false},
		{"nothing: it deletes a range", func(txn *brock.Txn) error { return txn.DeleteRange(nil, nil) }, set("k1"), false},
	} {
		db := memory(t)
		for _, k := range []string{"k1", "k2", "k3"} {
			check(t, db.Set([]byte(k), []byte("old")))
		}
		if got := conflicts(t, db, c.read, c.meanwhile); got != c.want {
			t.Errorf("read %s: refused %v, want %v", c.name, got, c.want)
		}
	}
}

func editing(db *brock.DB, version uint64) error {
	err := db.CompareAndSet([]byte("page/home"), []byte("new text"), version)
	if errors.Is(err, brock.ErrVersionMismatch) {
		return errors.New("somebody else has changed the page")
	}
	return err
}

func TestCompareAndSet(t *testing.T) {
	db := memory(t)
	check(t, editing(db, 0))
	if err := editing(db, 0); err == nil {
		t.Error("a page that was changed was set again")
	}
	check(t, editing(db, db.Version()))
}

// count returns the number of this visit.
func count(db *brock.DB, page string) (int64, error) {
	return db.Default().Add(context.Background(), []byte("hits/"+page), 1)
}

func placeOrder(db *brock.DB, order []byte) error {
	one := binary.LittleEndian.AppendUint64(nil, 1)
	err := db.Update(func(txn *brock.Txn) error {
		if err := txn.Set(orderKey("ann", 17), order); err != nil {
			return err
		}
		return txn.Apply(brock.OpAdd, []byte("orders of ann"), one)
	})
	return err
}

func TestCounter(t *testing.T) {
	db := memory(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if _, err := count(db, "home"); err != nil {
					t.Error(err)
				}
				if err := placeOrder(db, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, key := range []string{"hits/home", "orders of ann"} {
		if n, err := db.Default().Add(ctx, []byte(key), 0); n != 400 || err != nil {
			t.Errorf("%s: %d, %v; want 400", key, n, err)
		}
	}
}

// Records and indexes.

type User struct {
	Mail  string
	Towns []string
}

type users struct {
	*typed.Table[uint64, User]
	byMail *typed.Index[string, uint64, User]
	byTown *typed.Index[string, uint64, User]
}

func newUsers(ks *brock.Keyspace) users {
	table := typed.NewTable(ks, "users", typed.Uint64, typed.JSON[User]())
	return users{
		Table:  table,
		byMail: typed.NewUnique(table, "mail", typed.String, func(u *User) []string { return []string{u.Mail} }),
		byTown: typed.NewIndex(table, "town", typed.String, func(u *User) []string { return u.Towns }),
	}
}

func putAndFind(db *brock.DB, u users) error {
	err := db.Update(func(txn *brock.Txn) error {
		return u.Put(txn, 7, &User{Mail: "ann@example.org", Towns: []string{"Bern", "Bonn"}})
	})
	if errors.Is(err, typed.ErrDuplicate) {
		return errors.New("somebody else has this address")
	}
	if err != nil {
		return err
	}
	return db.View(func(txn *brock.Txn) error {
		for row, err := range u.byTown.Prefix(txn, "B") {
			if err != nil {
				return err
			}
			fmt.Println(row.Key, row.Record.Mail)
		}
		return nil
	})
}

func TestRecords(t *testing.T) {
	db := memory(t)
	ks, err := db.Keyspace("users")
	check(t, err)
	u := newUsers(ks)
	check(t, putAndFind(db, u))
	check(t, db.Update(func(txn *brock.Txn) error { return u.Delete(txn, 7) }))
	check(t, db.Update(func(txn *brock.Txn) error { return u.Put(txn, 8, &User{Mail: "ann@example.org"}) }))
	if err := putAndFind(db, u); err == nil {
		t.Error("two users have one address")
	}
}

type queue struct{ db *brock.DB }

func (q *queue) push(job []byte) error {
	return q.db.Update(func(txn *brock.Txn) error { return txn.SetVersioned([]byte("job/"), job) })
}

// pop takes up to n jobs and hands them to do, which may be called again for the
// same jobs. If it fails they stay.
func (q *queue) pop(n int, do func(txn *brock.Txn, job []byte) error) error {
	return q.db.Update(func(txn *brock.Txn) error {
		for item, err := range txn.Items(brock.IteratorOptions{Prefix: []byte("job/"), Limit: n}) {
			if err != nil {
				return err
			}
			job, err := item.Value()
			if err != nil {
				return err
			}
			if err := do(txn, job); err != nil {
				return err
			}
			if err := txn.Delete(item.Key()); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestQueue(t *testing.T) {
	dir := t.TempDir()
	db, err := brock.Open(brock.Options{Dir: dir, Durability: brock.Buffered})
	check(t, err)
	q := &queue{db}
	for i := range 5 {
		check(t, q.push(fmt.Appendf(nil, "job %d", i)))
	}
	check(t, db.Close())

	db, err = brock.Open(brock.Options{Dir: dir, Durability: brock.Buffered})
	check(t, err)
	defer db.Close()
	q = &queue{db}
	check(t, q.push([]byte("job 5")))
	var done []string
	pop := func(n int, meanwhile func() error) (runs int) {
		var jobs []string
		check(t, q.pop(n, func(_ *brock.Txn, job []byte) error {
			if string(job) == "job "+strconv.Itoa(len(done)) { // the first of a run
				jobs, runs = nil, runs+1
				if runs == 1 {
					check(t, meanwhile())
				}
			}
			jobs = append(jobs, string(job))
			return nil
		}))
		done = append(done, jobs...)
		return runs
	}
	if runs := pop(2, func() error { return q.push([]byte("job 6")) }); runs != 1 {
		t.Errorf("a pop beside a push ran %d times, want 1", runs)
	}
	if runs := pop(10, func() error { return q.push([]byte("job 7")) }); runs != 2 {
		t.Errorf("a pop to the end beside a push ran %d times, want 2", runs)
	}
	if want := "job 0,job 1,job 2,job 3,job 4,job 5,job 6,job 7"; strings.Join(done, ",") != want {
		t.Errorf("done %v, want %s", done, want)
	}
	check(t, q.pop(1, func(*brock.Txn, []byte) error { t.Error("the queue is not empty"); return nil }))
}

var ctx = context.Background()

var appliedKey = []byte("\x00applied")

// applied returns the index of the last entry of the log that the store has.
func applied(db *brock.DB) (uint64, error) {
	value, err := db.Get(appliedKey)
	if errors.Is(err, brock.ErrKeyNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(value), nil
}

// apply writes what an entry of the log says, and its index: both or none.
func apply(db *brock.DB, index uint64, pairs map[string]string) error {
	batch := db.NewBatch()
	for key, value := range pairs {
		if err := batch.Set([]byte("data/"+key), []byte(value)); err != nil {
			return err
		}
	}
	if err := batch.Set(appliedKey, binary.BigEndian.AppendUint64(nil, index)); err != nil {
		return err
	}
	_, err := batch.Commit(ctx, brock.DefaultDurability)
	return err
}

// entryAt is the entry of the log with this index.
func entryAt(index uint64) map[string]string {
	return map[string]string{strconv.FormatUint(index%7, 10): strconv.FormatUint(index, 10)}
}

func TestReplicatedStateMachine(t *testing.T) {
	for seed := range uint64(8) {
		stateMachineAfterACrash(t, seed)
	}
}

func stateMachineAfterACrash(t *testing.T, seed uint64) {
	disk := vfs.NewMem()
	options := brock.Options{Dir: "store", FS: disk, Durability: brock.Buffered}
	db, err := brock.Open(options)
	check(t, err)
	defer db.Close()
	for index := uint64(1); index <= 100; index++ {
		check(t, apply(db, index, entryAt(index)))
	}
	options.FS = disk.CrashClone(vfs.CrashOptions{Mode: vfs.Chaos, Seed: seed})
	crashed, err := brock.Open(options)
	check(t, err)
	defer crashed.Close()
	last, err := applied(crashed)
	check(t, err)
	for index := last + 1; index <= 100; index++ {
		check(t, apply(crashed, index, entryAt(index)))
	}
	for i := range uint64(7) {
		key := []byte("data/" + strconv.FormatUint(i, 10))
		want, err := db.Get(key)
		check(t, err)
		got, err := crashed.Get(key)
		check(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("seed %d: %s is %s, want %s", seed, key, got, want)
		}
	}
}

func TestWriteSkew(t *testing.T) {
	for _, c := range []struct {
		isolation brock.Isolation
		left      int
	}{{brock.Serializable, 1}, {brock.SnapshotIsolation, 0}} {
		db, ctx := memory(t), t.Context()
		check(t, db.Set([]byte("on call/ann"), nil))
		check(t, db.Set([]byte("on call/bob"), nil))
		signOff := func(isolation brock.Isolation, name string) (*brock.Txn, error) {
			txn, err := db.Begin(ctx, brock.TxnOptions{Update: true, Isolation: isolation})
			if err != nil {
				return nil, err
			}
			onCall := 0
			for _, err := range txn.Prefix([]byte("on call/")) {
				if err != nil {
					return txn, err
				}
				onCall++
			}
			if onCall < 2 {
				return txn, errors.New("nobody else is on call")
			}
			return txn, txn.Delete([]byte("on call/" + name))
		}
		ann, err := signOff(c.isolation, "ann")
		check(t, err)
		bob, err := signOff(c.isolation, "bob")
		check(t, err)
		check(t, ann.Commit())
		if err := bob.Commit(); errors.Is(err, brock.ErrConflict) != (c.left == 1) {
			t.Errorf("isolation %d: the second commit returned %v", c.isolation, err)
		}
		left := 0
		check(t, db.View(func(txn *brock.Txn) error {
			for range txn.Prefix([]byte("on call/")) {
				left++
			}
			return nil
		}))
		if left != c.left {
			t.Errorf("isolation %d: %d on call, want %d", c.isolation, left, c.left)
		}
	}
}

func buffered(ctx context.Context, db *brock.DB) error {
	fast := brock.TxnOptions{Durability: brock.Buffered}
	for i := range 1000 {
		err := db.UpdateContext(ctx, fast, func(txn *brock.Txn) error {
			return txn.Set(fmt.Appendf(nil, "log/%06d", i), []byte("line"))
		})
		if err != nil {
			return err
		}
	}
	if err := db.Sync(ctx); err != nil { // now all of them survive a power loss
		return err
	}
	return nil
}

func bulk(ctx context.Context, db *brock.DB) error {
	w := db.NewWriter(ctx)
	for i := range 10_000 {
		if err := w.Set(fmt.Appendf(nil, "row/%06d", i), []byte("value")); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil { // nothing is certain before Flush or Close returns nil
		return err
	}
	return nil
}

func loading(ctx context.Context, db *brock.DB) error {
	l, err := db.Default().NewLoader(ctx, brock.LoadOptions{Sorted: true})
	if err != nil {
		return err
	}
	defer l.Abort() // does nothing after Finish
	for i := range 10_000 {
		if err := l.Set(fmt.Appendf(nil, "row/%06d", i), []byte("value")); err != nil {
			return err // ErrInvalid for a key that is not greater than the one before
		}
	}
	if _, err := l.Finish(); err != nil { // all of it is durable and visible, or nothing is left
		return err
	}
	return nil
}

func TestLoading(t *testing.T) {
	db := memory(t)
	check(t, loading(t.Context(), db))
	if n, err := counting(t.Context(), db); n != 10_000 || err != nil || db.Version() != 1 {
		t.Errorf("%d keys of version %d, %v", n, db.Version(), err)
	}
}

func TestBulk(t *testing.T) {
	db := memory(t)
	check(t, buffered(t.Context(), db))
	check(t, bulk(t.Context(), db))
	n := 0
	check(t, db.View(func(txn *brock.Txn) error {
		for _, err := range txn.All() {
			check(t, err)
			n++
		}
		return nil
	}))
	if n != 11_000 {
		t.Errorf("%d keys, want 11000", n)
	}
}

const piece = 1 << 20

func store(db *brock.DB, name string, r io.Reader) error {
	return db.Update(func(txn *brock.Txn) error {
		buf := make([]byte, piece)
		for i := uint32(0); ; i++ {
			n, err := io.ReadFull(r, buf)
			if n > 0 {
				key := binary.BigEndian.AppendUint32([]byte("file/"+name+"\x00"), i)
				if err := txn.Set(key, buf[:n]); err != nil {
					return err
				}
			}
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				return nil
			}
			if err != nil {
				return err
			}
		}
	})
}

func TestPieces(t *testing.T) {
	db := memory(t)
	file := bytes.Repeat([]byte("0123456789abcdef"), 160_000) // 2.56 MB
	check(t, store(db, "a", bytes.NewReader(file)))
	check(t, store(db, "empty", bytes.NewReader(nil)))
	var got []byte
	check(t, db.View(func(txn *brock.Txn) error {
		for item, err := range txn.Prefix([]byte("file/a\x00")) {
			check(t, err)
			v, err := item.Value()
			check(t, err)
			got = append(got, v...)
		}
		return nil
	}))
	if !bytes.Equal(got, file) {
		t.Errorf("read %d bytes, want the %d that were stored", len(got), len(file))
	}
}

func counting(ctx context.Context, db *brock.DB) (int64, error) {
	var count atomic.Int64
	err := db.Default().Stream(ctx, brock.StreamOptions{KeysOnly: true}, func(part int, items iter.Seq2[*brock.Item, error]) error {
		for _, err := range items {
			if err != nil {
				return err
			}
			count.Add(1)
		}
		return nil
	})
	return count.Load(), err
}

func TestReadingInParallel(t *testing.T) {
	db := memory(t)
	check(t, bulk(t.Context(), db))
	check(t, db.Flush(t.Context()))
	if n, err := counting(t.Context(), db); n != 10_000 || err != nil {
		t.Errorf("counted %d keys, %v; want 10000", n, err)
	}
}

func keyspaces(db *brock.DB) error {
	sessions, err := db.Keyspace("sessions", brock.KeyspaceOptions{TTL: time.Hour})
	if err != nil {
		return err
	}
	users, err := db.Keyspace("users") // options as in Options.KeyspaceDefaults
	if err != nil {
		return err
	}
	err = db.Update(func(txn *brock.Txn) error {
		if err := txn.In(users).Set([]byte("17"), []byte("ann")); err != nil {
			return err
		}
		return txn.In(sessions).Set([]byte("x91k"), []byte("17")) // gone in an hour
	})
	return err
}

func TestKeyspaces(t *testing.T) {
	db := memory(t)
	check(t, keyspaces(db))
	sessions, err := db.Keyspace("sessions")
	check(t, err)
	if o := sessions.Options(); o.TTL != time.Hour {
		t.Errorf("opened again, sessions have the time to live %v", o.TTL)
	}
	if v, err := sessions.Get([]byte("x91k")); string(v) != "17" {
		t.Errorf("the session is %q, %v", v, err)
	}
	if ok, err := db.Has([]byte("x91k")); ok || err != nil {
		t.Errorf("the session is in the default keyspace: %v, %v", ok, err)
	}
}

func expiring(db *brock.DB) error {
	err := db.Update(func(txn *brock.Txn) error {
		return txn.SetEntry(brock.NewEntry([]byte("token"), []byte("x91k")).WithTTL(15 * time.Minute))
	})
	return err
}

func TestExpiry(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	db, err := brock.Open(brock.Options{InMemory: true, Now: func() time.Time { return now }})
	check(t, err)
	defer db.Close()
	check(t, expiring(db))
	check(t, db.View(func(txn *brock.Txn) error {
		now = now.Add(14 * time.Minute)
		_, err := txn.Get([]byte("token"))
		check(t, err)
		now = now.Add(time.Minute)
		_, err = txn.Get([]byte("token")) // the transaction has read the clock
		return err
	}))
	if ok, err := db.Has([]byte("token")); ok || err != nil {
		t.Errorf("after its time the token is there: %v, %v", ok, err)
	}
}

func versions(ctx context.Context, dir string) error {
	db, err := brock.Open(brock.Options{
		Dir:              dir,
		KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Age: 24 * time.Hour}},
	})
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Set([]byte("price"), []byte("10")); err != nil {
		return err
	}
	before := db.Version()
	if err := db.Set([]byte("price"), []byte("12")); err != nil {
		return err
	}
	err = db.ViewContext(ctx, brock.TxnOptions{ReadAt: before}, func(txn *brock.Txn) error {
		item, err := txn.Get([]byte("price"))
		if err != nil {
			return err
		}
		value, err := item.Value()
		fmt.Printf("%s\n", value) // 10
		return err
	})
	return err
}

func givenVersions(ctx context.Context, db *brock.DB) error {
	batch := db.NewBatch()
	for height := uint64(1000); height <= 1002; height++ {
		if err := batch.At(height); err != nil {
			return err
		}
		if err := batch.Set([]byte("balance"), fmt.Append(nil, height)); err != nil {
			return err
		}
	}
	if _, err := batch.Commit(ctx, brock.Synced); err != nil {
		return err // brock.ErrVersionMismatch: not above the newest commit
	}
	o := brock.TxnOptions{CommitAt: 1010} // for Begin or UpdateContext
	if err := db.UpdateContext(ctx, o, func(txn *brock.Txn) error { return txn.Delete([]byte("balance")) }); err != nil {
		return err
	}
	if err := db.AdvanceVersion(ctx, 2000); err != nil { // the next commit is above
		return err
	}
	if err := db.Default().SetDiscardVersion(1001); err != nil { // reads at 1001 and later still work
		return err
	}
	return nil
}

func TestGivenVersions(t *testing.T) {
	db, err := brock.Open(brock.Options{InMemory: true, KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Manual: true}}})
	check(t, err)
	defer db.Close()
	check(t, givenVersions(t.Context(), db))
	for at, want := range map[uint64]error{1000: brock.ErrVersionGone, 1001: nil, 1009: nil, 2000: brock.ErrKeyNotFound} {
		err := db.ViewContext(t.Context(), brock.TxnOptions{ReadAt: at}, func(txn *brock.Txn) error {
			_, err := txn.Get([]byte("balance"))
			return err
		})
		if !errors.Is(err, want) {
			t.Errorf("at version %d: %v, want %v", at, err, want)
		}
	}
}

func Example_versions() {
	dir, err := os.MkdirTemp("", "brock")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	fmt.Println(versions(context.Background(), dir))
	// Output:
	// 10
	// <nil>
}

func writing(db *brock.DB, key, value []byte) error {
	err := db.Set(key, value)
	if errors.Is(err, brock.ErrNoSpace) && !errors.Is(err, brock.ErrStopped) {
		// Nothing was written. Delete what is old, then try again.
		err = db.DeleteRange([]byte("log/"), []byte("log/2029"))
	}
	return err
}

func TestDiskLimit(t *testing.T) {
	db, err := brock.Open(brock.Options{Dir: t.TempDir(), DiskLimit: 16 << 20, Durability: brock.Buffered})
	check(t, err)
	defer db.Close()
	full := false
	value := bytes.Repeat([]byte("value"), 20_000)
	for i := 0; i < 1000 && !full; i++ {
		key := fmt.Appendf(nil, "log/%04d", i)
		check(t, writing(db, key, value))
		ok, err := db.Has([]byte("log/0000"))
		check(t, err)
		full = !ok
	}
	if !full {
		t.Error("the limit was not reached")
	}
}

func exporting(db *brock.DB) {
	expvar.Publish("brock", expvar.Func(func() any { return db.Metrics() }))
}

func monitoring(dir string, alarm func(string, error)) (*brock.DB, error) {
	db, err := brock.Open(brock.Options{
		Dir:    dir,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Events: brock.Events{
			BackgroundError: func(err error) { alarm("writes have stopped", err) },
			DiskSpace:       func(s brock.DiskSpaceInfo) { alarm("disk full", s.Err) },
			LongReader:      func(r brock.ReaderInfo) { alarm("long transaction", errors.New(r.Begun)) },
		},
	})
	return db, err
}

func TestMonitoring(t *testing.T) {
	db, err := monitoring(t.TempDir(), func(what string, err error) { t.Error(what, err) })
	check(t, err)
	defer db.Close()
	check(t, db.Set([]byte("k"), []byte("v")))
	exporting(db)
	if s := expvar.Get("brock").String(); !strings.Contains(s, `"Commits":1`) {
		t.Errorf("expvar shows %s", s)
	}
	if s := db.Metrics().String(); !strings.Contains(s, "commits               1\n") {
		t.Errorf("the report is\n%s", s)
	}
}

func copying(dir, backup string) error {
	db, err := brock.Open(brock.Options{Dir: dir, Mode: brock.ReadOnly})
	if err != nil {
		return err
	}
	defer db.Close() // until then nobody can open the store for writing
	if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
		return err
	}
	return nil
}

func backingUp(ctx context.Context, db *brock.DB, fullPath string, increment *bytes.Buffer, change func()) error {
	full, err := os.Create(fullPath)
	if err != nil {
		return err
	}
	info, err := db.Backup(ctx, full, brock.BackupOptions{Compress: true})
	if err != nil {
		return err
	}
	change()
	info, err = db.Backup(ctx, increment, brock.BackupOptions{Since: info})
	if err != nil {
		return err
	}
	if !info.Incremental {
		return errors.New("no increment")
	}
	return full.Close()
}

func restoring(ctx context.Context, full, increment io.Reader, dir string) error {
	_, err := brock.Restore(ctx, io.MultiReader(full, increment), brock.Options{Dir: dir})
	if err != nil {
		return err
	}
	return nil
}

func restoreInPlace(ctx context.Context, backup io.Reader, dir string) error {
	fresh := dir + ".restored"
	if err := os.RemoveAll(fresh); err != nil { // what a crash has left here
		return err
	}
	if _, err := brock.Restore(ctx, backup, brock.Options{Dir: fresh}); err != nil {
		return err
	}
	if err := brock.Replace(dir, fresh); err != nil {
		return err
	}
	return os.RemoveAll(fresh) // the old store
}

func TestRestoringInPlace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db, err := brock.Open(brock.Options{Dir: dir})
	check(t, err)
	check(t, db.Set([]byte("a"), []byte("1")))
	var backup bytes.Buffer
	_, err = db.Backup(t.Context(), &backup, brock.BackupOptions{})
	check(t, err)
	check(t, db.Set([]byte("a"), []byte("2")))
	check(t, db.Close())
	check(t, os.MkdirAll(filepath.Join(dir+".restored", "left"), 0o700))
	if err := restoreInPlace(t.Context(), &backup, dir); errors.Is(err, brock.ErrUnsupported) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	db, err = brock.Open(brock.Options{Dir: dir, MustExist: true})
	check(t, err)
	defer db.Close()
	if v, err := db.Get([]byte("a")); string(v) != "1" || err != nil {
		t.Errorf("restored %q, %v", v, err)
	}
	if _, err := os.Stat(dir + ".restored"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old store: %v", err)
	}
}

func TestRestore(t *testing.T) {
	db, err := brock.Open(brock.Options{InMemory: true})
	check(t, err)
	defer db.Close()
	check(t, db.Set([]byte("a"), []byte("1")))
	path, dir := filepath.Join(t.TempDir(), "full"), filepath.Join(t.TempDir(), "new")
	var increment bytes.Buffer
	for _, name := range []string{"users", "orders"} {
		_, err := db.Keyspace(name)
		check(t, err)
	}
	check(t, backingUp(t.Context(), db, path, &increment, func() { check(t, db.Set([]byte("a"), []byte("2"))) }))
	full, err := os.Open(path)
	check(t, err)
	defer full.Close()
	check(t, restoring(t.Context(), full, &increment, dir))
	again, err := brock.Open(brock.Options{Dir: dir, MustExist: true})
	check(t, err)
	defer again.Close()
	if v, err := again.Get([]byte("a")); string(v) != "2" || err != nil {
		t.Errorf("restored %q, %v", v, err)
	}
}

func TestBackup(t *testing.T) {
	dir, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	db, err := brock.Open(brock.Options{Dir: dir})
	check(t, err)
	check(t, db.Set([]byte("small"), []byte("v")))
	check(t, db.Set([]byte("large"), make([]byte, 1<<20)))
	if err := copying(dir, backup); !errors.Is(err, brock.ErrLocked) {
		t.Errorf("copying a store in use: %v, want ErrLocked", err)
	}
	check(t, db.Close())
	check(t, copying(dir, backup))

	db, err = brock.Open(brock.Options{Dir: backup, MustExist: true})
	check(t, err)
	defer db.Close()
	check(t, db.Verify(t.Context(), nil))
	if v, err := db.Get([]byte("large")); len(v) != 1<<20 || err != nil {
		t.Errorf("the copy has %d bytes of the large value, %v", len(v), err)
	}
}

// TestComingFromOthers holds what the guide says differs.
func TestComingFromOthers(t *testing.T) {
	db := memory(t)
	for i := range 4 {
		check(t, db.Set(fmt.Appendf(nil, "k%d", i), []byte("v")))
	}
	check(t, db.Update(func(txn *brock.Txn) error {
		it := txn.NewIterator(brock.IteratorOptions{Prefix: []byte("k"), Reverse: true})
		defer it.Close()
		it.Rewind()
		if !it.Valid() || string(it.Item().Key()) != "k3" {
			t.Errorf("Rewind in reverse is at %q, want the last key", it.Item().Key())
		}
		it.Seek([]byte("k2"))
		if !it.Valid() || string(it.Item().Key()) != "k2" {
			t.Errorf("Seek in reverse is at %q, want the key itself", it.Item().Key())
		}
		return nil
	}))
	deleted := 0
	check(t, db.Update(func(txn *brock.Txn) error {
		deleted = 0
		for item, err := range txn.All() {
			check(t, err)
			check(t, txn.Delete(item.Key()))
			check(t, txn.Set(append(item.KeyCopy(nil), 'x'), nil)) // not met by this walk
			deleted++
		}
		return nil
	}))
	if deleted != 4 {
		t.Errorf("%d keys deleted while walking, want 4", deleted)
	}
}

// TestValuesAreReadOnly writes to a value where files are mapped, which faults.
func TestValuesAreReadOnly(t *testing.T) {
	dir := t.TempDir()
	db, err := brock.Open(brock.Options{Dir: dir})
	check(t, err)
	check(t, db.Set([]byte("k"), make([]byte, 1<<20)))
	check(t, db.Close())
	db, err = brock.Open(brock.Options{Dir: dir})
	check(t, err)
	defer db.Close()
	if db.Metrics().Tree.MappedFiles == 0 {
		t.Skip("files are not mapped here")
	}
	faulted, copies := false, false
	check(t, db.View(func(txn *brock.Txn) error {
		item, err := txn.Get([]byte("k"))
		check(t, err)
		value, err := item.Value()
		check(t, err)
		again, err := item.Value()
		check(t, err)
		if copies = &value[0] != &again[0]; copies { // built with brockdebug
			return nil
		}
		faulted = faults(func() { value[0] = 1 })
		return nil
	}))
	if !faulted && !copies {
		t.Error("a value was written to")
	}
}

// faults reports whether fn touches memory that it must not touch.
func faults(fn func()) (faulted bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { faulted = recover() != nil }()
	fn()
	return false
}

func TestSalvage(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	damaged, fresh := filepath.Join(dir, "damaged"), filepath.Join(dir, "fresh")
	db, err := brock.Open(brock.Options{Dir: damaged})
	check(t, err)
	check(t, db.Set([]byte("key"), []byte("value")))
	check(t, db.Close())
	check(t, os.Remove(filepath.Join(damaged, "SUPER")))
	sum, err := brock.Salvage(ctx, brock.Options{Dir: damaged}, brock.Options{Dir: fresh},
		func(c *brock.CorruptionError) {
			log.Printf("%v, keys %q, stale: %v", c, c.Keys, c.Stale)
		})
	if err != nil || sum.Keys != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
}

// An upload and its index entry appear together, and the content is read back.
func TestFilesAndBlobs(t *testing.T) {
	db := memory(t)
	var w bytes.Buffer
	content := strings.Repeat("content ", 300_000)
	check(t, keepFile(t.Context(), db, strings.NewReader(content), &w))
	if w.String() != content {
		t.Errorf("%d bytes were read, %d were written", w.Len(), len(content))
	}
}

func keepFile(ctx context.Context, db *brock.DB, body io.Reader, w io.Writer) error {
	files, err := objects.Open(db, "files", objects.Options{})
	if err != nil {
		return err
	}
	// body is read once. The object and its name in the index appear together.
	_, err = files.Upload(ctx, []byte("a/b.txt"), body, objects.PutOptions{Type: "text/plain"},
		func(txn *brock.Txn, info objects.Info) error { return txn.Set(info.Digest[:], info.Key) })
	if err != nil {
		return err
	}
	return db.View(func(txn *brock.Txn) error {
		o, err := files.Open(txn, []byte("a/b.txt")) // io.Reader, io.ReaderAt, io.Seeker, io.WriterTo
		if err != nil {
			return err
		}
		_, err = io.Copy(w, o.Checked()) // fails at the end if the SHA-256 is wrong
		return err
	})
}
