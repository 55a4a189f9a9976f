package brock

import (
	"context"
	"testing"
)

// The anomalies are those of the Hermitage suite. Each script runs two or three
// transactions by hand; want says what the commits give at each level.

type anomaly struct {
	name         string
	run          func(t *testing.T, t1, t2, t3 *Txn)
	order        string // of commits: "12", "21", "123"
	serializable string // one letter a commit: c for conflict, . for nil
	snapshot     string
}

var anomalies = []anomaly{
	{"G0, write cycles", func(t *testing.T, t1, t2, t3 *Txn) {
		must(t, put(t1, "1=11"))
		must(t, put(t2, "1=12", "2=22"))
		must(t, put(t1, "2=21"))
	}, "12", "..", ".c"},
	{"OTV, an observed transaction vanishes", func(t *testing.T, t1, t2, t3 *Txn) {
		must(t, put(t1, "1=11", "2=19"))
		must(t, put(t2, "1=12"))
		wantEqual(t, "t3 reads 1", get(t3, "1"), "10")
		wantEqual(t, "t3 reads 2", get(t3, "2"), "20")
	}, "12", "..", ".c"},
	{"PMP, predicate read then insert elsewhere", func(t *testing.T, t1, t2, t3 *Txn) {
		wantEqual(t, "t1 scans", show(t1.All()), "1=10 2=20")
		must(t, put(t1, "9=x"))
		must(t, put(t2, "3=30"))
	}, "21", ".c", ".."},
	{"PMP, write by predicate", func(t *testing.T, t1, t2, t3 *Txn) {
		must(t, put(t1, "1=20", "2=30"))
		wantEqual(t, "t2 scans", show(t2.All()), "1=10 2=20")
		must(t, put(t2, "2"))
	}, "12", ".c", ".c"},
	{"P4, lost update", func(t *testing.T, t1, t2, t3 *Txn) {
		wantEqual(t, "t1 reads", get(t1, "1"), "10")
		wantEqual(t, "t2 reads", get(t2, "1"), "10")
		must(t, put(t1, "1=11"))
		must(t, put(t2, "1=11"))
	}, "12", ".c", ".c"},
	{"G-single, read skew, then a write", func(t *testing.T, t1, t2, t3 *Txn) {
		wantEqual(t, "t1 reads 1", get(t1, "1"), "10")
		wantEqual(t, "t2 reads 1", get(t2, "1"), "10")
		wantEqual(t, "t2 reads 2", get(t2, "2"), "20")
		must(t, put(t2, "1=12", "2=18"))
		must(t, put(t1, "2"))
	}, "21", ".c", ".c"},
	{"G-single, predicate dependencies", func(t *testing.T, t1, t2, t3 *Txn) {
		wantEqual(t, "t1 scans", show(t1.Prefix(b("1"))), "1=10")
		must(t, put(t1, "9=1"))
		must(t, put(t2, "1=12"))
	}, "21", ".c", ".."},
	{"G2-item, write skew", func(t *testing.T, t1, t2, t3 *Txn) {
		for _, txn := range []*Txn{t1, t2} {
			wantEqual(t, "reads 1", get(txn, "1"), "10")
			wantEqual(t, "reads 2", get(txn, "2"), "20")
		}
		must(t, put(t1, "1=11"))
		must(t, put(t2, "2=21"))
	}, "12", ".c", ".."},
	{"G2, anti-dependency cycle by phantoms", func(t *testing.T, t1, t2, t3 *Txn) {
		wantEqual(t, "t1 scans", show(t1.Prefix(b("3"))), "")
		wantEqual(t, "t2 scans", show(t2.Prefix(b("3"))), "")
		must(t, put(t1, "3a=30"))
		must(t, put(t2, "3b=42"))
	}, "12", ".c", ".."},
	{"G2, two edges with a reader", func(t *testing.T, t1, t2, t3 *Txn) {
		wantEqual(t, "t1 scans", show(t1.All()), "1=10 2=20")
		must(t, put(t2, "2=25"))
		must(t, put(t1, "1=0"))
	}, "21", ".c", ".."},
	{"write skew on absent keys", func(t *testing.T, t1, t2, t3 *Txn) {
		wantEqual(t, "t1 reads", get(t1, "8"), "-")
		wantEqual(t, "t2 reads", get(t2, "7"), "-")
		must(t, put(t1, "7=x"))
		must(t, put(t2, "8=x"))
	}, "12", ".c", ".."},
	{"blind writes never conflict", func(t *testing.T, t1, t2, t3 *Txn) {
		must(t, put(t1, "1=a", "2=a"))
		must(t, put(t2, "2=b", "1=b"))
	}, "12", "..", ".c"},
	{"reading one's own write is no read", func(t *testing.T, t1, t2, t3 *Txn) {
		must(t, put(t1, "1=a"))
		wantEqual(t, "t1 reads", get(t1, "1"), "a")
		must(t, put(t2, "1=b"))
	}, "21", "..", ".c"},
	{"a read-only update never conflicts", func(t *testing.T, t1, t2, t3 *Txn) {
		wantEqual(t, "t1 scans", show(t1.All()), "1=10 2=20")
		must(t, put(t2, "1=b"))
	}, "21", "..", ".."},
}

