package journal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/brockdb/brock/internal/base/errs"
)

var errFull = fmt.Errorf("no space left on device: %w", errs.ErrNoSpace)

// full has some writes meet a full disk, then makes room. What is refused is not
// among the groups, and must never come back; its salt tells it from others.
func (h *history) full(rnd *rand.Rand, salt uint32) {
	h.t.Helper()
	from, until, n := 1+rnd.IntN(3), 2+rnd.IntN(4), 0
	h.d.fail = func(op, _ string) error {
		if op != "write" && op != "create" {
			return nil
		}
		if n++; n >= from && n < until {
			return errFull
		}
		return nil
	}
	for range 1 + rnd.IntN(4) {
		switch err := h.append(salt, rnd.IntN(3000), rnd.IntN(200)); {
		case err == nil:
			salt += 1000
		case errors.Is(err, errs.ErrStopped) || !errors.Is(err, errs.ErrNoSpace):
			h.t.Fatalf("append to a full disk: %v", err)
		}
		if rnd.IntN(5) == 0 {
			_, err := h.j.Rotate()
			h.must(err)
		}
		if rnd.IntN(5) == 0 {
			h.sync()
		}
	}
	h.d.fail = nil
}

// A full disk refuses groups for as long as it is full, and leaves nothing of
// them; then the same journal goes on, and reading back finds one chain.
func TestFullDiskRefusesAndGoesOn(t *testing.T) {
	for _, op := range []string{"write", "create"} {
		for n := range 12 {
			h := newHistory(t, newDisk(), 3000)
			count, refused := 0, 0
			h.d.fail = func(got, _ string) error {
				if got == op {
					if count++; count > n && count <= n+5 {
						return errFull
					}
				}
				return nil
			}
			for range 30 {
				switch err := h.append(uint32(1000+count), 10, 400); {
				case errors.Is(err, errs.ErrNoSpace) && !errors.Is(err, errs.ErrStopped):
					refused++
				case err != nil:
					t.Fatalf("%s %d: %v", op, n, err)
				default:
					h.sync()
				}
			}
			if op == "write" && refused == 0 || h.owner.full != refused {
				t.Errorf("%s %d: %d refused, told of %d", op, n, refused, h.owner.full)
			}
			h.d.fail = nil
			h.must(h.j.Close())
			for seed := range uint64(4) {
				h.check(h.d.crash(rand.New(rand.NewPCG(seed, 1)), float64(seed)/3), fmt.Sprintf("%s %d, seed %d", op, n, seed))
			}
			if _, got := h.check(h.d.kill(), "closed"); got != len(h.groups) {
				t.Errorf("%s %d: %d groups of %d", op, n, got, len(h.groups))
			}
		}
	}
}

// What a full disk refused is gone at once, also if the process is killed before
// it writes again.
func TestRefusedGroupIsGone(t *testing.T) {
	h := newHistory(t, newDisk(), 1<<20)
	h.must(h.append(0, 10, 400))
	h.d.fail = func(op, _ string) error {
		if op == "write" {
			return errFull
		}
		return nil
	}
	if err := h.append(7, 2000); !errors.Is(err, errs.ErrNoSpace) {
		t.Fatal(err)
	}
	h.d.fail = nil
	if res, n := h.check(h.d.kill(), "killed"); n != 1 || res.CutBytes != 0 {
		t.Errorf("%d groups, %d bytes were left behind them", n, res.CutBytes)
	}
}

// A sync that fails for want of space stops the journal like any other: the
// system may have dropped what was written.
func TestSyncWithoutSpaceStops(t *testing.T) {
	for _, op := range []string{"sync", "syncdir"} {
		h := newHistory(t, newDisk(), 1<<20)
		h.must(h.append(0, 10))
		h.d.fail = func(got, _ string) error {
			if got == op {
				return errFull
			}
			return nil
		}
		for _, err := range []error{h.j.Sync(), h.append(0, 1), h.j.Err()} {
			if !errors.Is(err, errs.ErrStopped) || !errors.Is(err, errs.ErrNoSpace) {
				t.Errorf("%s: %v", op, err)
			}
		}
	}
	// So does one that is to make sure that nothing of a refused group is left.
	h := newHistory(t, newDisk(), 1<<20)
	h.must(h.append(0, 10))
	h.d.fail = func(op, _ string) error { return map[string]error{"write": errFull, "sync": errDisk}[op] }
	if err := h.append(0, 10); !errors.Is(err, errs.ErrStopped) || !errors.Is(err, errDisk) {
		t.Error(err)
	}
}
