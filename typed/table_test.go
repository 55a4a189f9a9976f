package typed_test

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/typed"
	"github.com/brockdb/brock/vfs"
)

type user struct {
	Name  string
	Mail  string
	Towns []string
	Born  int64
}

var towns = []string{"", "Berlin", "Bern", "Berlin\x00", "Bonn", "Romé", "Oslo"}

// users is a table with indexes of each kind.
type users struct {
	table  *typed.Table[uint64, user]
	byMail *typed.Index[string, uint64, user]
	byTown *typed.Index[string, uint64, user]
	byBorn *typed.Index[typed.Two[int64, string], uint64, user]
}

func newUsers(ks *brock.Keyspace) *users {
	u := &users{table: typed.NewTable(ks, "users", typed.Uint64, typed.JSON[user]())}
	u.byMail = typed.NewUnique(u.table, "mail", typed.String, mails)
	u.byTown = typed.NewIndex(u.table, "town", typed.String, func(u *user) []string { return u.Towns })
	u.byBorn = typed.NewIndex(u.table, "born", typed.Pair(typed.Int64, typed.String), func(u *user) []typed.Two[int64, string] {
		return []typed.Two[int64, string]{{First: u.Born, Second: u.Name}}
	})
	return u
}

// mails is no value for a user without a mail.
func mails(u *user) []string {
	if u.Mail == "" {
		return nil
	}
	return []string{u.Mail}
}

func drawUser(r *rand.Rand) *user {
	u := &user{Name: fmt.Sprint("n", r.IntN(5)), Born: int64(r.IntN(5) - 2)}
	if r.IntN(3) > 0 {
		u.Mail = fmt.Sprint("m", r.IntN(60))
	}
	for range r.IntN(4) {
		u.Towns = append(u.Towns, towns[r.IntN(len(towns))])
	}
	return u
}

func memory(t testing.TB) (*brock.DB, *brock.Keyspace) {
	t.Helper()
	db := assert.Must(brock.Open(brock.Options{InMemory: true}))
	t.Cleanup(func() { assert.OK(t, db.Close()) })
	return db, assert.Must(db.Keyspace("tables"))
}

// collect shows the rows of a walk in a line each.
func collect(seq iter.Seq2[typed.Row[uint64, user], error]) (list []string) {
	for row, err := range seq {
		if err != nil {
			return append(list, err.Error())
		}
		list = append(list, fmt.Sprintf("%d %+v", row.Key, *row.Record))
	}
	return list
}

