package brock

import (
	"fmt"

	"github.com/brockdb/brock/internal/txn/pending"
)

// Savepoint is a place behind some writes of a transaction: see Txn.RollbackTo. It takes no memory of
// the transaction, and need not be ended.
type Savepoint struct {
	of   *transaction
	mark pending.Mark
}

var (
	errSavepointGone    = fmt.Errorf("brock: the savepoint is of another transaction, or a rollback to an earlier one has ended it: %w", ErrInvalid)
	errSavepointSpilled = fmt.Errorf("brock: writes since the savepoint went to files, from which they can't be taken back, see TxnOptions.MaxMemory: %w", ErrInvalid)
)

// Savepoint returns the place behind the writes so far, for RollbackTo. There may be any number. That of
// a transaction that has ended or can't write is good for nothing.
func (t *Txn) Savepoint() Savepoint {
	if t.checkUpdate() != nil {
		return Savepoint{}
	}
	return Savepoint{t.transaction, t.writes.Mark()}
}

// RollbackTo forgets all that the transaction has written since s, in all keyspaces, also its locks
// (Lock). What it has read still counts as read. The transaction goes on. Later savepoints end; s can
// be used again.
//
// Items and values that were read stay valid. An iterator that is open shows what there was at its last
// Rewind or Seek, until the next one. It takes time for each write that is left in memory.
//
// It returns ErrInvalid for a Savepoint that has ended, of another transaction, or the zero one; and if
// the transaction has become larger than its memory since s, so that writes went to files. Then
// nothing was forgotten. Other errors are ErrReadOnly, ErrTxnDone, ErrClosed, the error of the
// transaction's context, and that of an earlier write to files.
func (t *Txn) RollbackTo(s Savepoint) error {
	if err := t.checkUpdate(); err != nil {
		return err
	}
	if s.of != t.transaction || !t.writes.HasMark(s.mark) {
		return errSavepointGone
	}
	if !t.writes.Rollback(s.mark) {
		return errSavepointSpilled
	}
	return nil
}
