package commit

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/conflict"
	"github.com/brockdb/brock/internal/entry"
)

// Turns lets those go one after the other who were refused again and again because of
// the same keys or ranges. For each of these there is a line. Who is the first in all of
// its lines has its turn: it runs, while the others in these lines wait; and requests
// that yield are refused if they would write there. So its transaction is refused at
// most because of what was on its way when its turn began, or does not yield.
//
// Lines are in the order of numbers, which are given first come, first served. A
// Turn only ever waits for those with smaller numbers, so there is no deadlock.
type Turns struct {
	some atomic.Int32 // turns in a line: while there are none, nobody looks further

	mu     sync.Mutex
	given  uint64           // numbers
	keys   map[string]*line // by the key
	ranges []*line
}

// turnLimit is how long the function of a transaction may run in its turn, while others
// wait. It loses the turn then, but goes on.
const turnLimit = 100 * time.Millisecond

// line is the turns that wait for a key or a range, least number first.
type line struct {
	at    *conflict.Refusal // what it is for, as those are told who yield
	turns []*Turn
}

func newLine(at *conflict.Refusal) *line {
	return &line{at: &conflict.Refusal{Lo: at.Lo, Hi: at.Hi, Range: at.Range, Yields: true}}
}

// Turn is the place of one call in the lines. It is used by one goroutine at a time;
// fields are guarded by Turns.mu.
type Turn struct {
	turns  *Turns
	number uint64
	lines  []*line
	begun  chan struct{} // closed once it has its turn
	has    bool          // it has
	limit  *time.Timer   // of its turn
}

// New returns a Turn that is in no line. End it.
func (s *Turns) New() *Turn { return &Turn{turns: s} }

