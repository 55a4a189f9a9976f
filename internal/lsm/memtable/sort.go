package memtable

import (
	"bytes"
	"cmp"
	"math/bits"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/invariant"
)

// pair is one entry of a sorted view: where it is, and the key's 8 bytes after the view's common
// prefix, which decide most comparisons without a look at the key.
type pair struct {
	word  uint64 // the 8 bytes, as a big-endian number
	place ref    // the record
}

// comparePairs orders pairs of the same view; 0 says that they have one key and version.
func (a *arena) comparePairs(x, y pair) int {
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
// that remain equal are sorted by comparison, the large ones again, by further
// bits or by a later word of their keys.
//
// A group knows how many bytes its keys share and never looks at them again. Each
// later word may split off a single key, as of paths in nested directories; so
// after maxWords of them a group is sorted by comparison. Whatever the keys are,
// each is read maxWords + O(log n) times at most.
type sorter struct {
	arena  *arena         // whose records are sorted
	spare  []pair         // the other half of a radix pass
	counts [8][256]uint32 // by pass and digit
	reads  int            // of keys, where invariants are checked
}

const (
	smallGroup = 24 // groups up to this size are sorted by comparison
	digitBits  = 8  // bits of one radix pass
	maxWords   = 16 // words of a key that are sorted by before comparison takes over
)

// group is entries whose keys share their first depth bytes. Their words are taken after these.
type group struct {
	pairs []pair
	depth int // bytes that all keys share
	words int // number of earlier words that were sorted by
}

// digit is the part of a word that one pass sorts by: two fields, joined.
type digit struct {
	lowShift, highShift uint8
	lowMask, highMask   uint64
}

func (d *digit) digitOf(word uint64) uint8 {
	return uint8(word>>(d.lowShift&63)&d.lowMask | word>>(d.highShift&63)&d.highMask)
}

// sortPairs sorts pairs, whose words are taken after depth bytes that all keys share
// and which are in order of arrival, and drops the shadowed ones.
func (s *sorter) sortPairs(pairs []pair, depth int) []pair {
	if len(pairs) > smallGroup {
		// Small groups are sorted in place.
		s.spare = make([]pair, len(pairs))
	}
	s.sortGroup(group{pairs: pairs, depth: depth})
	// Of equal entries the newest comes first (see compareFrom), and Compact keeps the first.
	return slices.CompactFunc(pairs, func(x, y pair) bool { return s.arena.comparePairs(x, y) == 0 })
}

func (s *sorter) sortGroup(g group) {
	if len(g.pairs) <= smallGroup {
		slices.SortFunc(g.pairs, g.compareFunc(s))
		return
	}
	first, differ := g.pairs[0].word, uint64(0)
	for _, p := range g.pairs {
		differ |= p.word ^ first
	}
	if differ == 0 {
		s.sortEqual(g)
		return
	}
	// Groups that agree in all bits that were used need further ones.
	used := s.sortByRadix(g.pairs, differ)
	for pairs := g.pairs; len(pairs) > 1; {
		n := 1
		for n < len(pairs) && (pairs[n].word^pairs[0].word)&used == 0 {
			n++
		}
		if n > 1 {
			s.sortGroup(group{pairs[:n], g.depth, g.words})
		}
		pairs = pairs[n:]
	}
}

// sortByRadix sorts pairs, stably, by the leading bits of differ, and returns these.
func (s *sorter) sortByRadix(pairs []pair, differ uint64) (used uint64) {
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
			counts[i][digits[i].digitOf(p.word)]++
		}
	}
	from, to := pairs, s.spare[:len(pairs)]
	for i := n - 1; i >= 0; i-- {
		distributePairs(from, to, digits[i], &counts[i])
		from, to = to, from
	}
	// After an odd number of passes the result is in spare.
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

// distributePairs moves pairs into the order of their digit, stably; counts says how
// many have each value of it.
func distributePairs(from, to []pair, d digit, counts *[256]uint32) {
	var sum uint32
	for i, c := range counts {
		counts[i] = sum
		sum += c
	}
	for _, p := range from {
		i := d.digitOf(p.word)
		to[counts[i]] = p
		counts[i]++
	}
}

// sortEqual sorts a group whose words are all the same.
func (s *sorter) sortEqual(g group) {
	common := s.commonPrefix(g)
	// Keys end within the word, as the rests of equal keys do at last, or have too many words.
	if common < 8 || g.words == maxWords {
		slices.SortFunc(g.pairs, g.compareFunc(s))
		return
	}
	// They are sorted by later words, and get their own back.
	word, next := g.pairs[0].word, group{g.pairs, g.depth + common, g.words + 1}
	for i, p := range g.pairs {
		g.pairs[i].word = entry.Word(s.keyRest(p, next.depth))
	}
	s.sortGroup(next)
	for i := range g.pairs {
		g.pairs[i].word = word
	}
}

// commonPrefix is how many bytes behind depth the keys of a group share.
func (s *sorter) commonPrefix(g group) (n int) {
	// A long key is not compared to its end only to find that another is short.
	first := s.keyRest(g.pairs[0], g.depth)
	for limit := 64; ; limit *= 4 {
		n = min(limit, len(first))
		for _, p := range g.pairs[1:] {
			n = entry.CommonPrefix(s.keyRest(p, g.depth), first[:n])
		}
		if n < limit {
			return n
		}
	}
}

// keyRest is the key without its first depth bytes.
func (s *sorter) keyRest(p pair, depth int) []byte {
	if invariant.Enabled {
		s.reads++
	}
	return s.arena.at(p.place).keyBytes()[depth:]
}

// compareFunc is sorter.compareFrom within the group.
func (g group) compareFunc(s *sorter) func(x, y pair) int {
	return func(x, y pair) int { return s.compareFrom(x, y, g.depth) }
}

// compareFrom orders by key, of which the first depth bytes are the same, then newest
// first; of equal entries the later arrival comes first.
func (s *sorter) compareFrom(x, y pair, depth int) int {
	if x.word != y.word {
		return cmp.Compare(x.word, y.word)
	}
	if c := bytes.Compare(s.keyRest(x, depth), s.keyRest(y, depth)); c != 0 {
		return c
	}
	a, b := s.arena.at(x.place), s.arena.at(y.place)
	if c := cmp.Compare(b.version(), a.version()); c != 0 {
		return c
	}
	return cmp.Compare(y.place, x.place)
}
