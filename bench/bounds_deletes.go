package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/brockdb/brock"
)

// deletion is a way to delete all pairs but one.
type deletion struct {
	name  string
	size  int // of the values
	order func(n int) []int
	whole bool    // in one transaction
	first float64 // milliseconds that the first seek may take for a million pairs
}

func inOrder(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func deletions() []deletion {
	return []deletion{
		{"in order", 16, inOrder, false, 5},
		{"in order", 1000, inOrder, false, 5},
		{"in no order", 16, rand.Perm, false, 500},
		{"in no order", 1000, rand.Perm, false, 500},
		{"in one transaction", 16, inOrder, true, 5},
	}
}

func (d *deletion) run(db *brock.DB, n int) error {
	var key []byte
	if d.whole {
		return db.Update(func(txn *brock.Txn) error {
			for _, i := range d.order(n) {
				key = boundKey(key, i)
				if err := txn.Delete(key); err != nil {
					return err
				}
			}
			return nil
		})
	}
	w := db.NewWriter(context.Background())
	for _, i := range d.order(n) {
		key = boundKey(key, i)
		if err := w.Delete(key); err != nil {
			return err
		}
	}
	return w.Close()
}

// deletes: a seek into pairs that were deleted one by one. Beside the seek at rest
// stands what the machine alone costs after it: some reads of plain memory that
// rested as long.
func (b *bounds) deletes() error {
	memory := newPlainMemory()
	for _, d := range deletions() {
		db, forget, err := b.open("deletes", brock.Options{Durability: brock.Buffered})
		if err != nil {
			return err
		}
		if err := fill(db.NewWriter(context.Background()), b.keys+1, d.size); err != nil {
			return err
		}
		if _, err := b.wait.idle(); err != nil {
			return err
		}
		if err := d.run(db, b.keys); err != nil {
			return err
		}
		want, what := boundKey(nil, b.keys), fmt.Sprintf("first seek, %d pairs of %d B deleted %s, ", b.keys, d.size, d.name)
		took, err := firstSeek(db, want)
		if err != nil {
			return err
		}
		b.report(what+"at once", millis(took), max(5, d.first*float64(b.keys)/1e6), "ms")
		if took, err = firstSeek(db, want); err != nil {
			return err
		}
		b.report("  and the second one", millis(took), 1, "ms")
		if _, err := b.wait.rest(); err != nil {
			return err
		}
		if took, err = firstSeek(db, want); err != nil {
			return err
		}
		b.report(what+"at rest", millis(took), 0.2, "ms")
		b.report(fmt.Sprintf("  and %d reads of plain memory then", plainReads), millis(memory.read()), 0, "ms")
		if took, err = firstSeek(db, want); err != nil {
			return err
		}
		b.report("  and the one after it", millis(took), 0, "ms")
		if err := forget(); err != nil {
			return err
		}
	}
	return nil
}

// plainMemory is what a program has that rests: a seek at rest reads as many lines
// of its own.
type plainMemory []byte

const plainReads = 20

func newPlainMemory() plainMemory {
	return bytes.Repeat([]byte{1}, 64<<20)
}

// read times plainReads of bytes anywhere.
func (m plainMemory) read() time.Duration {
	begin, sum := time.Now(), 0
	for range plainReads {
		sum += int(m[rand.IntN(len(m))])
	}
	took := time.Since(begin)
	if sum != plainReads {
		panic("plain memory has changed")
	}
	return took
}

// firstSeek times a transaction that begins, seeks to the first pair, which is
// want, and ends.
func firstSeek(db *brock.DB, want []byte) (took time.Duration, err error) {
	begin := time.Now()
	err = db.View(func(txn *brock.Txn) error {
		it := txn.NewIterator(brock.IteratorOptions{})
		defer it.Close()
		if it.Rewind(); !it.Valid() || !bytes.Equal(it.Item().Key(), want) {
			return fmt.Errorf("not at %s: %w", want, it.Err())
		}
		return nil
	})
	return time.Since(begin), err
}
