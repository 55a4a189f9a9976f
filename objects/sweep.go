package objects

import (
	"context"
	"errors"
	"time"

	"github.com/brockdb/brock"
)

// stagedFor is how old a mark must be to be of an upload that a crash has ended. A live one links
// its content at once; if it is slower than this, it gets ErrSwept.
const stagedFor = time.Hour

// takeMark removes the mark of an upload. If it is gone, so are the parts.
func (s *space) takeMark(txn *brock.Txn, id objectID) error {
	parts := txn.In(s.parts)
	found, err := parts.Has(id.stagedKey())
	if err == nil && !found {
		err = ErrSwept
	}
	if err != nil {
		return err
	}
	return parts.Delete(id.stagedKey())
}

// dropStaged removes what was staged, unless it was linked meanwhile.
func (s *space) dropStaged(ctx context.Context, id objectID) error {
	return s.db.UpdateContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error {
		if err := s.takeMark(txn, id); err != nil {
			return err
		}
		return s.deleteID(txn, id)
	})
}

// sweepStaged removes what crashes have left of uploads.
func (s *space) sweepStaged(ctx context.Context) (removed int, err error) {
	var old []objectID
	before := s.now() - stagedFor.Milliseconds()
	err = s.db.ViewContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error {
		for item, err := range txn.In(s.parts).Prefix([]byte{stagedPrefix}) {
			if err != nil {
				return err
			}
			value, err := item.ValueCopy(nil)
			if err != nil {
				return err
			}
			id, millis, err := decodeStaged(item.Key(), value)
			if err != nil {
				return err
			}
			if millis <= before {
				old = append(old, id)
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, id := range old {
		switch err := s.dropStaged(ctx, id); {
		case err == nil:
			removed++
		case !errors.Is(err, ErrSwept): // it was linked, or somebody else has removed it
			return removed, err
		}
	}
	return removed, nil
}

// sweepAll removes what uploads have left, and parts without a head.
func (s *space) sweepAll(ctx context.Context) (removed int, err error) {
	if s.heads == nil {
		return 0, errNotOpened
	}
	if ctx == nil {
		return 0, errNilContext
	}
	if removed, err = s.sweepStaged(ctx); err != nil {
		return removed, err
	}
	var orphans []objectID
	err = s.db.ViewContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error {
		count := 0
		var unread error
		err := s.eachHead(txn, nil, func(_ []byte, _ *head, err error) bool {
			count++
			unread = err
			return err == nil
		})
		// Parts of a head that can't be read would count as parts without one.
		if err := errors.Join(err, unread); err != nil {
			return err
		}
		return s.findOrphans(txn, count, orphanSearch{
			orphan: func(id objectID) { orphans = append(orphans, id) }, twice: func() {}, unknown: func() {},
		})
	})
	if err != nil {
		return removed, err
	}
	// An id is never used again, and parts are committed with their head or mark. So what is an
	// orphan once is one for ever, and need not be checked again.
	for _, id := range orphans {
		err := s.db.UpdateContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error { return s.deleteID(txn, id) })
		if err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}
