package journal

// A segment is a file that can get lost, and no other file names the last one. So
// before a frame counts as durable, the manifest says that its segment has durable
// frames (docs/adr, 15): then Replay notices if the frame or the file is missing. That
// is one edit for each segment, after its first sync: the manifest never names what a
// crash may take away.

// Register tells the manifest of the newest segment that has frames, unless it knows
// of it. The frames must be durable. After an error it may be called again.
func (j *Journal) Register() error {
	s, found := j.findUnregistered()
	if !found {
		return nil
	}
	// Its frames are durable already: the manifest never names what a crash can take away.
	if err := j.c.Owner.Register(s.End); err != nil {
		return err
	}
	// All frames before are registered with it: the chain names each.
	j.mu.Lock()
	defer j.mu.Unlock()
	j.registered = max(j.registered, s.Number)
	return nil
}

// findUnregistered finds the last segment that has frames, if none of them is registered. If this session
// has written nothing, it is what Replay has found.
func (j *Journal) findUnregistered() (newest SegmentInfo, found bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range j.live {
		if s.hasFrames() {
			newest = s
		}
	}
	return newest, j.registered < newest.FirstFrame
}

// Retract takes back what the last Append wrote, durably, after a Sync that was
// refused: the segment ends before it, and the next frame gets its number.
// Nobody may have read it. After an error the journal has stopped.
func (j *Journal) Retract() error {
	if err := j.Err(); err != nil {
		return err
	}
	// If the file can't be cut, a restart would bring back a commit that was reported as failed.
	if err := j.cur.Retract(); err != nil {
		return j.stopWriting(err)
	}
	// The refused Sync may have made the frame durable, so the cut must be durable too.
	if err := j.cur.Sync(); err != nil {
		return j.stopWriting(err)
	}
	j.mu.Lock()
	j.point = j.before
	j.mu.Unlock()
	j.endHere()
	return nil
}
