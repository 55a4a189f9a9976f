package badger

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

// modes runs a test in a store that is not managed and in one that is: what a transaction sees is alike.
// begin begins a transaction that reads what was committed so far, commit commits at the next version.
func modes(t *testing.T, fn func(t *testing.T, s *session)) {
	for _, managed := range []bool{false, true} {
		t.Run(fmt.Sprintf("managed=%v", managed), func(t *testing.T) {
			opt := memory().WithNumVersionsToKeep(100)
			opt.managedTxns = managed
			fn(t, &session{t: t, db: openDB(t, opt)})
		})
	}
}

// session commits at 1, 2, 3 and so on.
type session struct {
	t    *testing.T
	db   *DB
	last uint64
}

func (s *session) begin(update bool) *Txn {
	if s.db.opt.managedTxns {
		return s.db.NewTransactionAt(s.last, update)
	}
	return s.db.NewTransaction(update)
}

func (s *session) commit(txn *Txn) error {
	var err error
	if s.db.opt.managedTxns {
		err = txn.CommitAt(s.last+1, nil)
	} else {
		err = txn.Commit()
	}
	if err == nil {
		s.last++
	}
	return err
}

// set commits pairs; "k" without a value is a delete.
func (s *session) set(pairs string) {
	s.t.Helper()
	txn := s.begin(true)
	defer txn.Discard()
	check(s.t, write(txn, pairs))
	check(s.t, s.commit(txn))
}

