package spill

import (
	"path/filepath"

	"github.com/brockdb/brock/internal/compact"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/run/meta"
	"github.com/brockdb/brock/internal/segment"
)

// addValue appends a record with its own checksum to the value segment that is
// being filled. A segment ends before the record that would make it too long, so
// that its length never passes SegmentBytes unless it has one record only.
func (s *Spill) addValue(rec []byte, length uint64) (entry.Handle, error) {
	const ends = 2 * segment.SealSize // the seal, and the header of a further frame
	full := func() bool { return s.writer.Size()+int64(len(rec))+ends > s.cfg.SegmentBytes }
	if s.writer != nil && full() {
		if err := s.finishValues(); err != nil {
			return entry.Handle{}, err
		}
	}
	if s.writer == nil {
		if err := s.beginValues(); err != nil {
			return entry.Handle{}, err
		}
	}
	single := full()
	h, err := s.writer.Append(rec, length)
	if err != nil {
		return h, err
	}
	s.written += length
	if single {
		err = s.finishValues()
	} else {
		err = s.readValues(h.Segment)
	}
	return h, err
}

func (s *Spill) segmentConfig() segment.Config {
	return segment.Config{FS: s.cfg.FS, Dir: s.cfg.ValueDir, UUID: s.cfg.UUID, Files: s.cfg.Files}
}

func (s *Spill) beginValues() (err error) {
	s.writer, err = segment.NewValueWriter(s.segmentConfig(), s.cfg.NextNum())
	return err
}

// readValues lets Value read the segment that is being filled.
func (s *Spill) readValues(num entry.FileNum) error {
	if s.reader(num) != nil {
		return nil
	}
	r, err := s.writer.OpenReader(s.cfg.SegmentBytes, s.cfg.NoMap)
	if err != nil {
		return err
	}
	s.setReader(num, r)
	return nil
}

func (s *Spill) reader(num entry.FileNum) *segment.Reader {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.segments[num]
}

func (s *Spill) setReader(num entry.FileNum, r *segment.Reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segments[num] = r
}

// finishValues makes the segment that is being filled durable.
func (s *Spill) finishValues() error {
	if s.writer == nil {
		return nil
	}
	stats, err := s.writer.Finish()
	if err != nil {
		return err
	}
	s.values = append(s.values, compact.ValueSegment{Stats: stats, ValueBytes: s.written})
	s.writer, s.written = nil, 0
	if s.reader(stats.Number) != nil {
		return nil
	}
	r, err := segment.Open(s.segmentConfig(), filename.Value, stats.Number, segment.OpenOptions{End: stats.Size, NoMap: s.cfg.NoMap})
	if err != nil {
		return err
	}
	s.setReader(stats.Number, r)
	return nil
}

// discardValues closes the value segments and, with remove, removes them.
func (s *Spill) discardValues(remove bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.segments {
		_ = r.Close()
	}
	clear(s.segments)
	if s.writer != nil {
		_ = s.writer.Close()
		if remove {
			s.remove(s.cfg.ValueDir, filename.Value, s.writer.Number())
		}
		s.writer = nil
	}
	if !remove {
		return
	}
	for _, v := range s.values {
		s.remove(s.cfg.ValueDir, filename.Value, v.Number)
	}
}

func (s *Spill) removeRun(m *meta.Run) {
	for _, f := range m.Files {
		s.remove(s.cfg.Dir, filename.Run, f.Num)
	}
}

// remove removes a file that nothing names. If it fails, the next Open tries again.
func (s *Spill) remove(dir string, kind filename.Kind, num entry.FileNum) {
	_ = s.cfg.FS.Remove(filepath.Join(dir, filename.Of(kind, num)))
}
