package badger

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	up "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/ristretto/v2/z"
	"google.golang.org/protobuf/proto"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/compat/badger/pb"
)

// Stored keys have the order of the keys, and of one key the newest version comes first; each is read back.
func TestStoredKeys(t *testing.T) {
	keys := []string{"", "\x00", "\x00\x00", "\x00\x01", "\x00\xff", "\x01", "a", "a\x00", "a\x00\x00", "a\x00\x01", "a\x00\xff", "a\x01", "aa", "\xff", "\xff\xff"}
	versions := []uint64{math.MaxUint64, 1 << 40, 257, 256, 1, 0}
	var last []byte
	for _, key := range keys {
		for _, version := range versions {
			stored := appendStored(nil, []byte(key), version)
			if last != nil && bytes.Compare(last, stored) >= 0 {
				t.Errorf("%q at %d is not behind the one before", key, version)
			}
			last = stored
			stem, v, ok := parseStored(stored)
			if got := userKeyOf(stem, nil); !ok || v != version || string(got) != key {
				t.Errorf("%q at %d is read as %q at %d", key, version, got, v)
			}
			if !bytes.HasPrefix(stored, appendEscaped(nil, []byte(key))) {
				t.Errorf("%q: the stored key has not its prefix", key)
			}
			if behind := appendBehind(nil, []byte(key)); bytes.Compare(stored, behind) >= 0 || !bytes.Equal(behind, behindStem(nil, stem)) {
				t.Errorf("%q: %x is not behind it", key, behind)
			}
		}
	}
}

func FuzzStoredKeys(f *testing.F) {
	f.Add([]byte("a\x00"), []byte("a\x00\xff"), uint64(1))
	f.Add([]byte{0, 1, 0, 0xff}, []byte{}, uint64(math.MaxUint64))
	f.Fuzz(func(t *testing.T, a, b []byte, version uint64) {
		sa, sb := appendStored(nil, a, version), appendStored(nil, b, version)
		if bytes.Compare(a, b) != bytes.Compare(sa, sb) {
			t.Errorf("%x and %x are stored in another order", a, b)
		}
		stem, v, ok := parseStored(sa)
		if !ok || v != version || !bytes.Equal(userKeyOf(stem, nil), a) {
			t.Errorf("%x is not read back", a)
		}
		if stem, _, ok := parseStored(b); ok { // what nobody has written makes no panic
			userKeyOf(stem, nil)
		}
		cutToKey(b)
		parseHeader(a0(a), b)
	})
}

func a0(b []byte) byte {
	if len(b) == 0 {
		return 0xff
	}
	return b[0]
}

func TestVersionsInAnyOrder(t *testing.T) {
	db := openManaged(t, memory().WithNumVersionsToKeep(math.MaxInt))
	setAt(t, db, 10, "a=10 b=10")
	setAt(t, db, 3, "a=3")
	setAt(t, db, 7, "a=7")
	at := func(ts uint64) string {
		txn := db.NewTransactionAt(ts, false)
		defer txn.Discard()
		if txn.ReadTs() != ts {
			t.Errorf("ReadTs %d", txn.ReadTs())
		}
		return get(t, txn, "a") + " " + scan(t, txn, DefaultIteratorOptions) + " " + scan(t, txn, IteratorOptions{Reverse: true})
	}
	wantText(t, "at 2", at(2), "-  ")
	wantText(t, "at 3", at(3), "3 a=3 a=3")
	wantText(t, "at 9", at(9), "7 a=7 a=7")
	wantText(t, "at 10", at(10), "10 a=10 b=10 b=10 a=10")
	wantText(t, "newest", at(math.MaxUint64), "10 a=10 b=10 b=10 a=10")
	wantText(t, "View", dump(t, db), "a=10 b=10")
	if v := db.MaxVersion(); v != 10 {
		t.Errorf("MaxVersion %d", v)
	}
	// At one version the last write wins, with a TTL or without, deleted or not.
	setAt(t, db, 10, "a=again")
	wantText(t, "again", at(10), "again a=again b=10 b=10 a=again")
	txn := db.NewTransactionAt(10, true)
	check(t, txn.SetEntry(NewEntry([]byte("a"), []byte("ttl")).WithTTL(time.Hour).WithMeta(5)))
	check(t, txn.Delete([]byte("b")))
	check(t, txn.CommitAt(10, nil))
	wantText(t, "with a TTL", at(10), "ttl a=ttl a=ttl")
	setAt(t, db, 10, "b=back")
	wantText(t, "set again", at(10), "ttl a=ttl b=back b=back a=ttl")
}

