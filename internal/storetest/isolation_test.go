package storetest

import (
	"testing"

	"github.com/brockdb/brock"
)

// G1a, G1b and G1c: what is not committed, not final, or committed later is
// never seen, whatever the isolation.
func TestReadsSeeOneCommittedVersion(t *testing.T) {
	db := openTest(t, brock.Options{})
	set(t, db, "1=10", "2=20")
	writer, reader := db.NewTransaction(true), db.NewTransaction(true)
	defer writer.Discard()
	defer reader.Discard()
	must(t, put(writer, "1=101"))
	wantEqual(t, "before the abort (G1a)", get(reader, "1"), "10")
	must(t, put(writer, "1=11"))
	wantEqual(t, "intermediate (G1b)", get(reader, "1"), "10")
	must(t, writer.Commit())
	wantEqual(t, "committed after the begin", get(reader, "1"), "10")
	wantEqual(t, "in a scan", show(reader.All()), "1=10 2=20")

	aborted := db.NewTransaction(true)
	must(t, put(aborted, "2=99"))
	aborted.Discard()
	must(t, db.View(func(txn *brock.Txn) error {
		wantEqual(t, "after both", show(txn.All()), "1=11 2=20")
		return nil
	}))
}

// A conflicting transaction writes nothing at all.
func TestConflictWritesNothing(t *testing.T) {
	db := openTest(t, brock.Options{})
	set(t, db, "a=1")
	txn := db.NewTransaction(true)
	get(txn, "a")
	must(t, put(txn, "b=1", "c=1"))
	set(t, db, "a=2")
	before := db.Version()
	wantErr(t, "Commit", txn.Commit(), brock.ErrConflict)
	wantEqual(t, "version", db.Version(), before)
	wantEqual(t, "conflicts", db.Metrics().Conflicts, 1)
	must(t, db.View(func(txn *brock.Txn) error {
		wantEqual(t, "store", show(txn.All()), "a=2")
		return nil
	}))
}

// Only what an iterator really covered counts as read.
func TestScansConflictByWhatTheyCovered(t *testing.T) {
	move := func(o brock.IteratorOptions, moves ...string) func(txn *brock.Txn) {
		return func(txn *brock.Txn) {
			it := txn.NewIterator(o)
			defer it.Close()
			for _, m := range moves {
				switch m {
				case "rewind":
					it.Rewind()
				case "next":
					it.Next()
				case "prev":
					it.Prev()
				default:
					it.Seek(b(m))
				}
			}
		}
	}
	forward, reverse := brock.IteratorOptions{}, brock.IteratorOptions{Reverse: true}
	for name, tc := range map[string]struct {
		read           func(txn *brock.Txn)
		free, conflict []string
	}{
		"made only":            {move(forward), []string{"a", "d", "z"}, nil},
		"rewind":               {move(forward, "rewind"), []string{"bb", "d"}, []string{"a", "b"}},
		"two steps":            {move(forward, "rewind", "next"), []string{"dd", "f"}, []string{"a", "b", "c", "d"}},
		"seek to a key":        {move(forward, "d"), []string{"c", "dd"}, []string{"d"}},
		"seek to a gap":        {move(forward, "c"), []string{"bb", "dd"}, []string{"c", "cc", "d"}},
		"to the end":           {move(forward, "f", "next"), []string{"d"}, []string{"f", "g", "z"}},
		"past the end":         {move(forward, "x"), []string{"f", "g"}, []string{"x", "z"}},
		"back from a seek":     {move(forward, "d", "prev"), []string{"a", "dd"}, []string{"b", "c", "d"}},
		"there and back":       {move(forward, "b", "next", "prev"), []string{"a", "dd"}, []string{"b", "c", "d"}},
		"back to the start":    {move(forward, "b", "prev"), []string{"bb"}, []string{"a", "b"}},
		"two seeks":            {move(forward, "b", "f"), []string{"bb", "d"}, []string{"b", "f"}},
		"reverse rewind":       {move(reverse, "rewind"), []string{"d", "e"}, []string{"f", "g", "z"}},
		"reverse seek":         {move(reverse, "e"), []string{"c", "ee"}, []string{"d", "dd", "e"}},
		"reverse to the start": {move(reverse, "b", "next"), []string{"bb"}, []string{"a", "b"}},
		"reverse and back":     {move(reverse, "d", "prev"), []string{"c", "ff"}, []string{"d", "e", "f"}},
		"bounds":               {move(brock.IteratorOptions{Lower: b("c"), Upper: b("e")}, "rewind", "next"), []string{"b", "e", "f"}, []string{"c", "d", "dd"}},
		"bounds, nothing in":   {move(brock.IteratorOptions{Lower: b("cc"), Upper: b("ce")}, "rewind"), []string{"c", "d", "ce"}, []string{"cc", "cd"}},
		"prefix":               {move(brock.IteratorOptions{Prefix: b("d")}, "rewind", "next"), []string{"c", "e"}, []string{"d", "dd", "dzz"}},
		"reverse prefix":       {move(brock.IteratorOptions{Prefix: b("d"), Reverse: true}, "rewind"), []string{"c", "e"}, []string{"d", "dd", "dzz"}},
		"limit":                {move(brock.IteratorOptions{Limit: 1}, "rewind", "next", "next"), []string{"bb", "d"}, []string{"a", "b"}},
		"prefetch":             {move(brock.IteratorOptions{Prefetch: 8}, "rewind"), []string{"bb", "d"}, []string{"a", "b"}},
		"filter": {move(brock.IteratorOptions{Filter: func(key []byte, _ byte) bool { return key[0] == 'd' }}, "rewind"),
			[]string{"dd", "f"}, []string{"a", "b", "c", "d"}},
		"own writes between": {func(txn *brock.Txn) {
			txn.Set(b("c"), b("mine"))
			move(forward, "b", "next")(txn)
		}, []string{"cc", "d"}, []string{"b", "bb", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			for i, key := range append(append([]string{}, tc.free...), tc.conflict...) {
				db := openTest(t, brock.Options{})
				set(t, db, "b=1", "d=1", "f=1")
				txn := db.NewTransaction(true)
				defer txn.Discard()
				tc.read(txn)
				must(t, put(txn, "other=1"))
				set(t, db, key+"=2")
				var want error
				if i >= len(tc.free) {
					want = brock.ErrConflict
				}
				if err := txn.Commit(); err != want {
					t.Errorf("write of %q meanwhile: commit gives %v, want %v", key, err, want)
				}
			}
		})
	}
}

// An iterator that is still open at Commit has read what it covered.
func TestOpenIteratorCountsAtCommit(t *testing.T) {
	db := openTest(t, brock.Options{})
	set(t, db, "b=1")
	txn := db.NewTransaction(true)
	it := txn.NewIterator(brock.IteratorOptions{})
	it.Rewind()
	must(t, put(txn, "x=1"))
	set(t, db, "a=1")
	wantErr(t, "Commit", txn.Commit(), brock.ErrConflict)
	it.Next()
	wantEqual(t, "valid after", it.Valid(), false)
	wantErr(t, "Err after", it.Err(), brock.ErrTxnDone)
}
