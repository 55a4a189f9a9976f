package entry

import (
	"math/rand/v2"
	"testing"
)

// Every entry that expires is in one step, which ends at or after that, but not
// later than promised: half a minute, or a 32nd of the time until then and a bit.
func TestExpiries(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		now := 1_700_000_000_000 + rng.Uint64N(1e9)
		x := NewExpiries(now)
		var want Expiring
		for range 3000 {
			e := Entry{Key: make([]byte, 1+rng.IntN(30)), Value: make([]byte, rng.IntN(30))}
			if rng.IntN(10) > 0 {
				e.Expires = now + 1 + rng.Uint64()>>(24+rng.IntN(40))
			}
			if rng.IntN(2) == 0 {
				e.Separated, e.Value, e.Handle.Length = true, nil, 1000
			}
			alone := NewExpiries(now)
			alone.Add(&e)
			x.Add(&e)
			one := alone.List()
			if e.Expires == 0 {
				if one != nil {
					t.Fatalf("seed %d: %+v of an entry that does not expire", seed, one)
				}
				continue
			}
			if late := one[0].At - e.Expires; len(one) != 1 || one[0].At < e.Expires || late > max(30_000, (e.Expires-now)/32) {
				t.Fatalf("seed %d: step ends %d ms after %d ms from now", seed, late, e.Expires-now)
			}
			want.Entries, want.Bytes = want.Entries+1, want.Bytes+one[0].Bytes
		}
		var sum Expiring
		list := x.List()
		for i, s := range list {
			if i > 0 && s.At <= list[i-1].At || s.Entries == 0 {
				t.Fatalf("seed %d: step %+v after %+v", seed, s, list[i-1])
			}
			sum.Entries, sum.Bytes = sum.Entries+s.Entries, sum.Bytes+s.Bytes
		}
		if sum != want || len(list) > 1200 {
			t.Errorf("seed %d: %d steps count %+v, want %+v", seed, len(list), sum, want)
		}
	}
	// Adding in any order gives the same bounds; what has expired comes again.
	x := NewExpiries(1e12)
	for i := range uint64(10_000) {
		e := Entry{Key: []byte("k"), Expires: 1e12 + (i*7919)%10_000*1000 + 1}
		x.Add(&e)
	}
	x.Add(&Entry{Key: []byte("k"), Expires: 5})
	var n uint64
	for _, s := range x.List() {
		n += s.Entries
		if due := (s.At - 1e12) / 1000; n > min(due, 10_000)+2 {
			t.Errorf("%d have expired by second %d", n, due)
		}
	}
	if n != 10_001 {
		t.Errorf("%d entries counted", n)
	}
	if again := NewExpiries(1e12); true {
		again.Add(&Entry{Key: []byte("k"), Expires: 1e12})
		if at := again.List()[0].At; at < 1e12+RetryExpired || at > 1e12+RetryExpired+30_000 {
			t.Errorf("an expired entry comes again at %d", at)
		}
	}
}