func TestManagedItem(t *testing.T) {
	db := openManaged(t, memory())
	expires := uint64(time.Now().Add(time.Hour).Unix())
	wb := db.NewManagedWriteBatch()
	for i, e := range []*Entry{
		{Key: []byte("a\x00b"), Value: []byte("value"), UserMeta: 9, ExpiresAt: expires},
		{Key: []byte("b"), Value: []byte("value"), UserMeta: 9},
		{Key: []byte("c"), Value: []byte("value"), ExpiresAt: expires},
		NewEntry([]byte("d"), []byte("value")).WithDiscard(),
		{Key: []byte("e"), Value: []byte("value"), ExpiresAt: 1},
	} {
		check(t, wb.SetEntryAt(e, uint64(i+5)))
	}
	check(t, wb.Flush())
	check(t, db.View(func(txn *Txn) error {
		for i, want := range []string{`a\x00b 9 true false`, `b 9 false false`, `c 0 true false`, `d 0 false true`} {
			var key string
			fmt.Sscanf(want, "%s", &key)
			key = string(bytes.ReplaceAll([]byte(key), []byte(`\x00`), []byte{0}))
			got, err := txn.Get([]byte(key))
			check(t, err)
			it := txn.NewKeyIterator([]byte(key), IteratorOptions{})
			it.Rewind()
			for _, item := range []*Item{got, it.Item()} {
				text := fmt.Sprintf("%s %d %v %v", bytes.ReplaceAll(item.Key(), []byte{0}, []byte(`\x00`)), item.UserMeta(), item.ExpiresAt() == expires, item.DiscardEarlierVersions())
				wantText(t, "item", text, want)
				if item.ValueSize() != 5 || value(t, item) != "value" || item.Version() != uint64(i+5) || item.EstimatedSize() != int64(len(key)+5) {
					t.Errorf("%v: size %d, value %q", item, item.ValueSize(), value(t, item))
				}
			}
			it.Close()
		}
		wantText(t, "expired", get(t, txn, "e"), "-")
		return nil
	}))
}

func TestManagedConflicts(t *testing.T) {
	db := openManaged(t, memory())
	setAt(t, db, 5, "a=5 b=5")
	try := func(readTs, commitTs uint64, reads string) error {
		txn := db.NewTransactionAt(readTs, true)
		defer txn.Discard()
		get(t, txn, reads)
		check(t, setIn(txn, "x=1"))
		return txn.CommitAt(commitTs, nil)
	}
	wantErr(t, "stale", try(4, 6, "a"), ErrConflict)
	wantErr(t, "stale, at an older version", try(4, 4, "a"), ErrConflict)
	check(t, try(5, 6, "a"))
	check(t, try(4, 6, "absent"))

	one, two := db.NewTransactionAt(6, true), db.NewTransactionAt(6, true)
	for i, txn := range []*Txn{one, two} {
		scan(t, txn, DefaultIteratorOptions)
		check(t, txn.Set([]byte("a"), fmt.Append(nil, i)))
	}
	check(t, one.CommitAt(7, nil))
	wantErr(t, "second", two.CommitAt(8, nil), ErrConflict)

	// What a transaction reads of its own writes is no read.
	txn := db.NewTransactionAt(4, true)
	check(t, setIn(txn, "a=own"))
	wantText(t, "own", get(t, txn, "a"), "own")
	check(t, txn.CommitAt(9, nil))

	// As in Badger, a discard version makes the store forget what was written up to it.
	db.SetDiscardTs(9)
	db.SetDiscardTs(3)
	check(t, try(4, 10, "a"))

	off := openManaged(t, memory().WithDetectConflicts(false))
	setAt(t, off, 5, "a=5")
	txn = off.NewTransactionAt(1, true)
	get(t, txn, "a")
	check(t, setIn(txn, "a=1"))
	check(t, txn.CommitAt(6, nil))
}

