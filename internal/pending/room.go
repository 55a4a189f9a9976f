package pending

import "sync"

// Room is memory that the writes of many goroutines share, in bytes: of those that are
// a commit of one call, each of which ends soon. Who finds too little of it waits; first
// come, first served.
type Room struct {
	mu      sync.Mutex
	size    int64
	taken   int64
	waiting []*waiter // in order of arrival
	spare   []byte    // what the last large write has left
}

type waiter struct {
	bytes int64
	ready chan struct{} // closed once it has its bytes
}

// NewRoom returns a Room of this size.
func NewRoom(size int64) *Room { return &Room{size: size} }

// Size is the size of the Room.
func (r *Room) Size() int64 { return r.size }

// Enter takes n bytes, or all there are, and waits for them if need be. Leave gives
// them back.
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

// maxSpare is the memory that is kept for the next large write, at most, in bytes. Without
// it each such write has memory cleared, and soon a collection of garbage run.
const maxSpare = 8 << 20

// Lend returns memory of n bytes or more, which is empty and anything but zeros, for one
// who is in: what was given back last, or new memory.
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

// Bytes is how many bytes are taken, and kept for the next large write.
func (r *Room) Bytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken + int64(cap(r.spare))
}
