package raftstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/brockdb/brock"
	"github.com/hashicorp/raft"
)

// FirstIndex returns the index of the first entry of the log; 0 if there is none. It reads no file.
func (s *Store) FirstIndex() (uint64, error) {
	if s.closed.Load() {
		return 0, brock.ErrClosed
	}
	return s.first.Load(), nil
}

// LastIndex returns the index of the last entry of the log; 0 if there is none. It reads no file.
func (s *Store) LastIndex() (uint64, error) {
	if s.closed.Load() {
		return 0, brock.ErrClosed
	}
	return s.last.Load(), nil
}

// IsMonotonic reports whether StoreLogs refuses gaps: raft then deletes the whole log when it
// restores a snapshot. It is false with Options.AllowGaps.
func (s *Store) IsMonotonic() bool { return !s.opts.AllowGaps }

// GetLog sets l to the entry at index. Data and Extensions are new memory, which belongs to l. If
// there is no such entry it returns raft.ErrLogNotFound, and after any error l is as it was: a
// *RecordError if the record can't be read or should be there and is not, a brock.CorruptionError if
// a file is damaged.
func (s *Store) GetLog(index uint64, l *raft.Log) error {
	switch {
	case l == nil:
		return errNilLog
	case s.closed.Load():
		return brock.ErrClosed
	}
	var key [8]byte
	binary.BigEndian.PutUint64(key[:], index)
	// The only copy: the entry keeps it.
	b, err := s.log.Get(key[:])
	if errors.Is(err, brock.ErrKeyNotFound) {
		b, err = s.findMissing(index, key[:])
	}
	if err != nil {
		return s.readError(index, err)
	}
	if _, refused := decodeRecord(b, index, l); refused != nil {
		refused.Group = s.opts.Group
		return refused
	}
	return nil
}

// readError says what a failed read was about. Raft compares ErrLogNotFound with ==.
func (s *Store) readError(index uint64, err error) error {
	if err == raft.ErrLogNotFound || errors.Is(err, brock.ErrClosed) {
		return err
	}
	return fmt.Errorf("raftstore: read log entry %d of group %q: %w", index, s.opts.Group, err)
}

