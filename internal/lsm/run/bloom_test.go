package run

import (
	"math/rand/v2"
	"testing"
)

func TestFilterHasNoFalseNegatives(t *testing.T) {
	const seed = 5
	r := rand.New(rand.NewPCG(seed, 0))
	for _, n := range []int{1, 3, 1000, 100000} {
		f := make(bloom, bloomWords(n)*wordBytes)
		hashes := make([]uint64, n)
		for i := range hashes {
			hashes[i] = r.Uint64()
			f.addHash(hashes[i])
		}
		for _, h := range hashes {
			if !f.mayContain(h) {
				t.Fatalf("seed %d, n %d: %#x is missing", seed, n, h)
			}
		}
		wrong := 0
		for range 100000 {
			if f.mayContain(r.Uint64()) {
				wrong++
			}
		}
		if n > 10 && wrong > 2000 {
			t.Errorf("n %d: %d of 100000 are false", n, wrong)
		}
	}
}

func TestEmptyFilterHoldsNothingBack(t *testing.T) {
	if !bloom(nil).mayContain(77) {
		t.Error("an absent filter says no")
	}
}
