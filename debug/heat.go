package debug

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/brockdb/brock"
)

// Limits of the heat map.
const (
	heatSlot      = 2 * time.Second // time of one column
	heatSlots     = 150             // columns that stay: 5 minutes
	heatChanges   = 100_000         // changes that are read for one column; the rest of its time is left out
	heatKeys      = 512             // keys that are kept of one column, drawn evenly from those read
	heatKeyBytes  = 64              // bytes of such a key that are kept
	heatKeyspaces = 200             // keyspaces whose writes are counted apart
	heatRows      = 40              // ranges of keys, one a row
	heatRebound   = 30 * time.Second
)

// heat keeps where writes went in the last minutes. It has no goroutine: those who look take turns
// in watching the store, and when nobody looks any more, it forgets all.
type heat struct {
	db       *brock.DB
	watching sync.Mutex // held by who watches

	mu      sync.Mutex // guards:
	viewers int
	slots   []*slot // the newest heatSlots, the oldest first
}

// slot is what was written in the time of one column.
type slot struct {
	at        int64            // milliseconds since 1970, of its end
	counts    map[string]int64 // writes by keyspace
	other     int64            // writes in keyspaces beyond heatKeyspaces
	seen      int64            // changes that were read
	share     float64          // part of the time in which changes were read
	keys      []written        // a sample of them
	truncated bool             // there were more changes than are read
}

// written is a key that was written.
type written struct {
	keyspace string
	key      []byte // its beginning
}

func (h *heat) join() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.viewers++
}

func (h *heat) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.viewers--; h.viewers == 0 {
		h.slots = nil
	}
}

// add adds a slot.
func (h *heat) add(s *slot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.slots) == heatSlots {
		h.slots = append(h.slots[:0], h.slots[1:]...)
	}
	h.slots = append(h.slots, s)
}

// after returns the slots behind a time. They don't change any more.
func (h *heat) after(at int64) []*slot {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := len(h.slots)
	for i > 0 && h.slots[i-1].at > at {
		i--
	}
	return slices.Clone(h.slots[i:])
}

// collect watches the store for the time of one slot, or a part of it.
func (h *heat) collect(ctx context.Context) error {
	end := time.NewTimer(heatSlot)
	defer end.Stop()
	follows, watched := h.db.Options().Mode == brock.Follow, heatSlot
	if follows {
		watched /= 2 // each look syncs files of the writer
	}
	begin := time.Now()
	watch, cancel := context.WithTimeout(ctx, watched)
	defer cancel()
	s := &slot{counts: make(map[string]int64)}
	var caught looks
	// Buffered: a look at the store must not make it sync. No position from the slot before: a Watch
	// that begins now never asks for history that is gone.
	for commit, err := range h.db.Watch(watch, brock.WatchOptions{KeysOnly: true, Buffered: true}) {
		switch {
		case err == nil:
			if err = s.addCommit(commit); commit.Caught {
				caught.add(s.seen)
			}
		case watch.Err() != nil && ctx.Err() == nil:
			err = errSlotFull
		}
		switch {
		case errors.Is(err, errSlotFull), errors.Is(err, brock.ErrVersionGone):
			// The time is over, or the writers are faster. What was read is a sample, too.
		case err != nil:
			return err
		default:
			continue
		}
		break
	}
	took := time.Since(begin)
	if follows {
		took = caught.span(took)
	}
	s.share = min(1, max(0.001, took.Seconds()/heatSlot.Seconds()))
	select {
	case <-end.C:
	case <-ctx.Done():
	}
	s.at = time.Now().UnixMilli()
	h.add(s)
	return ctx.Err()
}

// looks are the times at which a follower had caught up. It sees commits at these only, so what was
// committed before the first and behind the last one must not count with the time around them.
type looks struct {
	n           int
	first, last time.Time
	before      int64 // changes up to the first
	seen        int64 // and up to the last
}

func (l *looks) add(seen int64) {
	if l.n++; l.n == 1 {
		l.first, l.before = time.Now(), seen
	}
	l.last, l.seen = time.Now(), seen
}

// span returns the time that all changes stand for; took is that of the watch.
func (l *looks) span(took time.Duration) time.Duration {
	if l.n < 3 || l.seen == l.before { // too few to tell
		return took
	}
	return time.Duration(float64(l.last.Sub(l.first)) * float64(l.seen) / float64(l.seen-l.before))
}

// errSlotFull says that no more is read for a slot.
var errSlotFull = errors.New("enough for this slot")

// addCommit counts the changes of a commit.
func (s *slot) addCommit(c *brock.Commit) error {
	for ch, err := range c.Changes() {
		if err != nil {
			return err
		}
		if ch.Kind == brock.ChangeKeyspaceCreated || ch.Kind == brock.ChangeKeyspaceDropped {
			continue
		}
		if s.seen == heatChanges {
			s.truncated = true
			return errSlotFull
		}
		s.addKey(ch.Keyspace, ch.Key)
	}
	return nil
}

// addKey counts a write of a key. Each one is in the sample with the same chance (Vitter, "Random
// Sampling with a Reservoir", algorithm R).
func (s *slot) addKey(keyspace string, key []byte) {
	s.seen++
	if _, known := s.counts[keyspace]; known || len(s.counts) < heatKeyspaces {
		s.counts[keyspace]++
	} else {
		s.other++
	}
	i := int64(len(s.keys))
	if i == heatKeys {
		if i = rand.Int64N(s.seen); i >= heatKeys {
			return
		}
		s.keys[i] = written{keyspace, append(s.keys[i].key[:0], key[:min(len(key), heatKeyBytes)]...)}
		return
	}
	s.keys = append(s.keys, written{keyspace, bytes.Clone(key[:min(len(key), heatKeyBytes)])})
}

