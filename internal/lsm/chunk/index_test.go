package chunk

import (
	"math/rand/v2"
	"testing"
)

// find collects the offsets that a probe for hash meets.
func find(table []byte, hash uint64) []int {
	var found []int
	n := len(table) / bucketSize
	b := homeBucket(hash, n)
	for range n {
		bucket := (*[bucketSize]byte)(table[b*bucketSize:])
		for m := matchSlots(bucket, fingerprintOf(hash)); m != 0; m &= m - 1 {
			if off := slotOffset(bucket, m); off != 0 {
				found = append(found, off)
			}
		}
		if !bucketFull(bucket) {
			break
		}
		b = (b + 1) % n
	}
	return found
}

func TestEveryItemIsFound(t *testing.T) {
	const seed = 3
	r := rand.New(rand.NewPCG(seed, 0))
	for _, n := range []int{1, 2, 12, 13, 16, 17, 200, 5000, 40000} {
		for _, clash := range []uint64{0, 0xffffff, 0xffffff0000000000} {
			items := make([]indexItem, n)
			for i := range items {
				items[i] = indexItem{hash: r.Uint64() &^ clash, offset: uint32(8 * (i + 1))}
			}
			if clash != 0 && n > 200 {
				continue // all in one bucket takes n * n / 16 steps
			}
			table := make([]byte, bucketsFor(n)*bucketSize)
			buildIndex(table, items)
			extra := 0
			for _, it := range items {
				ok := false
				for _, off := range find(table, it.hash) {
					if off == int(it.offset) {
						ok = true
					} else {
						extra++
					}
				}
				if !ok {
					t.Fatalf("seed %d, n %d: item %+v not found", seed, n, it)
				}
			}
			if clash == 0 && extra > 1+n/200 {
				t.Errorf("n %d: %d false candidates", n, extra)
			}
		}
	}
}

func TestMatchEqualsPlainCompare(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for range 100000 {
		var b [bucketSize]byte
		fp := fingerprintOf(r.Uint64())
		if r.IntN(4) == 0 {
			fp = 0
		}
		var want []int
		for i := range bucketSlots {
			v := r.Uint32()
			switch r.IntN(4) {
			case 0:
				v = fp | v&offsetMask
			case 1:
				v = fp ^ 1<<(17+r.IntN(15)) | v&offsetMask
			case 2:
				v = 0
			}
			b[4*i], b[4*i+1], b[4*i+2], b[4*i+3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
			if v&^offsetMask == fp {
				want = append(want, int(v&offsetMask)<<3)
			}
		}
		got := map[int]int{}
		for m := matchSlots(&b, fp); m != 0; m &= m - 1 {
			got[slotOffset(&b, m)]++
		}
		for _, off := range want {
			if got[off]--; got[off] == 0 {
				delete(got, off)
			}
		}
		if len(got) != 0 {
			t.Fatalf("bucket %x fingerprint %x: left over %v of %v", b, fp, got, want)
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	const n = 25000
	r := rand.New(rand.NewPCG(1, 1))
	items := make([]indexItem, n)
	for i := range items {
		items[i] = indexItem{r.Uint64(), uint32(8 * (i + 1))}
	}
	table := make([]byte, bucketsFor(n)*bucketSize)
	for b.Loop() {
		clear(table)
		buildIndex(table, items)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/item")
}
