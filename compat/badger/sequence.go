package badger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/brockdb/brock"
)

// Sequence hands out numbers that rise, from leases that it notes under a key: 8 bytes big-endian, the
// number after the lease. Any number of goroutines may use it, and any number of Sequences a key.
type Sequence struct {
	db        *DB
	key       []byte
	bandwidth uint64

	mu     sync.Mutex // guards:
	next   uint64     // number
	leased uint64     // the number after the lease
}

// GetSequence returns the sequence under key, whose leases have bandwidth numbers each. It returns
// ErrEmptyKey, ErrZeroBandwidth, and the errors of Update. It panics in managed mode and in a read-only
// store.
func (db *DB) GetSequence(key []byte, bandwidth uint64) (*Sequence, error) {
	if db.opt.managedTxns {
		panic("Cannot use GetSequence with managedDB=true.")
	}
	if db.opt.ReadOnly {
		panic("Cannot use GetSequence in read-only mode.")
	}
	switch {
	case len(key) == 0:
		return nil, ErrEmptyKey
	case bandwidth == 0:
		return nil, ErrZeroBandwidth
	}
	seq := &Sequence{db: db, key: append([]byte(nil), key...), bandwidth: bandwidth}
	return seq, seq.lease()
}

// Next returns the next number. It returns the errors of Update; then no number is lost.
func (seq *Sequence) Next() (uint64, error) {
	seq.mu.Lock()
	defer seq.mu.Unlock()
	if seq.next >= seq.leased {
		if err := seq.lease(); err != nil {
			return 0, err
		}
	}
	seq.next++
	return seq.next - 1, nil
}

// Release gives back the rest of the lease, unless another Sequence has had a later one. Next takes a new
// lease.
func (seq *Sequence) Release() error {
	seq.mu.Lock()
	defer seq.mu.Unlock()
	err := seq.update(func(noted uint64, found bool) (uint64, error) {
		switch {
		case !found:
			return 0, ErrKeyNotFound
		case noted == seq.leased:
			return seq.next, nil
		}
		return 0, errLaterLease
	})
	if err == errLaterLease {
		err = nil
	}
	if err == nil {
		seq.leased = seq.next
	}
	return err
}

// lease takes the next lease. The caller holds the lock, or nobody else has the sequence.
func (seq *Sequence) lease() error {
	var begin uint64
	err := seq.update(func(noted uint64, found bool) (uint64, error) {
		begin = noted
		return begin + seq.bandwidth, nil
	})
	if err == nil {
		seq.next, seq.leased = begin, begin+seq.bandwidth
	}
	return err
}

// errLaterLease means that there is nothing to give back.
var errLaterLease = errors.New("badger: another Sequence has a later lease")

// update changes the number that is noted; found is false if there is none.
func (seq *Sequence) update(change func(noted uint64, found bool) (uint64, error)) error {
	if err := seq.db.checkEntry(&Entry{Key: seq.key}); err != nil {
		return err
	}
	seq.db.queue.settle()
	// Brock's Update, which runs again after a conflict: of callers that lease at once all succeed.
	var ofChange error
	err := seq.db.data.Update(func(txn *brock.Txn) error {
		value, found, err := getValue(txn, seq.key)
		if err != nil {
			return err
		}
		var noted, next uint64
		if found {
			if len(value) < 8 {
				ofChange = fmt.Errorf("badger: the value of a sequence has %d bytes, and not 8", len(value))
				return ofChange
			}
			noted = binary.BigEndian.Uint64(value)
		}
		if next, ofChange = change(noted, found); ofChange != nil {
			return ofChange
		}
		return txn.Set(seq.key, binary.BigEndian.AppendUint64(nil, next))
	})
	if ofChange != nil {
		return ofChange
	}
	return seq.db.updateError(err)
}

// getValue returns the value of key, and whether there is one.
func getValue(txn *brock.Txn, key []byte) (value []byte, found bool, err error) {
	item, err := txn.Get(key)
	if err == brock.ErrKeyNotFound {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	value, err = item.Value()
	return value, err == nil, err
}

// updateError returns the error of an Update of Brock. A closed store is ErrDBClosed, as for Update here.
func (db *DB) updateError(err error) error {
	if errors.Is(err, brock.ErrClosed) {
		return ErrDBClosed
	}
	return writeError(err)
}
