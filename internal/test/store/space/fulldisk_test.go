package space

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/vfs"
)

// TestDeletesFreeAFullDisk fills a small disk by large commits, deletes nearly all, and goes on, again
// and again, as a log does whose head is cut off. It would find commits that use the reserve, work that
// waits for a rest or for more garbage while sets are refused, and a compaction that is not begun
// because range deletes do not count as what it frees: then the disk stays full for ever.
func TestDeletesFreeAFullDisk(t *testing.T) {
	for i := range 4 {
		limited, ranged := i&1 == 1, i&2 == 2
		const capacity, batch = 16 << 20, 64
		mem := vfs.NewMem()
		o := brock.Options{Dir: "db", FS: mem, MemoryLimit: 4 << 20}
		o.Tuning = brock.Tuning{SegmentSize: 64 << 10, MemtableSize: 64 << 10, RunFileSize: 64 << 10}
		o.Maintenance.IdleAfter = time.Hour // who tries again and again is never idle
		if limited {
			o.DiskLimit = capacity
		} else {
			mem.SetCapacity(capacity)
		}
		db := assert.Must(brock.Open(o))
		value, first, next := make([]byte, 4000), uint64(0), uint64(0)
		key := func(i uint64) []byte { return binary.BigEndian.AppendUint64(nil, i) }
		put := func() bool {
			b := db.NewBatch()
			for i := range uint64(batch) {
				assert.OK(t, b.Set(key(next+i), value))
			}
			_, err := b.Commit(t.Context(), brock.DefaultDurability)
			if errors.Is(err, brock.ErrNoSpace) && !errors.Is(err, brock.ErrStopped) {
				return false
			}
			assert.OK(t, err)
			next += batch
			return true
		}
		for range 3 {
			deadline.Wait(t, "the disk is full", func() bool { return !put() })
			b := db.NewBatch()
			for i := first; i < next-20 && !ranged; i++ {
				assert.OK(t, b.Delete(key(i)))
			}
			if ranged {
				assert.OK(t, b.DeleteRange(key(first), key(next-20)))
			}
			assert.Must(b.Commit(t.Context(), brock.DefaultDurability))
			first = next - 20
			for range capacity / 2 / (batch * len(value)) { // half of the disk, so much must come back
				deadline.Wait(t, "there is space", put)
			}
		}
		got := uint64(0)
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			for item, err := range txn.Prefix(nil) {
				if err != nil {
					return err
				}
				assert.Equal(t, "key", binary.BigEndian.Uint64(item.Key()), first+got)
				got++
			}
			return nil
		}))
		assert.Equal(t, "keys", got, next-first)
		assert.OK(t, db.Close())
	}
}
