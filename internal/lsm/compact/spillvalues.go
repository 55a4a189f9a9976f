package compact

import (
	"path/filepath"
	"sync"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// spillValues are the value segments of a Spill. Only get may be called beside other methods.
type spillValues struct {
	cfg      SpillConfig          // where it is written
	finished []ValueSegment       // complete segments
	writer   *segment.ValueWriter // of the segment being filled; nil: there is none
	written  uint64               // bytes of values in it

	mu      sync.RWMutex                      // guards the map, which get reads
	readers map[entry.FileNum]*segment.Reader // reads each segment, by number
}

// appendRecord appends a record with its own checksum to the segment that is being filled. A
// segment ends before the record that would make it too long, so that its length never passes
// SegmentBytes unless it has one record only.
func (v *spillValues) appendRecord(rec []byte, length uint64) (entry.Handle, error) {
	if err := v.beginSegment(int64(len(rec))); err != nil {
		return entry.Handle{}, err
	}
	h, err := v.writer.Append(rec, length)
	if err == nil {
		v.written += length
	}
	return h, err
}

// addLarge appends the record of e, as appendRecord does, and keeps only pieces of it in memory.
func (v *spillValues) addLarge(e *entry.Entry) (entry.Handle, error) {
	if err := v.beginSegment(int64(entry.RecordSize(e, true))); err != nil {
		return entry.Handle{}, err
	}
	h, err := v.writer.AddLarge(e)
	if err == nil {
		v.written += h.Length
	}
	return h, err
}

// beginSegment makes writer a segment with room for a record of n bytes in its plain form.
func (v *spillValues) beginSegment(n int64) error {
	c := v.segmentConfig()
	if c.Ring != nil {
		n = int64(entry.EncryptedBound(uint64(n), uint64(n)))
	}
	ends := 2 * segment.SealSize(c.Ring != nil) // the seal, and the header of a further frame
	if v.writer != nil && v.writer.Size()+n+ends > v.cfg.SegmentBytes {
		if err := v.finishSegment(); err != nil {
			return err
		}
	}
	if v.writer != nil {
		return nil
	}
	w, err := segment.NewValueWriter(c, v.cfg.NextNum())
	if err != nil {
		return err
	}
	v.writer = w
	// get reads the segment while it is filled.
	r, err := w.OpenReader(max(v.cfg.SegmentBytes, w.Size()+n+ends), v.cfg.NoMap)
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.readers[w.Number()] = r
	return nil
}

// segmentConfig is the configuration of a value segment.
func (v *spillValues) segmentConfig() segment.Config {
	return segment.Config{FS: v.cfg.FS, Dir: v.cfg.ValueDir, UUID: v.cfg.UUID, Ring: v.cfg.Ring, Files: v.cfg.Files}
}

// flushSegment writes what was added, so that get finds it.
func (v *spillValues) flushSegment() error {
	if v.writer == nil {
		return nil
	}
	return v.writer.Flush()
}

// finishSegment makes the segment that is being filled durable.
func (v *spillValues) finishSegment() error {
	if v.writer == nil {
		return nil
	}
	stats, err := v.writer.Finish()
	if err != nil {
		return err
	}
	v.finished = append(v.finished, ValueSegment{Stats: stats, ValueBytes: v.written})
	v.writer, v.written = nil, 0
	return nil
}

// get returns a value, as Spill.Value says.
func (v *spillValues) get(key []byte, e *entry.Entry, dst []byte) (value []byte, own bool, err error) {
	v.mu.RLock()
	r := v.readers[e.Handle.Segment]
	v.mu.RUnlock()
	if r == nil {
		return nil, false, errs.NewCorruption(filename.Of(filename.Value, e.Handle.Segment), int64(e.Handle.Offset), "a transaction has no such segment")
	}
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

// finishedBytes is the length of the segments that are finished.
func (v *spillValues) finishedBytes() (n int64) {
	for _, f := range v.finished {
		n += f.Size
	}
	return n
}

// discardSegments closes the segments and, with remove, removes them.
func (v *spillValues) discardSegments(remove bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range v.readers {
		_ = r.Close()
	}
	clear(v.readers)
	if v.writer != nil {
		_ = v.writer.Close()
		if remove {
			v.cfg.removeFile(v.cfg.ValueDir, filename.Value, v.writer.Number())
		}
		v.writer = nil
	}
	if remove {
		for _, f := range v.finished {
			v.cfg.removeFile(v.cfg.ValueDir, filename.Value, f.Number)
		}
	}
	v.finished = nil
}

// removeFile removes a file that nothing names. If it fails, the next Open tries again.
func (c *SpillConfig) removeFile(dir string, kind filename.Kind, num entry.FileNum) {
	_ = c.FS.Remove(filepath.Join(dir, filename.Of(kind, num)))
}