func write(txn *Txn, pairs string) error {
	for p := range strings.FieldsSeq(pairs) {
		k, v, isSet := strings.Cut(p, "=")
		err := txn.Delete([]byte(k))
		if isSet {
			err = txn.Set([]byte(k), []byte(v))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func TestIterator(t *testing.T) {
	modes(t, func(t *testing.T, s *session) {
		s.set("a=1 ab=1 b=1 ba=1 c=1")
		s.set("a=2 b c=2")
		s.set("ab=3 b=3")
		s.set("b d=4")
		txn := s.begin(false)
		defer txn.Discard()
		back := IteratorOptions{Reverse: true}
		for _, c := range []struct {
			opt       IteratorOptions
			key, want string
		}{
			{DefaultIteratorOptions, "", "a=2 ab=3 ba=1 c=2 d=4"},
			{IteratorOptions{}, "ab", "ab=3 ba=1 c=2 d=4"},
			{IteratorOptions{}, "b", "ba=1 c=2 d=4"},
			{IteratorOptions{}, "e", ""},
			{IteratorOptions{Prefix: []byte("a")}, "", "a=2 ab=3"},
			{IteratorOptions{Prefix: []byte("a")}, "aa", "ab=3"},
			{IteratorOptions{Prefix: []byte("x")}, "", ""},
			{back, "", "d=4 c=2 ba=1 ab=3 a=2"},
			{back, "c", "c=2 ba=1 ab=3 a=2"},
			{back, "b", "ab=3 a=2"},
			{back, "0", ""},
			{IteratorOptions{SinceTs: 2}, "", "ab=3 d=4"},
			{IteratorOptions{SinceTs: 9}, "", ""},
			{IteratorOptions{Reverse: true, SinceTs: 2}, "", "d=4 ab=3"},
			{IteratorOptions{AllVersions: true}, "", "a@2=2 a@1=1 ab@3=3 ab@1=1 b@4=! b@3=3 b@2=! b@1=1 ba@1=1 c@2=2 c@1=1 d@4=4"},
			{IteratorOptions{AllVersions: true, SinceTs: 2}, "", "ab@3=3 b@4=! b@3=3 d@4=4"},
			{IteratorOptions{AllVersions: true, Reverse: true}, "b", "b@1=1 b@2=! b@3=3 b@4=! ab@1=1 ab@3=3 a@1=1 a@2=2"},
			{IteratorOptions{AllVersions: true, Prefix: []byte("b")}, "", "b@4=! b@3=3 b@2=! b@1=1 ba@1=1"},
		} {
			it := txn.NewIterator(c.opt)
			wantText(t, fmt.Sprintf("%+v from %q", c.opt, c.key), walk(t, it, c.key), c.want)
			it.Close()
		}
	})
}

// With Reverse and a Prefix, Rewind goes to the prefix itself: callers append 0xff to it and seek.
func TestReversePrefix(t *testing.T) {
	modes(t, func(t *testing.T, s *session) {
		s.set("a=1 b=2 ba=3 bb=4 c=5")
		txn := s.begin(false)
		defer txn.Discard()
		it := txn.NewIterator(IteratorOptions{Reverse: true, Prefix: []byte("b")})
		defer it.Close()
		wantText(t, "Rewind", walk(t, it, ""), "b=2")
		wantText(t, "Seek", walk(t, it, "b\xff"), "bb=4 ba=3 b=2")
		if it.Seek([]byte("c")); it.Valid() || string(it.Item().Key()) != "c" {
			t.Errorf("at %q, valid %v", it.Item().Key(), it.Valid())
		}
	})
}

// A Seek before the prefix goes to the prefix. In Badger it depends on the tables.
func TestSeekBeforePrefix(t *testing.T) {
	modes(t, func(t *testing.T, s *session) {
		s.set("a=1 b=2 c=3")
		txn := s.begin(false)
		defer txn.Discard()
		it := txn.NewIterator(IteratorOptions{Prefix: []byte("b")})
		defer it.Close()
		wantText(t, "Seek", walk(t, it, "a"), "b=2")
	})
}

func TestKeyIterator(t *testing.T) {
	modes(t, func(t *testing.T, s *session) {
		s.set("a=1 ab=1 b=1")
		s.set("a=2 a\x00=2")
		s.set("a")
		txn := s.begin(false)
		defer txn.Discard()
		for _, c := range []struct {
			reverse bool
			want    string
		}{{false, "a@3=! a@2=2 a@1=1"}, {true, "a@1=1 a@2=2 a@3=!"}} {
			it := txn.NewKeyIterator([]byte("a"), IteratorOptions{Reverse: c.reverse})
			wantText(t, "versions", walk(t, it, ""), c.want)
			wantText(t, "versions", walk(t, it, "a"), c.want)
			it.Close()
		}
		wantPanic(t, "with a prefix", "opt.Prefix should be nil for NewKeyIterator.", func() {
			txn.NewKeyIterator([]byte("a"), IteratorOptions{Prefix: []byte("a")})
		})
	})
}

func TestMovesOfIterator(t *testing.T) {
	modes(t, func(t *testing.T, s *session) {
		s.set("a=1 b=2")
		txn := s.begin(false)
		defer txn.Discard()
		it := txn.NewIterator(DefaultIteratorOptions)
		if it.Valid() || len(it.Item().Key()) != 0 {
			t.Error("valid before the first move")
		}
		it.Next()
		it.Rewind()
		if !it.ValidForPrefix([]byte("a")) || it.ValidForPrefix([]byte("b")) {
			t.Error("ValidForPrefix")
		}
		it.Next()
		it.Next()
		it.Next()
		if it.Valid() {
			t.Error("valid behind the end")
		}
		wantText(t, "again", walk(t, it, ""), "a=1 b=2")
		it.Close()
		it.Close()
		if it.Next(); it.Valid() {
			t.Error("valid after Close")
		}
		// badgerhold does that.
		wantText(t, "after Close", walk(t, it, "b"), "b=2")
		it.Close()
		open := txn.NewIterator(DefaultIteratorOptions)
		open.Rewind()
		txn.Discard() // closes it; Badger panics
		if open.Next(); open.Valid() {
			t.Error("valid after the end of the transaction")
		}
		open.Rewind()
		if open.Valid() {
			t.Error("valid after the end of the transaction")
		}
		open.Close()
	})
}

func TestIteratorOfUpdate(t *testing.T) {
	modes(t, func(t *testing.T, s *session) {
		s.set("a=1 b=1 c=1 d=1")
		s.set("b=2")
		txn := s.begin(true)
		defer txn.Discard()
		check(t, write(txn, "a0=own b=own c"))
		wantText(t, "forward", scan(t, txn, DefaultIteratorOptions), "a=1 a0=own b=own d=1")
		wantText(t, "reverse", scan(t, txn, IteratorOptions{Reverse: true}), "d=1 b=own a0=own a=1")
		wantText(t, "prefix", scan(t, txn, IteratorOptions{Prefix: []byte("a")}), "a=1 a0=own")
		// The transaction reads at 2, and so do its own writes.
		wantText(t, "since", scan(t, txn, IteratorOptions{SinceTs: 1}), "a0=own b=own")
		wantText(t, "since its own version", scan(t, txn, IteratorOptions{SinceTs: 2}), "")
		it := txn.NewKeyIterator([]byte("c"), IteratorOptions{})
		wantText(t, "versions", walk(t, it, ""), "c@2=! c@1=1")
		it.Close()
	})
}

// An iterator shows the transaction as it was when the iterator was made.
func TestLaterWritesAreHidden(t *testing.T) {
	modes(t, func(t *testing.T, s *session) {
		s.set("a=1 b=1 c=1 d=1")
		txn := s.begin(true)
		defer txn.Discard()
		check(t, write(txn, "b=own x=own d"))
		before := "a=1 b=own c=1 x=own"
		it := txn.NewIterator(DefaultIteratorOptions)
		back := txn.NewIterator(IteratorOptions{Reverse: true})
		check(t, write(txn, "a b=later c=later d=later e=later x"))
		wantText(t, "forward", walk(t, it, ""), before)
		wantText(t, "from b", walk(t, it, "b"), "b=own c=1 x=own")
		wantText(t, "reverse", walk(t, back, ""), "x=own c=1 b=own a=1")
		wantText(t, "reverse from c", walk(t, back, "c"), "c=1 b=own a=1")
		now := txn.NewIterator(DefaultIteratorOptions)
		check(t, write(txn, "b=last y=last"))
		wantText(t, "made between", walk(t, now, ""), "b=later c=later d=later e=later")
		wantText(t, "forward", walk(t, it, ""), before)
		for _, i := range []*Iterator{it, back, now} {
			i.Close()
		}
		wantText(t, "new", scan(t, txn, DefaultIteratorOptions), "b=last c=later d=later e=later y=last")
		check(t, s.commit(txn))
		wantText(t, "committed", dump(t, s.db), "b=last c=later d=later e=later y=last")
	})
}

// A loop may write the key that its iterator is at, and go on.
func TestDeleteWhileIterating(t *testing.T) {
	modes(t, func(t *testing.T, s *session) {
		var pairs []string
		for i := range 200 {
			pairs = append(pairs, fmt.Sprintf("%03d=v", i))
		}
		s.set(strings.Join(pairs, " "))
		txn := s.begin(true)
		defer txn.Discard()
		it, n := txn.NewIterator(DefaultIteratorOptions), 0
		for it.Rewind(); it.Valid(); it.Next() {
			check(t, txn.Delete(it.Item().KeyCopy(nil)))
			if n++; n%50 == 0 {
				it.Seek(it.Item().KeyCopy(nil))
			}
		}
		if n != 200 {
			t.Errorf("%d of 200", n)
		}
		wantText(t, "the same iterator", walk(t, it, ""), strings.Join(pairs, " "))
		it.Close()
		check(t, s.commit(txn))
		wantText(t, "left", dump(t, s.db), "")
	})
}

// Beyond the size that a transaction of Badger can have, an iterator that is older than the writes does
// not seek: it ends, and so does the transaction.
func TestSeekAfterVeryManyWrites(t *testing.T) {
	db := openDB(t, memory().WithMemTableSize(1<<20).WithValueThreshold(1<<10))
	txn := db.NewTransaction(true)
	defer txn.Discard()
	it := txn.NewIterator(DefaultIteratorOptions)
	it.Rewind()
	for i := range db.MaxBatchCount() + 10 {
		check(t, txn.Set(fmt.Appendf(nil, "%06d", i), nil))
	}
	it.Rewind()
	if it.Valid() || it.Err() != errTooManyWrites {
		t.Errorf("valid %v, error %v", it.Valid(), it.Err())
	}
	it.Close()
	wantErr(t, "Commit", txn.Commit(), errTooManyWrites)
}

func TestInternalAccess(t *testing.T) {
	for _, managed := range []bool{false, true} {
		opt := memory().WithNamespaceOffset(0)
		opt.managedTxns = managed
		db := openDB(t, opt)
		check(t, db.BanNamespace(1))
		check(t, db.View(func(txn *Txn) error {
			wantText(t, "pairs", scan(t, txn, DefaultIteratorOptions), "")
			wantText(t, "all", scan(t, txn, IteratorOptions{InternalAccess: true}), "!badger!banned\x00\x00\x00\x00\x00\x00\x00\x01=")
			return nil
		}))
	}
}

// Iterators of one read-only transaction on several goroutines.
func TestParallelIterators(t *testing.T) {
	modes(t, func(t *testing.T, s *session) {
		for range 3 {
			s.set("a=1 b=2 c=3 d=4")
		}
		txn := s.begin(false)
		defer txn.Discard()
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				it := txn.NewIterator(IteratorOptions{Reverse: i%2 == 0, PrefetchValues: i%3 == 0})
				defer it.Close()
				n := 0
				for it.Rewind(); it.Valid(); it.Next() {
					if v, err := it.Item().ValueCopy(nil); err != nil || len(v) != 1 {
						t.Errorf("value %q, error %v", v, err)
					}
					n++
				}
				if n != 4 {
					t.Errorf("%d of 4", n)
				}
			})
		}
		all.Wait()
	})
}

