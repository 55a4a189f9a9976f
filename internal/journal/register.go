package journal

// A segment is a file that can get lost, and the last one has no other that
// names it. So before anything in a segment counts as durable for those who
// asked, the manifest says that one of its frames is (docs/adr, 29): Replay then
// misses the frame, and the file. That is one edit for each segment, after its
// first sync: the manifest never names what a crash may take.

// Register has the manifest know of the newest segment that has frames, which must
// be durable, unless it does already. After an error it may be called again.
func (j *Journal) Register() error {
	s := j.newest()
	if j.known.Load() >= s.FirstFrame {
		return nil
	}
	if err := j.c.Owner.Register(s); err != nil {
		return err
	}
	raise(&j.known, s.LastFrame)
	return nil
}

// newest is the last segment that has frames.
func (j *Journal) newest() SegmentInfo {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := len(j.live) - 1; i >= 0; i-- {
		if s := j.live[i]; s.LastFrame >= s.FirstFrame {
			return s
		}
	}
	return j.c.Newest
}

// Retract takes back what the last Append wrote, durably, after a Sync that a
// full disk refused: the segment ends before it, and the number of its frame is
// that of the next one. It must not have been read. After an error the journal has stopped.
func (j *Journal) Retract() error {
	if err := j.Err(); err != nil {
		return err
	}
	if err := j.cur.Retract(); err != nil {
		return j.stop(err)
	}
	if err := j.syncFile(j.cur); err != nil {
		return j.stop(err)
	}
	j.mu.Lock()
	j.point = j.before
	j.mu.Unlock()
	j.endHere()
	return nil
}
