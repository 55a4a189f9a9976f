package trial

import (
	"errors"
	"hash/maphash"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
)

func memory(t *testing.T) *brock.DB {
	t.Helper()
	db, err := brock.Open(brock.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func update(t *testing.T, db *brock.DB, fn func(txn *brock.Txn) error) {
	t.Helper()
	if err := db.Update(fn); err != nil {
		t.Fatal(err)
	}
}

// TestLedgerFindsWhatIsWrong: the proof of the kills must fail for every way in
// which a store could be wrong.
func TestLedgerFindsWhatIsWrong(t *testing.T) {
	l := ledger{round: 1, writer: 2, seed: 3}
	var second []byte // a key of transaction 2
	for key := range l.pairs(2) {
		second = key
	}
	for _, test := range []struct {
		name         string
		acknowledged int
		harm         func(txn *brock.Txn) error
		message      string
	}{
		{"nothing", 3, nil, ""},
		{"one not acknowledged", 2, nil, ""},
		{"lost commit", 4, nil, "4 commits were acknowledged, 3 are there"},
		{"commit from nowhere", 1, nil, "only 2 can have begun"},
		{"missing key", 3, func(txn *brock.Txn) error { return txn.Delete(second) }, "half a transaction"},
		{"other value", 3, func(txn *brock.Txn) error { return txn.Set(second, []byte("?")) }, "half a transaction"},
		{"key too many", 3, func(txn *brock.Txn) error { return txn.Set(l.key("txn/%08d/0", 4), nil) }, "half a transaction"},
		{"delete that is lost", 3, func(txn *brock.Txn) error { return txn.Set(l.marker(2), nil) }, "half a transaction"},
		{"last key missing", 3, func(txn *brock.Txn) error { return txn.Delete(l.marker(3)) }, "half a transaction"},
	} {
		t.Run(test.name, func(t *testing.T) {
			db := memory(t)
			for n := 1; n <= 3; n++ {
				update(t, db, func(txn *brock.Txn) error { return l.write(txn, n) })
			}
			if test.harm != nil {
				update(t, db, test.harm)
			}
			err := db.View(func(txn *brock.Txn) error {
				_, err := l.check(txn, test.acknowledged)
				return err
			})
			if test.message == "" && err != nil ||
				test.message != "" && (!errors.Is(err, ErrWrong) || !strings.Contains(err.Error(), test.message)) {
				t.Error(err)
			}
		})
	}
}

func TestAuditFindsWhatIsWrong(t *testing.T) {
	for name, harm := range map[string]func(txn *brock.Txn) error{
		"debt": func(txn *brock.Txn) error {
			return errors.Join(setAmount(txn, account(3, 0), -deposit-1), setAmount(txn, till(0), 2*deposit+1))
		},
		"money made": func(txn *brock.Txn) error { return setAmount(txn, till(7), 1) },
		"no amount":  func(txn *brock.Txn) error { return txn.Set(till(7), nil) },
	} {
		db := memory(t)
		update(t, db, openBank)
		if err := db.View(audit); err != nil {
			t.Fatal(err)
		}
		update(t, db, harm)
		if err := db.View(audit); !errors.Is(err, ErrWrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReadingFindsWhatIsWrong(t *testing.T) {
	db := memory(t)
	tr := &trial{ctx: t.Context(), db: db, hash: maphash.MakeSeed()}
	for _, key := range []string{"a/1", "a/2", "b"} {
		update(t, db, func(txn *brock.Txn) error { return txn.Set([]byte(key), []byte("value of "+key)) })
		tr.records = append(tr.records, record{key: []byte(key), size: 6 + 3 + len(key), hash: maphash.String(tr.hash, "value of "+key)})
	}
	prefixes := 0
	for prefix, want := range byPrefix(tr.records) {
		prefixes++
		if _, err := tr.walk(brock.IteratorOptions{Prefix: prefix}, want); err != nil {
			t.Error(err)
		}
	}
	if prefixes != 2 {
		t.Errorf("%d prefixes", prefixes)
	}
	check := func(what string, fails bool, o brock.IteratorOptions, want []record) {
		t.Helper()
		if _, err := tr.walk(o, want); errors.Is(err, ErrWrong) != fails {
			t.Errorf("%s: %v", what, err)
		}
	}
	check("all", false, brock.IteratorOptions{}, tr.records)
	check("backward", false, brock.IteratorOptions{Reverse: true}, tr.records)
	check("a key too many", true, brock.IteratorOptions{}, tr.records[:2])
	check("a key too few", true, brock.IteratorOptions{Upper: []byte("b")}, tr.records)
	update(t, db, func(txn *brock.Txn) error { return txn.Set([]byte("a/2"), []byte("value_of_a/2")) })
	check("another value of the same size", true, brock.IteratorOptions{}, tr.records)
	check("the same size is enough for keys only", false, brock.IteratorOptions{KeysOnly: true}, tr.records)
	err := db.View(func(txn *brock.Txn) error { return checkValue(txn, []byte("a/2"), []byte("value of a/2")) })
	if !errors.Is(err, ErrWrong) {
		t.Error(err)
	}
	err = db.View(func(txn *brock.Txn) error { return checkValue(txn, []byte("c"), nil) })
	if !errors.Is(err, ErrWrong) {
		t.Error(err)
	}
}

// TestVictim: what the process said before its end counts; and one that ends by
// itself is a failure that says why.
func TestVictim(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	for _, test := range []struct {
		script, message string
		last            [writers]int
	}{
		{"echo opening; echo ready; echo 0 1; echo 3 1; echo 0 2; exec sleep 100 >&-", "", [writers]int{2, 0, 0, 1}},
		{"echo opening; exec sleep 100 >&-", "", [writers]int{}},
		{"echo opening; echo disk on fire >&2; exit 1", "ended by itself: disk on fire", [writers]int{}},
		{"echo opening; echo 0 1; echo 0 3", `says "0 3"`, [writers]int{1}},
		{"echo opening; echo 4 1", `says "4 1"`, [writers]int{}},
		{"echo what", `says "what"`, [writers]int{}},
	} {
		v, err := startVictim(exec.Command(shell, "-c", test.script))
		if err != nil {
			t.Fatal(err)
		}
		last, err := v.kill(v.ended, time.Millisecond)
		if last != test.last || test.message == "" && err != nil || test.message != "" && (err == nil || !strings.Contains(err.Error(), test.message)) {
			t.Errorf("%s: %v, %v", test.script, last, err)
		}
	}
}

func TestWriteEndsWithItsReader(t *testing.T) {
	dir := t.TempDir()
	db, err := brock.Open(brock.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	go func() {
		_, _ = io.CopyN(io.Discard, r, 100)
		_ = r.Close()
	}()
	if err := Write(t.Context(), brock.Options{Dir: dir}, 0, 1, w); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}