// Random transactions and iterators of all kinds, checked against lists of what was written.
func TestIteratorsAtRandom(t *testing.T) {
	modes(t, func(t *testing.T, s *session) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		keys := []string{"a", "a\x00", "a\x00\x01", "a\x00\xff", "aa", "b", "b\x01", "\x00", "\x00\x00", "\xff"}
		m := &model{committed: make(map[string][]modelVersion)}
		for range 60 {
			txn, own := s.begin(true), make(map[string]string)
			var its []*Iterator
			var wants []func() string
			for range r.IntN(8) {
				k := keys[r.IntN(len(keys))]
				switch r.IntN(4) {
				case 0:
					check(t, txn.Delete([]byte(k)))
					own[k] = "!"
				case 1:
					opt := IteratorOptions{Reverse: r.IntN(2) == 0, AllVersions: r.IntN(2) == 0, PrefetchValues: r.IntN(2) == 0}
					if !opt.Reverse && r.IntN(2) == 0 {
						opt.Prefix = []byte(keys[r.IntN(len(keys))])
					}
					if r.IntN(3) == 0 {
						opt.SinceTs = uint64(r.IntN(int(s.last) + 1))
					}
					want := m.walk(opt, own, s.last)
					its = append(its, txn.NewIterator(opt))
					wants = append(wants, func() string { return want })
				default:
					v := fmt.Sprint(r.IntN(1000))
					check(t, txn.Set([]byte(k), []byte(v)))
					own[k] = v
				}
				for i, it := range its {
					if r.IntN(2) == 0 {
						wantText(t, fmt.Sprintf("%+v", it.opt), walk(t, it, ""), wants[i]())
					}
				}
			}
			for _, k := range keys {
				wantText(t, "get", get(t, txn, k), m.get(k, own))
			}
			for _, it := range its {
				it.Close()
			}
			if len(own) == 0 {
				txn.Discard()
				continue
			}
			check(t, s.commit(txn))
			for k, v := range own {
				m.committed[k] = append([]modelVersion{{s.last, v}}, m.committed[k]...)
			}
		}
	})
}

