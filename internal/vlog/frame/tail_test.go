package frame

import (
	"math/rand/v2"
	"testing"
)

// TestFindTailAgainstModel puts frames between zeros, also across the borders of
// what is read at once, and spoils some headers.
func TestFindTailAgainstModel(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 7))
		from, next := int64(8*rng.IntN(1000)), 1+rng.Uint64N(100)
		file := make([]byte, 3*searchWindow+8*rng.IntN(5000))
		want := Tail{End: from}
		for at, number := from, next-1; ; number++ {
			at += int64(8*rng.IntN(2)) * int64(rng.IntN(30_000))
			h := Header{Kind: Kind(1 + rng.IntN(4)), Size: HeaderSize + 8*int64(rng.IntN(40_000)), Number: max(number, 1), Unsynced: uint32(rng.IntN(3))}
			if at+h.Size > int64(len(file)) {
				break
			}
			h.Put(file[at:], testID, at)
			if rng.IntN(4) == 0 {
				file[at+41] ^= 1
			} else if h.Number >= next {
				want.Frames++
				want.Durable = max(want.Durable, h.Durable())
				want.End = at + h.Size
			}
			at += h.Size
		}
		got, err := FindTail(testID, from, next, int64(len(file)), func(off, n int64) ([]byte, error) {
			return file[off : off+n], nil
		})
		// Spoiled headers are used bytes, too: how far depends on their zeros.
		if want.Used = max(got.Used, want.End); err != nil || got != want {
			t.Errorf("seed %d: %+v, %v; want %+v", seed, got, err, want)
		}
	}
}
