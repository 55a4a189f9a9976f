package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/bench/internal/kv"
)

// spaceWork is one way to make garbage. It is run by one goroutine; a churn
// keeps count of what is live.
type spaceWork struct {
	name  string
	title string
	load  bool // begins with a store full of live data
	ttl   bool // needs a time to live
	large bool // values of 64 KB to 1 MB
	run   func(*churn) error
}

func spaceWorks() []spaceWork {
	return []spaceWork{
		{name: "delete", title: "load, then delete 90 % in random order", load: true, run: (*churn).deleteMost},
		{name: "uniform", title: "random overwrites, keys drawn evenly", load: true, run: (*churn).overwriteUniform},
		{name: "zipf", title: "random overwrites, Zipf 1.1", load: true, run: (*churn).overwriteZipf},
		{name: "ttl", title: "new keys that expire", ttl: true, run: (*churn).expire},
		{name: "queue", title: "append at the tail, delete at the head", load: true, run: (*churn).queue},
		{name: "large", title: "random overwrites of values of 64 KB to 1 MB", load: true, large: true, run: (*churn).overwriteUniform},
	}
}

const (
	smallestLarge = 64 << 10
	largestLarge  = 1 << 20
	zipfExponent  = 1.1
	keptShare     = 10 // one key in ten is not deleted
)

// churn writes to a store and knows what is live in it.
type churn struct {
	store  kv.Store
	write  kv.Batcher // the same store
	data   *Dataset
	keys   int
	factor float64 // how often the data is written again
	rate   float64 // bytes a second; 0 = as fast as it goes
	ttl    time.Duration
	large  bool
	rng    *rand.Rand
	stop   <-chan struct{} // ends the work early

	sizes   []int32 // of the values, by key number; -1 = absent
	live    atomic.Int64
	written atomic.Int64 // bytes of keys and values that were written
	ops     atomic.Int64
	began   time.Time
	pace    int64 // written when the work began
	batch   []kv.Change
	keyBuf  []byte
}

func newChurn(s kv.Store, c spaceConfig, w spaceWork) *churn {
	size := c.valueSize
	if w.large {
		size = largestLarge
	}
	ch := &churn{store: s, write: applier(s), data: NewDataset(1, size), factor: c.factor, rate: c.rate, ttl: c.ttl, large: w.large, rng: rand.New(rand.NewPCG(5, 6))}
	mean := size + keySize
	if w.large {
		mean = (smallestLarge+largestLarge)/2 + keySize
	}
	ch.keys = max(1, int(c.size/int64(mean)))
	return ch
}

// value returns a value that was not written before.
func (c *churn) value() []byte {
	n := c.data.ValueSize
	if c.large {
		n = smallestLarge + c.rng.IntN(largestLarge-smallestLarge)
	}
	at := c.rng.IntN(poolBytes)
	return c.data.pool[at : at+n]
}

// grow makes key numbers below n known.
func (c *churn) grow(n int) {
	for len(c.sizes) < n {
		c.sizes = append(c.sizes, -1)
	}
}

// set writes a new value of a key.
func (c *churn) set(i int) error {
	c.grow(i + 1)
	v := c.value()
	if err := c.change(kv.Change{Key: c.key(i), Value: v}); err != nil {
		return err
	}
	if c.sizes[i] >= 0 {
		c.live.Add(-int64(keySize) - int64(c.sizes[i]))
	}
	c.sizes[i] = int32(len(v))
	c.live.Add(int64(keySize + len(v)))
	return nil
}

// remove deletes a key.
func (c *churn) remove(i int) error {
	if err := c.change(kv.Change{Key: c.key(i), Delete: true}); err != nil {
		return err
	}
	c.live.Add(-int64(keySize) - int64(c.sizes[i]))
	c.sizes[i] = -1
	return nil
}

func (c *churn) key(i int) []byte {
	c.keyBuf = c.data.AppendKey(c.keyBuf[:0], i)
	return c.keyBuf
}

// change writes, at most at the rate that was asked for.
func (c *churn) change(ch kv.Change) error {
	c.batch = append(c.batch[:0], ch)
	if err := c.write.Apply(c.batch); err != nil {
		return err
	}
	n := c.written.Add(int64(len(ch.Key)+len(ch.Value))) - c.pace
	c.ops.Add(1)
	if c.rate > 0 && !c.began.IsZero() {
		if ahead := time.Duration(float64(n)/c.rate*1e9) - time.Since(c.began); ahead > time.Millisecond {
			time.Sleep(ahead)
		}
	}
	return nil
}

func (c *churn) stopped() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

func (c *churn) load() error {
	for _, i := range c.rng.Perm(c.keys) {
		if err := c.set(i); err != nil {
			return err
		}
	}
	return nil
}

func (c *churn) deleteMost() error {
	for _, i := range c.rng.Perm(c.keys)[c.keys/keptShare:] {
		if c.stopped() {
			break
		}
		if err := c.remove(i); err != nil {
			return err
		}
	}
	return nil
}

// times calls fn as often as the data is to be written again.
func (c *churn) times(fn func(i int) error) error {
	for i := range int(float64(c.keys) * c.factor) {
		if c.stopped() {
			break
		}
		if err := fn(i); err != nil {
			return err
		}
	}
	return nil
}

func (c *churn) overwriteUniform() error {
	return c.times(func(int) error { return c.set(c.rng.IntN(c.keys)) })
}

func (c *churn) overwriteZipf() error {
	z := rand.NewZipf(c.rng, zipfExponent, 1, uint64(c.keys-1))
	place := c.rng.Perm(c.keys) // so that hot keys are no neighbours
	return c.times(func(int) error { return c.set(place[z.Uint64()]) })
}

func (c *churn) queue() error {
	return c.times(func(i int) error {
		if err := c.set(c.keys + i); err != nil {
			return err
		}
		return c.remove(i)
	})
}

// expire writes new keys, at such a rate that as much is live as in the other
// works, for some times the time to live.
func (c *churn) expire() error {
	c.rate = float64(c.keys) * float64(c.data.ValueSize+keySize) / c.ttl.Seconds()
	type mortal struct {
		at   time.Time
		size int64
	}
	var alive []mortal
	return c.times(func(i int) error {
		v := c.value()
		if err := c.change(kv.Change{Key: c.key(i), Value: v, TTL: c.ttl}); err != nil {
			return err
		}
		now := time.Now()
		alive = append(alive, mortal{now.Add(c.ttl), int64(keySize + len(v))})
		c.live.Add(int64(keySize + len(v)))
		for alive[0].at.Before(now) {
			c.live.Add(-alive[0].size)
			alive = alive[1:]
		}
		return nil
	})
}

// check compares the store's keys with those that are live.
func (c *churn) check() error {
	got, err := scan(c.store, nil, -1, false)
	if err != nil {
		return err
	}
	want := len(c.sizes)
	for _, n := range c.sizes {
		if n < 0 {
			want--
		}
	}
	if got.Entries != want {
		return fmt.Errorf("the store has %d keys, want %d", got.Entries, want)
	}
	return nil
}

// pickSpaceWorks reads a list of works.
func pickSpaceWorks(list string) ([]spaceWork, error) {
	all := spaceWorks()
	if list == "all" {
		return all, nil
	}
	var picked []spaceWork
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(all, func(w spaceWork) bool { return w.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no work %q", name)
		}
		picked = append(picked, all[i])
	}
	return picked, nil
}
