package iterator

import (
	"bytes"
	"cmp"
	"math"
	"sync"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/invariant"
)

// merges has those that were closed: a short walk would otherwise be mostly their allocation.
var merges = sync.Pool{New: func() any { return new(merge) }}

// Merge walks all entries of the sources, which it owns from now on. Close it once: another reader
// gets its memory then. Of entries with the same key and version it yields only the one of the
// earliest source: give the newest source first. When a source fails, the merge fails.
func Merge(sources []Iterator) Iterator {
	if len(sources) == 1 {
		return sources[0]
	}
	m := merges.Get().(*merge)
	m.prefix = m.firstPrefix[:0]
	// Most merges have few sources: their arrays are in the merge itself.
	if n := len(sources); n <= fewSources {
		m.heads, m.losers = m.firstHeads[:n], m.firstLosers[:n]
	} else {
		m.heads, m.losers = make([]head, n), make([]int32, n)
	}
	for i, s := range sources {
		m.heads[i].source = s
	}
	return m
}

// merge is a tree of losers (Knuth, TAOCP vol. 3, 5.4.1). The leaves are the sources. Each inner
// node keeps the source that lost the match between the winners of its two sides. So only the
// winner's path is played again when the winner moves on.
//
// Forward, each source is at its first entry that is not before the current one; backward, at its
// last entry that is not after it.
type merge struct {
	heads    []head  // the sources
	losers   []int32 // inner nodes, from 1 to k-1, whose parent is at half the index
	winner   int32   // the source of the current entry
	second   int32   // best of the others, while the same source keeps winning; -1: unknown
	at       bool    // it is at an entry
	backward bool    // direction of the walk
	skipped  bool    // sources have left entries out that may be beyond the current one
	sure     int     // moves forward for which the winner is known to win
	prefix   []byte  // what all heads' keys begin with; words are taken after it
	err      error   // why a move failed

	firstHeads  [fewSources]head
	firstLosers [fewSources]int32
	firstPrefix [32]byte
}

// longestPrefix is how much of a common prefix is left out of the words, in bytes: it is
// copied, and keys may be long.
const longestPrefix = 4 << 10

// fewSources is how many sources a merge has memory for by itself.
const fewSources = 4

// head is a source and its current entry.
type head struct {
	word   uint64       // of the key after the prefix; complemented backward; all ones at the end
	done   bool         // the source is not at an entry
	waits  bool         // the source was not moved: entry is a bound, and its first or last one comes there or later
	double bool         // the same entry is in an earlier source
	entry  *entry.Entry // the source's entry; nil at the end
	source Iterator
}

func (m *merge) First() bool { return m.positionSources(false, nil, Iterator.First) }

func (m *merge) Last() bool { return m.positionSources(true, nil, Iterator.Last) }

func (m *merge) SeekGE(key []byte) bool {
	return m.positionSources(false, key, func(s Iterator) bool { return s.SeekGE(key) })
}

func (m *merge) SeekLT(key []byte) bool {
	return m.positionSources(true, key, func(s Iterator) bool { return s.SeekLT(key) })
}

// positionSources positions every source by move, which seeks key, and plays all matches. nil: all
// keys qualify.
func (m *merge) positionSources(backward bool, key []byte, move func(Iterator) bool) bool {
	m.backward, m.skipped, m.at, m.err, m.sure = backward, false, false, nil, 0
	for i := range m.heads {
		h := &m.heads[i]
		if s, ok := h.source.(Bounded); ok && h.placeAtBound(s, key, backward) {
			continue
		}
		if !m.takeEntry(h, move(h.source)) {
			return false
		}
	}
	return len(m.heads) > 0 && m.playAll()
}

// placeAtBound places a head without a move of its source if all its entries qualify, or none. If
// all do, the source waits until the walk comes to its bound: a walk of few keys most often ends
// before, and has not read it.
func (h *head) placeAtBound(s Bounded, key []byte, backward bool) bool {
	first, last := s.Ends()
	if first == nil {
		return false
	}
	beforeFirst, behindLast := bytes.Compare(key, first.Key) <= 0, bytes.Compare(key, last.Key) > 0
	switch {
	case backward && (key == nil || behindLast):
		h.waitAt(last)
	case !backward && (key == nil || beforeFirst):
		h.waitAt(first)
	case beforeFirst || behindLast:
		h.setDone()
	default:
		return false
	}
	return true
}

// waitAt puts a bound in the place of an entry. A bound is never behind the entry that it stands
// for, so the source is opened before that entry is due.
func (h *head) waitAt(bound *entry.Entry) {
	h.done, h.double, h.waits, h.entry = false, false, true, bound
}

// setDone makes the source one at its end. All ones: it loses every match by its word alone.
func (h *head) setDone() {
	h.done, h.double, h.waits, h.entry, h.word = true, false, false, nil, math.MaxUint64
}

