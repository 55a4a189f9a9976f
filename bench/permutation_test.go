package main

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestPermutationVisitsAll(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 7, 64, 1000, 4097} {
		for _, seed := range []uint64{1, 2} {
			p := newPermutation(n, seed)
			seen := map[uint64]bool{}
			for i := range n {
				seen[p.of(i)] = true
			}
			if uint64(len(seen)) != n {
				t.Errorf("seed %d: %d of %d numbers are visited", seed, len(seen), n)
			}
		}
	}
	// Neighbours must be no neighbours afterwards: 200 of a million are near by chance.
	p, near := newPermutation(1_000_000, 3), 0
	for i := range uint64(100_000) {
		if a, b := p.of(i), p.of(i+1); max(a, b)-min(a, b) < 1000 {
			near++
		}
	}
	if near < 100 || near > 300 {
		t.Errorf("%d of 100,000 pairs of neighbours are still near each other", near)
	}
}

// TestZipf compares how often ranks are drawn with how often they should be.
func TestZipf(t *testing.T) {
	const n, draws = 1000, 200_000
	z := newZipf(n, zipfTheta)
	rng := rand.New(rand.NewPCG(1, 1))
	count := make([]int, n)
	for range draws {
		count[z.draw(rng)]++
	}
	for _, rank := range []int{0, 1, 10, 100} {
		want := draws / z.zeta / math.Pow(float64(rank+1), zipfTheta)
		if got := float64(count[rank]); math.Abs(got-want) > 0.25*want {
			t.Errorf("rank %d was drawn %v times, want about %.0f", rank, got, want)
		}
	}
	for _, few := range []int{1, 2, 3} {
		z := newZipf(few, zipfTheta)
		for range 1000 {
			if got := z.draw(rng); got < 0 || got >= few {
				t.Fatalf("drew %d of %d", got, few)
			}
		}
	}
}

func TestZetaBeyondWhatIsAddedUp(t *testing.T) {
	want := zetaOf(zetaExact, zipfTheta)
	for i := zetaExact + 1; i <= zetaExact+5000; i++ {
		want += math.Pow(float64(i), -zipfTheta)
	}
	if got := zetaOf(zetaExact+5000, zipfTheta); math.Abs(got-want) > 1e-9*want {
		t.Errorf("%v, want %v", got, want)
	}
}
