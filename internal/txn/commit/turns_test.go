package commit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brockdb/brock/internal/test/kit/draw"
)

func keyRefusal(k string) *Refusal        { return RefuseKey([]byte(k)) }
func rangeRefusal(lo, hi string) *Refusal { return RefuseRange([]byte(lo), []byte(hi)) }

// Turns come in the order in which they were asked for. Who gives up leaves the line.
func TestTurnsAreFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Turns
		var order []int
		gaveUp, cancel := context.WithCancel(t.Context())
		for i := range 10 {
			ctx := t.Context()
			if i%3 == 1 {
				ctx = gaveUp
			}
			go func() {
				turn := s.New()
				defer turn.End()
				if turn.Wait(ctx, keyRefusal("k")) != nil {
					return
				}
				order = append(order, i) // a race unless they are alone
				<-time.After(time.Millisecond)
			}()
			synctest.Wait()
		}
		cancel()
		<-time.After(time.Second)
		synctest.Wait()
		if want := []int{0, 2, 3, 5, 6, 8, 9}; !slices.Equal(order, want) {
			t.Errorf("order %v, want %v", order, want)
		}
		if s.waiting.Load() || len(s.lines) != 0 {
			t.Errorf("%d lines are left, and waiting is %v", len(s.lines), s.waiting.Load())
		}
	})
}

// Whatever takes long, the function or its commit, a turn has one end.
func TestTurnsHaveALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Turns
		begin := time.Now()
		next := func(want time.Duration) *Turn {
			t.Helper()
			turn := s.New()
			if err := turn.Wait(t.Context(), keyRefusal("k")); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took != want {
				t.Errorf("the turn began after %v, want %v", took, want)
			}
			return turn
		}
		slow := next(0)
		refused := next(turnLimit)
		if err := refused.Wait(t.Context(), &Refusal{Dropped: &Keyspace{}}); err != nil {
			t.Errorf("a keyspace was dropped: %v", err)
		}
		last := next(2 * turnLimit)
		// Who has lost its turn comes last.
		time.AfterFunc(time.Millisecond, last.End)
		if err := slow.Wait(t.Context(), keyRefusal("k")); err != nil || slow.number != 4 {
			t.Errorf("%v, number %d", err, slow.number)
		}
		slow.End()
		refused.End()

		// One that conflicts again and again in its turn, with writes that take no turns, has no
		// other one.
		begin = time.Now()
		conflicts := next(0)
		again := make(chan struct{})
		go func() {
			defer close(again)
			for range 10 {
				<-time.After(turnLimit * 3 / 5)
				_ = conflicts.Wait(t.Context(), keyRefusal("k"))
			}
			conflicts.End()
		}()
		waits := next(turnLimit)
		waits.End()
		<-again
	})
}

// An older call may join a line whose first has its turn. If that one conflicts there then, it waits:
// if it ran at once, it would yield again and again.
func TestAnOlderTurnGoesBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Turns
		older, has := s.New(), s.New()
		defer has.End()
		<-older.joinLine(keyRefusal("k"))
		<-has.joinLine(keyRefusal("l"))
		<-older.joinLine(keyRefusal("l"))
		time.AfterFunc(time.Millisecond, older.End)
		begin := time.Now()
		if err := has.Wait(t.Context(), keyRefusal("l")); err != nil || time.Since(begin) != time.Millisecond {
			t.Errorf("it waited for %v: %v", time.Since(begin), err)
		}
	})
}

// A call that conflicts over another key each time gets all others out of its way, in its keyspace.
func TestConflictsThatMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Turns
		moves := s.New()
		defer moves.End()
		yields := func(key string) bool {
			r := request(0, SnapshotIsolation, "harmless", key)
			r.Yields = true
			return s.checkTurns(r) != nil
		}
		for i := range 10 {
			if err := moves.Wait(t.Context(), rangeRefusal("\x05", fmt.Sprint("\x05", i))); err != nil {
				t.Fatal(err)
			}
			if got, want := yields("\x05next"), i >= mostLines; got != want {
				t.Errorf("after %d conflicts others yield everywhere: %v, want %v", i+1, got, want)
			}
		}
		if n := len(s.lines); n != mostLines+1 || yields("\x04~") || yields("\x06") {
			t.Errorf("%d lines; or others yield in other keyspaces", n)
		}
	})
}

// A request that may be run again yields where another has its turn, unless its own is
// older.
func TestRequestsYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Turns
		older, has, younger, waits := s.New(), s.New(), s.New(), s.New()
		for _, turn := range []*Turn{older, has, younger, waits} {
			defer turn.End()
		}
		older.joinLine(keyRefusal("old"))
		has.joinLine(keyRefusal("k"))
		has.joinLine(rangeRefusal("p", "r"))
		younger.joinLine(keyRefusal("young"))
		waits.joinLine(keyRefusal("only waited for"))
		waits.joinLine(keyRefusal("k"))
		for _, test := range []struct {
			turn   *Turn
			writes string
			yields bool
		}{
			{nil, "j", false}, {nil, "k", true}, {nil, "k2", false}, {nil, "p", true}, {nil, "qq", true}, {nil, "r", false},
			{nil, "a~c", false}, {nil, "k~l", true}, {nil, "a~k", false}, {nil, "a~z", true}, {nil, "a~p", true}, {nil, "r~s", false}, {nil, "q~z", true},
			{nil, "only waited for", false}, {nil, "old", true},
			{has, "k", false}, {has, "q", false}, {has, "old", true}, {has, "young", false},
			{older, "k", false}, {younger, "k", true}, {younger, "young", false}, {s.New(), "young", true},
		} {
			r := request(0, SnapshotIsolation, "harmless", test.writes)
			r.Turn = test.turn
			if err := s.checkTurns(r); err != nil {
				t.Errorf("%s: a request that does not yield: %v", test.writes, err)
			}
			r.Yields = true
			if err := s.checkTurns(r); (err != nil) != test.yields {
				t.Errorf("%s: %v, want that it yields: %v", test.writes, err, test.yields)
			}
			r.Check.Isolation = LastWriterWins
			if err := s.checkTurns(r); err != nil {
				t.Errorf("%s: a request that nothing refuses: %v", test.writes, err)
			}
		}
	})
}

// Whatever lines calls stand in, and in whatever order, all get their turn: the bubble
// would report a deadlock.
func TestTurnsHaveNoDeadlock(t *testing.T) {
	seed := draw.Seed(t)
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		var s Turns
		var work sync.WaitGroup
		for g := range 40 {
			r := rand.New(rand.NewPCG(seed, uint64(g)))
			work.Go(func() {
				for range 30 {
					turn := s.New()
					for range 1 + r.IntN(4) {
						because := keyRefusal(fmt.Sprint(r.IntN(6)))
						if r.IntN(4) == 0 {
							because = rangeRefusal(fmt.Sprint(r.IntN(3)), fmt.Sprint(3+r.IntN(3)))
						}
						ctx, cancel := t.Context(), func() {}
						if r.IntN(4) == 0 {
							ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(1000))*time.Millisecond)
						}
						_ = turn.Wait(ctx, because)
						cancel()
						if r.IntN(3) == 0 {
							<-time.After(time.Duration(r.IntN(150)) * time.Millisecond)
						}
					}
					turn.End()
				}
			})
		}
		work.Wait()
	})
}
