package pending

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/base/entry"
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
	c := &Encoder{Prefix: []byte{0}, Threshold: 512, Codec: codec.S2, CompressAbove: 1024, Compression: new(Compression)}
	add := func(value []byte) {
		var w Writes
		w.Add(c, &entry.Entry{Key: []byte("key"), Value: value, Kind: entry.Set})
	}
	compressed := func() int64 { n, _ := c.Compression.Bytes(); return n }
	tried := func(n int, value func(i int) []byte) (count int) {
		for i := range n {
			skip := c.trial.skip.Load()
			add(value(i))
			if skip <= 0 {
				count++
			}
		}
		return count
	}
	noise := func(i int) []byte { return incompressible(i, 2000) }
	add(squeezable(1, 1023))
	if n := compressed(); n != 0 {
		t.Errorf("%d bytes of a small value were compressed", n)
	}
	if n := tried(1000, noise); n < 1000/(maxSkipped+1) || n > 100 {
		t.Errorf("of 1000 values of noise, %d were tried", n)
	}
	if n := compressed(); n != 0 {
		t.Errorf("%d bytes of noise were compressed", n)
	}
	// An eighth must be saved: this saves a little less, then a little more.
	for _, noisy := range []int{1800, 1600} {
		c.trial.skip.Store(0)
		add(append(incompressible(1, noisy), make([]byte, 2000-noisy)...))
		if got, want := compressed() == 2000, noisy == 1600; got != want {
			t.Errorf("%d of 2000 bytes are noise: compressed is %v", noisy, got)
		}
	}
	tried(1000, noise)
	before := compressed()
	for i := range 200 {
		add(squeezable(i, 2000))
	}
	if n := (compressed() - before) / 2000; n < 200-maxSkipped {
		t.Errorf("of 200 good values, %d were compressed", n)
	}
}