// checkUsers: the table has the records of the model, and each index what the model says, in order,
// forward and backward.
func checkUsers(t *testing.T, db *brock.DB, u *users, model map[uint64]user) {
	t.Helper()
	show := func(k uint64) string { return fmt.Sprintf("%d %+v", k, model[k]) }
	type entry[V any] struct {
		value V
		key   uint64
	}
	var all []string
	var byTown []entry[string]
	var byBorn []entry[typed.Two[int64, string]]
	mailsOf := map[string]uint64{}
	for _, k := range slices.Sorted(maps.Keys(model)) {
		r := model[k]
		all = append(all, show(k))
		for _, town := range slices.Compact(slices.Sorted(slices.Values(r.Towns))) {
			byTown = append(byTown, entry[string]{town, k})
		}
		byBorn = append(byBorn, entry[typed.Two[int64, string]]{typed.Two[int64, string]{First: r.Born, Second: r.Name}, k})
		if r.Mail != "" {
			mailsOf[r.Mail] = k
		}
	}
	slices.SortStableFunc(byTown, func(a, b entry[string]) int { return strings.Compare(a.value, b.value) })
	slices.SortStableFunc(byBorn, func(a, b entry[typed.Two[int64, string]]) int {
		if a.value.First != b.value.First {
			return int(a.value.First - b.value.First)
		}
		return strings.Compare(a.value.Second, b.value.Second)
	})
	townRows := func(take func(town string) bool) (list []string) {
		for _, e := range byTown {
			if take(e.value) {
				list = append(list, show(e.key))
			}
		}
		return list
	}
	bornRows := func(take func(v typed.Two[int64, string]) bool) (list []string) {
		for _, e := range byBorn {
			if take(e.value) {
				list = append(list, show(e.key))
			}
		}
		return list
	}
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		same := func(what string, got, want []string) {
			t.Helper()
			assert.SameText(t, what, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		same("all", collect(u.table.All(txn)), all)
		same("all backward", collect(u.table.Backward().All(txn)), reversed(all))
		every := func(string) bool { return true }
		same("towns", collect(u.byTown.All(txn)), townRows(every))
		same("towns backward", collect(u.byTown.Backward().All(txn)), reversed(townRows(every)))
		for _, town := range towns {
			same("town "+town, collect(u.byTown.Of(txn, town)), townRows(func(v string) bool { return v == town }))
			k, r, err := u.byTown.Get(txn, town) // an index that is not unique has a first record
			if got := collect(u.byTown.Of(txn, town)); len(got) == 0 {
				assert.Error(t, town, err, brock.ErrKeyNotFound)
			} else {
				assert.OK(t, err)
				assert.Equal(t, town, fmt.Sprintf("%d %+v", k, *r), got[0])
			}
			same("towns from "+town, collect(u.byTown.From(txn, town)), townRows(func(v string) bool { return v >= town }))
			same("towns that begin with "+town, collect(u.byTown.Prefix(txn, town)), townRows(func(v string) bool { return strings.HasPrefix(v, town) }))
			for _, hi := range towns {
				same("towns in "+town+" "+hi, collect(u.byTown.Range(txn, town, hi)), townRows(func(v string) bool { return v >= town && v < hi }))
			}
		}
		for born := int64(-3); born < 4; born++ {
			p := typed.Two[int64, string]{First: born}
			same("born", collect(u.byBorn.Prefix(txn, p)), bornRows(func(v typed.Two[int64, string]) bool { return v.First == born }))
			same("born from", collect(u.byBorn.From(txn, p)), bornRows(func(v typed.Two[int64, string]) bool { return v.First >= born }))
		}
		for i := range 60 {
			mail := fmt.Sprint("m", i)
			k, r, err := u.byMail.Get(txn, mail)
			want, ok := mailsOf[mail]
			if !ok {
				assert.Error(t, mail, err, brock.ErrKeyNotFound)
				continue
			}
			assert.OK(t, err)
			assert.Equal(t, mail, fmt.Sprintf("%d %+v", k, *r), show(want))
		}
		return nil
	}))
	checkVerified(t, db, u)
}