// A managed transaction reads what was committed when it began, also at its own version and below. In
// Badger it would see later commits at older versions.
func TestManagedReadsAreStable(t *testing.T) {
	db := openManaged(t, memory())
	setAt(t, db, 5, "a=5")
	txn := db.NewTransactionAt(10, false)
	defer txn.Discard()
	setAt(t, db, 7, "a=7")
	wantText(t, "Get", get(t, txn, "a"), "5")
	wantText(t, "newest", dump(t, db), "a=7")
}

func TestManagedMisuse(t *testing.T) {
	plain, managed := openDB(t, memory()), openManaged(t, memory())
	txn := plain.NewTransaction(true)
	defer txn.Discard()
	for what, c := range map[string]struct {
		want string
		fn   func()
	}{
		"NewTransaction":       {"ReadTs should not be retrieved for managed DB", func() { managed.NewTransaction(false) }},
		"Update":               {"Update can only be used with managedDB=false.", func() { _ = managed.Update(nil) }},
		"NewWriteBatch":        {"cannot use NewWriteBatch in managed mode. Use NewWriteBatchAt instead", func() { managed.NewWriteBatch() }},
		"GetSequence":          {"Cannot use GetSequence with managedDB=true.", func() { _, _ = managed.GetSequence(nil, 1) }},
		"Add":                  {"Update can only be used with managedDB=false.", func() { _ = managed.GetMergeOperator(nil, nil, 0).Add(nil) }},
		"NewTransactionAt":     {"Cannot use NewTransactionAt with managedDB=false. Use NewTransaction instead.", func() { plain.NewTransactionAt(1, false) }},
		"NewWriteBatchAt":      {"cannot use NewWriteBatchAt with managedDB=false. Use NewWriteBatch instead", func() { plain.NewWriteBatchAt(1) }},
		"NewManagedWriteBatch": {"cannot use NewManagedWriteBatch with managedDB=false. Use NewWriteBatch instead", func() { plain.NewManagedWriteBatch() }},
		"CommitAt":             {"Cannot use CommitAt with managedDB=false. Use Commit instead.", func() { _ = txn.CommitAt(1, nil) }},
		"SetDiscardTs":         {"Cannot use SetDiscardTs with managedDB=false.", func() { plain.SetDiscardTs(1) }},
	} {
		wantPanic(t, what, c.want, c.fn)
	}
	wb := plain.NewWriteBatch()
	defer wb.Cancel()
	wantErr(t, "SetEntryAt", wb.SetEntryAt(NewEntry([]byte("a"), nil), 1), errSetEntryAt)
	wantErr(t, "DeleteAt", wb.DeleteAt([]byte("a"), 1), errNeedsManaged)
	wantErr(t, "WriteList", wb.WriteList(&pb.KVList{Kv: []*pb.KV{{Key: []byte("a"), Version: 1}}}), errNeedsManaged)

	// Commit wants a version, and the transaction goes on.
	at := managed.NewTransactionAt(1, true)
	check(t, setIn(at, "a=1"))
	wantErr(t, "Commit", at.Commit(), errNoCommitTs)
	wantErr(t, "CommitAt 0", at.CommitAt(0, nil), errNoCommitTs)
	check(t, at.CommitAt(1, nil))
	wantText(t, "pairs", dump(t, managed), "a=1")
}

