package brock

import (
	"fmt"
	"iter"

	"github.com/brockdb/brock/internal/base/entry"
)

var (
	errBatchChanged   = fmt.Errorf("brock: batch was reset or committed while its changes were walked: %w", ErrInvalid)
	errBatchVersioned = fmt.Errorf("brock: keys of SetVersioned have no name before the commit: %w", ErrInvalid)
	errBatchSpilled   = fmt.Errorf("brock: batch is so large that its writes went to files: %w", ErrInvalid)
)

// Changes yields the writes of a batch that is not committed yet, in the order in which they were
// made, for who logs or sends them elsewhere: sets, deletes and range deletes, as Watch yields them
// once they are committed, but also those that later ones replace. A Change is valid until the loop
// goes on. What is added during the loop is not yielded.
//
// An error is yielded last, with a nil Change: ErrInvalid for a batch that was committed, whose
// writes went to files because they are larger than 1/8 of MemoryLimit, that has writes of
// SetVersioned, or that is reset during the loop; ErrClosed and ErrReadOnly as for Set.
func (b *Batch) Changes() iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		if err := b.checkUnspent(); err != nil {
			yield(nil, err)
			return
		}
		names := map[entry.KeyspaceID]string{}
		for _, k := range b.writes.written.List() {
			names[k.ID] = k.Name
		}
		switch {
		case b.writes.Files() != nil:
			yield(nil, errBatchSpilled)
			return
		case len(b.writes.Operations()) > 0:
			yield(nil, errBatchVersioned)
			return
		}
		resets := b.resets
		var ch Change
		var r entry.Record
		value := func() ([]byte, error) {
			if r.Raw != 0 {
				return b.db.compression.Decode(nil, r.Codec, r.Value, int(r.Raw))
			}
			return append(empty, r.Value...), nil
		}
		for r = range b.writes.Records() {
			e := r.Entry()
			id, _ := entry.KeyspaceOf(r.Key) // it was encoded here
			ch = makeChange(&e)
			if ch.Keyspace = names[id]; ch.Kind == ChangeSet {
				ch.value = value
			}
			if !yield(&ch, nil) {
				return
			}
			// The records are in memory that is used again.
			switch {
			case b.spent || b.resets != resets:
				yield(nil, errBatchChanged)
				return
			case b.writes.Files() != nil:
				yield(nil, errBatchSpilled)
				return
			}
		}
	}
}