func reversed(list []string) []string {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// checkVerified: Verify finds nothing.
func checkVerified(t *testing.T, db *brock.DB, u *users) {
	t.Helper()
	for f, err := range u.table.Verify(t.Context(), db, false) {
		assert.OK(t, err)
		t.Errorf("found %+v", f)
	}
}

// changeAtRandom makes some calls, and tells the model. It returns an error of its own now and then.
func changeAtRandom(t *testing.T, r *rand.Rand, txn *brock.Txn, u *users, model map[uint64]user) error {
	for range 1 + r.IntN(5) {
		k := uint64(r.IntN(80))
		v := drawUser(r)
		_, has := model[k]
		taken := slices.ContainsFunc(slices.Collect(maps.Keys(model)), func(o uint64) bool { return o != k && v.Mail != "" && model[o].Mail == v.Mail })
		var err error
		switch r.IntN(4) {
		case 0:
			assert.OK(t, u.table.Delete(txn, k))
			delete(model, k)
			continue
		case 1:
			if err = u.table.Insert(txn, k, v); has {
				assert.Error(t, "insert", err, typed.ErrExist)
				continue
			}
		default:
			err = u.table.Put(txn, k, v)
		}
		var dup *typed.DuplicateError[uint64]
		switch {
		case taken && (!errors.As(err, &dup) || dup.Table != "users" || dup.Index != "mail" || dup.Key != k || model[dup.Other].Mail != v.Mail):
			t.Fatalf("put of a double mail: %v", err)
		case !taken:
			assert.OK(t, err)
			model[k] = *v
		}
	}
	if r.IntN(5) == 0 {
		return errGivenUp
	}
	return nil
}

var errGivenUp = errors.New("given up")

// TestIndexEqualsTable: whatever transactions do, and wherever power is lost, each index has what
// the table has, and the table what was committed.
func TestIndexEqualsTable(t *testing.T) {
	r := draw.Rand(t)
	fsys := vfs.NewMem()
	options := brock.Options{Dir: "db", FS: fsys, Tuning: brock.Tuning{MemtableSize: 64 << 10}}
	model := map[uint64]user{}
	for range rounds(8) {
		db := assert.Must(brock.Open(options))
		u := newUsers(assert.Must(db.Keyspace("tables")))
		checkUsers(t, db, u, model)
		for i := range 60 {
			next := maps.Clone(model)
			o := brock.TxnOptions{Isolation: brock.Isolation(r.IntN(2))}
			err := db.UpdateContext(t.Context(), o, func(txn *brock.Txn) error { return changeAtRandom(t, r, txn, u, next) })
			if err == nil {
				model = next
			} else if !errors.Is(err, errGivenUp) {
				t.Fatal(err)
			}
			if i%20 == 0 {
				assert.OK(t, db.Flush(t.Context()))
			}
		}
		checkUsers(t, db, u, model)
		// The power is lost; the store that was open goes on with the old disk, to its end.
		fsys = fsys.CrashClone(vfs.CrashOptions{Mode: vfs.CrashMode(r.IntN(4)), Seed: r.Uint64()})
		options.FS = fsys
		assert.OK(t, db.Close())
	}
}

// TestPrefixes: a prefix of a tuple is its first elements, not its first bytes.
func TestPrefixes(t *testing.T) {
	db, ks := memory(t)
	table := typed.NewTable(ks, "t", typed.Tuple, typed.JSON[int]())
	keys := [][]any{{"a"}, {"a", int64(1)}, {"a", nil}, {"a\x00b"}, {"ab"}, {nil, "a"}, {}}
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		for i, k := range keys {
			assert.OK(t, table.Put(txn, k, &i))
		}
		show := func(p []any) (list []int) {
			for row, err := range table.Prefix(txn, p) {
				assert.OK(t, err)
				list = append(list, *row.Record)
			}
			return list
		}
		for _, c := range []struct {
			p    []any
			want string
		}{{[]any{"a"}, "[0 2 1]"}, {[]any{"a", nil}, "[2]"}, {[]any{}, "[6 5 0 2 1 3 4]"}, {[]any{nil}, "[5]"}, {[]any{"a\x00b"}, "[3]"}, {[]any{"c"}, "[]"}} {
			assert.Equal(t, fmt.Sprint(c.p), fmt.Sprint(show(c.p)), c.want)
		}
		return nil
	}))
	// A prefix of bytes goes on with any byte.
	raw := typed.NewTable(ks, "raw", typed.Bytes, typed.JSON[int]())
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		for i, k := range []string{"a", "a\x00", "a\xff", "a\xff\xff", "b", ""} {
			assert.OK(t, raw.Put(txn, []byte(k), &i))
		}
		show := ""
		for row, err := range raw.Backward().Prefix(txn, []byte("a\xff")) {
			assert.OK(t, err)
			show += fmt.Sprintf("%q ", row.Key)
		}
		assert.Equal(t, "prefix", show, `"a\xff\xff" "a\xff" `)
		return nil
	}))
	users := newUsers(ks)
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		assert.Equal(t, "a new table", len(collect(users.table.Prefix(txn, 7))), 0)
		return nil
	}))
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		assert.OK(t, users.table.Put(txn, 7, &user{}))
		for _, err := range users.table.Prefix(txn, 7) {
			assert.Error(t, "prefix of a number", err, brock.ErrInvalid)
		}
		return nil
	}))
}