func TestManagedWriteBatch(t *testing.T) {
	db := openManaged(t, memory().WithNumVersionsToKeep(math.MaxInt))
	wb := db.NewWriteBatchAt(4)
	check(t, wb.Set([]byte("a"), []byte("4")))
	check(t, wb.SetEntryAt(NewEntry([]byte("a"), []byte("2")), 2))
	check(t, wb.SetEntryAt(NewEntry([]byte("b"), []byte("9")), 9))
	check(t, wb.Delete([]byte("c")))
	check(t, wb.DeleteAt([]byte("b"), 10))
	check(t, wb.Flush())

	wb = db.NewManagedWriteBatch()
	check(t, wb.Set([]byte("a"), nil))
	wantErr(t, "without a version", wb.Flush(), errNoCommitTs)
	wb = db.NewManagedWriteBatch()
	check(t, wb.WriteList(&pb.KVList{Kv: []*pb.KV{{Key: []byte("d"), Value: []byte("1"), UserMeta: []byte{3, 4}, Version: 1}}}))
	wantErr(t, "WriteList", wb.WriteList(&pb.KVList{Kv: []*pb.KV{{Key: []byte("d")}}}), errVersionZero)
	buf := z.NewBuffer(64, "test")
	defer func() { check(t, buf.Release()) }()
	raw, err := proto.Marshal(&pb.KV{Key: []byte("d"), Value: []byte("2"), Version: 2})
	check(t, err)
	buf.WriteSlice(raw)
	check(t, wb.Write(buf))
	check(t, wb.Flush())
	check(t, db.View(func(txn *Txn) error {
		wantText(t, "versions", scan(t, txn, IteratorOptions{AllVersions: true}), "a@4=4 a@2=2 b@10=! b@9=9 c@4=! d@2=2 d@1=1")
		it := txn.NewKeyIterator([]byte("d"), IteratorOptions{})
		defer it.Close()
		it.Rewind()
		if it.Next(); it.Item().UserMeta() != 3 {
			t.Errorf("meta %d", it.Item().UserMeta())
		}
		return nil
	}))
	if v := db.MaxVersion(); v != 10 {
		t.Errorf("MaxVersion %d", v)
	}
}

func TestDiscardTs(t *testing.T) {
	for _, c := range []struct {
		keep    int
		discard uint64
		want    string
	}{
		{1, 0, "a@9=9 a@7=7 a@5=5 a@3=3 b@8=! b@2=2 c@6=6 c@4=4 d@1=1! e@5=5 e@4=! e@3=3"},
		{1, 4, "a@9=9 a@7=7 a@5=5 a@3=3 b@8=! b@2=2 c@6=6 c@4=4 e@5=5"},
		{1, 7, "a@9=9 a@7=7 b@8=! b@2=2 c@6=6 e@5=5"},
		{1, 20, "a@9=9 c@6=6 e@5=5"},
		{2, 20, "a@9=9 a@7=7 c@6=6 e@5=5"},
		{math.MaxInt, 20, "a@9=9 a@7=7 a@5=5 a@3=3 c@6=6 e@5=5"},
	} {
		db := openManaged(t, quiet(t.TempDir()).WithNumVersionsToKeep(c.keep))
		wb := db.NewManagedWriteBatch()
		for _, v := range []uint64{9, 7, 5, 3} {
			check(t, wb.SetEntryAt(NewEntry([]byte("a"), fmt.Append(nil, v)), v))
		}
		check(t, wb.DeleteAt([]byte("b"), 8))
		check(t, wb.SetEntryAt(NewEntry([]byte("b"), []byte("2")), 2))
		check(t, wb.SetEntryAt(NewEntry([]byte("c"), []byte("6")).WithDiscard(), 6))
		check(t, wb.SetEntryAt(NewEntry([]byte("c"), []byte("4")), 4))
		check(t, wb.SetEntryAt(&Entry{Key: []byte("d"), Value: []byte("1"), ExpiresAt: 1}, 1))
		check(t, wb.SetEntryAt(NewEntry([]byte("e"), []byte("5")), 5))
		check(t, wb.DeleteAt([]byte("e"), 4))
		check(t, wb.SetEntryAt(NewEntry([]byte("e"), []byte("3")), 3))
		check(t, wb.Flush())
		db.SetDiscardTs(c.discard)
		if c.keep == 1 {
			check(t, db.Flatten(1))
		} else if err := db.RunValueLogGC(0.5); err != nil && err != ErrNoRewrite {
			t.Fatal(err)
		}
		check(t, db.View(func(txn *Txn) error {
			wantText(t, fmt.Sprintf("keep %d, discard %d", c.keep, c.discard), scan(t, txn, IteratorOptions{AllVersions: true}), c.want)
			return nil
		}))
	}
}

