package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// recording is a disk in memory, and what has happened to it, in order.
type recording struct {
	mu      sync.Mutex
	data    []byte // the disk as of now
	on      bool
	initial []byte // the disk when the recording began
	events  []event
	written int64 // bytes, by events

	failsAt int64 // bytes after which the disk fails for good, with reads too; 0 = it doesn't
	failed  bool
}

// kind says what an event is.
type kind int

const (
	write kind = iota // data came to an offset of the disk
	flush             // the disk made durable what had come
	ack               // a worker was told that its commit is durable
)

type event struct {
	kind           kind
	offset         int64  // of a write
	data           []byte // of a write
	worker, commit int    // of an ack
}

func (r *recording) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.initial, r.on = slices.Clone(r.data), true
}

func (r *recording) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on, r.failed = false, false // the file system is unmounted
}

func (r *recording) add(e event) {
	if !r.on {
		return
	}
	r.events = append(r.events, e)
	r.written += int64(len(e.data))
	r.failed = r.failed || r.failsAt > 0 && r.written > r.failsAt
}

// errFailed is the error of a disk that has failed.
var errFailed = errors.New("the disk has failed")

// readAt reads what is on the disk at off, and returns how many bytes that are.
func (r *recording) readAt(to []byte, off int64) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed {
		return 0, errFailed
	}
	return copy(to, r.data[min(off, int64(len(r.data))):]), nil
}

// writeAt returns how many bytes have room on the disk.
func (r *recording) writeAt(data []byte, off int64) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed {
		return 0, errFailed
	}
	n := copy(r.data[min(off, int64(len(r.data))):], data)
	r.add(event{kind: write, offset: off, data: slices.Clone(data[:n])})
	return n, nil
}

func (r *recording) flush() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed {
		return errFailed
	}
	r.add(event{kind: flush})
	return nil
}

func (r *recording) acknowledge(worker, commit int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(event{kind: ack, worker: worker, commit: commit})
}

func (r *recording) count(k kind) (n int) {
	for _, e := range r.events {
		if e.kind == k {
			n++
		}
	}
	return n
}

// cut is a moment at which the power goes, and what happens to the writes that no flush
// has made durable.
type cut struct {
	at     int     // index of the first event that does not happen
	keep   float64 // the part of pending pieces that reach the disk
	sector int     // bytes of a piece
	acks   acks    // what was acknowledged by then
}

func (c cut) String() string {
	return fmt.Sprintf("power goes before event %d, %.0f %% of pending pieces of %d B are written", c.at, 100*c.keep, c.sector)
}

// images calls fn for n images of the disk, in the order of time. The image is fn's.
func (r *recording) images(rng *rand.Rand, n int, fn func(cut, []byte) error) error {
	durable, done, told := slices.Clone(r.initial), 0, 0
	seen := acks{}
	for _, at := range r.moments(rng, n) {
		last := done // the last flush before the cut
		for i := done; i < at; i++ {
			if r.events[i].kind == flush {
				last = i
			}
		}
		for ; done < last; done++ {
			if e := r.events[done]; e.kind == write {
				copy(durable[e.offset:], e.data)
			}
		}
		for ; told < at; told++ {
			if e := r.events[told]; e.kind == ack {
				seen[e.worker] = e.commit
			}
		}
		c := cut{at: at, keep: []float64{0, 1, rng.Float64(), rng.Float64()}[rng.IntN(4)], sector: []int{512, 4096}[rng.IntN(2)], acks: seen}
		if err := fn(c, r.image(rng, slices.Clone(durable), done, c)); err != nil {
			return err
		}
	}
	return nil
}

// image adds to what is durable some pieces of the writes from event first on.
func (r *recording) image(rng *rand.Rand, durable []byte, first int, c cut) []byte {
	for _, e := range r.events[first:c.at] {
		if e.kind != write {
			continue
		}
		off := e.offset
		for piece := range slices.Chunk(e.data, c.sector) {
			if rng.Float64() < c.keep {
				copy(durable[off:], piece)
			}
			off += int64(len(piece))
		}
	}
	return durable
}

// moments draws n moments. Most of them lie where much is pending; some are early, when the
// store is being made, or anywhere.
func (r *recording) moments(rng *rand.Rand, n int) []int {
	type window struct{ first, flush, bytes int }
	var windows []window
	total, w := 0, window{}
	for i, e := range r.events {
		w.bytes += len(e.data)
		if e.kind == flush {
			w.flush = i
			windows, total = append(windows, w), total+w.bytes
			w = window{first: i + 1}
		}
	}
	moments := make([]int, n)
	for i := range moments {
		switch {
		case total == 0 || i%8 == 0:
			moments[i] = rng.IntN(len(r.events) + 1)
		case i%8 == 1:
			moments[i] = rng.IntN(min(600, len(r.events)) + 1)
		default:
			x := rng.IntN(total)
			for _, w := range windows {
				if x -= w.bytes; x >= 0 {
					continue
				}
				moments[i] = w.flush
				if i%3 == 0 {
					moments[i] = w.first + rng.IntN(w.flush-w.first+1)
				}
				break
			}
		}
	}
	slices.Sort(moments)
	return moments
}

// acks is the last acknowledged commit of each worker.
type acks map[int]int

// String returns the form that parseAcks reads.
func (a acks) String() string {
	var parts []string
	for _, worker := range slices.Sorted(maps.Keys(a)) {
		parts = append(parts, fmt.Sprintf("%d:%d", worker, a[worker]))
	}
	return strings.Join(parts, ",")
}

func parseAcks(text string) (acks, error) {
	a := acks{}
	for part := range strings.SplitSeq(text, ",") {
		var worker, commit int
		if part == "" {
			continue
		}
		if _, err := fmt.Sscanf(part, "%d:%d", &worker, &commit); err != nil {
			return nil, fmt.Errorf("%q: %w", part, err)
		}
		a[worker] = commit
	}
	return a, nil
}

// readAcks calls fn for each line WORKER:COMMIT.
func readAcks(from io.Reader, fn func(worker, commit int)) error {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		a, err := parseAcks(lines.Text())
		if err != nil {
			return err
		}
		for worker, commit := range a {
			fn(worker, commit)
		}
	}
	return lines.Err()
}
