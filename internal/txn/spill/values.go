package spill

import (
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// appendValue appends the record of e to the value segment that is being filled. It is encoded
// already; nil: it is written piece by piece, so that only pieces of it are in memory.
func (f *Files) appendValue(e *entry.Entry, record []byte) (entry.Handle, error) {
	size := len(record)
	if record == nil {
		size = entry.RecordSize(e, true)
	}
	if err := f.beginSegment(int64(size)); err != nil {
		return entry.Handle{}, err
	}
	if record == nil {
		return f.writer.AddLarge(e)
	}
	return f.writer.Append(record, uint64(len(e.Value)))
}

// beginSegment makes writer a segment with room for a record of n bytes in its plain form. A
// segment ends before the record that would make it too long, so that its length never passes
// SegmentBytes unless it has one record only.
func (f *Files) beginSegment(n int64) (err error) {
	c := f.cfg.Files.SegmentConfig()
	if c.Ring != nil {
		n = int64(entry.EncryptedBound(uint64(n), uint64(n)))
	}
	n += 2 * segment.SealSize(c.Ring != nil) // the seal, and the header of a further frame
	if f.writer != nil && f.writer.Size()+n > f.cfg.SegmentBytes {
		if err := f.finishSegment(); err != nil {
			return err
		}
	}
	if f.writer != nil {
		return nil
	}
	if f.writer, err = f.cfg.Files.NewValueWriter(); err != nil {
		return err
	}
	// It is read while it is filled.
	r, err := f.writer.OpenReader(max(f.cfg.SegmentBytes, f.writer.Size()+n), f.cfg.NoMap)
	if err != nil {
		_ = f.writer.Abort()
		f.writer = nil
		return err
	}
	f.segments.Store(&view.View{Segments: f.segments.Load().Segments.With(f.cfg.Files.ShareSegment(r, f.writer.Number()))})
	return nil
}

// finishSegment makes the segment that is being filled durable.
func (f *Files) finishSegment() error {
	if f.writer == nil {
		return nil
	}
	stats, err := f.writer.Finish()
	if err != nil {
		return err
	}
	f.out.Values = append(f.out.Values, compact.DescribeValues(stats))
	f.written += stats.Size
	f.writer = nil
	return nil
}