// heatGrid is a heat map: which range of keys each row is, and its columns.
type heatGrid struct {
	Bounds  []binary     `json:"bounds"` // first keys of all rows but the first
	Columns []heatColumn `json:"columns"`
	Slot    int64        `json:"slot"` // milliseconds of a column
	Most    int          `json:"most"` // columns that are kept
}

// heatColumn is how many keys a second were written in each row.
type heatColumn struct {
	At        int64     `json:"at"`
	Rows      []float64 `json:"rows"`
	Total     float64   `json:"total"` // in the keyspace
	All       float64   `json:"all"`   // in the store
	Truncated bool      `json:"truncated,omitempty"`
	Keyspaces []busy    `json:"keyspaces"` // the busiest
}

// busy is how many keys a second were written in a keyspace.
type busy struct {
	Name binary  `json:"name"`
	Rate float64 `json:"rate"`
}

// heatMap sends the heat map of a keyspace, and a column each time that a slot is over.
func (h *handler) heatMap(ctx context.Context, q *query, s *eventStream) error {
	name, lo, hi := string(q.bytes("ks")), q.bytes("lo"), q.bytes("hi")
	ks, err := h.keyspace(q)
	if err != nil {
		return err
	}
	h.heat.join()
	defer h.heat.leave()
	var bounds [][]byte
	var bounded time.Time
	sent := int64(0)
	tick := time.NewTicker(heatSlot / 4)
	defer tick.Stop()
	for {
		if err := h.checkOpen(); err != nil {
			return err
		}
		fresh := h.heat.after(sent)
		if bounded.IsZero() || time.Since(bounded) > heatRebound {
			all := h.heat.after(0)
			bounds, bounded = heatBounds(ks, lo, hi, all), time.Now()
			grid := heatGrid{Bounds: []binary{}, Columns: []heatColumn{}, Slot: heatSlot.Milliseconds(), Most: heatSlots}
			for _, b := range bounds {
				grid.Bounds = append(grid.Bounds, b)
			}
			for _, c := range all {
				grid.Columns = append(grid.Columns, c.column(name, lo, hi, bounds))
			}
			err = s.send("grid", grid)
			fresh = all
		} else if len(fresh) > 0 {
			columns := make([]heatColumn, len(fresh))
			for i, c := range fresh {
				columns[i] = c.column(name, lo, hi, bounds)
			}
			err = s.send("columns", columns)
		}
		if err != nil {
			return err
		}
		if len(fresh) > 0 {
			sent = fresh[len(fresh)-1].at
		}
		// One viewer watches, the others wait for what it finds. When it goes, another one takes over.
		if h.heat.watching.TryLock() {
			err := h.heat.collect(ctx)
			h.heat.watching.Unlock()
			if err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// heatBounds cuts a range into rows: by the data that is there, and by the keys that were written if
// there is little, as in a queue.
func heatBounds(ks *brock.Keyspace, lo, hi []byte, slots []*slot) [][]byte {
	keys := ks.Split(lo, hi, heatRows)
	for i, k := range keys {
		keys[i] = k[:min(len(k), heatKeyBytes)]
	}
	if len(keys) < heatRows/2 {
		for _, s := range slots {
			for _, w := range s.keys {
				if w.keyspace == ks.Name() && isWithin(w.key, lo, hi) {
					keys = append(keys, w.key)
				}
			}
		}
	}
	slices.SortFunc(keys, bytes.Compare)
	keys = slices.CompactFunc(keys, bytes.Equal)
	if len(keys) < heatRows {
		return keys
	}
	bounds := make([][]byte, 0, heatRows)
	for i := 1; i < heatRows; i++ {
		bounds = append(bounds, keys[i*len(keys)/heatRows])
	}
	return slices.CompactFunc(bounds, bytes.Equal)
}

// isWithin reports whether a key is in [lo, hi); nil is no bound.
func isWithin(key, lo, hi []byte) bool {
	return bytes.Compare(key, lo) >= 0 && (hi == nil || bytes.Compare(key, hi) < 0)
}

// column returns the slot as a column of rows with these bounds.
func (s *slot) column(keyspace string, lo, hi []byte, bounds [][]byte) heatColumn {
	seconds := heatSlot.Seconds() * s.share
	c := heatColumn{
		At: s.at, Rows: make([]float64, len(bounds)+1), Truncated: s.truncated, Keyspaces: []busy{},
		Total: round(float64(s.counts[keyspace]) / seconds), All: round(float64(s.seen) / seconds),
	}
	if len(s.keys) > 0 {
		each := float64(s.seen) / float64(len(s.keys)) / seconds // writes a second for which a key of the sample stands
		for _, w := range s.keys {
			if w.keyspace == keyspace && isWithin(w.key, lo, hi) {
				row, at := slices.BinarySearchFunc(bounds, w.key, bytes.Compare)
				if at { // a bound is the first key of the next row
					row++
				}
				c.Rows[row] += each
			}
		}
	}
	for i := range c.Rows {
		c.Rows[i] = round(c.Rows[i])
	}
	for name, n := range s.counts {
		c.Keyspaces = append(c.Keyspaces, busy{binary(name), round(float64(n) / seconds)})
	}
	slices.SortFunc(c.Keyspaces, func(a, b busy) int {
		switch {
		case a.Rate != b.Rate && a.Rate > b.Rate:
			return -1
		case a.Rate != b.Rate:
			return 1
		}
		return bytes.Compare(a.Name, b.Name)
	})
	c.Keyspaces = c.Keyspaces[:min(6, len(c.Keyspaces))]
	return c
}
