package model

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/test/kit/draw"
)

func TestTxnSeesItsWrites(t *testing.T) {
	var s Store
	s.Commit(set("a", "1"), set("b", "1"), set("d", "1"))
	txn := s.Begin()
	txn.Write(set("c", "own"))
	txn.Write(del("a"))
	txn.Write(set("b", "own"))
	s.Commit(set("e", "later"))
	if got, want := text(slices.Collect(txn.Scan(All, false, 0, 0))), "b=own@0 c=own@0 d=1@1"; got != want {
		t.Errorf("scan: %s, want %s", got, want)
	}
	if got, want := text(slices.Collect(txn.Scan(All, true, 2, 0))), "d=1@1 c=own@0"; got != want {
		t.Errorf("scan in reverse: %s, want %s", got, want)
	}
	if _, found := txn.Get("a", 0); found {
		t.Error("finds a key that it has deleted")
	}
	if e, found := txn.Get("c", 0); !found || e.Value != "own" {
		t.Errorf("own write of c: %+v, %v", e, found)
	}
	if _, found := s.Get("c", 99, 0); found {
		t.Error("a write is visible before its commit")
	}
}

func TestTxnConflicts(t *testing.T) {
	for _, c := range []struct {
		name  string
		read  func(*Txn)
		other Write
		want  bool
	}{
		{"read nothing", func(*Txn) {}, set("b", "2"), false},
		{"got a key, it changed", func(t *Txn) { t.Get("b", 0) }, set("b", "2"), true},
		{"got a key, another changed", func(t *Txn) { t.Get("b", 0) }, set("d", "2"), false},
		{"got a key, it was deleted", func(t *Txn) { t.Get("b", 0) }, del("b"), true},
		{"missed a key, it came", func(t *Txn) { t.Get("c", 0) }, set("c", "2"), true},
		{"got its own write", func(t *Txn) { t.Get("own", 0) }, set("own", "2"), false},
		{"scanned, a key came in between", func(t *Txn) { scan(t, Range{"a", "z"}, false, 0) }, set("c", "2"), true},
		{"scanned, a key came behind the bound", func(t *Txn) { scan(t, Range{"a", "c"}, false, 0) }, set("c", "2"), false},
		{"scanned an empty range, a key came", func(t *Txn) { scan(t, Prefix("x"), false, 0) }, set("xx", "2"), true},
		{"stopped early, a key came behind", func(t *Txn) { scan(t, All, false, 2) }, set("c", "2"), false},
		{"stopped early, a key came before", func(t *Txn) { scan(t, All, false, 2) }, set("aa", "2"), true},
		{"stopped early in reverse, a key came below", func(t *Txn) { scan(t, All, true, 2) }, set("a", "2"), false},
		{"stopped early in reverse, a key came above", func(t *Txn) { scan(t, All, true, 2) }, set("x", "2"), true},
	} {
		var s Store
		s.Commit(set("a", "1"), set("b", "1"), set("d", "1"))
		txn := s.Begin()
		txn.Write(set("own", "1"))
		c.read(txn)
		s.Commit(c.other)
		v, ok := txn.Commit()
		if ok == c.want {
			t.Errorf("%s: committed %v", c.name, ok)
		}
		if _, found := s.Get("own", s.Last(), 0); found == c.want && c.other.Key != "own" {
			t.Errorf("%s: write applied: %v, commit said %v (version %d)", c.name, found, ok, v)
		}
	}
}

func scan(t *Txn, r Range, reverse bool, limit int) {
	for range t.Scan(r, reverse, limit, 0) {
	}
}

func TestReadOnlyTxnNeverConflicts(t *testing.T) {
	var s Store
	s.Commit(set("a", "1"))
	txn := s.Begin()
	txn.Get("a", 0)
	s.Commit(set("a", "2"))
	if v, ok := txn.Commit(); !ok || v != 1 {
		t.Errorf("commit of a reader: version %d, %v", v, ok)
	}
	if e, _ := txn.Get("a", 0); e.Value != "1" {
		t.Errorf("reads %q after a later commit", e.Value)
	}
}

// TestTxnsAreSerializable runs random transactions side by side and replays
// those that committed one by one, in the order of their commits: each must
// read the same again.
func TestTxnsAreSerializable(t *testing.T) {
	seed := draw.Seed(t)
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	conflicts := 0
	for range 30 {
		var s, replay Store
		running := make([]*recorded, 4)
		for n := range 200 {
			i := rng.IntN(len(running))
			if running[i] == nil {
				running[i] = &recorded{txn: s.Begin()}
			}
			r := running[i]
			switch rng.IntN(4) {
			case 0:
				r.txn.Write(randomWrite(rng, n))
			case 1:
				r.do(step{scan: Key(randomKey(rng))})
			case 2:
				r.do(step{scan: Range{randomKey(rng), randomKey(rng)}, reverse: rng.IntN(2) == 0, limit: rng.IntN(3)})
			case 3:
				if _, ok := r.txn.Commit(); !ok {
					conflicts++
				} else if len(r.txn.writes) > 0 {
					again := &recorded{txn: replay.Begin()}
					for _, st := range r.steps {
						again.txn.writes = slices.Clone(r.txn.writes[:st.writes])
						again.do(st)
					}
					for j, st := range r.steps {
						if got := again.steps[j].saw; got != st.saw {
							t.Fatalf("a transaction read %q, and %q when run alone", st.saw, got)
						}
					}
					replay.Commit(r.txn.writes...)
				}
				running[i] = nil
			}
		}
	}
	if conflicts == 0 {
		t.Error("no transaction conflicted: the test shows nothing")
	}
}

// recorded is a transaction that remembers what it read.
type recorded struct {
	txn   *Txn
	steps []step
}

type step struct {
	scan    Range
	reverse bool
	limit   int
	writes  int    // own writes before it
	saw     string // keys and values, without versions
}

func (r *recorded) do(s step) {
	s.writes, s.saw = len(r.txn.writes), ""
	for e := range r.txn.Scan(s.scan, s.reverse, s.limit, 50) {
		s.saw += e.Key + "=" + e.Value + " "
	}
	r.steps = append(r.steps, s)
}
