package commit

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/txn/conflict"
)

// Turns makes calls of Update that conflict again and again over the same keys or ranges
// run one after the other. Each such key or range has a line of waiting calls. The call
// that is the first in all of its lines has its turn: it runs, and the others in these
// lines wait. Meanwhile requests that yield (of other calls of Update, which can run again) are refused
// if they would write there. So a transaction in its turn conflicts only with commits that
// had begun before, and with requests that don't yield.
//
// Calls get numbers, first come, first served, and each line is in the order of numbers. A
// Turn only waits for Turns with smaller numbers, so there is no deadlock.
type Turns struct {
	some atomic.Int32 // how many Turns are in a line: if 0, commits need not lock mu

	mu     sync.Mutex
	given  uint64           // the last number that was given
	keys   map[string]*line // the lines of keys, by key
	ranges []*line          // the lines of ranges
}

// turnLimit is how long a call of Update has its turn, while others wait: its function, and then its
// commit. After that it loses the turn; it goes on, but its commit may conflict again. One that is
// in a group already does not: those that begin now are decided after it. Only the end of the turn
// stops the timer, so that nothing that takes long holds up others. A conflict over a key of which
// it has the turn doesn't end the turn.
const turnLimit = 100 * time.Millisecond

// line is the turns that wait for a key or a range, least number first.
type line struct {
	at    *conflict.Refusal // the key or range; also the error of requests that yield
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
	begun  chan struct{} // closed when its turn begins
	has    bool          // it has its turn
	limit  *time.Timer   // ends its turn after turnLimit
}

// New returns a Turn that is in no line. Call End when the call of Update returns.
func (s *Turns) New() *Turn { return &Turn{turns: s} }

// Wait puts t into the line of the key or range that its transaction has conflicted over. It
// returns when t has its turn, or with ctx's error.
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

// stand puts t into a line. The channel is closed when t has its turn.
func (t *Turn) stand(because *conflict.Refusal) (begun <-chan struct{}) {
	s := t.turns
	s.mu.Lock()
	defer s.mu.Unlock()
	// In no line: this is its first conflict, or it has lost its turn. It gets a new number.
	if len(t.lines) == 0 {
		s.given++
		t.number = s.given
		s.some.Add(1)
	}
	l := s.lineLocked(because)
	stands := slices.Contains(t.lines, l)
	if stands && t.has {
		return t.begun // its turn has not helped, and goes on: a new one would hold up the others again
	}
	// In another line it keeps its number, which prevents deadlock. If the first in the new
	// line has a greater number, t goes before it, and that one's commits yield.
	t.pauseLocked()
	t.begun = make(chan struct{})
	if !stands {
		i, _ := slices.BinarySearchFunc(l.turns, t.number, func(o *Turn, n uint64) int { return cmp.Compare(o.number, n) })
		l.turns = slices.Insert(l.turns, i, t)
		t.lines = append(t.lines, l)
	}
	t.beginLocked()
	return t.begun
}

// lineLocked returns the line of a key or range, and makes it if there is none.
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
	// The timer may fire after this turn, when t already has its next one. lose compares
	// begun, and then does nothing.
	t.has = true
	begun := t.begun
	close(begun)
	t.limit = time.AfterFunc(turnLimit, func() { t.lose(begun) })
}

// lose ends the turn that began with this channel, unless it has ended already.
func (t *Turn) lose(begun chan struct{}) {
	t.turns.mu.Lock()
	defer t.turns.mu.Unlock()
	if t.has && t.begun == begun {
		t.leaveLocked()
	}
}

// pauseLocked ends the turn, but t stays in its lines.
func (t *Turn) pauseLocked() {
	if t.has {
		t.limit.Stop()
		t.has = false
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

// leaveLocked takes t out of all lines, and lets those that are now first begin.
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

// mostYielded is how many records of a request yields looks at. A larger transaction takes
// so long that it rarely commits before the one that has its turn.
const mostYielded = 64

// yields returns a conflict.Refusal if r would write where another Turn has its turn; nil if
// r may go on.
func (s *Turns) yields(r *Request) error {
	if !r.Yields || s.some.Load() == 0 || r.Check.AsksNothing() {
		return nil
	}
	// This runs before the request joins a group, so that leaders don't pay for it. A
	// request that passes here just before a turn begins may still make it conflict, once.
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

// takenLocked returns the key or range of a line whose first Turn, not t, has its turn, and
// which rec would change; nil if there is none.
func (s *Turns) takenLocked(rec *entry.Record, t *Turn) *conflict.Refusal {
	lo, hi := rec.Key, []byte(nil)
	if rec.Kind == entry.RangeDelete {
		hi = rec.Value
		for _, l := range s.keys {
			if l.hasBefore(t) && l.meets(lo, hi) {
				return l.at
			}
		}
	} else if l := s.keys[string(lo)]; l != nil && l.hasBefore(t) {
		return l.at
	}
	for _, l := range s.ranges {
		if l.hasBefore(t) && l.meets(lo, hi) {
			return l.at
		}
	}
	return nil
}

// hasBefore reports whether a Turn that goes before t has its turn in l. A t that is nil or in
// no line goes after all.
func (l *line) hasBefore(t *Turn) bool {
	first := l.turns[0]
	return first != t && first.has && (t == nil || len(t.lines) == 0 || first.number < t.number)
}

// meets reports whether the key or range of l overlaps [lo, hi) or, with a nil hi, the key lo.
func (l *line) meets(lo, hi []byte) bool {
	if hi == nil && bytes.Compare(lo, l.at.Lo) < 0 || hi != nil && bytes.Compare(hi, l.at.Lo) <= 0 {
		return false
	}
	if l.at.Range {
		return l.at.Hi == nil || bytes.Compare(lo, l.at.Hi) < 0
	}
	return bytes.Compare(lo, l.at.Lo) <= 0
}