// takeEntry takes the entry of a source that was just moved. It returns false if
// the source failed.
func (m *merge) takeEntry(h *head, ok bool) bool {
	if ok {
		h.done, h.double, h.waits, h.entry = false, false, false, h.source.Entry()
		return true
	}
	h.setDone()
	// Without what this source has, the merge would show too little: it stops.
	if m.err = h.source.Err(); m.err != nil {
		m.at = false
		return false
	}
	return true
}

// playAll finds the common prefix of the heads, and the winner.
func (m *merge) playAll() bool {
	m.prefix = m.prefix[:0]
	started := false
	// Words are taken after what all keys share, so that they tell keys apart.
	for i := range m.heads {
		if h := &m.heads[i]; h.done {
			continue
		} else if !started {
			m.prefix = append(m.prefix, h.entry.Key[:min(len(h.entry.Key), longestPrefix)]...)
			started = true
		} else {
			m.prefix = m.prefix[:entry.CommonPrefix(m.prefix, h.entry.Key)]
		}
	}
	m.setWords()
	m.winner, m.second = m.playMatches(1), -1
	return m.settleWinner()
}

// playMatches returns the winner of the matches at and below a node.
func (m *merge) playMatches(node int) int32 {
	k := len(m.heads)
	if node >= k {
		return int32(node - k)
	}
	a, b := m.playMatches(2*node), m.playMatches(2*node+1)
	if m.losesTo(a, b) {
		a, b = b, a
	}
	m.losers[node] = b
	return a
}

// settleWinner opens a winner that has waited, and moves past entries that an earlier source has
// too.
func (m *merge) settleWinner() bool {
	for {
		h := &m.heads[m.winner]
		// An entry that is double was yielded from the earlier source already, or will be.
		if !h.waits && !h.double {
			m.at = !h.done
			return m.at
		}
		if !m.stepSource(h) {
			return false
		}
		m.replayWinner()
	}
}

// stepSource moves one source on in the direction of the walk: to its first entry there, if it is
// not at one.
func (m *merge) stepSource(h *head) bool {
	var ok bool
	switch outside := h.done || h.waits; {
	case outside && m.backward:
		ok = h.source.Last()
	case outside:
		ok = h.source.First()
	case m.backward:
		ok = h.source.Prev()
	default:
		ok = h.source.Next()
	}
	if !m.takeEntry(h, ok) {
		return false
	}
	if ok {
		m.setWord(h)
	}
	return true
}

func (m *merge) Next() bool {
	// LookAhead has compared the sources already.
	if m.sure > 0 {
		// The word of the winner is only looked at after a move that takes it again.
		m.sure--
		return m.heads[m.winner].source.Next()
	}
	if !m.at {
		return false
	}
	if m.backward {
		return m.turnRound()
	}
	return m.advanceWinner()
}

func (m *merge) Prev() bool {
	if !m.at {
		return false
	}
	if !m.backward {
		return m.turnRound()
	}
	return m.advanceWinner()
}

// SkipGE has every source leave out what it can. The entry that another source
// than the winner is at was not met yet: if it must be, that source stays.
func (m *merge) SkipGE(key []byte, v entry.Version) bool {
	if !m.at || m.backward {
		return m.Next()
	}
	return m.skipSources(func(h *head) bool { return bytes.Compare(h.entry.Key, key) < 0 && h.entry.Version < v },
		func(s Iterator) bool { return s.SkipGE(key, v) })
}

// SkipLT has every source leave out what it can on the way back.
func (m *merge) SkipLT(key []byte, v entry.Version) bool {
	if !m.at || !m.backward {
		return m.Prev()
	}
	return m.skipSources(func(h *head) bool { return bytes.Compare(h.entry.Key, key) >= 0 && h.entry.Version < v },
		func(s Iterator) bool { return s.SkipLT(key, v) })
}

// SkipNewer has every source that is at the key leave out what it can of it.
func (m *merge) SkipNewer(v entry.Version) bool {
	if !m.at || m.backward {
		return m.Next()
	}
	key := bytes.Clone(m.Entry().Key)
	return m.skipSources(func(h *head) bool { return h.entry.Version > v && bytes.Equal(h.entry.Key, key) },
		func(s Iterator) bool { return s.SkipNewer(v) })
}

// skipSources moves the winner, and each source whose entry leaves says true for, by move.
func (m *merge) skipSources(leaves func(*head) bool, move func(Iterator) bool) bool {
	// All other sources may have moved, so every match is played again.
	m.skipped, m.sure = true, 0
	for i := range m.heads {
		h := &m.heads[i]
		if h.done || h.waits || int32(i) != m.winner && !leaves(h) {
			continue
		}
		if !m.takeEntry(h, move(h.source)) {
			return false
		}
	}
	return m.playAll()
}

