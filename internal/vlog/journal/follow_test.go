package journal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// follower reads the groups of a history while it goes on.
type follower struct {
	h      *history
	f      *Follower
	groups []string
}

func newFollower(h *history) *follower {
	f := &follower{h: h}
	f.f = NewFollower(ReplayConfig{Config: segment.Config{FS: h.d, Dir: "db", UUID: uuid, Ring: testRing}}, f.add)
	return f
}

func (f *follower) add(_ entry.Position, payload []byte, h frame.Header) error {
	var text strings.Builder
	v := h.FirstVersion - 1
	for len(payload) > 0 {
		var r entry.Record
		err := r.DecodeNext(payload, &v, false)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%q %d@%d;", r.Key, len(r.Value), r.Version)
		payload = payload[r.Size:]
	}
	f.groups = append(f.groups, text.String())
	return nil
}

func (f *follower) follow(m *manifest) {
	f.h.t.Helper()
	f.h.must(f.f.Follow(Known{Begin: f.h.begin, Durable: m.told}))
	if n := min(len(f.groups), len(f.h.groups)); !slices.Equal(f.groups, f.h.groups[:n]) {
		f.h.t.Fatalf("followed\n%q, want\n%q", f.groups, f.h.groups)
	}
	if len(f.groups) < f.h.durable {
		f.h.t.Fatalf("%d groups, of which %d are shown", f.h.durable, len(f.groups))
	}
	// What is shown survives.
	if lost := f.h.d.crash(rand.New(rand.NewPCG(1, 1)), 0); len(f.groups) > 0 {
		groups, _, err := readBack(lost, f.h.begin, nil, true)
		f.h.must(err)
		if len(groups) < len(f.groups) {
			f.h.t.Fatalf("a crash leaves %d of %d groups that were shown", len(groups), len(f.groups))
		}
	}
}

// TestFollower follows a journal whose syncs are refused now and then: no group that is
// taken back is ever shown, all that is durable is, and what is shown is durable.
func TestFollower(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 6))
		h := newHistory(t, newDisk(), int64(3000+rnd.IntN(5000)))
		m := &manifest{h: h}
		h.owner.register = m.register
		f := newFollower(h)
		for i := range 60 {
			h.must(h.append(uint32(i), rnd.IntN(300), 10+rnd.IntN(600)))
			if rnd.IntN(2) == 0 {
				f.follow(m)
			}
			if len(f.groups) == len(h.groups) && f.f.c.Known.LastProven() < f.f.Segments()[len(f.f.Segments())-1].FirstFrame {
				t.Fatal("the last group of a segment that nobody knows of is shown")
			}
			switch rnd.IntN(8) {
			case 0:
				_, err := h.j.Rotate()
				h.must(err)
			case 1, 2, 3:
				m.err = nil
				if rnd.IntN(3) != 0 {
					m.err = errFull
				}
				switch err := h.j.Sync(); {
				case err == nil:
					h.durable = len(h.groups)
				case errors.Is(err, errs.ErrStopped) || !errors.Is(err, errs.ErrNoSpace):
					t.Fatal(err)
				default:
					h.must(h.j.Retract())
					h.groups = h.groups[:len(h.groups)-1]
				}
			}
		}
		m.err = nil
		h.sync()
		f.follow(m)
		if again := newFollower(h); true {
			again.follow(m)
			if !slices.Equal(again.groups, f.groups) {
				t.Errorf("seed %d: %d groups, want %d", seed, len(again.groups), len(f.groups))
			}
		}
	}
}

// TestFollowerFindsDamage damages frames in the middle of what a writer has synced. A new
// follower refuses them; one that has not come so far is told of them once the manifest
// knows of a later frame.
func TestFollowerFindsDamage(t *testing.T) {
	h := newHistory(t, newDisk(), 1<<20)
	m := &manifest{h: h}
	h.owner.register = m.register
	for range 3 {
		h.must(h.append(0, 300))
		h.sync()
	}
	early := newFollower(h)
	early.follow(m)
	at := h.j.Segments()[0].Offset
	for range 3 {
		h.must(h.append(0, 300))
		h.sync()
	}
	k, later := Known{Durable: known(h.d, 1)}, known(h.d, 5)
	for name := range h.d.files {
		h.d.files[name].data[at+60] ^= 1
	}
	if err := newFollower(h).f.Follow(k); !errors.Is(err, errs.ErrCorrupt) {
		t.Errorf("a new follower: %v", err)
	}
	h.must(early.f.Follow(k))
	k.Durable = later
	if err := early.f.Follow(k); !errors.Is(err, errs.ErrCorrupt) || len(early.groups) != 3 {
		t.Errorf("an early follower: %v, %d groups", err, len(early.groups))
	}
}
