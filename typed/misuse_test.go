package typed_test

import (
	"errors"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/typed"
)

// TestMisuse: wrong use is an error that says so, and never a panic.
func TestMisuse(t *testing.T) {
	db, ks := memory(t)
	record := typed.JSON[user]()
	expiring := assert.Must(db.Keyspace("expiring", brock.KeyspaceOptions{TTL: time.Hour}))
	twice := typed.NewTable(ks, "twice", typed.Uint64, record)
	none := func(*user) []string { return nil }
	typed.NewIndex(twice, "x", typed.String, none)
	typed.NewIndex(twice, "x", typed.String, none).WithVersion(3)
	nameless := typed.NewTable(ks, "nameless", typed.Uint64, record)
	typed.NewIndex(nameless, "", typed.String, none)
	functionless := typed.NewTable(ks, "functionless", typed.Uint64, record)
	typed.NewUnique[string](functionless, "x", typed.String, nil).WithVersion(1)
	for what, table := range map[string]*typed.Table[uint64, user]{
		"no keyspace":               typed.NewTable(nil, "a", typed.Uint64, record),
		"no name":                   typed.NewTable(ks, "", typed.Uint64, record),
		"no key codec":              typed.NewTable[uint64, user](ks, "a", nil, record),
		"no record codec":           typed.NewTable[uint64, user](ks, "a", typed.Uint64, nil),
		"a time to live":            typed.NewTable(expiring, "a", typed.Uint64, record),
		"an index twice":            twice,
		"an index without a name":   nameless,
		"an index without function": functionless,
		"zero":                      {},
	} {
		assert.OK(t, db.Update(func(txn *brock.Txn) error {
			assert.Error(t, what, table.Put(txn, 1, &user{}), brock.ErrInvalid)
			assert.Error(t, what, table.Delete(txn, 1), brock.ErrInvalid)
			assert.Error(t, what, table.Check(txn), brock.ErrInvalid)
			assert.Error(t, what, assert.ErrorOf(table.Get(txn, 1)), brock.ErrInvalid)
			for _, err := range table.All(txn) {
				assert.Error(t, what, err, brock.ErrInvalid)
			}
			return nil
		}))
		assert.Error(t, what, table.Rebuild(t.Context(), db), brock.ErrInvalid)
		for _, err := range table.Verify(t.Context(), db, true) {
			assert.Error(t, what, err, brock.ErrInvalid)
		}
	}

	u := newUsers(ks)
	assert.Error(t, "no transaction", u.table.Put(nil, 1, &user{}), brock.ErrInvalid)
	assert.Error(t, "zero transaction", u.table.Put(new(brock.Txn), 1, &user{}), brock.ErrTxnDone)
	assert.Error(t, "no store", u.table.Rebuild(t.Context(), nil), brock.ErrInvalid)
	other, _ := memory(t)
	assert.Error(t, "another store", u.table.Rebuild(t.Context(), other), brock.ErrInvalid)
	assert.Error(t, "another store", other.Update(func(txn *brock.Txn) error { return u.table.Put(txn, 1, &user{}) }), brock.ErrInvalid)
	assert.Error(t, "a read-only transaction", db.View(func(txn *brock.Txn) error { return u.table.Put(txn, 1, &user{}) }), brock.ErrReadOnly)
	assert.OK(t, db.Update(func(txn *brock.Txn) error { return u.table.Put(txn, 1, &user{Towns: []string{"a", "b"}}) }))

	late := typed.NewIndex(u.table, "late", typed.String, none)
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		for _, err := range late.All(txn) {
			assert.Error(t, "a late index", err, brock.ErrInvalid)
		}
		for _, err := range u.byTown.WithVersion(4).All(txn) {
			assert.Error(t, "a late version", err, brock.ErrInvalid)
		}
		var zero typed.Index[string, uint64, user]
		for _, err := range zero.WithVersion(1).All(txn) {
			assert.Error(t, "a zero index", err, brock.ErrInvalid)
		}
		for range u.byTown.All(txn) {
			break // a loop may be left
		}
		return nil
	}))

	var done *brock.Txn
	assert.OK(t, db.View(func(txn *brock.Txn) error { done = txn; return nil }))
	assert.Error(t, "an ended transaction", assert.ErrorOf(u.table.Get(done, 1)), brock.ErrTxnDone)

	// A panic of an index function is the caller's, and the transaction is gone.
	bad := typed.NewTable(ks, "bad", typed.Uint64, record)
	typed.NewIndex(bad, "x", typed.String, func(u *user) []string { panic("mine") })
	func() {
		defer func() { assert.Equal(t, "panic", recover(), any("mine")) }()
		_ = db.Update(func(txn *brock.Txn) error { return bad.Put(txn, 1, &user{}) })
	}()
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		assert.Error(t, "after a panic", assert.ErrorOf(bad.Get(txn, 1)), brock.ErrKeyNotFound)
		return nil
	}))
}

// TestStrangeBytes: what others have written into a table is an error or a finding.
func TestStrangeBytes(t *testing.T) {
	db, ks := memory(t)
	u := newUsers(ks)
	put := func(key, value string) {
		assert.OK(t, ks.Set([]byte(key), []byte(value)))
	}
	const name = "\x02users\x00"
	assert.OK(t, db.Update(func(txn *brock.Txn) error { return u.table.Put(txn, 1, &user{}) }))
	put(name+"\x15\x01\x15\x02", "no JSON")
	put(name+"\x15\x01\x02no number\x00", "{}")
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		assert.Error(t, "get", assert.ErrorOf(u.table.Get(txn, 2)), typed.ErrDecode)
		assert.Error(t, "put", u.table.Put(txn, 2, &user{}), typed.ErrDecode)
		var last error
		for _, err := range u.table.All(txn) {
			last = err
		}
		assert.Error(t, "all", last, typed.ErrDecode)
		return nil
	}))
	var kinds []typed.FindingKind
	for f, err := range u.table.Verify(t.Context(), db, true) {
		assert.OK(t, err)
		kinds = append(kinds, f.Kind)
	}
	assert.Equal(t, "findings", len(kinds), 2)
	assert.Equal(t, "kind", kinds[0], typed.Unreadable)
	assert.Error(t, "rebuild", declareNew(ks).table.Rebuild(t.Context(), db), typed.ErrDecode)
	put(name+"\x14", "no declaration")
	err := db.View(func(txn *brock.Txn) error { return u.table.Check(txn) })
	if !errors.Is(err, typed.ErrDecode) || errors.Is(err, typed.ErrDeclaration) {
		t.Errorf("check: %v", err)
	}
}
