package memtable

import (
	"bytes"
	"cmp"
	"math/bits"
	"slices"

	"github.com/brockdb/brock/internal/entry"
)

// pair is one entry of a sorted view: where it is, and the key's 8 bytes after
// the view's common prefix, which decide most comparisons.
type pair struct {
	word  uint64
	place ref
}

// compare orders pairs of the same view; 0 says that one shadows the other.
func (a *arena) compare(x, y pair) int {
	if x.word != y.word {
		return cmp.Compare(x.word, y.word)
	}
	return compareRecords(a.at(x.place), a.at(y.place))
}

// sorter sorts pairs into entry.Compare order: by radix on those bits of their
// words that differ at all, and by comparison what is left. Within a group of
// pairs the passes go from the least digit to the greatest (Knuth, TAOCP vol. 3,
// 5.2.5); groups that remain equal are sorted again, as by the most significant
// digit first (McIlroy, Bostic and McIlroy, "Engineering Radix Sort", Computing
// Systems 1993).
//
// Keys of one table are alike: decimal digits differ in 4 bits of a byte, letters
// in 5. A pass over a byte would waste most of its 256 buckets, so a pass takes
// 8 differing bits, of up to two fields, wherever in the word they are. Only as
// many bits are sorted by as should tell the entries apart; the small groups
// that remain equal are sorted by insertion, the large ones again, by further
// bits or by a later word of their keys.
type sorter struct {
	arena  *arena
	spare  []pair
	counts [8][256]uint32
}

const (
	smallGroup = 24
	digitBits  = 8
)

// digit is the part of a word that one pass sorts by: two fields, joined.
type digit struct {
	lowShift, highShift uint8
	lowMask, highMask   uint64
}

func (d *digit) of(word uint64) uint8 {
	return uint8(word>>(d.lowShift&63)&d.lowMask | word>>(d.highShift&63)&d.highMask)
}

// sorted sorts pairs, whose words are taken after depth bytes of their keys and
// which are in order of arrival, and drops the shadowed ones.
func (s *sorter) sorted(pairs []pair, depth int) []pair {
	if len(pairs) > smallGroup {
		s.spare = make([]pair, len(pairs))
	}
	s.sort(pairs, depth)
	return slices.CompactFunc(pairs, func(a, b pair) bool {
		return a.word == b.word && s.arena.compare(a, b) == 0
	})
}

func (s *sorter) sort(pairs []pair, depth int) {
	if len(pairs) <= smallGroup {
		s.insertionSort(pairs)
		return
	}
	first, differ := pairs[0].word, uint64(0)
	for _, p := range pairs {
		differ |= p.word ^ first
	}
	if differ == 0 {
		s.sortEqual(pairs, depth)
		return
	}
	// Groups that agree in all bits that were used need further ones.
	used := s.radix(pairs, differ)
	for len(pairs) > 1 {
		n := 1
		for n < len(pairs) && (pairs[n].word^pairs[0].word)&used == 0 {
			n++
		}
		if n > 1 {
			s.sort(pairs[:n], depth)
		}
		pairs = pairs[n:]
	}
}

// radix sorts pairs, stably, by the leading bits of differ, and returns these.
func (s *sorter) radix(pairs []pair, differ uint64) (used uint64) {
	var digits [8]digit
	// log2 n bits would tell all apart if they were spread evenly; 4 more, as they
	// are not.
	n, want := 0, bits.Len(uint(len(pairs)))+4
	for want > 0 && differ != 0 {
		d, mask := nextDigit(differ)
		digits[n] = d
		n++
		differ &^= mask
		used |= mask
		want -= bits.OnesCount64(mask)
		if n == len(digits) {
			break
		}
	}
	// The counts of all passes in one walk over the pairs.
	counts := s.counts[:n]
	clear(counts)
	for _, p := range pairs {
		for i := range counts {
			counts[i][digits[i].of(p.word)]++
		}
	}
	from, to := pairs, s.spare[:len(pairs)]
	for i := n - 1; i >= 0; i-- {
		distribute(from, to, digits[i], &counts[i])
		from, to = to, from
	}
	if n%2 == 1 {
		copy(pairs, from)
	}
	return used
}

// nextDigit takes up to digitBits of the highest bits set in mask, in at most
// two fields, and returns them as a digit and as a mask.
func nextDigit(mask uint64) (digit, uint64) {
	// Two fields join to one digit, so that a pass sorts by 8 bits even where keys
	// differ in 4 bits of each byte.
	high := topField(mask, digitBits)
	width := bits.OnesCount64(high)
	d := digit{highShift: uint8(bits.TrailingZeros64(high)), highMask: 1<<width - 1}
	low := topField(mask&^high, digitBits-width)
	if low == 0 {
		return d, high
	}
	n := bits.OnesCount64(low)
	d.lowShift, d.lowMask = uint8(bits.TrailingZeros64(low)), 1<<n-1
	d.highShift -= uint8(n)
	d.highMask <<= n
	return d, high | low
}

// topField is the highest run of bits set in mask, cut to its highest n bits.
func topField(mask uint64, n int) uint64 {
	if mask == 0 || n == 0 {
		return 0
	}
	top := bits.Len64(mask)
	run := min(bits.LeadingZeros64(^(mask << (64 - top))), n)
	return (1<<run - 1) << (top - run)
}

// distribute moves pairs into the order of their digit, stably; counts says how
// many have each value of it.
func distribute(from, to []pair, d digit, counts *[256]uint32) {
	var sum uint32
	for i, c := range counts {
		counts[i] = sum
		sum += c
	}
	for _, p := range from {
		i := d.of(p.word)
		to[counts[i]] = p
		counts[i]++
	}
}

// sortEqual sorts pairs that have the same word.
func (s *sorter) sortEqual(pairs []pair, depth int) {
	// How far do the keys agree beyond the word?
	first := s.arena.at(pairs[0].place).keyBytes()
	common, same := len(first), true
	for _, p := range pairs[1:] {
		key := s.arena.at(p.place).keyBytes()
		if len(key) == len(first) && bytes.Equal(key, first) {
			continue
		}
		same = false
		common = entry.CommonPrefix(key, first[:common])
	}
	switch {
	case same:
		s.sortVersions(pairs)
	case common >= depth+8:
		// They are sorted by later words, and get their own back.
		word := pairs[0].word
		for i, p := range pairs {
			pairs[i].word = entry.Word(s.arena.at(p.place).keyBytes()[common:])
		}
		s.sort(pairs, common)
		for i := range pairs {
			pairs[i].word = word
		}
	default: // some keys end within the word
		slices.SortFunc(pairs, s.order)
	}
}

// sortVersions sorts entries of one key, which normally came oldest first.
func (s *sorter) sortVersions(pairs []pair) {
	slices.Reverse(pairs)
	if !slices.IsSortedFunc(pairs, s.order) {
		slices.SortFunc(pairs, s.order)
	}
}

func (s *sorter) insertionSort(pairs []pair) {
	for i := 1; i < len(pairs); i++ {
		p, j := pairs[i], i
		for j > 0 && s.order(p, pairs[j-1]) < 0 {
			pairs[j] = pairs[j-1]
			j--
		}
		pairs[j] = p
	}
}

// order is compare, and of equal entries the later arrival comes first.
func (s *sorter) order(a, b pair) int {
	if c := s.arena.compare(a, b); c != 0 {
		return c
	}
	return cmp.Compare(b.place, a.place)
}