// findMissing looks once more for an entry that was not there, and returns raft.ErrLogNotFound if it
// need not be. The log may have changed between the two looks.
func (s *Store) findMissing(index uint64, key []byte) ([]byte, error) {
	// Without the lock, as raft also asks for entries that are still to come: those need not wait
	// until the append that runs is on the disk.
	if s.opts.AllowGaps || !s.covers(index) {
		return nil, raft.ErrLogNotFound
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.log.Get(key)
	if !errors.Is(err, brock.ErrKeyNotFound) {
		return b, err
	}
	if !s.covers(index) {
		return nil, raft.ErrLogNotFound
	}
	// To say that it was never there would have raft take a log with a hole for a short one.
	return nil, &RecordError{Group: s.opts.Group, Index: index, Reason: "it is missing"}
}

// covers reports whether index lies between the ends of the log.
func (s *Store) covers(index uint64) bool {
	return index != 0 && s.first.Load() <= index && index <= s.last.Load()
}

// StoreLog is StoreLogs for one entry.
func (s *Store) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs appends entries: all of them or, after an error, none. It returns when they are on the
// disk; calls for several groups of one store share a sync. Nothing of logs is kept.
//
// Indexes must rise by one from entry to entry, and follow the last one of the log, if it has any;
// else it returns ErrGap (see Options.AllowGaps). On a full disk it returns brock.ErrNoSpace, and
// works again once there is space: DeleteRange works then, too.
func (s *Store) StoreLogs(logs []*raft.Log) error {
	if err := s.lockOpen(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	first, last, err := s.checkOrder(logs)
	if err != nil || len(logs) == 0 {
		return err
	}
	if err := s.appendLogs(logs); err != nil {
		return fmt.Errorf("raftstore: append to the log of group %q: %w", s.opts.Group, err)
	}
	// The last one first: a reader between the two sees a log that is not empty, as it was before or
	// is now.
	s.last.Store(last)
	s.first.Store(first)
	return nil
}

// checkOrder returns the ends that the log will have with these entries, or an error if it can't take
// them. The caller holds mu.
func (s *Store) checkOrder(logs []*raft.Log) (first, last uint64, err error) {
	first, last = s.first.Load(), s.last.Load()
	for _, l := range logs {
		switch {
		case l == nil:
			return 0, 0, errNilLog
		case l.Index == 0:
			return 0, 0, errZero
		case !s.opts.AllowGaps && last != 0 && l.Index != last+1:
			return 0, 0, fmt.Errorf("%w: group %q: entry %d can't follow entry %d",
				ErrGap, s.opts.Group, l.Index, last)
		}
		if first == 0 || l.Index < first {
			first = l.Index
		}
		last = max(last, l.Index)
	}
	return first, last, nil
}

// appendLogs commits the records of logs as one batch. The caller holds mu.
func (s *Store) appendLogs(logs []*raft.Log) error {
	s.batch.Reset()
	commit := s.staged.Load()
	var key [8]byte
	for _, l := range logs {
		binary.BigEndian.PutUint64(key[:], l.Index)
		s.room = appendRecord(s.room[:0], l, commit)
		if err := s.batch.Set(key[:], s.room); err != nil {
			return err
		}
	}
	return s.commit()
}

// commit commits the batch, and waits for the disk whatever the store's Durability is: raft counts on
// it. The caller holds mu, but for load.
func (s *Store) commit() error {
	_, err := s.batch.Commit(context.Background(), brock.Synced)
	// A large append is rare; its memory would stay for ever.
	if s.batch.Size() > roomKept {
		s.batch.Reset()
		s.batch = s.log.NewBatch()
	}
	if cap(s.room) > roomKept {
		s.room = nil
	}
	return err
}

// DeleteRange deletes the entries from lowest to highest, both included, by one range delete. It
// returns when that is on the disk. Indexes that the log doesn't have are no error. Without
// Options.AllowGaps it returns ErrMiddle if entries on both sides would stay.
//
// Disk space comes back in the background. It works on a full disk, too, unless the error says
// otherwise.
func (s *Store) DeleteRange(lowest, highest uint64) error {
	if err := s.lockOpen(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	first, last := s.first.Load(), s.last.Load()
	if lowest > highest || last == 0 || highest < first || lowest > last {
		return nil
	}
	head, tail := lowest <= first, highest >= last
	if !head && !tail && !s.opts.AllowGaps {
		return fmt.Errorf("%w: group %q: entries %d to %d of %d to %d",
			ErrMiddle, s.opts.Group, lowest, highest, first, last)
	}
	if err := s.deleteLogs(lowest, highest); err != nil {
		return fmt.Errorf("raftstore: delete from the log of group %q: %w", s.opts.Group, err)
	}
	switch {
	case head && tail:
		first, last = 0, 0
	case head:
		first = highest + 1
	case tail:
		last = lowest - 1
	}
	s.first.Store(first)
	s.last.Store(last)
	// Entries that are deleted at the tail were not committed, and others will have their indexes.
	if tail && s.staged.Load() > last {
		s.staged.Store(last)
	}
	if s.opts.AllowGaps {
		// The neighbours may be missing, too.
		return s.readEnds()
	}
	return nil
}

// deleteLogs commits the range delete. The caller holds mu.
func (s *Store) deleteLogs(lowest, highest uint64) error {
	lo, hi := appendKey(nil, lowest), []byte(nil)
	if highest < math.MaxUint64 {
		hi = appendKey(nil, highest+1)
	}
	s.batch.Reset()
	if err := s.batch.DeleteRange(lo, hi); err != nil {
		return err
	}
	return s.commit()
}

// StageCommitIndex sets the commit index that the entries of the next StoreLogs are written with, and
// all later ones until another is staged. By itself it writes nothing.
func (s *Store) StageCommitIndex(index uint64) error {
	if s.closed.Load() {
		return brock.ErrClosed
	}
	s.staged.Store(index)
	return nil
}

// GetCommitIndex returns the commit index that the last entry of the log was written with, at most its
// own index; 0 if it has none, or there is no entry. Its errors are those of GetLog.
func (s *Store) GetCommitIndex() (uint64, error) {
	// With the lock, or the entry might just be deleted.
	if err := s.lockOpen(); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	last := s.last.Load()
	if last == 0 {
		return 0, nil
	}
	b, err := s.log.Get(appendKey(nil, last))
	if err != nil {
		return 0, s.readError(last, err)
	}
	var l raft.Log
	commit, refused := decodeRecord(b, last, &l)
	if refused != nil {
		refused.Group = s.opts.Group
		return 0, refused
	}
	return commit, nil
}

// indexOf returns the index of the entry with this key.
func (s *Store) indexOf(key []byte) (uint64, error) {
	if len(key) == 8 {
		if index := binary.BigEndian.Uint64(key); index != 0 {
			return index, nil
		}
	}
	return 0, &RecordError{Group: s.opts.Group, Reason: "the log has a key that is no index"}
}
