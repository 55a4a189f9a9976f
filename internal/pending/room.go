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

// Taken is how many bytes are taken.
func (r *Room) Taken() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken
}
