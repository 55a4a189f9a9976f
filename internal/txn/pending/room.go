package pending

import "sync"

// Room bounds the memory for the records of DB.Set and other calls that commit one write, on
// all goroutines together. A call that finds too little room waits, first come, first
// served. That is short: each call ends with its commit.
type Room struct {
	mu      sync.Mutex
	size    int64     // bytes there are
	taken   int64     // bytes that calls have now
	waiting []*waiter // in order of arrival
	spare   []byte    // memory of an earlier large write, for the next one
}

type waiter struct {
	bytes int64
	ready chan struct{} // closed when it has its bytes
}

// NewRoom returns a Room of size bytes.
func NewRoom(size int64) *Room { return &Room{size: size} }

// Size is the size of the Room, in bytes.
func (r *Room) Size() int64 { return r.size }

// Enter takes n bytes, or all of the Room if n is more, and waits until they are free. Give
// them back with Leave.
func (r *Room) Enter(n int64) {
	n = min(n, r.size)
	r.mu.Lock()
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

// Leave gives n bytes back, as many as Enter was called with.
func (r *Room) Leave(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken -= min(n, r.size)
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

// Lend returns an empty slice with a capacity of at least n bytes, which may have old data.
// It is the memory that was given back last, or new memory. Call it between Enter and Leave.
func (r *Room) Lend(n int) []byte {
	r.mu.Lock()
	spare := r.spare
	r.spare = nil
	r.mu.Unlock()
	if cap(spare) < n {
		const unit = 256 << 10 // so that values of about one length can use it
		spare = make([]byte, 0, (n+unit-1)/unit*unit)
	}
	return spare
}

// GiveBack ends the use of what Lend has returned.
func (r *Room) GiveBack(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if most := min(maxSpare, r.size/2); int64(cap(b)) <= most && cap(b) > cap(r.spare) {
		r.spare = b[:0]
	}
}

// Bytes is how many bytes calls have taken, and how many are kept for the next large write.
func (r *Room) Bytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken + int64(cap(r.spare))
}
