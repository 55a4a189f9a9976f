package raftstore

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/hashicorp/raft"
)

// model is what a log should have: the terms of its entries.
type model struct {
	first uint64 // index of the first term; meaningless without one
	terms []uint64
	term  uint64 // of the next append
	vote  uint64 // of the stable keys
}

// readModel returns the model of what a Store has.
func readModel(t testing.TB, s *Store) *model {
	m := &model{first: 1, term: 1}
	first, err := s.FirstIndex()
	assert.OK(t, err)
	last, err := s.LastIndex()
	assert.OK(t, err)
	if m.vote, err = s.GetUint64(voteKey); err != nil {
		t.Fatal(err)
	}
	if last == 0 {
		return m
	}
	m.first = first
	for index := first; index <= last; index++ {
		var l raft.Log
		assert.OK(t, s.GetLog(index, &l))
		m.terms = append(m.terms, l.Term)
		m.term = max(m.term, l.Term)
	}
	return m
}

var voteKey = []byte("LastVoteTerm")

// show returns the state in the form that observe has.
func (m *model) show() string {
	if len(m.terms) == 0 {
		return fmt.Sprintf("vote %d; empty", m.vote)
	}
	spans := []string{fmt.Sprintf("vote %d", m.vote)}
	begin := 0
	for i, term := range m.terms {
		if i+1 == len(m.terms) || m.terms[i+1] != term {
			spans = append(spans, fmt.Sprintf("%d to %d of term %d", m.first+uint64(begin), m.first+uint64(i), term))
			begin = i + 1
		}
	}
	return strings.Join(spans, "; ")
}

// observe reads all that a Store has, and fails the test if a part of it is not whole.
func observe(t testing.TB, s *Store) string {
	t.Helper()
	vote, err := s.GetUint64(voteKey)
	assert.OK(t, err)
	return fmt.Sprintf("vote %d; %s", vote, strings.ReplaceAll(checkLog(t, s), "\n", "; "))
}

// last returns the index of the last entry, or the one before the first.
func (m *model) last() uint64 { return m.first + uint64(len(m.terms)) - 1 }

// draw chooses a call. It changes the model, and returns what does the same with a Store.
func (m *model) draw(rng *rand.Rand) func(*Store) error {
	switch kind := rng.IntN(20); {
	case kind == 0 && len(m.terms) > 0: // what a new leader does to a follower
		n := rng.IntN(min(len(m.terms), 40)) + 1
		from, to := m.last()-uint64(n)+1, m.last()
		m.terms = m.terms[:len(m.terms)-n]
		m.term++
		return func(s *Store) error { return s.DeleteRange(from, to) }
	case kind <= 2 && len(m.terms) > 300: // what a snapshot does
		n := rng.IntN(len(m.terms)-100) + 1
		to := m.first + uint64(n) - 1
		m.first, m.terms = m.first+uint64(n), m.terms[n:]
		return func(s *Store) error { return s.DeleteRange(0, to) }
	case kind == 3:
		m.vote++
		vote := m.vote
		return func(s *Store) error { return s.SetUint64(voteKey, vote) }
	case kind == 4 && rng.IntN(20) == 0 && len(m.terms) > 0: // a snapshot of the leader
		to := m.last()
		m.first, m.terms = to+1+rng.Uint64N(1000), nil
		return func(s *Store) error { return s.DeleteRange(0, to) }
	}
	n := rng.Uint64N(64) + 1
	if rng.IntN(2) == 0 {
		n = 1
	}
	size := []int{0, 0, 200, 1000, 8000}[rng.IntN(5)]
	var logs []*raft.Log
	for range n {
		m.terms = append(m.terms, m.term)
		logs = append(logs, entry(m.last(), m.term, size))
	}
	return func(s *Store) error { return s.StoreLogs(logs) }
}
