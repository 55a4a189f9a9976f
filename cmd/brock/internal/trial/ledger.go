package trial

import (
	"bytes"
	"fmt"
	"iter"
	"math/rand/v2"
	"strconv"

	"github.com/brockdb/brock"
)

// ledger says what the transactions of a writer are, so that the process that is
// killed and the one that looks at what is left agree without talking. Number n
// sets some new keys, overwrites the writer's count, and moves its marker: it
// deletes that of n-1 and sets that of n.
type ledger struct {
	round, writer int
	seed          uint64
}

func (l ledger) prefix() []byte {
	return fmt.Appendf(nil, "%skill/%03d/%02d/", reserved, l.round, l.writer)
}

func (l ledger) key(format string, args ...any) []byte {
	return fmt.Appendf(l.prefix(), format, args...)
}

func (l ledger) count() []byte       { return l.key("count") }
func (l ledger) marker(n int) []byte { return l.key("marker/%08d", n) }

// pairs returns the new pairs of transaction n, in order of keys. Their values have up to
// 200 bytes and sometimes, beyond what the tree keeps, up to 8,000.
func (l ledger) pairs(n int) iter.Seq2[[]byte, []byte] {
	random := rand.NewPCG(l.seed^uint64(l.round)<<32^uint64(l.writer), uint64(n))
	return func(yield func(key, value []byte) bool) {
		for i := range 2 + int(random.Uint64()%6) {
			value := make([]byte, random.Uint64()%200)
			if random.Uint64()%8 == 0 {
				value = make([]byte, random.Uint64()%8000)
			}
			for i := range value {
				value[i] = byte('a' + random.Uint64()%26)
			}
			if !yield(l.key("txn/%08d/%d", n, i), value) {
				return
			}
		}
	}
}

// write makes transaction n.
func (l ledger) write(txn *brock.Txn, n int) error {
	for key, value := range l.pairs(n) {
		if err := txn.Set(key, value); err != nil {
			return err
		}
	}
	if n > 1 {
		if err := txn.Delete(l.marker(n - 1)); err != nil {
			return err
		}
	}
	if err := txn.Set(l.marker(n), nil); err != nil {
		return err
	}
	return txn.Set(l.count(), strconv.AppendInt(nil, int64(n), 10))
}

// found returns how many transactions there are by the writer's count.
func (l ledger) found(txn *brock.Txn) (int, error) {
	for item, err := range txn.Items(brock.IteratorOptions{Prefix: l.count(), Limit: 1}) {
		if err != nil {
			return 0, err
		}
		value, err := item.Value()
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(string(value))
	}
	return 0, nil
}

// state returns all pairs that n transactions leave, in order of keys.
func (l ledger) state(n int) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		if n == 0 || !yield(l.count(), strconv.AppendInt(nil, int64(n), 10)) || !yield(l.marker(n), nil) {
			return
		}
		for i := 1; i <= n; i++ {
			for key, value := range l.pairs(i) {
				if !yield(key, value) {
					return
				}
			}
		}
	}
}

// check proves that the store holds each of the first acknowledged transactions,
// perhaps the one that was under way, and nothing else: no part of another. It
// returns how many there are.
func (l ledger) check(txn *brock.Txn, acknowledged int) (n int, err error) {
	if n, err = l.found(txn); err != nil {
		return 0, err
	}
	if n < acknowledged {
		return n, wrong("round %d, writer %d: %d commits were acknowledged, %d are there", l.round, l.writer, acknowledged, n)
	}
	if n > acknowledged+1 {
		return n, wrong("round %d, writer %d: %d commits are there, only %d can have begun", l.round, l.writer, n, acknowledged+1)
	}
	next, stop := iter.Pull2(l.state(n))
	defer stop()
	for item, err := range txn.Prefix(l.prefix()) {
		if err != nil {
			return n, err
		}
		value, err := item.Value()
		if err != nil {
			return n, err
		}
		if key, want, ok := next(); !ok || !bytes.Equal(item.Key(), key) || !bytes.Equal(value, want) {
			return n, wrong("round %d, writer %d: half a transaction: after %d commits there is %q with %d bytes, want %q with %d",
				l.round, l.writer, n, item.Key(), len(value), key, len(want))
		}
	}
	if key, _, more := next(); more {
		return n, wrong("round %d, writer %d: half a transaction: after %d commits, %q is missing", l.round, l.writer, n, key)
	}
	return n, nil
}
