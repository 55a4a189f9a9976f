package y

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/ristretto/v2/z"
)

// WaterMark follows work with rising indices that ends in any order: DoneUntil is the highest index
// up to which everything that began has ended. An index has ended once Done was called for it as
// often as Begin, and at least once.
//
// All methods may be called by several goroutines. The effect of a call is visible when it returns.
type WaterMark struct {
	// Name stands for the WaterMark in the caller's logs.
	Name string

	doneUntil atomic.Uint64
	lastIndex atomic.Uint64

	mu      sync.Mutex
	begun   indexHeap                  // indices in open, the lowest first
	open    map[uint64]int             // calls of Begin less those of Done
	waiters map[uint64][]chan struct{} // closed when doneUntil reaches the index
}

// Init is to be called once before other methods. It calls closer.Done when closer is closed; the
// WaterMark still works after that.
func (w *WaterMark) Init(closer *z.Closer) {
	w.mu.Lock()
	w.open = make(map[uint64]int)
	w.waiters = make(map[uint64][]chan struct{})
	w.mu.Unlock()
	go func() {
		defer closer.Done()
		<-closer.HasBeenClosed()
	}()
}

// Begin says that work with this index has begun.
func (w *WaterMark) Begin(index uint64) {
	w.lastIndex.Store(index)
	w.count(1, index)
}

// BeginMany is Begin for several indices. LastIndex is the last of them.
func (w *WaterMark) BeginMany(indices []uint64) {
	if len(indices) == 0 {
		return
	}
	w.lastIndex.Store(indices[len(indices)-1])
	w.count(1, indices...)
}

// Done says that work with this index has ended.
func (w *WaterMark) Done(index uint64) { w.count(-1, index) }

// DoneMany is Done for several indices.
func (w *WaterMark) DoneMany(indices []uint64) { w.count(-1, indices...) }

// DoneUntil returns the highest index up to which everything that began has ended.
func (w *WaterMark) DoneUntil() uint64 { return w.doneUntil.Load() }

// SetDoneUntil sets what DoneUntil returns. Call it when nothing is between Begin and Done.
func (w *WaterMark) SetDoneUntil(index uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.doneUntil.Store(index)
	w.wakeLocked(index)
}

// LastIndex returns the index of the last Begin.
func (w *WaterMark) LastIndex() uint64 { return w.lastIndex.Load() }

// WaitForMark waits until DoneUntil is at least index, or ctx ends. Then it returns ctx.Err().
func (w *WaterMark) WaitForMark(ctx context.Context, index uint64) error {
	if w.DoneUntil() >= index {
		return nil
	}
	w.mu.Lock()
	if w.DoneUntil() >= index {
		w.mu.Unlock()
		return nil
	}
	reached := make(chan struct{})
	w.waiters[index] = append(w.waiters[index], reached)
	w.mu.Unlock()

	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		w.forget(index, reached)
		return ctx.Err()
	}
}

// forget takes a waiter away that has given up.
func (w *WaterMark) forget(index uint64, reached chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := w.waiters[index][:0]
	for _, c := range w.waiters[index] {
		if c != reached {
			rest = append(rest, c)
		}
	}
	if len(rest) == 0 {
		delete(w.waiters, index)
		return
	}
	w.waiters[index] = rest
}

func (w *WaterMark) count(by int, indices ...uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, index := range indices {
		if _, found := w.open[index]; !found {
			heap.Push(&w.begun, index)
		}
		w.open[index] += by
		w.advanceLocked()
	}
}

// advanceLocked moves doneUntil over what has ended. A count below zero has ended, too: a caller
// that starts again in the middle of its log only calls Done.
func (w *WaterMark) advanceLocked() {
	until := w.doneUntil.Load()
	for len(w.begun) > 0 && w.open[w.begun[0]] <= 0 {
		index := heap.Pop(&w.begun).(uint64)
		delete(w.open, index)
		until = max(until, index)
	}
	if until > w.doneUntil.Load() {
		w.doneUntil.Store(until)
		w.wakeLocked(until)
	}
}

func (w *WaterMark) wakeLocked(until uint64) {
	for index, waiting := range w.waiters {
		if index > until {
			continue
		}
		for _, reached := range waiting {
			close(reached)
		}
		delete(w.waiters, index)
	}
}

// indexHeap is a container/heap with the lowest index first.
type indexHeap []uint64

func (h indexHeap) Len() int           { return len(h) }
func (h indexHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h indexHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *indexHeap) Push(x any)        { *h = append(*h, x.(uint64)) }
func (h *indexHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