// model is what a store should hold: the versions of each key, newest first. "!" is a delete.
type model struct{ committed map[string][]modelVersion }

type modelVersion struct {
	version uint64
	value   string
}

func (m *model) get(key string, own map[string]string) string {
	v, ok := own[key]
	if !ok && len(m.committed[key]) > 0 {
		v, ok = m.committed[key][0].value, true
	}
	if !ok || v == "!" {
		return "-"
	}
	return v
}

// walk is what an iterator shows that is made now.
func (m *model) walk(opt IteratorOptions, own map[string]string, readTs uint64) string {
	keys := make(map[string]bool)
	for k := range own {
		keys[k] = true
	}
	for k := range m.committed {
		keys[k] = true
	}
	var out []string
	for _, k := range slices.Sorted(func(yield func(string) bool) {
		for k := range keys {
			if strings.HasPrefix(k, string(opt.Prefix)) && !yield(k) {
				return
			}
		}
	}) {
		versions := m.committed[k]
		if v, ok := own[k]; ok {
			if len(versions) > 0 && versions[0].version == readTs {
				versions = versions[1:] // hidden, as in Badger
			}
			versions = append([]modelVersion{{readTs, v}}, versions...)
		}
		for _, v := range versions {
			if opt.SinceTs > 0 && v.version <= opt.SinceTs {
				break
			}
			text := k
			if opt.AllVersions {
				text += fmt.Sprintf("@%d", v.version)
			}
			switch {
			case v.value != "!":
				out = append(out, text+"="+v.value)
			case opt.AllVersions:
				out = append(out, text+"=!")
			}
			if !opt.AllVersions {
				break
			}
		}
	}
	if opt.Reverse {
		slices.Reverse(out)
	}
	return strings.Join(out, " ")
}
