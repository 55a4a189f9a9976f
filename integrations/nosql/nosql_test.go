package brocknosql

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/smallstep/nosql"
	"github.com/smallstep/nosql/database"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
)

var (
	_ database.DB     = (*DB)(nil)
	_ nosql.Compactor = (*DB)(nil)
)

func open(t testing.TB) *DB {
	t.Helper()
	db := new(DB)
	assert.OK(t, db.Open(t.TempDir()))
	t.Cleanup(func() { assert.OK(t, db.Close()) })
	return db
}

var users, mike = []byte("users"), []byte("mike")

func wantNotFound(t *testing.T, what string, err error) {
	t.Helper()
	if !nosql.IsErrNotFound(err) {
		t.Errorf("%s: %v", what, err)
	}
}

func want(t *testing.T, db *DB, key, value string) {
	t.Helper()
	got, err := db.Get(users, []byte(key))
	if err != nil || got == nil || string(got) != value {
		t.Errorf("%q has %q (nil: %v), %v; want %q", key, got, got == nil, err, value)
	}
}

// TestBehaviour is what the drivers of nosql have in common.
func TestBehaviour(t *testing.T) {
	db := open(t)
	wantNotFound(t, "DeleteTable", db.DeleteTable(users))
	for what, err := range map[string]error{
		"Get": assert.ErrorOf(db.Get(users, mike)), "Set": db.Set(users, mike, nil), "Del": db.Del(users, mike),
		"List": assert.ErrorOf(db.List(users)), "CmpAndSwap": func() error { _, _, err := db.CmpAndSwap(users, mike, nil, nil); return err }(),
	} {
		wantNotFound(t, what+" without a table", err)
	}
	assert.OK(t, db.CreateTable(users))
	assert.OK(t, db.Set(users, mike, []byte("malone")))
	assert.OK(t, db.CreateTable(users)) // stays as it is
	want(t, db, "mike", "malone")
	for _, value := range [][]byte{{}, nil} {
		assert.OK(t, db.Set(users, mike, value))
		want(t, db, "mike", "")
	}
	assert.OK(t, db.Del(users, mike))
	assert.OK(t, db.Del(users, mike)) // absent
	wantNotFound(t, "Get after Del", assert.ErrorOf(db.Get(users, mike)))

	for _, name := range []string{"test-special-char", "a/b", "\x00", "usersx", string(make([]byte, 65535))} {
		table := []byte(name)
		assert.OK(t, db.CreateTable(table))
		assert.OK(t, db.Set(table, mike, []byte("of another table")))
		if entries, err := db.List(table); err != nil || len(entries) != 1 || !bytes.Equal(entries[0].Bucket, table) {
			t.Errorf("table of %d bytes: %v, %v", len(name), entries, err)
		}
		if entries, err := db.List(users); err != nil || len(entries) != 0 {
			t.Errorf("table users: %v, %v", entries, err)
		}
		assert.OK(t, db.DeleteTable(table))
		wantNotFound(t, "List", assert.ErrorOf(db.List(table)))
		assert.OK(t, db.CreateTable(table)) // it is empty again
		wantNotFound(t, "Get", assert.ErrorOf(db.Get(table, mike)))
	}
}

// TestCompareAndSwap: nil, empty and other old values.
func TestCompareAndSwap(t *testing.T) {
	db := open(t)
	assert.OK(t, db.CreateTable(users))
	for i, step := range []struct {
		old, new string
		value    string
		swapped  bool
	}{
		{"x", "1", "", false},
		{"", "1", "1", true},
		{"", "2", "1", false},
		{"1", "2", "2", true},
		{"2", "2", "2", true},
		{"2", "", "", true},
		{"", "3", "3", true}, // an empty value equals nil, as in other drivers
	} {
		var old []byte
		if step.old != "" {
			old = []byte(step.old)
		}
		value, swapped, err := db.CmpAndSwap(users, mike, old, []byte(step.new))
		if err != nil || string(value) != step.value || swapped != step.swapped {
			t.Errorf("step %d: %q, %v, %v", i, value, swapped, err)
		}
	}
	// Who swaps has won alone, and nobody gets a conflict.
	var all sync.WaitGroup
	assert.OK(t, db.Set(users, mike, []byte{0, 0}))
	for range 8 {
		all.Go(func() {
			for n := 0; n < 25; {
				current, err := db.Get(users, mike)
				if err != nil {
					t.Error(err)
					return
				}
				next := bytes.Clone(current)
				if next[1]++; next[1] == 0 {
					next[0]++
				}
				_, swapped, err := db.CmpAndSwap(users, mike, current, next)
				if err != nil {
					t.Error(err)
					return
				}
				if swapped {
					n++
				}
			}
		})
	}
	all.Wait()
	want(t, db, "mike", string([]byte{0, 200}))
}

