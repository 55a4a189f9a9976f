package replicated

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/brockdb/brock"
	"github.com/hashicorp/raft"
)

// machine is the raft.BatchingFSM of a node. Raft calls it from one goroutine.
//
// A batch of entries becomes Buffered commits: the synced log can repeat them. Each command is of the
// version of its index, and what it does depends on the log alone: on its time, on what the state has
// at the entry before, and on the sessions there.
type machine struct {
	n       *Node
	pending []write // of entries that are decided, but not committed
	bytes   int     // of their commands
}

// write is what an entry writes.
type write struct {
	at         applied // behind the entry
	operations []Operation
	session    *session // as it is behind the entry; nil: none
	forgotten  *session // to be deleted; nil: none
}

// pendingBytes is when pending commands are committed at the latest. A Brock batch of several versions
// must fit into its memory, an eighth of the least MemoryLimit at worst.
const pendingBytes = 128 << 10

// Apply implements raft.FSM.
func (m *machine) Apply(l *raft.Log) any { return m.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch implements raft.BatchingFSM. If the state can't be written, the node stops, and the
// goroutine ends.
func (m *machine) ApplyBatch(logs []*raft.Log) []any {
	results := make([]any, len(logs))
	s := m.n.current()
	at := s.applied
	for i, l := range logs {
		// After a restart raft begins at its snapshot, and the state may be further.
		if l.Type != raft.LogCommand || l.Index <= at.index {
			continue
		}
		e, err := decodeEntry(l.Data)
		if err != nil {
			m.n.fail(fmt.Errorf("log entry %d: %w", l.Index, err))
			runtime.Goexit()
		}
		if m.bytes+len(l.Data) > pendingBytes {
			m.flush(s)
		}
		if e.kind == kindKeyspace {
			results[i] = m.makeKeyspace(s, l.Index, e.name)
			continue
		}
		at = applied{l.Index, l.Term, max(at.clock, e.time)}
		results[i] = m.decide(s, at, e)
		m.bytes += len(l.Data)
	}
	m.flush(s)
	m.n.reads.setDone(logs[len(logs)-1].Index)
	return results
}

// makeKeyspace makes a keyspace, if there is none of this name. Brock gives that a version of its own,
// the one above the newest. It is at most the index of the entry, so the next command can have its own
// one. The commands before are durable with it, so the log repeats none of that version or below.
func (m *machine) makeKeyspace(s *state, index uint64, name string) result {
	m.flush(s)
	made := s.keyspace(name) != nil
	if count := len(slices.Collect(s.db.Keyspaces())); !made && count <= MaxKeyspaces { // with our own one
		m.n.disk.must(func() error {
			_, err := s.db.Keyspace(name)
			return err
		})
		made = true
	}
	return result{index: index, holds: made}
}

// decide finds out what an entry does. Each entry has a write, if only of how far the log is.
func (m *machine) decide(s *state, at applied, e *entry) result {
	w := write{at: at}
	r := result{index: at.index, holds: true}
	of := s.sessions.find(e.session)
	switch {
	case e.kind == kindSession:
		w.forgotten = s.sessions.begin(at.index)
		w.session = s.sessions.find(at.index)
	case of == nil, e.sequence < of.sequence:
		r.holds, r.lost = false, true
	case e.sequence == of.sequence:
		r = of.last // it was sent again
	default:
		if r.holds = s.hasKeyspaces(e.Operations) && m.holds(s, at, e); r.holds {
			w.operations = e.Operations
		}
		s.sessions.advance(of, e.sequence, r)
		w.session = of
	}
	m.add(w)
	return r
}

// add adds a write. The session is copied, as a later entry may change it.
func (m *machine) add(w write) {
	if w.session != nil {
		x := *w.session
		w.session = &x
	}
	m.pending = append(m.pending, w)
}

// holds reports whether all conditions of a command hold.
func (m *machine) holds(s *state, at applied, e *entry) bool {
	if len(e.Conditions) == 0 {
		return true
	}
	// They are about the state at the entry before, and expiry goes by the clock at this one.
	m.flush(s)
	s.clock.Store(at.clock)
	for i := range e.Conditions {
		holds := false
		m.n.disk.must(func() (err error) {
			holds, err = s.holds(&e.Conditions[i])
			return err
		})
		if !holds {
			return false
		}
	}
	return true
}

// flush commits what is pending.
func (m *machine) flush(s *state) {
	if len(m.pending) == 0 {
		return
	}
	last := len(m.pending) - 1
	at := m.pending[last].at
	m.n.disk.must(func() error {
		b := s.db.NewBatch()
		for i := range m.pending {
			w := &m.pending[i]
			if i < last && len(w.operations) == 0 && w.session == nil {
				continue
			}
			if err := w.addTo(b, s); err != nil {
				return err
			}
		}
		if err := b.In(s.own).Set(appliedKey, at.encode()); err != nil {
			return err
		}
		_, err := b.Commit(context.Background(), brock.Buffered)
		return err
	})
	s.applied = at
	s.clock.Store(at.clock)
	m.pending, m.bytes = m.pending[:0], 0
}

// addTo adds the write to a batch, as the version of its index.
func (w *write) addTo(b *brock.Batch, s *state) error {
	if err := b.At(w.at.index); err != nil {
		return err
	}
	for i := range w.operations {
		var err error
		o := &w.operations[i]
		b := b.In(s.keyspace(o.Keyspace))
		switch o.Kind {
		case OpSet:
			err = b.SetEntry(&brock.Entry{Key: o.Key, Value: o.Value, Meta: o.Meta, ExpiresAt: o.ExpiresAt})
		case OpDelete:
			err = b.Delete(o.Key)
		case OpDeleteRange:
			err = b.DeleteRange(o.Key, o.Upper)
		}
		if err != nil {
			return err
		}
	}
	if w.session != nil {
		if err := b.In(s.own).Set(sessionKey(w.session.id), w.session.encode()); err != nil {
			return err
		}
	}
	if w.forgotten != nil {
		return b.In(s.own).Delete(sessionKey(w.forgotten.id))
	}
	return nil
}

// Snapshot implements raft.FSM. It costs as little as an empty commit: commands go on at once.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	s := m.n.current()
	if s.applied.index == 0 {
		return nil, raft.ErrNothingNewToSnapshot
	}
	snapshot, err := s.db.Snapshot()
	if err != nil {
		return nil, err
	}
	// Invariant: a snapshot has exactly the commands up to the index in its header.
	if snapshot.Version() != s.applied.index {
		defer snapshot.Close()
		return nil, fmt.Errorf("replicated: snapshot of version %d, applied %d", snapshot.Version(), s.applied.index)
	}
	return &freeze{m.n, snapshot, s.applied}, nil
}

