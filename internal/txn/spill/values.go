package spill

import (
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// values are the value segments of a transaction. Only open may be used beside other methods.
type values struct {
	cfg      Config
	finished []compact.ValueSegment    // complete segments
	written  int64                     // bytes of their files
	writer   *segment.ValueWriter      // of the segment being filled; nil: there is none
	open     atomic.Pointer[view.View] // has all segments; another one replaces it, as others read it
}

// addRecord appends the record of e to the segment that is being filled. It is encoded already;
// nil: it is written piece by piece, so that only pieces of it are in memory.
func (v *values) addRecord(e *entry.Entry, record []byte) (entry.Handle, error) {
	size := len(record)
	if record == nil {
		size = entry.RecordSize(e, true)
	}
	if err := v.beginSegment(int64(size)); err != nil {
		return entry.Handle{}, err
	}
	if record == nil {
		return v.writer.AddLarge(e)
	}
	return v.writer.Append(record, uint64(len(e.Value)))
}

// beginSegment makes writer a segment with room for a record of n bytes in its plain form. A
// segment ends before the record that would make it too long, so that its length never passes
// SegmentBytes unless it has one record only.
func (v *values) beginSegment(n int64) (err error) {
	c := v.cfg.Files.SegmentConfig()
	if c.Ring != nil {
		n = int64(entry.EncryptedBound(uint64(n), uint64(n)))
	}
	n += 2 * segment.SealSize(c.Ring != nil) // the seal, and the header of a further frame
	if v.writer != nil && v.writer.Size()+n > v.cfg.SegmentBytes {
		if err := v.finishSegment(); err != nil {
			return err
		}
	}
	if v.writer != nil {
		return nil
	}
	if v.writer, err = v.cfg.Files.NewValueWriter(); err != nil {
		return err
	}
	// It is read while it is filled.
	r, err := v.writer.OpenReader(max(v.cfg.SegmentBytes, v.writer.Size()+n), v.cfg.NoMap)
	if err != nil {
		_ = v.writer.Abort()
		v.writer = nil
		return err
	}
	v.open.Store(&view.View{Segments: v.open.Load().Segments.With(v.cfg.Files.ShareSegment(r, v.writer.Number()))})
	return nil
}

// flushSegment writes what was added, so that it can be read.
func (v *values) flushSegment() error {
	if v.writer == nil {
		return nil
	}
	return v.writer.Flush()
}

// finishSegment makes the segment that is being filled durable.
func (v *values) finishSegment() error {
	if v.writer == nil {
		return nil
	}
	stats, err := v.writer.Finish()
	if err != nil {
		return err
	}
	v.finished = append(v.finished, compact.ValueSegment{Stats: stats})
	v.written += stats.Size
	v.writer = nil
	return nil
}

// discardSegments closes the segments and, with remove, removes them.
func (v *values) discardSegments(remove bool) {
	if v.writer != nil {
		_ = v.writer.Close()
		v.writer = nil
	}
	discardFiles(v.open.Swap(new(view.View)), remove)
}
