package commit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
)

// Turns makes calls of Update that conflict again and again over the same keys or ranges run one
// after the other. Each such key or range has a line of waiting calls. A call that is the first in
// all of its lines has its turn: it runs, and the others in these lines wait. Meanwhile requests
// that yield (of other calls of Update, which can run again) are refused if they would write there.
// So a transaction in its turn conflicts only with commits that had begun before, and with requests
// that don't yield.
//
// What a call reads may move as others write: the front of a queue is another key in each run. So a
// call that stands in mostLines lines joins that of its whole keyspace next.
//
// Calls get numbers, first come, first served, and each line is in the order of numbers. A Turn
// only waits for Turns with smaller numbers, so there is no deadlock.
type Turns struct {
	waiting atomic.Bool // there is a line; without one commits don't lock mu

	mu    sync.Mutex
	given uint64  // the last number given out
	lines []*line // at most mostLines and one for each call of Update that is under way
}

// turnLimit is how long a call of Update has its turn while others wait: for its function and then
// its commit. After that it loses the turn. It goes on, but its commit may conflict again, unless
// it is in a group already: commits that begin now are decided after it. Nothing else ends the
// limit early, so a slow function cannot hold up others for longer. A conflict over a key of which
// it has the turn doesn't end the turn.
const turnLimit = 100 * time.Millisecond

// mostLines is how many lines of keys and ranges a call joins. Joining one costs a run, and the
// runs of an Update are limited (TxnOptions.Retries).
const mostLines = 4

// line is the turns that wait for a key or a range, least number first.
type line struct {
	at    *Refusal // the key or range, as the error of requests that yield
	turns []*Turn  // in order of their numbers; never empty
}

// Turn is the place of one call in the lines. It is used by one goroutine at a time;
// fields are guarded by Turns.mu.
type Turn struct {
	turns  *Turns        // the lines of the store
	number uint64        // its rank: smaller numbers go first
	lines  []*line       // those that it is in; empty until it conflicts
	begun  chan struct{} // closed when its turn begins; a new one for each wait
	limit  *time.Timer   // ends its turn after turnLimit; nil: it doesn't have its turn
}

// New returns a Turn that is in no line. Call End when the call of Update returns.
func (s *Turns) New() *Turn { return &Turn{turns: s} }

