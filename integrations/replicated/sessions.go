package replicated

import (
	"container/list"
	"encoding/binary"
	"sort"
)

// maxSessions is how many sessions a state knows. It belongs to the format: all nodes must forget the
// same session at the same entry.
const maxSessions = 4096

// result is what an entry of the log has done.
type result struct {
	index uint64 // of the entry
	holds bool   // its conditions held, so its operations were done
	lost  bool   // nothing was done: its session is not known, or has gone on
}

// session is what the state knows of a client that has one command under way at a time: the newest
// one and its result. So a command that is sent again is not done again.
type session struct {
	id       uint64
	sequence uint64
	last     result
}

// sessions are those of a state, in the order of their newest commands.
type sessions struct {
	byID  map[uint64]*list.Element
	order *list.List // of *session
}

func newSessions() sessions { return sessions{map[uint64]*list.Element{}, list.New()} }

// find returns the session; nil if it is not known.
func (s *sessions) find(id uint64) *session {
	if e := s.byID[id]; e != nil {
		return e.Value.(*session)
	}
	return nil
}

// begin adds a session, and returns the one that is forgotten for it; nil: none.
func (s *sessions) begin(id uint64) (forgotten *session) {
	if s.order.Len() >= maxSessions {
		forgotten = s.order.Remove(s.order.Front()).(*session)
		delete(s.byID, forgotten.id)
	}
	s.byID[id] = s.order.PushBack(&session{id: id, last: result{index: id, holds: true}})
	return forgotten
}

// advance notes the newest command of a session. Only what is stored may change the order, or a node
// that was restarted would forget another session than the others.
func (s *sessions) advance(of *session, sequence uint64, r result) {
	of.sequence, of.last = sequence, r
	s.order.MoveToBack(s.byID[of.id])
}

// sessionKey is the key of a session in the state.
func sessionKey(id uint64) []byte { return binary.BigEndian.AppendUint64([]byte("s"), id) }

func (s *session) encode() []byte {
	b := binary.AppendUvarint([]byte{format}, s.sequence)
	b = binary.AppendUvarint(b, s.last.index)
	if s.last.holds {
		return append(b, 1)
	}
	return append(b, 0)
}

func decodeSession(key, value []byte) (*session, error) {
	d := decoder{b: value}
	d.readFormat()
	s := &session{sequence: d.readNumber(), last: result{index: d.readNumber()}}
	holds := d.readByte()
	s.last.holds = holds == 1
	d.check(len(d.b) == 0 && holds <= 1, "goes on behind its end")
	if d.check(len(key) == 9, "has a key that is no session"); d.err == nil {
		s.id = binary.BigEndian.Uint64(key[1:])
	}
	return s, d.wrap("session")
}

// load sets the sessions to those that a state has stored.
func (s *sessions) load(stored []*session) {
	sort.Slice(stored, func(i, j int) bool { return stored[i].last.index < stored[j].last.index })
	for _, x := range stored {
		s.byID[x.id] = s.order.PushBack(x)
	}
}
