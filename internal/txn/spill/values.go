package spill

import (
	"sync"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// values are the value segments of a transaction. Only read may be called beside other methods.
type values struct {
	cfg      Config
	finished []layout.Segment     // complete segments
	written  int64                // bytes of their files
	writer   *segment.ValueWriter // of the segment being filled; nil: there is none
	readers  sync.Map             // *segment.Reader of each segment, by entry.FileNum
}

// add appends the record of e to the segment that is being filled. It is encoded already; nil: it
// is written piece by piece, so that only pieces of it are in memory.
func (v *values) add(e *entry.Entry, record []byte) (entry.Handle, error) {
	size := len(record)
	if record == nil {
		size = entry.RecordSize(e, true)
	}
	if err := v.makeRoom(int64(size)); err != nil {
		return entry.Handle{}, err
	}
	if record == nil {
		return v.writer.AddLarge(e)
	}
	return v.writer.Append(record, uint64(len(e.Value)))
}

// makeRoom makes writer a segment with room for a record of n bytes in its plain form. A segment
// ends before the record that would make it too long, so that its length never passes SegmentBytes
// unless it has one record only.
func (v *values) makeRoom(n int64) (err error) {
	c := v.cfg.Files.Segments()
	if c.Ring != nil {
		n = int64(entry.EncryptedBound(uint64(n), uint64(n)))
	}
	n += 2 * segment.SealSize(c.Ring != nil) // the seal, and the header of a further frame
	if v.writer != nil && v.writer.Size()+n > v.cfg.SegmentBytes {
		if err := v.finish(); err != nil {
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
	v.readers.Store(v.writer.Number(), r)
	return nil
}

// flush writes what was added, so that read finds it.
func (v *values) flush() error {
	if v.writer == nil {
		return nil
	}
	return v.writer.Flush()
}

// finish makes the segment that is being filled durable.
func (v *values) finish() error {
	if v.writer == nil {
		return nil
	}
	stats, err := v.writer.Finish()
	if err != nil {
		return err
	}
	v.finished = append(v.finished, compact.DescribeValues(stats))
	v.written += stats.Size
	v.writer = nil
	return nil
}

// read returns a value, as Files.Value says.
func (v *values) read(key []byte, e *entry.Entry, dst []byte) (value []byte, own bool, err error) {
	known, found := v.readers.Load(e.Handle.Segment)
	if !found {
		return nil, false, errs.NewCorruption(filename.Of(filename.Value, e.Handle.Segment), int64(e.Handle.Offset), "a transaction has no such segment")
	}
	r := known.(*segment.Reader)
	// What is compressed can't be decoded into the memory that it is in.
	var memory []byte
	if e.Raw == 0 {
		memory = dst
	}
	stored, err := r.StoredIn(memory, nil, e.Handle, key, 0)
	if err != nil || stored.Raw == 0 {
		return stored.Bytes, stored.Own, err
	}
	value, err = r.Decode(v.cfg.Coder, dst, stored, e.Handle.Offset)
	return value, true, err
}

// release closes the segments and, with remove, removes them.
func (v *values) release(remove bool) {
	if v.writer != nil {
		_ = v.writer.Close()
		v.writer = nil
	}
	v.readers.Range(func(num, r any) bool {
		_ = r.(*segment.Reader).Close()
		if remove {
			v.cfg.Files.Remove(filename.New(filename.Value, num.(entry.FileNum)))
		}
		return true
	})
	v.readers.Clear()
}