// Wait puts t into the line of the key or range that its transaction has conflicted over. It
// returns when t has its turn, or with ctx's error.
func (t *Turn) Wait(ctx context.Context, because *Refusal) error {
	// No turn brings a dropped keyspace back: run again at once, and find out.
	if because.Dropped != nil {
		return nil
	}
	begun := t.joinLine(because)
	select {
	case <-begun:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// joinLine puts t into a line. The channel is closed when t has its turn.
func (t *Turn) joinLine(because *Refusal) (begun <-chan struct{}) {
	s := t.turns
	s.mu.Lock()
	defer s.mu.Unlock()
	// In no line: this is its first conflict, or it has lost its turn. It gets a new number.
	if len(t.lines) == 0 {
		s.given++
		t.number = s.given
	}
	if id, ok := entry.KeyspaceOf(because.Lo); ok && len(t.lines) >= mostLines {
		because = RefuseRange(entry.AppendKeyspace(nil, id), entry.AfterKeyspace(id))
	}
	l := s.lineLocked(because)
	stands := slices.Contains(t.lines, l)
	if stands && t.limit != nil && l.turns[0] == t {
		return t.begun // its turn has not helped; a new one would hold up the others again
	}
	// Else, if it stands there in its turn, an older one has gone before it, and it waits for that.
	// In another line it keeps its number: a new one could make two Turns wait for each other. If
	// the first in the new line has a greater number, t goes before it, and that one's commits
	// yield.
	t.pauseTurnLocked()
	t.begun = make(chan struct{})
	if !stands {
		i, _ := slices.BinarySearchFunc(l.turns, t.number, func(o *Turn, n uint64) int { return cmp.Compare(o.number, n) })
		l.turns = slices.Insert(l.turns, i, t)
		t.lines = append(t.lines, l)
	}
	// It may be the first in all of its lines already. Else leaveLinesLocked of another begins it.
	t.beginTurnLocked()
	return t.begun
}

// lineLocked returns the line of a key or range, and makes it if there is none.
func (s *Turns) lineLocked(at *Refusal) *line {
	// Equal bounds only: ranges that overlap have lines of their own, and findTurnLocked looks at
	// all of them.
	i := slices.IndexFunc(s.lines, func(l *line) bool {
		return l.at.Range == at.Range && bytes.Equal(l.at.Lo, at.Lo) && bytes.Equal(l.at.Hi, at.Hi)
	})
	if i < 0 {
		i = len(s.lines)
		s.lines = append(s.lines, &line{at: &Refusal{Lo: at.Lo, Hi: at.Hi, Range: at.Range, Yields: true}})
		s.waiting.Store(true)
	}
	return s.lines[i]
}

// beginTurnLocked gives t its turn if it is the first in all of its lines.
func (t *Turn) beginTurnLocked() {
	if t.limit != nil || slices.ContainsFunc(t.lines, func(l *line) bool { return l.turns[0] != t }) {
		return
	}
	// The timer may fire when this turn has ended and t already has its next one. loseTurn compares
	// begun, and then does nothing.
	begun := t.begun
	close(begun)
	t.limit = time.AfterFunc(turnLimit, func() { t.loseTurn(begun) })
}

// loseTurn ends the turn that began with this channel, unless it has ended already.
func (t *Turn) loseTurn(begun chan struct{}) {
	t.turns.mu.Lock()
	defer t.turns.mu.Unlock()
	if t.limit != nil && t.begun == begun {
		t.leaveLinesLocked()
	}
}

// pauseTurnLocked ends the turn of t. It stays in its lines, so those behind it go on waiting.
func (t *Turn) pauseTurnLocked() {
	if t.limit != nil {
		t.limit.Stop()
		t.limit = nil
	}
}

// End takes t out of all lines. It may be called more than once.
func (t *Turn) End() {
	t.turns.mu.Lock()
	defer t.turns.mu.Unlock()
	t.leaveLinesLocked()
}

// leaveLinesLocked takes t out of all lines, and lets those that are now first begin.
func (t *Turn) leaveLinesLocked() {
	t.pauseTurnLocked()
	s := t.turns
	for _, l := range t.lines {
		i := slices.Index(l.turns, t)
		l.turns = slices.Delete(l.turns, i, i+1)
		if len(l.turns) > 0 {
			// It begins only if it is the first in its other lines, too.
			l.turns[0].beginTurnLocked()
			continue
		}
		// Without Turns a line goes: commits look at all lines that there are.
		s.lines = slices.DeleteFunc(s.lines, func(o *line) bool { return o == l })
	}
	t.lines = nil
	s.waiting.Store(len(s.lines) > 0)
}

// mostYielded is how many records of a request yields looks at, at most. A larger transaction takes
// so long that it rarely commits before the one that has its turn.
const mostYielded = 64

var errEnough = errors.New("no more records are looked at")

// checkTurns returns a Refusal if r would write where another Turn has its turn; nil if
// r may go on.
func (s *Turns) checkTurns(r *Request) error {
	if !r.Yields || !s.waiting.Load() || r.Check.AsksNothing() {
		return nil
	}
	// This runs before the request joins a group, so that leaders don't pay for it. A request that
	// passes here just before a turn begins may still make that one conflict, once.
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	err := eachRecord(r.Payload, func(lo, hi []byte) error {
		if n++; n > mostYielded {
			return errEnough
		}
		if at := s.findTurnLocked(lo, hi, r.Turn); at != nil {
			return at
		}
		return nil
	})
	if err == errEnough {
		return nil
	}
	return err
}

// findTurnLocked returns the key or range of a line whose first Turn, not t, has its turn, and
// which a write of the key lo or, unless hi is nil, a delete of [lo, hi) would change; nil if there
// is none.
func (s *Turns) findTurnLocked(lo, hi []byte, t *Turn) *Refusal {
	for _, l := range s.lines {
		if l.hasTurnBefore(t) && l.overlaps(lo, hi) {
			return l.at
		}
	}
	return nil
}

// hasTurnBefore reports whether a Turn that goes before t has its turn in l. A t that is nil or in no
// line goes after all.
func (l *line) hasTurnBefore(t *Turn) bool {
	first := l.turns[0]
	return first != t && first.limit != nil && (t == nil || len(t.lines) == 0 || first.number < t.number)
}

// overlaps reports whether the key or range of l overlaps [lo, hi) or, with a nil hi, the key lo.
func (l *line) overlaps(lo, hi []byte) bool {
	// The key or range given lies below that of the line.
	if hi == nil && bytes.Compare(lo, l.at.Lo) < 0 || hi != nil && bytes.Compare(hi, l.at.Lo) <= 0 {
		return false
	}
	if l.at.Range {
		return l.at.Hi == nil || bytes.Compare(lo, l.at.Hi) < 0
	}
	return bytes.Compare(lo, l.at.Lo) <= 0
}
