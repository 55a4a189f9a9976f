package badger

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// What a process has committed is there after a kill -9, and no transaction in part: each writes its
// number under two keys and appends a third. The child prints a number once its commit has returned.
func TestKill(t *testing.T) {
	if dir := os.Getenv("BROCK_BADGER_KILL_DIR"); dir != "" {
		writeUntilKilled(t, dir, os.Getenv("BROCK_BADGER_KILL_MODE"))
		return
	}
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	for _, mode := range []string{"update", "batch", "managed"} {
		t.Run(mode, func(t *testing.T) {
			dir, last := t.TempDir(), 0
			for range rounds {
				last = runAndKill(t, dir, mode, last)
				checkKilled(t, dir, mode, last)
			}
			if last == 0 {
				t.Error("nothing was written")
			}
		})
	}
}

// runAndKill runs a child until it has printed some numbers, and kills it. It returns the last number.
func runAndKill(t *testing.T, dir, mode string, last int) int {
	child := exec.Command(os.Args[0], "-test.run", "^TestKill$")
	child.Env = append(os.Environ(), "BROCK_BADGER_KILL_DIR="+dir, "BROCK_BADGER_KILL_MODE="+mode)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	check(t, err)
	check(t, child.Start())
	for lines, n := bufio.NewScanner(out), 20+rand.IntN(200); lines.Scan(); n-- {
		number, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatalf("the child says %q", lines.Text())
		}
		if last = number; n == 0 {
			check(t, child.Process.Kill())
		}
	}
	_ = child.Wait() // it was killed
	return last
}

// openKilled opens the store of the child.
func openKilled(dir, mode string) (*DB, error) {
	opt := quiet(dir).WithMemTableSize(8 << 20) // so that much is flushed
	opt.managedTxns = mode == "managed"
	return Open(opt)
}

// lastNumber returns the number that the store has; 0 if there is none.
func lastNumber(t *testing.T, db *DB) (n int) {
	check(t, db.View(func(txn *Txn) error {
		a, b := get(t, txn, "a"), get(t, txn, "b")
		if a != b {
			t.Errorf("a transaction in part: %s and %s", a, b)
		}
		if a != "-" {
			var err error
			n, err = strconv.Atoi(a)
			check(t, err)
		}
		return nil
	}))
	return n
}

func checkKilled(t *testing.T, dir, mode string, printed int) {
	db, err := openKilled(dir, mode)
	check(t, err)
	defer func() { check(t, db.Close()) }()
	n := lastNumber(t, db)
	if n < printed {
		t.Fatalf("%d was committed, and the store has %d", printed, n)
	}
	check(t, db.View(func(txn *Txn) error {
		it, want := txn.NewIterator(IteratorOptions{Prefix: []byte("k")}), 1
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if got := string(it.Item().Key()); got != fmt.Sprintf("k%08d", want) {
				t.Fatalf("key %s, want number %d", got, want)
			}
			want++
		}
		if want-1 != n {
			t.Fatalf("%d keys of %d", want-1, n)
		}
		return nil
	}))
	check(t, db.VerifyChecksum())
}

// writeUntilKilled is the child.
func writeUntilKilled(t *testing.T, dir, mode string) {
	db, err := openKilled(dir, mode)
	check(t, err)
	value := make([]byte, 20<<10)
	for i := range value {
		value[i] = byte(rand.Uint32())
	}
	for n := lastNumber(t, db) + 1; ; n++ {
		number, key := strconv.AppendInt(nil, int64(n), 10), fmt.Appendf(nil, "k%08d", n)
		write := func(set func(k, v []byte) error) error {
			for _, kv := range [][2][]byte{{[]byte("a"), number}, {key, value}, {[]byte("b"), number}} {
				if err := set(kv[0], kv[1]); err != nil {
					return err
				}
			}
			return nil
		}
		switch mode {
		case "update":
			check(t, db.Update(func(txn *Txn) error { return write(txn.Set) }))
		case "batch":
			wb := db.NewWriteBatch()
			check(t, write(wb.Set))
			check(t, wb.Flush())
		case "managed":
			txn := db.NewTransactionAt(uint64(n), true)
			check(t, write(txn.Set))
			check(t, txn.CommitAt(uint64(n), nil))
		}
		fmt.Println(n)
	}
}
