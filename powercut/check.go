package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/brockdb/brock"
)

// runCheck checks a store that a power cut has left.
func runCheck(args []string) error {
	flags := flag.NewFlagSet("powercut check", flag.ContinueOnError)
	dir := flags.String("dir", "", "directory of the store")
	seed := flags.Uint64("seed", 0, "of what was written")
	text := flags.String("acks", "", "what was acknowledged: WORKER:COMMIT,...")
	if err := flags.Parse(args); err != nil {
		return err
	}
	told, err := parseAcks(*text)
	if err != nil {
		return err
	}
	return check(*dir, *seed, told)
}

// check opens the store twice: as it was left, and after more was written to it. It wants all
// commits that were told, each one whole, in the order of each worker.
func check(dir string, seed uint64, told acks) error {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) && len(told) == 0 {
		return nil
	}
	if err := checkOpen(dir, seed, told); err != nil {
		return err
	}
	if err := checkOpen(dir, seed, told); err != nil {
		return fmt.Errorf("opened again: %w", err)
	}
	return nil
}

func checkOpen(dir string, seed uint64, told acks) (err error) {
	db, err := brock.Open(options(dir, seed))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.View(func(txn *brock.Txn) error {
		for w := range workers {
			if err := checkWorker(txn, seed, w, told); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var damage error
	err = db.Verify(context.Background(), func(c *brock.CorruptionError) { damage = errors.Join(damage, c) })
	if err := errors.Join(err, damage); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	for i := range 50 {
		if err := db.Set(fmt.Appendf(nil, "after/%d", i), make([]byte, 3000)); err != nil {
			return err
		}
	}
	return db.Compact(context.Background())
}

// checkWorker compares the keys of a worker with what its commits have made of them. It notes in
// told how many these are: no later look may find fewer.
func checkWorker(txn *brock.Txn, seed uint64, worker int, told acks) error {
	n := 0
	item, err := txn.Get([]byte(counter(worker)))
	if err == nil {
		var text []byte
		if text, err = item.Value(); err == nil {
			n, err = strconv.Atoi(string(text))
		}
	}
	if err != nil && !errors.Is(err, brock.ErrKeyNotFound) {
		return err
	}
	if n < told[worker] {
		return fmt.Errorf("worker %d has %d commits, and was told of %d", worker, n, told[worker])
	}
	told[worker] = n
	want := after(seed, worker, n)
	keys := slices.Sorted(maps.Keys(want))
	for item, err := range txn.Prefix([]byte(prefix(worker))) {
		if err != nil {
			return err
		}
		got, err := item.Value()
		if err != nil {
			return err
		}
		if len(keys) == 0 || string(item.Key()) != keys[0] || !bytes.Equal(got, want[keys[0]]) {
			return fmt.Errorf("worker %d after %d commits: %q or its value is wrong", worker, n, item.Key())
		}
		keys = keys[1:]
	}
	if len(keys) > 0 {
		return fmt.Errorf("worker %d after %d commits: %q is missing", worker, n, keys[0])
	}
	return nil
}

// after returns what a worker's first n commits have made.
func after(seed uint64, worker, n int) map[string][]byte {
	state := map[string][]byte{}
	for i := 1; i <= n; i++ {
		for _, c := range changes(seed, worker, i) {
			switch {
			case c.to != "":
				maps.DeleteFunc(state, func(key string, _ []byte) bool { return c.key <= key && key < c.to })
			case c.value == nil:
				delete(state, c.key)
			default:
				state[c.key] = c.value
			}
		}
	}
	return state
}