func TestAnomalies(t *testing.T) {
	for _, level := range []Isolation{Serializable, SnapshotIsolation, LastWriterWins} {
		for _, a := range anomalies {
			t.Run(map[Isolation]string{Serializable: "serializable", SnapshotIsolation: "snapshot", LastWriterWins: "none"}[level]+"/"+a.name, func(t *testing.T) {
				db := openTest(t, Options{})
				set(t, db, "1=10", "2=20")
				txns := map[rune]*Txn{}
				for _, name := range "123" {
					txn, err := db.Begin(context.Background(), TxnOptions{Update: true, Isolation: level})
					must(t, err)
					defer txn.Discard()
					txns[name] = txn
				}
				a.run(t, txns['1'], txns['2'], txns['3'])
				got := ""
				for _, name := range a.order {
					switch err := txns[name].Commit(); err {
					case nil:
						got += "."
					case ErrConflict:
						got += "c"
					default:
						t.Fatal(err)
					}
				}
				want := map[Isolation]string{Serializable: a.serializable, SnapshotIsolation: a.snapshot, LastWriterWins: ".."}[level]
				wantEqual(t, "commits", got, want)
			})
		}
	}
}

// G1a, G1b and G1c: what is not committed, not final, or committed later is
// never seen, whatever the isolation.
func TestReadsSeeOneCommittedVersion(t *testing.T) {
	db := openTest(t, Options{})
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
	must(t, db.View(func(txn *Txn) error {
		wantEqual(t, "after both", show(txn.All()), "1=11 2=20")
		return nil
	}))
}

// A conflicting transaction writes nothing at all.
func TestConflictWritesNothing(t *testing.T) {
	db := openTest(t, Options{})
	set(t, db, "a=1")
	txn := db.NewTransaction(true)
	get(txn, "a")
	must(t, put(txn, "b=1", "c=1"))
	set(t, db, "a=2")
	before := db.Version()
	wantErr(t, "Commit", txn.Commit(), ErrConflict)
	wantEqual(t, "version", db.Version(), before)
	wantEqual(t, "conflicts", db.Metrics().Conflicts, 1)
	must(t, db.View(func(txn *Txn) error {
		wantEqual(t, "store", show(txn.All()), "a=2")
		return nil
	}))
}

// Only what an iterator really covered counts as read.
func TestScansConflictByWhatTheyCovered(t *testing.T) {
	move := func(o IteratorOptions, moves ...string) func(txn *Txn) {
		return func(txn *Txn) {
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
	forward, reverse := IteratorOptions{}, IteratorOptions{Reverse: true}
	for name, tc := range map[string]struct {
		read           func(txn *Txn)
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
		"bounds":               {move(IteratorOptions{Lower: b("c"), Upper: b("e")}, "rewind", "next"), []string{"b", "e", "f"}, []string{"c", "d", "dd"}},
		"bounds, nothing in":   {move(IteratorOptions{Lower: b("cc"), Upper: b("ce")}, "rewind"), []string{"c", "d", "ce"}, []string{"cc", "cd"}},
		"prefix":               {move(IteratorOptions{Prefix: b("d")}, "rewind", "next"), []string{"c", "e"}, []string{"d", "dd", "dzz"}},
		"reverse prefix":       {move(IteratorOptions{Prefix: b("d"), Reverse: true}, "rewind"), []string{"c", "e"}, []string{"d", "dd", "dzz"}},
		"limit":                {move(IteratorOptions{Limit: 1}, "rewind", "next", "next"), []string{"bb", "d"}, []string{"a", "b"}},
		"prefetch":             {move(IteratorOptions{Prefetch: 8}, "rewind"), []string{"bb", "d"}, []string{"a", "b"}},
		"filter": {move(IteratorOptions{Filter: func(key []byte, _ byte) bool { return key[0] == 'd' }}, "rewind"),
			[]string{"dd", "f"}, []string{"a", "b", "c", "d"}},
		"own writes between": {func(txn *Txn) {
			txn.Set(b("c"), b("mine"))
			move(forward, "b", "next")(txn)
		}, []string{"cc", "d"}, []string{"b", "bb", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			for i, key := range append(append([]string{}, tc.free...), tc.conflict...) {
				db := openTest(t, Options{})
				set(t, db, "b=1", "d=1", "f=1")
				txn := db.NewTransaction(true)
				defer txn.Discard()
				tc.read(txn)
				must(t, put(txn, "other=1"))
				set(t, db, key+"=2")
				var want error
				if i >= len(tc.free) {
					want = ErrConflict
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
	db := openTest(t, Options{})
	set(t, db, "b=1")
	txn := db.NewTransaction(true)
	it := txn.NewIterator(IteratorOptions{})
	it.Rewind()
	must(t, put(txn, "x=1"))
	set(t, db, "a=1")
	wantErr(t, "Commit", txn.Commit(), ErrConflict)
	it.Next()
	wantEqual(t, "valid after", it.Valid(), false)
	wantErr(t, "Err after", it.Err(), ErrTxnDone)
}
