package main

import "math/bits"

// permutation visits the numbers below n in random order, without a list of them:
// a Feistel network of four rounds on as many bits as n needs, walked until the
// result is below n (Black and Rogaway, "Ciphers with Arbitrary Finite Domains",
// CT-RSA 2002). The same seed gives the same order.
type permutation struct {
	n, seed uint64
	half    uint // bits of each half
}

func newPermutation(n, seed uint64) permutation {
	width := uint(bits.Len64(max(n, 2) - 1))
	return permutation{n: n, seed: seed, half: (width + 1) / 2}
}

// of returns the i-th number; i counts modulo n.
func (p permutation) of(i uint64) uint64 {
	mask := uint64(1)<<p.half - 1
	x := i % p.n
	for {
		l, r := x>>p.half, x&mask
		for round := range uint64(4) {
			l, r = r, l^(mix(r+p.seed<<8+round)&mask)
		}
		// The domain has less than 4n numbers, so that a few turns do.
		if x = l<<p.half | r; x < p.n {
			return x
		}
	}
}

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
func mix(x uint64) uint64 {
	x = (x + 0x9e3779b97f4a7c15)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
