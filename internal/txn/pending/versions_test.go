package pending

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/test/kit/draw"
)

// TestVersionsOfParts: each part of a payload begins at a multiple of 8, says its version unless its
// first record has one of its own, and lacks exactly what a later range delete of the same part covers.
func TestVersionsOfParts(t *testing.T) {
	seed := draw.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for round := range 300 {
		var w Writes
		c := &Encoder{Prefix: []byte{0}, Threshold: 40}
		type part struct {
			version entry.Version
			writes  []string
		}
		var want []part
		v := entry.Version(rnd.Uint64N(1 << 40))
		for range 1 + rnd.IntN(5) {
			v += 1 + entry.Version(rnd.Uint64N(5))
			w.BeginVersion(v)
			p := part{version: v}
			for range rnd.IntN(6) {
				if rnd.IntN(4) == 0 {
					lo := rnd.IntN(8)
					w.DeleteRange(fmt.Appendf(nil, "\x00%d", lo), []byte("\x009"))
					p.writes = slices.DeleteFunc(p.writes, func(s string) bool { return s[0] != 'r' && s[0] >= '0'+byte(lo) })
					p.writes = append(p.writes, fmt.Sprintf("r%d", lo))
					continue
				}
				k, n := rnd.IntN(8), rnd.IntN(2)*rnd.IntN(100)
				w.Add(c, &entry.Entry{Kind: entry.Set, Key: fmt.Append(nil, k), Value: make([]byte, n), Meta: byte(rnd.IntN(2)), Expires: rnd.Uint64N(2)})
				p.writes = append(p.writes, fmt.Sprintf("%d/%d", k, n))
			}
			if len(p.writes) > 0 {
				want = append(want, p)
			}
		}
		total := 0
		for _, p := range want {
			total += len(p.writes)
		}
		payload, records := w.Payload()
		if given := w.Given(); records != total || len(given) != len(want) || len(payload)&7 != 0 {
			t.Fatalf("seed %d, round %d: %d records, %d parts, %d bytes, want %d and %d", seed, round, records, len(given), len(payload), total, len(want))
		}
		for i, g := range w.Given() {
			end := len(payload)
			if i+1 < len(want) {
				end = w.Given()[i+1].Begin
			}
			var got []string
			before := g.Version - 1
			for p := payload[g.Begin:end]; len(p) > 0; {
				var r entry.Record
				if err := r.DecodeNext(p, &before, false); err != nil {
					t.Fatalf("seed %d, round %d: %v", seed, round, err)
				}
				if r.Own { // the leader sets it
					before = g.Version
				} else if r.Version != g.Version || len(got) == 0 && !entry.SaysVersion(p, g.Version) {
					t.Fatalf("seed %d, round %d: record %d of version %d has version %d", seed, round, len(got), g.Version, r.Version)
				}
				if r.Kind == entry.RangeDelete {
					got = append(got, "r"+string(r.Key[1:]))
				} else {
					got = append(got, fmt.Sprintf("%s/%d", r.Key[1:], len(r.Value)))
				}
				p = p[r.Size:]
			}
			if g.Begin&7 != 0 || g.Version != want[i].version || !slices.Equal(got, want[i].writes) {
				t.Fatalf("seed %d, round %d: part at %d of version %d: %q, want %+v", seed, round, g.Begin, g.Version, got, want[i])
			}
		}
	}
}
