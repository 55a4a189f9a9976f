package main

import (
	"fmt"
	"sync"
	"time"
)

// point is what a store took at one moment.
type point struct {
	at    time.Duration
	disk  int64 // what the file system keeps for its files
	files int64 // their lengths
	live  int64 // keys and values that can be read
}

func (p point) ratio() float64 { return float64(p.disk) / float64(max(p.live, 1)) }

// text returns the ratio, or the disk use if nothing is live.
func (p point) text() string {
	if p.live == 0 {
		return fmt.Sprintf("%d MB", p.disk>>20)
	}
	return fmt.Sprintf("%.2f", p.ratio())
}

// mostDisk ends a work whose store takes this many times what is live, before the
// disk is full.
const mostDisk = 30

// spaceWatch looks at a store's directory again and again.
type spaceWatch struct {
	dir  string
	ch   *churn
	full func(error) // called once, when it takes far too much
	done chan struct{}
	wait sync.WaitGroup

	mu     sync.Mutex // guards:
	began  time.Time
	points []point
	over   bool
	base   int64 // the most that was live
}

const lookEvery = 50 * time.Millisecond

func watchSpace(dir string, ch *churn, full func(error)) *spaceWatch {
	w := &spaceWatch{dir: dir, ch: ch, full: full, done: make(chan struct{}), began: time.Now()}
	w.wait.Go(func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-w.done:
				return
			case <-tick.C:
				w.look()
			}
		}
	})
	return w
}

// look takes a point and returns its index.
func (w *spaceWatch) look() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	live := w.ch.live.Load()
	files, disk, err := diskSize(w.dir)
	live = max(live, w.ch.live.Load()) // what was added or removed meanwhile counts for the store
	p := point{at: time.Since(w.began), disk: disk, files: files, live: live}
	w.base = max(w.base, live)
	w.points = append(w.points, p)
	if err == nil && disk > mostDisk*max(w.base, 64<<20) {
		err = fmt.Errorf("%d MB on disk for %d MB", disk>>20, live>>20)
	}
	if err != nil && !w.over {
		w.over = true
		w.full(err)
	}
	return len(w.points) - 1
}

func (w *spaceWatch) close() []point {
	close(w.done)
	w.wait.Wait()
	return w.points
}