// advanceWinner moves the winner on.
func (m *merge) advanceWinner() bool {
	if !m.stepSource(&m.heads[m.winner]) {
		return false
	}
	// Runs of entries from one source are common: while the winner beats the
	// best of the others, no match needs to be played again.
	if m.second >= 0 && !m.losesTo(m.winner, m.second) {
		return m.settleWinner()
	}
	m.replayWinner()
	return m.settleWinner()
}

// LookAhead knows what the winner knows before the entries of all others.
func (m *merge) LookAhead(until []byte, least, most entry.Version) int {
	s, ok := m.heads[m.winner].source.(Lookahead)
	if !ok || !m.at || m.backward {
		return 0
	}
	// The winner stays the winner only up to the runner-up's key.
	if m.second < 0 {
		m.second = m.runnerUp()
	}
	if second := &m.heads[m.second]; !second.done && bytes.Compare(second.entry.Key, until) < 0 {
		until = second.entry.Key
	}
	m.sure = s.LookAhead(until, least, most)
	return m.sure
}

// replayWinner plays the matches on the path of the winner, which has moved.
func (m *merge) replayWinner() {
	old, w := m.winner, m.winner
	for node := (int(w) + len(m.heads)) / 2; node > 0; node /= 2 {
		if l := m.losers[node]; m.losesTo(w, l) {
			m.losers[node], w = w, l
		}
	}
	m.winner, m.second = w, -1
	if w == old {
		m.second = m.runnerUp()
	}
}

// runnerUp is the best of the sources that lost to the winner: it met the winner on the winner's
// path.
func (m *merge) runnerUp() int32 {
	best := int32(-1)
	for node := (int(m.winner) + len(m.heads)) / 2; node > 0; node /= 2 {
		if l := m.losers[node]; best < 0 || m.losesTo(best, l) {
			best = l
		}
	}
	return best
}

// losesTo reports whether source a comes after b in the direction of the walk. If
// both have the same entry, the later source loses, and is marked.
func (m *merge) losesTo(a, b int32) bool {
	x, y := &m.heads[a], &m.heads[b]
	// Words decide most matches, without a look at the keys.
	if x.word != y.word {
		return x.word > y.word
	}
	if x.done || y.done {
		return x.done
	}
	c := bytes.Compare(x.entry.Key, y.entry.Key)
	if c == 0 {
		c = cmp.Compare(y.entry.Version, x.entry.Version)
	}
	if c == 0 {
		m.heads[max(a, b)].double = true
		return a > b
	}
	return c > 0 != m.backward
}

// turnRound changes direction at the current entry: every other source moves to its entry on the
// other side of it, then the current source moves on.
func (m *merge) turnRound() bool {
	// A source that has left entries out may be anywhere: it seeks. Others are at the
	// neighbour of the current entry, so one step leads to the other side.
	m.backward, m.sure = !m.backward, 0
	var current entry.Entry
	if m.skipped {
		current = entry.Entry{Key: bytes.Clone(m.Entry().Key), Version: m.Entry().Version}
	}
	for i := range m.heads {
		h := &m.heads[i]
		ok := true
		switch {
		case h.waits: // all of it lies on the side where the walk comes from
			h.setDone()
		case m.skipped && int32(i) != m.winner:
			ok = m.takeEntry(h, moveBeside(h.source, &current, m.backward))
		default:
			ok = m.stepSource(h)
		}
		if !ok {
			return false
		}
	}
	m.skipped = false
	return m.playAll()
}

// moveBeside moves s to its last entry before e or, forward, to its first one after it.
func moveBeside(s Iterator, e *entry.Entry, backward bool) bool {
	ok := s.SeekGE(e.Key)
	for ok {
		if c := entry.Compare(s.Entry(), e); c > 0 || c == 0 && backward {
			break
		}
		ok = s.Next()
	}
	switch {
	case !backward || !ok && s.Err() != nil:
		return ok
	case ok:
		return s.Prev()
	}
	return s.Last()
}

// setWord takes the word of a head's key; if the key doesn't have the prefix,
// the prefix is cut and all words are taken again.
func (m *merge) setWord(h *head) {
	key := h.entry.Key
	if len(key) < len(m.prefix) || string(key[:len(m.prefix)]) != string(m.prefix) {
		m.prefix = m.prefix[:entry.CommonPrefix(m.prefix, key)]
		m.setWords()
		return
	}
	// Complemented, the greatest key has the least word, and wins.
	w := entry.Word(key[len(m.prefix):])
	if m.backward {
		w = ^w
	}
	h.word = w
}

// setWords takes the words of all heads anew.
func (m *merge) setWords() {
	for i := range m.heads {
		if h := &m.heads[i]; !h.done {
			m.setWord(h)
		}
	}
}

func (m *merge) Entry() *entry.Entry { return m.heads[m.winner].entry }

func (m *merge) Err() error { return m.err }

func (m *merge) Close() {
	for i := range m.heads {
		m.heads[i].source.Close()
	}
	*m = merge{}
	if !invariant.Enabled { // else one that is used after Close is found out
		merges.Put(m)
	}
}