// Wait has t stand in the line for what its transaction was refused because of, and
// returns when it has its turn, or with ctx's error.
func (t *Turn) Wait(ctx context.Context, because *conflict.Refusal) error {
	if because.Dropped != nil {
		return nil
	}
	begun := t.stand(because)
	select {
	case <-begun:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *Turn) stand(because *conflict.Refusal) (begun <-chan struct{}) {
	s := t.turns
	s.mu.Lock()
	defer s.mu.Unlock()
	// One that has lost its turn comes last again.
	if len(t.lines) == 0 {
		s.given++
		t.number = s.given
		s.some.Add(1)
	}
	// Its number stays: what is new may be taken by one with a greater number, who then
	// yields. To wait in the order of numbers alone is what keeps lines from deadlock.
	t.pauseLocked()
	t.begun = make(chan struct{})
	if l := s.lineLocked(because); !slices.Contains(t.lines, l) {
		i, _ := slices.BinarySearchFunc(l.turns, t.number, func(o *Turn, n uint64) int { return cmp.Compare(o.number, n) })
		l.turns = slices.Insert(l.turns, i, t)
		t.lines = append(t.lines, l)
	}
	t.beginLocked()
	return t.begun
}

// lineLocked is the line for a key or range.
func (s *Turns) lineLocked(at *conflict.Refusal) *line {
	if at.Range {
		i := slices.IndexFunc(s.ranges, func(l *line) bool {
			return bytes.Equal(l.at.Lo, at.Lo) && bytes.Equal(l.at.Hi, at.Hi)
		})
		if i < 0 {
			i = len(s.ranges)
			s.ranges = append(s.ranges, newLine(at))
		}
		return s.ranges[i]
	}
	l := s.keys[string(at.Lo)]
	if l == nil {
		if s.keys == nil {
			s.keys = make(map[string]*line)
		}
		l = newLine(at)
		s.keys[string(at.Lo)] = l
	}
	return l
}

// beginLocked gives t its turn if it is the first in all of its lines.
func (t *Turn) beginLocked() {
	if t.has || slices.ContainsFunc(t.lines, func(l *line) bool { return l.turns[0] != t }) {
		return
	}
	// The timer may fire when this turn is over and the next one has begun: then it is of
	// no account.
	t.has = true
	begun := t.begun
	close(begun)
	t.limit = time.AfterFunc(turnLimit, func() { t.lose(begun) })
}

// lose ends the turn that has begun then, unless it has ended.
func (t *Turn) lose(begun chan struct{}) {
	t.turns.mu.Lock()
	defer t.turns.mu.Unlock()
	if t.has && t.begun == begun {
		t.leaveLocked()
	}
}

func (t *Turn) pauseLocked() {
	if t.has {
		t.limit.Stop()
		t.has = false
	}
}

// commits says that the function of the transaction has come to its end: to commit
// counts for no limit.
func (t *Turn) commits() {
	if t == nil {
		return
	}
	t.turns.mu.Lock()
	defer t.turns.mu.Unlock()
	if t.has {
		t.limit.Stop()
	}
}

// End takes t out of all lines. It may be called more than once.
func (t *Turn) End() {
	s := t.turns
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(t.lines) > 0 {
		t.leaveLocked()
	}
}

func (t *Turn) leaveLocked() {
	t.pauseLocked()
	s := t.turns
	s.some.Add(-1)
	for _, l := range t.lines {
		i := slices.Index(l.turns, t)
		l.turns = slices.Delete(l.turns, i, i+1)
		switch {
		case len(l.turns) > 0:
			l.turns[0].beginLocked()
		case l.at.Range:
			i := slices.Index(s.ranges, l)
			s.ranges = slices.Delete(s.ranges, i, i+1)
		default:
			delete(s.keys, string(l.at.Lo))
		}
	}
	t.lines = nil
}

// mostYielded is how many records of a request are looked at. Who writes more seldom
// is fast enough to be ahead of others again and again.
const mostYielded = 64

// yields returns the refusal of a request that has to yield to the turn of another.
func (s *Turns) yields(r *Request) error {
	if !r.Yields || s.some.Load() == 0 || r.Check.AsksNothing() {
		return nil
	}
	// Looked at before the request joins a group, so that a leader has nothing to do with
	// it. Who is on its way when a turn begins is missed, once.
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for rest := r.Payload; len(rest) > 0 && n < mostYielded; n++ {
		rec, err := entry.DecodeRecord(rest)
		if err != nil {
			return err
		}
		if at := s.takenLocked(&rec, r.Turn); at != nil {
			return at
		}
		rest = rest[rec.Size:]
	}
	return nil
}

// takenLocked is the key or range that the record would change while another has its
// turn there, nil if it may.
func (s *Turns) takenLocked(rec *entry.Record, t *Turn) *conflict.Refusal {
	lo, hi := rec.Key, []byte(nil)
	if rec.Kind == entry.RangeDelete {
		hi = rec.Value
		for _, l := range s.keys {
			if l.before(t) && l.meets(lo, hi) {
				return l.at
			}
		}
	} else if l := s.keys[string(lo)]; l != nil && l.before(t) {
		return l.at
	}
	for _, l := range s.ranges {
		if l.before(t) && l.meets(lo, hi) {
			return l.at
		}
	}
	return nil
}

// before reports whether one has its turn in l who comes before t; nil is no turn.
func (l *line) before(t *Turn) bool {
	first := l.turns[0]
	return first != t && first.has && (t == nil || len(t.lines) == 0 || first.number < t.number)
}

// meets reports whether l is for something in [lo, hi) or, with a nil hi, for the key lo.
func (l *line) meets(lo, hi []byte) bool {
	if hi == nil && bytes.Compare(lo, l.at.Lo) < 0 || hi != nil && bytes.Compare(hi, l.at.Lo) <= 0 {
		return false
	}
	if l.at.Range {
		return l.at.Hi == nil || bytes.Compare(lo, l.at.Hi) < 0
	}
	return bytes.Compare(lo, l.at.Lo) <= 0
}