// What a read at the discard version or later sees stays, whatever is removed; kept for random histories.
func TestDiscardKeepsWhatIsSeen(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 30 {
		db := openManaged(t, memory().WithNumVersionsToKeep(1+r.IntN(3)))
		wb := db.NewManagedWriteBatch()
		for range 60 {
			key, ts := fmt.Appendf(nil, "%c", 'a'+r.IntN(6)), uint64(1+r.IntN(30))
			if r.IntN(4) == 0 {
				check(t, wb.DeleteAt(key, ts))
			} else {
				e := NewEntry(key, fmt.Append(nil, r.IntN(1000)))
				if r.IntN(5) == 0 {
					e.WithDiscard()
				}
				check(t, wb.SetEntryAt(e, ts))
			}
		}
		check(t, wb.Flush())
		discard := uint64(r.IntN(32))
		states := func() (out []string) {
			for ts := discard; ts < 32; ts++ {
				txn := db.NewTransactionAt(ts, false)
				out = append(out, scan(t, txn, DefaultIteratorOptions))
				txn.Discard()
			}
			return out
		}
		before := states()
		db.SetDiscardTs(discard)
		check(t, db.Flatten(1))
		if after := states(); !slices.Equal(before, after) {
			t.Fatalf("discard at %d: before %q, after %q", discard, before, after)
		}
	}
}

func TestMaxVersionAfterOpen(t *testing.T) {
	plain := openDB(t, memory())
	set(t, plain, "a=1")
	check(t, plain.Close())
	if v := plain.MaxVersion(); v != 1 {
		t.Errorf("after Close MaxVersion %d", v)
	}
	dir := t.TempDir()
	db, err := OpenManaged(quiet(dir))
	check(t, err)
	setAt(t, db, 100, "a=1")
	setAt(t, db, 7, "b=1")
	check(t, db.Close())
	db = openManaged(t, quiet(dir))
	if v := db.MaxVersion(); v != 100 {
		t.Errorf("MaxVersion %d", v)
	}
	setAt(t, db, 200, "a=1")
	if v := db.MaxVersion(); v != 200 {
		t.Errorf("MaxVersion %d", v)
	}
}

// A pair that this package has not written is an error, and no wrong item.
func TestForeignPairInManagedStore(t *testing.T) {
	db := openManaged(t, memory())
	check(t, db.data.Set([]byte("short"), []byte("x")))
	wantErr(t, "View", db.View(func(txn *Txn) error {
		it := txn.NewIterator(DefaultIteratorOptions)
		defer it.Close()
		if it.Rewind(); it.Valid() {
			t.Error("valid")
		}
		return nil
	}), errCutVersion)
	check(t, db.data.Delete([]byte("short")))
	b := db.data.NewBatch()
	check(t, b.SetEntry(&brock.Entry{Key: appendStored(nil, []byte("a"), 1), Value: []byte("x"), Meta: flagExpires}))
	_, err := b.Commit(t.Context(), brock.Buffered)
	check(t, err)
	err = db.View(func(txn *Txn) error {
		item, err := txn.Get([]byte("a"))
		if err != nil {
			return err
		}
		_, err = item.ValueCopy(nil)
		return err
	})
	wantErr(t, "Get", err, errCutVersion)
}

// A drop also drops what is deleted at the newest version. Badger looks there, finds no key, and leaves the
// older versions.
func TestDropOfDeletedKeys(t *testing.T) {
	db := openManaged(t, memory())
	setAt(t, db, 1, "a=1 b=1")
	wb := db.NewWriteBatchAt(2)
	check(t, wb.Delete([]byte("a")))
	check(t, wb.Flush())
	check(t, db.DropPrefix([]byte("a")))
	txn := db.NewTransactionAt(1, false)
	defer txn.Discard()
	wantText(t, "at 1", scan(t, txn, IteratorOptions{AllVersions: true}), "b@1=1")

	theirs, err := up.OpenManaged(up.DefaultOptions("").WithInMemory(true).WithLogger(nil))
	check(t, err)
	defer theirs.Close()
	w := theirs.NewManagedWriteBatch()
	check(t, w.SetEntryAt(up.NewEntry([]byte("a"), nil), 1))
	check(t, w.DeleteAt([]byte("a"), 2))
	check(t, w.Flush())
	check(t, theirs.DropPrefix([]byte("a")))
	their := theirs.NewTransactionAt(1, false)
	defer their.Discard()
	_, err = their.Get([]byte("a"))
	check(t, err)
}
