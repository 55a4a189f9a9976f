package pending

import "sync"

// MemoryLimiter bounds the memory for the records of DB.Set and other calls that commit one write,
// on all goroutines together. A call that finds too little free waits, first come, first served.
// That is short: each call ends with its commit. (Without it, many goroutines with large values
// could take any amount of memory, while they wait for one commit group.)
type MemoryLimiter struct {
	mu      sync.Mutex
	size    int64     // bytes that calls may have together
	taken   int64     // bytes that calls have now
	waiting []*waiter // in order of arrival
	spare   []byte    // buffer of an earlier large write, for the next one; may be nil
}

// waiter is one call that waits for its bytes.
type waiter struct {
	bytes int64
	ready chan struct{} // closed when it has its bytes
}

// NewMemoryLimiter returns a MemoryLimiter of size bytes.
func NewMemoryLimiter(size int64) *MemoryLimiter { return &MemoryLimiter{size: size} }

// Size is how many bytes calls may have together.
func (r *MemoryLimiter) Size() int64 { return r.size }

// TakeBytes takes n bytes, or all there are if n is more, and waits until they are free. Give them
// back with ReturnBytes.
func (r *MemoryLimiter) TakeBytes(n int64) {
	// A value larger than the limit must not wait for ever: it goes alone.
	n = min(n, r.size)
	r.mu.Lock()
	// Not past those who wait: many small writes would starve a large one.
	if len(r.waiting) == 0 && r.taken+n <= r.size {
		r.taken += n
		r.mu.Unlock()
		return
	}
	w := &waiter{n, make(chan struct{})}
	r.waiting = append(r.waiting, w)
	r.mu.Unlock()
	<-w.ready
}

// ReturnBytes gives n bytes back, as many as TakeBytes was called with.
func (r *MemoryLimiter) ReturnBytes(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken -= min(n, r.size)
	// Bytes are handed over under mu, so nobody who comes now can take them first.
	for len(r.waiting) > 0 && r.taken+r.waiting[0].bytes <= r.size {
		w := r.waiting[0]
		r.waiting = r.waiting[1:]
		r.taken += w.bytes
		close(w.ready)
	}
}

// maxSpare is how many bytes are kept for the next large write, at most. Without that, each
// large write would allocate and clear memory, and make the Go garbage collector run more often.
const maxSpare = 8 << 20

// LendBuffer returns an empty slice with a capacity of at least n bytes, which may have old data.
// It is the memory that was given back last, or new memory. Call it between TakeBytes and
// ReturnBytes.
func (r *MemoryLimiter) LendBuffer(n int) []byte {
	r.mu.Lock()
	spare := r.spare
	r.spare = nil
	r.mu.Unlock()
	if cap(spare) < n {
		const unit = 256 << 10 // rounded up, so that values of about one length can use it
		spare = make([]byte, 0, (n+unit-1)/unit*unit)
	}
	return spare
}

// ReturnBuffer ends the use of what LendBuffer has returned.
func (r *MemoryLimiter) ReturnBuffer(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The larger buffer serves more writes. It counts in UsedBytes, so it stays below half the
	// limit.
	if most := min(maxSpare, r.size/2); int64(cap(b)) <= most && cap(b) > cap(r.spare) {
		r.spare = b[:0]
	}
}

// UsedBytes is how many bytes calls have taken, and how many are kept for the next large write.
func (r *MemoryLimiter) UsedBytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken + int64(cap(r.spare))
}
