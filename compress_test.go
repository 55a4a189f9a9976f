package brock

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// squeezable is n bytes that get smaller, different for each i.
func squeezable(i, n int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "value %d, ", i), n/8+1)[:n]
}

// incompressible is n bytes of noise, different for each i.
func incompressible(i, n int) []byte {
	rng := rand.New(rand.NewPCG(uint64(i), 7))
	v := make([]byte, n)
	for j := range v {
		v[j] = byte(rng.Uint32())
	}
	return v
}

// What does not get smaller by an eighth stays as it is, and is soon tried only
// now and then; what then does is found again.
func TestCompressionGivesUpAndComesBack(t *testing.T) {
	db := openTest(t, Options{InMemory: true, KeyspaceDefaults: KeyspaceOptions{Compression: S2}})
	c := &db.main.encoder.Load().compressor
	tried := func(n int, value func(i int) []byte) (count int) {
		for i := range n {
			before := c.tried.Load()
			must(t, db.Set(b("key"), value(i)))
			count += int(c.tried.Load() - before)
		}
		return count
	}
	noise := func(i int) []byte { return incompressible(i, 2000) }
	wantEqual(t, "small values tried", tried(10, func(i int) []byte { return squeezable(i, 1023) }), 0)
	if n := tried(1000, noise); n < 1000/(maxSkipped+1) || n > 100 {
		t.Errorf("of 1000 values of noise, %d were tried", n)
	}
	wantEqual(t, "bytes compressed", c.rawBytes.Load(), 0)
	// An eighth must be saved: this saves a little less, then a little more.
	for _, noisy := range []int{1800, 1600} {
		c.skip.Store(0)
		must(t, db.Set(b("key"), append(incompressible(1, noisy), make([]byte, 2000-noisy)...)))
		wantEqual(t, fmt.Sprint(noisy, " of 2000 bytes are noise"), c.rawBytes.Load() == 2000, noisy == 1600)
	}
	tried(1000, noise)
	if n := tried(200, func(i int) []byte { return squeezable(i, 2000) }); n < 200-maxSkipped {
		t.Errorf("of 200 good values, %d were tried", n)
	}
}
