package trial

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/human"
	"github.com/brockdb/brock/cmd/brock/internal/pairs"
	"github.com/brockdb/brock/cmd/brock/internal/progress"
)

// compared is the result of the step of reading back.
type compared struct {
	Pairs   int64         `json:"pairs"`
	Bytes   int64         `json:"bytes"`
	Changed int64         `json:"changedSources"`   // files that were written to meanwhile, and left out
	Took    time.Duration `json:"nanoseconds"`      // to read both, and to compare
	Spent   time.Duration `json:"storeNanoseconds"` // of all readers
	Readers int           `json:"readers"`
}

func (c compared) String() string {
	s := fmt.Sprintf("%s pairs in random order, byte for byte as in the source:%s%s; the store alone %s",
		human.Count(c.Pairs), indent, human.Rate(c.Pairs, "pairs", c.Took), human.Rate(c.Pairs, "gets", c.Spent/time.Duration(c.Readers)))
	if c.Changed > 0 {
		s += fmt.Sprintf("; %s changed meanwhile and were left out", human.Count(c.Changed))
	}
	return s
}

// comparison is what the readers share.
type comparison struct {
	order                 []int
	next                  atomic.Int64 // in order
	pairs, bytes, changed atomic.Int64
	spent                 atomic.Int64 // nanoseconds in the store, the sources not counted
	work                  *progress.Work
}

// read reads every pair and compares it with the source, which is read again.
func (t *trial) read() (fmt.Stringer, error) {
	c := &comparison{
		order: rand.New(rand.NewPCG(t.Seed, 1)).Perm(len(t.records)),
		work:  t.Progress.Start("read", t.bytes),
	}
	defer c.work.End()
	begin := time.Now()
	readers := runtime.GOMAXPROCS(0)
	if err := together(readers, func(int) error { return t.compare(c) }); err != nil {
		return nil, err
	}
	return compared{c.pairs.Load(), c.bytes.Load(), c.changed.Load(), time.Since(begin), time.Duration(c.spent.Load()), readers}, nil
}

// A reader takes this many pairs at a time, and reads values of this many bytes in one transaction,
// which holds them until its end.
const (
	pairsAtOnce = 64
	bytesAtOnce = 1 << 20
)

// compare is one reader.
func (t *trial) compare(c *comparison) error {
	again := t.Source.Again()
	for {
		end := int(c.next.Add(pairsAtOnce))
		begin := end - pairsAtOnce
		if begin >= len(c.order) {
			return nil
		}
		for left := c.order[begin:min(end, len(c.order))]; len(left) > 0; {
			err := t.db.ViewContext(t.ctx, brock.TxnOptions{}, func(txn *brock.Txn) error {
				for size := 0; len(left) > 0 && size < bytesAtOnce; left = left[1:] {
					r := &t.records[left[0]]
					size += r.size
					if err := t.compareOne(c, txn, r, again); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
}

// compareOne compares the value of a pair with what the source says again.
func (t *trial) compareOne(c *comparison, txn *brock.Txn, r *record, again pairs.Rereader) error {
	want, err := again.Value(r.key, r.at)
	if errors.Is(err, pairs.ErrChanged) || err == nil && maphash.Bytes(t.hash, want) != r.hash {
		c.changed.Add(1)
		return nil
	}
	if err != nil {
		return err
	}
	begin := time.Now()
	err = checkValue(txn, r.key, want)
	c.spent.Add(int64(time.Since(begin)))
	c.pairs.Add(1)
	c.bytes.Add(int64(len(r.key) + len(want)))
	c.work.Add(int64(len(r.key) + len(want)))
	return err
}

// checkValue checks that key has the value and that its neighbour has none.
func checkValue(txn *brock.Txn, key, want []byte) error {
	item, err := txn.Get(key)
	if errors.Is(err, brock.ErrKeyNotFound) {
		return wrong("key %q is missing", key)
	}
	if err != nil {
		return err
	}
	got, err := item.Value()
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return wrong("the value of %q is not what it should be", key)
	}
	found, err := txn.Has(slices.Concat(item.Key(), []byte{0, 255}))
	if found {
		return wrong("a key after %q was never written", key)
	}
	return err
}