// TestKeyBytes: the keys are the tuples that docs/format.md tells of.
func TestKeyBytes(t *testing.T) {
	db, ks := memory(t)
	u := newUsers(ks)
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		return u.table.Put(txn, 7, &user{Name: "ann", Mail: "a@b", Towns: []string{"Bonn"}, Born: -1})
	}))
	var b strings.Builder
	assert.OK(t, ks.View(func(txn *brock.Txn) error {
		for item, err := range txn.All() {
			assert.OK(t, err)
			fmt.Fprintf(&b, "%x %s\n", item.Key(), assert.Must(item.Value()))
		}
		return nil
	}))
	name := "027573657273" + "00"
	want := name + `14 {"parts":{"index \"born\"":"(int64 string), unique false, version 0","index \"mail\"":"string, unique true, version 0","index \"town\"":"string, unique false, version 0","key codec":"uint64","record codec":"json"},"numbers":{"born":2,"mail":0,"town":1},"next":3}` + "\n" +
		name + `1501` + `1507 {"Name":"ann","Mail":"a@b","Towns":["Bonn"],"Born":-1}` + "\n" +
		name + `1502` + `14` + "0261406200" + " \x15\x07\n" +
		name + `1502` + `1501` + "02426f6e6e00" + "1507 \n" +
		name + `1502` + `1502` + "13fe" + "02616e6e00" + "1507 \n"
	assert.SameText(t, "the keyspace", b.String(), want)
}

// TestHugeKeys: what is too large for a key of the store is refused as a whole, and the transaction
// goes on.
func TestHugeKeys(t *testing.T) {
	db, ks := memory(t)
	table := typed.NewTable(ks, "t", typed.String, typed.JSON[string]())
	byText := typed.NewIndex(table, "text", typed.String, func(r *string) []string { return []string{*r} })
	long := func(n int) string { return strings.Repeat("x", n) }
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		text := "short"
		assert.Error(t, "key", table.Put(txn, long(brock.MaxKeySize), &text), brock.ErrKeyTooLarge)
		text = long(brock.MaxKeySize - 100)
		assert.Error(t, "entry", table.Put(txn, long(200), &text), brock.ErrKeyTooLarge)
		assert.Error(t, "nothing of it", assert.ErrorOf(table.Get(txn, long(200))), brock.ErrKeyNotFound)
		return table.Put(txn, "k", &text)
	}))
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		n := 0
		for row, err := range byText.Prefix(txn, long(brock.MaxKeySize-200)) {
			assert.OK(t, err)
			assert.Equal(t, "key", row.Key, "k")
			n++
		}
		assert.Equal(t, "rows", n, 1)
		return nil
	}))
}

// TestRefusedPutLeavesTheTransactionUsable: a Put that is refused has written nothing, so a commit
// after it has no half of it.
func TestRefusedPutLeavesTheTransactionUsable(t *testing.T) {
	db, ks := memory(t)
	u := newUsers(ks)
	model := map[uint64]user{1: {Name: "a", Mail: "m1"}, 2: {Name: "b", Mail: "m2", Towns: []string{"Bonn"}}}
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		for k, v := range model {
			assert.OK(t, u.table.Put(txn, k, &v))
		}
		assert.Error(t, "a double mail", u.table.Put(txn, 2, &user{Mail: "m1", Towns: []string{"Oslo"}}), typed.ErrDuplicate)
		assert.Error(t, "insert", u.table.Insert(txn, 2, &user{}), typed.ErrExist)
		assert.Error(t, "nil", u.table.Put(txn, 2, nil), brock.ErrInvalid)
		return nil
	}))
	checkUsers(t, db, u, model)
	// Two records may swap their values, by way of none.
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		assert.OK(t, u.table.Put(txn, 1, &user{}))
		assert.OK(t, u.table.Put(txn, 2, &user{Mail: "m1"}))
		return u.table.Put(txn, 1, &user{Mail: "m2"})
	}))
	checkUsers(t, db, u, map[uint64]user{1: {Mail: "m2"}, 2: {Mail: "m1"}})
}

type binary struct{ v []byte }

func (b *binary) MarshalBinary() ([]byte, error) { return b.v, nil }
func (b *binary) UnmarshalBinary(p []byte) error { b.v = bytes.Clone(p); return nil }

// TestBinary: records make their own bytes, none included.
func TestBinary(t *testing.T) {
	db, ks := memory(t)
	table := typed.NewTable(ks, "t", typed.UUID, typed.Binary[binary]())
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		assert.OK(t, table.Put(txn, [16]byte{1}, &binary{[]byte("x")}))
		return table.Put(txn, [16]byte{}, &binary{})
	}))
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		assert.Equal(t, "record", string(assert.Must(table.Get(txn, [16]byte{1})).v), "x")
		assert.Equal(t, "empty record", len(assert.Must(table.Get(txn, [16]byte{})).v), 0)
		return nil
	}))
}
