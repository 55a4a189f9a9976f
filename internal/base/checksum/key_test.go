package checksum

import (
	"encoding/binary"
	"fmt"
	"testing"
)

// The values are part of the run format; a change here makes old runs unreadable.
func TestHashKeyIsStable(t *testing.T) {
	key := []byte("0123456789abcdefghijklmnopqrstuvwxyz")
	for n, want := range golden {
		if got := HashKey(42, key[:n]); got != want {
			t.Errorf("HashKey(42, %q) = %#x, want %#x", key[:n], got, want)
		}
	}
}

func TestHashKeySpreadsSequentialKeys(t *testing.T) {
	const keys, buckets = 1 << 16, 1 << 10
	for _, shift := range []int{0, 20, 40, 54} {
		var count [buckets]int
		for i := range keys {
			count[HashKey(1, fmt.Appendf(nil, "vsz=00128-k=%010d", i))>>shift%buckets]++
		}
		for b, c := range count { // mean 64, standard deviation 8
			if c < 16 || c > 128 {
				t.Fatalf("bits from %d: bucket %d holds %d of %d keys", shift, b, c, keys)
			}
		}
	}
}

func TestHashKeyUsesEveryByteAndTheSeed(t *testing.T) {
	for n := 1; n < 40; n++ {
		key := make([]byte, n)
		base := HashKey(7, key)
		if HashKey(8, key) == base {
			t.Errorf("%d bytes: the seed has no effect", n)
		}
		for i := range n {
			key[i]++
			if HashKey(7, key) == base {
				t.Errorf("%d bytes: byte %d has no effect", n, i)
			}
			key[i]--
		}
	}
}

func BenchmarkHashKey22(b *testing.B) {
	key := []byte("vsz=00128-k=0000000000")
	var sum uint64
	for i := range b.N {
		binary.LittleEndian.PutUint64(key[14:], uint64(i))
		sum += HashKey(1, key)
	}
	_ = sum
}

var golden = map[int]uint64{
	0:  0x9a7805ea48518c0e,
	1:  0x915cdcdca272047b,
	2:  0xcbd6f33689334f70,
	3:  0xb73298a39fc220ad,
	4:  0x9017c4915d8597ee,
	5:  0xa364d83af91a4c09,
	7:  0x98dd610cb24e4ee9,
	8:  0x4c28c87422ded7e8,
	9:  0x836a3123ae89c16b,
	15: 0x874f59eb04102fa9,
	16: 0x7237c71e02374f06,
	17: 0x5ddb5e8532bcadb5,
	22: 0xf27d61b8ac2f6b58,
	31: 0x34084cbe4e9f4db8,
	32: 0x48f63c0a3f69a7b7,
	33: 0x2567561275f7e5f4,
	36: 0xead4a641528c27ec,
}
