package journal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// doubtful is a history of some segments of which the last ones are in doubt: a random
// number of groups is synced.
func doubtful(t *testing.T, rnd *rand.Rand) *history {
	h := newHistory(t, newDisk(), 10_000)
	synced := rnd.IntN(60)
	for i := range 60 {
		h.must(h.append(0, 10, 300+rnd.IntN(300)))
		if i < synced && rnd.IntN(4) == 0 || rnd.IntN(200) == 0 {
			h.sync()
		}
	}
	return h
}

// watch counts the calls that change d, and has them fail from the one on, if that is not 0.
func watch(d *disk, from int) (calls map[string]int) {
	calls = map[string]int{}
	d.fail = func(op, _ string) error {
		if op == "read" {
			return nil
		}
		calls[op]++
		if calls["all"]++; from > 0 && calls["all"] >= from {
			return errDisk
		}
		return nil
	}
	return calls
}

// A journal that is refused for damage stays untouched, wherever the damage is, and though
// segments are made durable before the last one was read.
func TestRefusedJournalIsUntouched(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 40 // twice: plain and encrypted
	}
	seed := draw.Seed(t)
	refused, cut := 0, 0
	for round := range uint64(rounds) {
		rnd := rand.New(rand.NewPCG(seed, round))
		h := doubtful(t, rnd)
		segments := h.j.Segments()
		for range 8 {
			d := h.d.kill()
			n := len(segments)
			if rnd.IntN(3) == 0 { // killed before the first frame of the last one
				n--
				last := d.files["db/"+filename.Of(filename.Journal, segments[n].File)]
				last.data = last.data[:segment.HeaderSize]
			}
			s := segments[rnd.IntN(n)]
			f := d.files["db/"+filename.Of(filename.Journal, s.File)]
			f.data[rnd.IntN(int(s.Offset))] ^= 1 << rnd.IntN(8)
			before := d.kill()
			calls := watch(d, 0)
			_, _, err := readBack(d, Point{}, known(h.d, rnd.Uint64N(h.j.DurableEnd().Number+1)), false)
			switch {
			case err == nil:
				cut++
				continue
			case !errors.Is(err, errs.ErrCorrupt) && !errors.Is(err, errs.ErrForeign):
				t.Fatalf("seed %d, round %d: %v", seed, round, err)
			}
			refused++
			for name, f := range before.files {
				if !slices.Equal(f.data, d.files[name].data) || !slices.Equal(f.synced, d.files[name].synced) || calls["all"] > 0 {
					t.Fatalf("seed %d, round %d: a journal that was refused (%v) saw %v", seed, round, err, calls)
				}
			}
		}
	}
	if refused < rounds/2 || cut < rounds/2 {
		t.Errorf("%d refused, %d cut", refused, cut)
	}
}

// Of a journal in doubt, segments are written again while later ones are read; of one whose
// commits were synced none is, before all was read.
func TestSegmentsAreWrittenAgainEarly(t *testing.T) {
	for _, synced := range []bool{false, true} {
		h := newHistory(t, newDisk(), 10_000)
		for range 60 {
			h.must(h.append(0, 10, 500))
			if synced {
				h.sync()
			}
		}
		segments := h.j.Segments()
		d, written := h.d.kill(), make(chan struct{})
		var once sync.Once
		d.fail = func(op, _ string) error {
			if op != "read" {
				once.Do(func() { close(written) })
			}
			return nil
		}
		early := func() bool {
			select {
			case <-written:
				return true
			default:
				return false
			}
		}
		_, err := Replay(ReplayConfig{Config: segment.Config{FS: d, Dir: "db", UUID: uuid, Ring: testRing}}, func(pos entry.Position, _ []byte, h frame.Header) error {
			switch {
			case pos.Segment != segments[len(segments)-1].File:
			case synced && early():
				return errors.New("something is written before all was read")
			case !synced:
				deadline.Receive(t, "something is written before all was read", written)
			}
			return nil
		})
		h.must(err)
		if !early() || len(segments) < 5 {
			t.Errorf("%d segments, written again: %v", len(segments), early())
		}
	}
}

// However a replay ends, nothing is written afterwards: another process may have the lock.
func TestNothingIsWrittenAfterAReplay(t *testing.T) {
	for _, how := range []string{"panic", "error", "read error"} {
		h := newHistory(t, newDisk(), 10_000)
		for range 60 {
			h.must(h.append(0, 10, 500))
		}
		segments := h.j.Segments()
		last := filename.Of(filename.Journal, segments[len(segments)-1].File)
		d, reads := h.d.kill(), 0
		begun, unfinished := make(chan struct{}, 1000), map[string]bool{}
		d.fail = func(op, name string) error { // one call at a time
			switch {
			case op == "write":
				unfinished[name] = true
				begun <- struct{}{}
			case op == "sync":
				delete(unfinished, name)
			case name == last && how == "read error":
				if reads++; reads > 3 {
					return errDisk
				}
			}
			return nil
		}
		func() {
			defer func() {
				if v := recover(); (v != nil) != (how == "panic") {
					t.Errorf("%s: recovered %v", how, v)
				}
			}()
			_, err := Replay(ReplayConfig{Config: segment.Config{FS: d, Dir: "db", UUID: uuid, Ring: testRing}}, func(pos entry.Position, _ []byte, _ frame.Header) error {
				if pos.Segment != segments[len(segments)/2].File || how == "read error" {
					return nil
				}
				<-begun
				if how == "panic" {
					panic(how)
				}
				return errDisk
			})
			if !errors.Is(err, errDisk) {
				t.Errorf("%s: %v", how, err)
			}
		}()
		d.mu.Lock()
		if len(begun) == 0 || len(unfinished) > 0 {
			t.Errorf("%s: %d writes, not finished: %v", how, len(begun), unfinished)
		}
		d.mu.Unlock()
	}
}

// A power loss while a journal is replayed, and while it is replayed after that, loses nothing
// that was durable. Once a replay has returned, nothing of what it has shown is lost.
func TestPowerLossWhileReplaying(t *testing.T) {
	rounds := 80
	if testing.Short() {
		rounds = 30
	}
	seed := draw.Seed(t)
	for round := range uint64(rounds) {
		rnd := rand.New(rand.NewPCG(seed, round))
		h := doubtful(t, rnd)
		d := h.d.kill()
		for loop := range 6 {
			what := fmt.Sprintf("seed %d, round %d, loop %d", seed, round, loop)
			calls := watch(d, 1+rnd.IntN(40))
			groups, _, err := readBack(d, Point{}, nil, false)
			d.fail = nil
			if err != nil && !errors.Is(err, errDisk) || err == nil && calls["all"] == 0 && len(groups) > 0 {
				t.Fatalf("%s: %v after %v", what, err, calls)
			}
			if err == nil {
				h.durable = len(groups)
			}
			d = d.crash(rnd, rnd.Float64())
			h.check(d.kill(), what)
		}
	}
}
