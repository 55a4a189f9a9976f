package main

import (
	"math"
	"math/rand/v2"
)

const (
	zipfTheta = 0.99      // as in YCSB
	zetaExact = 1_000_000 // terms that are added one by one
)

// zipf draws ranks below n, rank 0 most often: with a probability that falls with
// the power theta of the rank. theta must be below 1. The method is that of Gray et
// al., "Quickly Generating Billion-Record Synthetic Databases", SIGMOD 1994,
// which YCSB uses too.
type zipf struct {
	n                float64
	alpha, zeta, eta float64
	half             float64 // 1 + 0.5^theta
}

func newZipf(n int, theta float64) *zipf {
	zeta := zetaOf(n, theta)
	two := zetaOf(min(n, 2), theta)
	return &zipf{
		n: float64(n), alpha: 1 / (1 - theta), zeta: zeta, half: 1 + math.Pow(0.5, theta),
		eta: (1 - math.Pow(2/float64(n), 1-theta)) / (1 - two/zeta),
	}
}

// draw returns a rank.
func (z *zipf) draw(rng *rand.Rand) int {
	u := rng.Float64()
	switch uz := u * z.zeta; {
	case uz < 1 || z.n < 2:
		return 0
	case uz < z.half || z.n < 3:
		return 1
	}
	return min(int(z.n*math.Pow(z.eta*u-z.eta+1, z.alpha)), int(z.n)-1)
}

// zetaOf adds up 1/i^theta for i from 1 to n; beyond zetaExact by the integral,
// which is exact to nine digits there.
func zetaOf(n int, theta float64) (sum float64) {
	exact := min(n, zetaExact)
	for i := 1; i <= exact; i++ {
		sum += math.Pow(float64(i), -theta)
	}
	if n > exact {
		a, b := float64(exact)+0.5, float64(n)+0.5
		sum += (math.Pow(b, 1-theta) - math.Pow(a, 1-theta)) / (1 - theta)
	}
	return sum
}