// freeze is the raft.FSMSnapshot.
type freeze struct {
	n        *Node
	snapshot *brock.Snapshot
	applied  applied
}

// Persist implements raft.FSMSnapshot: it makes a checkpoint, which is durable when it returns, and
// writes the header that names it.
func (f *freeze) Persist(sink raft.SnapshotSink) error {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	h := header{fmt.Sprintf("%d-%x", f.applied.index, random), f.n.o.ID, string(f.n.address()), f.applied}
	if err := f.snapshot.Checkpoint(f.n.ctx, f.n.o.checkpointDir(h.name)); err != nil {
		return err
	}
	_, err := sink.Write(h.encode())
	return err
}

// Release implements raft.FSMSnapshot.
func (f *freeze) Release() { f.snapshot.Close() }

// Restore implements raft.FSM: a state is made of the checkpoint that the snapshot store has fetched,
// and put in the place of the one that is read. Readers of that go on for a while.
func (m *machine) Restore(source io.ReadCloser) error {
	defer source.Close()
	b, err := io.ReadAll(io.LimitReader(source, headerSize+1))
	if err != nil {
		return err
	}
	h, err := decodeHeader(b)
	if err != nil {
		return err
	}
	// Behind it raft sends what follows its own index, which may be that of a barrier.
	r := m.n.snapshots.current()
	if r.snapshot == nil || r.snapshot.name != h.name {
		return fmt.Errorf("replicated: snapshot %q is gone", h.name)
	}
	now := m.n.current()
	// What the log has committed is the same everywhere: a state that is further needs nothing.
	if now.applied.index >= h.applied.index {
		m.n.reads.setDone(r.meta.Index)
		return nil
	}
	next, err := m.n.o.makeState(m.n.ctx, now.number+1, h)
	if err != nil {
		return err
	}
	if err := m.n.snapshots.setState(next.number); err != nil {
		return errors.Join(err, next.db.Close())
	}
	m.n.swap(next)
	m.n.reads.setDone(r.meta.Index)
	return nil
}
