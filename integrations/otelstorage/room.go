package otelstorage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/collector/extension/xextension/storage"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

// room refuses writes that add data when little disk space is left, before the store refuses all
// writes but deletes.
//
// Components of the collector must be able to write in order to free space: a persistent queue
// overwrites its metadata whenever it takes an item, and drops the item if that fails. So a margin
// is kept for overwrites. What adds data gets storage.ErrStorageFull already when only the margin
// and the reserve of the store are left.
type room struct {
	db     *brock.DB
	fs     vfs.FS
	dir    string
	limit  int64 // Options.DiskLimit; 0 = none
	margin int64 // bytes that are kept for overwrites

	credit    atomic.Int64 // bytes that may be written until space is measured again
	unflushed atomic.Int64 // bytes that were written since a flush of room
	refused   atomic.Int64 // writes that were refused
	mu        sync.Mutex   // held over a measurement

	reclaiming sync.Mutex // held over a reclaim
}

// Sizes in bytes.
const (
	maxMargin     = 64 << 20 // overwrites for the items of a segment take less
	marginShare   = 8        // of the disk limit, at most one part in 8
	overwriteSlop = 4 << 10  // by which overwrites may grow without adding data: a list of items in flight
	minCredit     = 64 << 10
	maxCredit     = 64 << 20
	maxSegment    = 16 << 20
	minSegment    = 1 << 20
	segmentShare  = 32 // a segment is one part of the disk limit in 32
)

// segmentSize returns Tuning.SegmentSize. The space of a queue comes back segment by segment, so
// they are smaller than usual, and still smaller under a small limit. maxSegment is below the garbage
// that a store may always have, 32 MB: the oldest segment of a queue is then left alone until all of
// it is dead. Of larger ones the store would copy what is live, again and again, as the end of a long
// queue is drained, and writers would wait for it.
func segmentSize(diskLimit int64) int64 {
	if diskLimit == 0 {
		return maxSegment
	}
	return min(max(diskLimit/segmentShare, minSegment), maxSegment)
}

// newRoom returns the room of a store with these options.
func newRoom(db *brock.DB, o brock.Options) *room {
	r := &room{db: db, fs: o.FS, dir: o.Dir, limit: o.DiskLimit, margin: maxMargin}
	if r.fs == nil {
		r.fs = vfs.OS()
	}
	if r.limit > 0 {
		r.margin = min(r.limit/marginShare, maxMargin)
	}
	return r
}

// isFull reports whether the store has refused a write for want of disk space. A store that has
// stopped does not go on when there is space, so its error says something else.
func isFull(err error) bool {
	return errors.Is(err, brock.ErrNoSpace) && !errors.Is(err, brock.ErrStopped)
}

// translate makes errors of the store those of package storage, where it has one.
func translate(err error) error {
	if isFull(err) {
		return fmt.Errorf("%w: %w", storage.ErrStorageFull, err)
	}
	return err
}

// reclaims is how often space is reclaimed for one write.
const reclaims = 3

// commit calls do, which commits the operations, if there is room for them. For overwrites for
// which the store finds no space after all, it reclaims some: as they free space in the end, it is
// better that they wait.
func (r *room) commit(ctx context.Context, k *brock.Keyspace, ops []*storage.Operation, do func() error) error {
	if err := r.admit(ctx, k, ops); err != nil {
		return err
	}
	err := do()
	for i := 0; i < reclaims && isFull(err); i++ {
		if adds, failure := addsData(k, ops); adds || failure != nil || !r.reclaim(ctx) {
			break
		}
		err = do()
	}
	return translate(err)
}

// reclaim reclaims disk space, and reports whether there was some.
func (r *room) reclaim(ctx context.Context) bool {
	// One at a time: a second one would find nothing.
	r.reclaiming.Lock()
	defer r.reclaiming.Unlock()
	freed, err := r.db.Reclaim(ctx)
	return err == nil && freed > 0
}

// admit returns storage.ErrStorageFull if the operations add data and there is no room for that.
func (r *room) admit(ctx context.Context, k *brock.Keyspace, ops []*storage.Operation) error {
	var size int64
	for _, op := range ops {
		if op.Type == storage.Set {
			size += int64(len(op.Key) + len(op.Value))
		}
	}
	r.unflushed.Add(size)
	if size == 0 || r.credit.Add(-size) >= 0 {
		return nil
	}
	// Reading what is overwritten costs less than measuring space, and needs no room.
	adds, err := addsData(k, ops)
	if err != nil || !adds {
		return err
	}
	left, err := r.measure()
	if err == nil && left <= size && r.unflushed.Load() > r.margin {
		// What is in memory takes its space in the journal, and the space of its flush is reserved, too.
		r.unflushed.Store(0)
		if err := r.db.Flush(ctx); err != nil {
			return translate(err)
		}
		left, err = r.measure()
	}
	if err != nil || left > size {
		return err
	}
	r.refused.Add(1)
	return fmt.Errorf("%w: a margin of %d bytes is kept for overwrites and deletes", storage.ErrStorageFull, r.margin)
}

// addsData reports whether operations make a new key or let a value grow, and free less than that.
func addsData(k *brock.Keyspace, ops []*storage.Operation) (bool, error) {
	// Of several writes to a key the last one stays.
	last := make(map[string]*storage.Operation, len(ops))
	for _, op := range ops {
		if op.Type != storage.Get {
			last[op.Key] = op
		}
	}
	var growth int64
	created := false
	err := k.View(func(txn *brock.Txn) error {
		for key, op := range last {
			item, err := txn.Get([]byte(key))
			switch {
			case err == nil:
				growth -= int64(len(key)) + item.ValueSize()
			case !errors.Is(err, brock.ErrKeyNotFound):
				return err
			case op.Type == storage.Set:
				created = true
			}
			if op.Type == storage.Set {
				growth += int64(len(key) + len(op.Value))
			}
		}
		return nil
	})
	return created && growth > 0 || growth > overwriteSlop, err
}

// measure returns how many bytes may be added, at most, and how many of them without another
// measurement.
func (r *room) measure() (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left, err := r.measureLeft()
	if err != nil {
		return 0, err
	}
	if left < 0 { // not known: the store finds out
		r.credit.Store(maxCredit)
		return maxCredit, nil
	}
	m := r.db.Metrics()
	left -= m.Tree.ReserveBytes + r.margin
	if left <= 0 {
		r.credit.Store(0)
		return 0, nil
	}
	// A part only: the reserve grows with what is written, and others fill the disk, too.
	r.credit.Store(min(max(left/4, minCredit), maxCredit, left))
	return left, nil
}

// measureLeft returns the bytes that disk and limit leave; -1 = not known. The metrics of the store
// have that as well, but as of its last look: an idle store would stay full.
func (r *room) measureLeft() (int64, error) {
	left, err := r.fs.Free(r.dir)
	if err != nil {
		left = -1
	}
	if r.limit == 0 {
		return left, nil
	}
	names, err := r.fs.List(r.dir)
	if err != nil {
		return 0, err
	}
	below := r.limit
	for _, name := range names {
		// A file that is gone since then takes nothing.
		if info, err := r.fs.Stat(filepath.Join(r.dir, name)); err == nil {
			below -= info.Size
		}
	}
	if below = max(below, 0); left < 0 {
		return below, nil
	}
	return min(left, below), nil
}