// TestUpdate: operations see those before them, and all are committed or none.
func TestUpdate(t *testing.T) {
	db := open(t)
	assert.OK(t, db.CreateTable(users))
	read := &database.TxEntry{Cmd: database.Get, Bucket: users, Key: mike}
	cas := func(old, new string) *database.TxEntry {
		return &database.TxEntry{Cmd: database.CmpAndSwap, Bucket: users, Key: mike, CmpValue: []byte(old), Value: []byte(new)}
	}
	cas1, cas2, cas3 := cas("1", "2"), cas("2", "3"), cas("2", "4")
	tx := new(database.Tx)
	tx.Set(users, mike, []byte("1"))
	tx.Operations = append(tx.Operations, read, cas1, cas2, cas3)
	tx.CreateTable([]byte("new"))
	tx.Set([]byte("new"), mike, []byte("n"))
	tx.Del(users, []byte("nobody"))
	assert.OK(t, db.Update(tx))
	want(t, db, "mike", "3")
	if string(read.Result) != "1" || !cas1.Swapped || !cas2.Swapped || cas3.Swapped || string(cas3.Result) != "3" {
		t.Errorf("results %+v %+v %+v %+v", read, cas1, cas2, cas3)
	}
	if got, err := db.Get([]byte("new"), mike); err != nil || string(got) != "n" {
		t.Errorf("in the new table: %q, %v", got, err)
	}

	for what, last := range map[string]*database.TxEntry{
		"absent key":     {Cmd: database.Get, Bucket: users, Key: []byte("nobody")},
		"absent table":   {Cmd: database.Set, Bucket: []byte("nothing"), Key: mike},
		"dropped table":  {Cmd: database.Delete, Bucket: []byte("new"), Key: mike},
		"dropped twice":  {Cmd: database.DeleteTable, Bucket: []byte("new")},
		"not supported":  {Cmd: database.CmpOrRollback, Bucket: users, Key: mike, Value: []byte("3")},
		"unknown":        {Cmd: 77, Bucket: users, Key: mike},
		"empty key":      {Cmd: database.Set, Bucket: users},
		"name too long":  {Cmd: database.CreateTable, Bucket: make([]byte, 65536)},
		"empty name":     {Cmd: database.CreateTable},
		"key of no name": {Cmd: database.CmpAndSwap, Key: mike},
	} {
		tx := new(database.Tx)
		tx.Set(users, mike, []byte("not committed"))
		tx.DeleteTable([]byte("new"))
		tx.Operations = append(tx.Operations, last)
		if err := db.Update(tx); err == nil {
			t.Errorf("%s: no error", what)
		} else if last.Cmd == database.CmpOrRollback && !nosql.IsErrOpNotSupported(err) {
			t.Errorf("%s: %v", what, err)
		}
		want(t, db, "mike", "3")
		if _, err := db.List([]byte("new")); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	assert.OK(t, db.Update(new(database.Tx)))
}

// TestAsBolt runs the same random operations on nosql's own driver for bbolt and compares all that is
// returned.
func TestAsBolt(t *testing.T) {
	rng := draw.Rand(t)
	other, err := nosql.New("bbolt", filepath.Join(t.TempDir(), "bolt"))
	assert.OK(t, err)
	defer other.Close()
	drivers := []database.DB{open(t), other}
	tables := [][]byte{[]byte("a"), []byte("ab"), []byte("b")}
	for _, db := range drivers {
		for _, table := range tables {
			assert.OK(t, db.CreateTable(table))
		}
	}
	steps := 1500
	if testing.Short() {
		steps = 300
	}
	for i := range steps {
		do := randomStep(rng, tables)
		if got, want := do(drivers[0]), do(drivers[1]); got != want {
			t.Fatalf("step %d: got\n%s\nwant\n%s", i, got, want)
		}
	}
}

// randomStep returns a step that does something to a database, and describes what was returned.
func randomStep(rng *rand.Rand, tables [][]byte) func(db database.DB) string {
	text := func(n int) []byte { return []byte(fmt.Sprint(rng.IntN(n))) }
	table, key, value, old := tables[rng.IntN(len(tables))], text(5), text(3), text(3)
	if rng.IntN(3) == 0 {
		old = nil
	}
	class := func(err error) string {
		if err == nil {
			return "ok"
		}
		return fmt.Sprint("not found: ", nosql.IsErrNotFound(err))
	}
	switch rng.IntN(8) {
	case 0:
		return func(db database.DB) string { return "set " + class(db.Set(table, key, value)) }
	case 1:
		return func(db database.DB) string { return "del " + class(db.Del(table, key)) }
	case 2:
		return func(db database.DB) string {
			got, err := db.Get(table, key)
			return fmt.Sprintf("get %q %s", got, class(err))
		}
	case 3:
		return func(db database.DB) string {
			got, swapped, err := db.CmpAndSwap(table, key, old, value)
			return fmt.Sprintf("cas %q %v %s", got, swapped, class(err))
		}
	case 4:
		return func(db database.DB) string {
			entries, err := db.List(table)
			s := "list " + class(err)
			for _, e := range entries {
				s += fmt.Sprintf(" %s/%s=%q", e.Bucket, e.Key, e.Value)
			}
			return s
		}
	case 5:
		return func(db database.DB) string {
			err := db.DeleteTable(table)
			none := assert.ErrorOf(db.List(table))
			return "table " + class(err) + class(db.DeleteTable(table)) + class(none) + class(db.CreateTable(table))
		}
	}
	template := make([]database.TxEntry, rng.IntN(6))
	for i := range template {
		cmds := []database.TxCmd{database.Get, database.Set, database.Delete, database.CmpAndSwap, database.CreateTable}
		template[i] = database.TxEntry{Cmd: cmds[rng.IntN(len(cmds))], Bucket: tables[rng.IntN(len(tables))], Key: text(5), Value: text(3), CmpValue: old}
	}
	return func(db database.DB) string {
		tx := new(database.Tx)
		for _, e := range template {
			tx.Operations = append(tx.Operations, &e)
		}
		err := db.Update(tx)
		s := "update " + class(err)
		if err == nil {
			for _, q := range tx.Operations {
				s += fmt.Sprintf(" %v %q %v", q.Cmd, q.Result, q.Swapped)
			}
		}
		return s
	}
}

// TestLifetime: calls before Open and after Close return an error, Open may follow Close, and what was
// committed is there then.
func TestLifetime(t *testing.T) {
	dir := t.TempDir()
	db := new(DB)
	closed := func() {
		t.Helper()
		for what, err := range map[string]error{
			"Get": assert.ErrorOf(db.Get(users, mike)), "Set": db.Set(users, mike, nil), "Del": db.Del(users, mike),
			"List": assert.ErrorOf(db.List(users)), "CreateTable": db.CreateTable(users), "DeleteTable": db.DeleteTable(users),
			"Update": db.Update(new(database.Tx)), "Compact": db.Compact(0.5),
			"CmpAndSwap": func() error { _, _, err := db.CmpAndSwap(users, mike, nil, nil); return err }(),
		} {
			if !errors.Is(err, brock.ErrClosed) {
				t.Errorf("%s: %v", what, err)
			}
		}
		assert.OK(t, db.Close())
	}
	closed()
	assert.OK(t, db.Open(dir, nosql.WithValueDir(dir+"/."), nosql.WithDatabase("ignored"), nosql.WithBadgerFileLoadingMode("mmap")))
	if err := db.Open(dir); !errors.Is(err, brock.ErrInvalid) {
		t.Errorf("second Open: %v", err)
	}
	assert.OK(t, db.CreateTable(users))
	assert.OK(t, db.Set(users, mike, []byte("1")))
	assert.OK(t, db.Compact(0.5))
	if err := new(DB).Open(dir); !errors.Is(err, brock.ErrLocked) {
		t.Errorf("Open of a store that is open: %v", err)
	}
	assert.OK(t, db.Close())
	closed()
	assert.OK(t, db.Open(dir))
	want(t, db, "mike", "1")
	shared := New(db.Store(), nil)
	want(t, shared, "mike", "1")
	assert.OK(t, shared.Close())
	want(t, db, "mike", "1")
	assert.OK(t, db.Close())

	values := t.TempDir()
	split := &DB{Options: brock.Options{Durability: brock.Buffered}}
	assert.OK(t, split.Open(t.TempDir(), nosql.WithValueDir(values)))
	assert.OK(t, split.CreateTable(users))
	if names, err := os.ReadDir(values); err != nil || len(names) == 0 {
		t.Errorf("nothing in the directory of values: %v", err)
	}
	assert.OK(t, split.Close())
	if err := new(DB).Open(dir, func(*database.Options) error { return os.ErrInvalid }); err != os.ErrInvalid {
		t.Errorf("an option that fails: %v", err)
	}
}

// TestBytes: the caller may use again what it passes in, and write to what it gets.
func TestBytes(t *testing.T) {
	db := open(t)
	assert.OK(t, db.CreateTable(users))
	for _, n := range []int{1, 512, 1 << 20} {
		value := bytes.Repeat([]byte{'v'}, n)
		kept := string(value)
		assert.OK(t, db.Set(users, mike, value))
		clear(value)
		got, err := db.Get(users, mike)
		assert.OK(t, err)
		clear(got)
		entries, err := db.List(users)
		assert.OK(t, err)
		clear(entries[0].Value)
		clear(entries[0].Key)
		clear(entries[0].Bucket)
		want(t, db, "mike", kept)
	}
}

// TestPowerLoss: what was committed is there, whole, after a power loss at any moment.
func TestPowerLoss(t *testing.T) {
	for range 20 {
		disk := vfs.NewMem()
		db := &DB{Options: brock.Options{FS: disk}}
		assert.OK(t, db.Open("d"))
		assert.OK(t, db.CreateTable(users))
		for i := range 30 {
			tx := new(database.Tx)
			tx.Set(users, []byte(fmt.Sprint("one", i)), []byte("v"))
			tx.Set(users, []byte(fmt.Sprint("two", i)), make([]byte, 1000))
			assert.OK(t, db.Update(tx))
		}
		crashed := &DB{Options: brock.Options{FS: disk.CrashClone(vfs.CrashOptions{Mode: vfs.Chaos, Seed: draw.Seed(t)})}}
		assert.OK(t, db.Close())
		assert.OK(t, crashed.Open("d"))
		if entries, err := crashed.List(users); err != nil || len(entries) != 60 {
			t.Errorf("%d entries, %v", len(entries), err)
		}
		assert.OK(t, crashed.Close())
	}
}

// TestFullDisk: a write is refused and harms nothing; deletes go on, and then writes.
func TestFullDisk(t *testing.T) {
	disk := vfs.NewMem()
	disk.SetCapacity(16 << 20)
	db := &DB{Options: brock.Options{FS: disk, MemoryLimit: 4 << 20, Tuning: brock.Tuning{SegmentSize: 1 << 20}}}
	assert.OK(t, db.Open("d"))
	defer db.Close()
	assert.OK(t, db.CreateTable(users))
	assert.OK(t, db.Set(users, mike, []byte("v")))
	var err error
	for i := 0; err == nil; i++ {
		err = db.Set(users, []byte(fmt.Sprint(i)), make([]byte, 64<<10))
	}
	if !errors.Is(err, brock.ErrNoSpace) {
		t.Fatal(err)
	}
	want(t, db, "mike", "v")
	assert.OK(t, db.DeleteTable(users))
	assert.OK(t, db.Compact(0.5))
	assert.OK(t, db.CreateTable(users))
	assert.OK(t, db.Set(users, mike, make([]byte, 64<<10)))
}

// TestConcurrent uses everything at once, for the race detector, and closes the DB meanwhile.
func TestConcurrent(t *testing.T) {
	db := open(t)
	var all sync.WaitGroup
	many := make(chan struct{})
	for n := range 4 {
		all.Go(func() {
			for i := 0; ; i++ {
				if n == 0 && i == 50 {
					close(many)
				}
				if err := useAll(db, []byte(fmt.Sprint(i%3))); err != nil {
					if !errors.Is(err, brock.ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	<-many
	assert.OK(t, db.Close())
	all.Wait()
}

func useAll(db *DB, key []byte) error {
	_, _, casErr := db.CmpAndSwap(users, key, nil, []byte("v"))
	tx := new(database.Tx)
	tx.Set(users, key, []byte("w"))
	tx.Del(users, key)
	for _, err := range []error{
		db.CreateTable(users), casErr, db.Set(users, key, []byte("v")), assert.ErrorOf(db.Get(users, key)),
		assert.ErrorOf(db.List(users)), db.Update(tx), db.DeleteTable(users),
	} {
		if err != nil && !nosql.IsErrNotFound(err) {
			return err
		}
	}
	return nil
}
