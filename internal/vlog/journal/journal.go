// Package journal is the write-ahead log (WAL). Its files are called journal segments, and its
// log records frames: a frame holds one group of transactions that were committed together.
// Every frame names the one before it, so that after a crash a torn tail can be told from lost
// data. The package decides when segments are made, sealed and synced, and which frames count
// after a crash (Replay).
//
// The WAL is the value log, too: large values stay in the segments after their keys were
// flushed to runs (docs/adr, 1).
package journal

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// A file is filled with zeros ahead of its end, in steps that double it.
const (
	leastFill  = 64 << 10  // the smallest step, in bytes
	mostFill   = 1 << 20   // the largest step: a sync has to wait for it
	smallSync  = 256 << 10 // most bytes between two syncs for which a file is filled in steps
	bulkFill   = 4 << 20   // bytes without a sync from which on whole blocks are filled
	smallFrame = 32 << 10  // shorter frames fill blocks of smallBlock: each write costs a walk through its large page
	smallBlock = 256 << 10
)

// Config is what a Journal needs.
type Config struct {
	segment.Config // of the journal's segments; Written is set by New
	Owner          Owner
	Begin          Point         // where to go on: zero for a new store, else what Replay returned
	NoMap          bool          // OpenReader uses no mapping
	MaxUnsynced    int           // most sealed segments that may wait for their sync with their files open; 0 = no limit
	Registered     uint64        // greatest number of a frame that the manifest says is durable
	Found          []SegmentInfo // what Replay has found, in order
	OnDurable      func()        // is told that more frames are durable, with locks held; may be nil
}

// Owner is the store that a journal belongs to. Append, Sync and Rotate call it.
type Owner interface {
	// NextNum returns a number that no file has, above all journal segments there are.
	NextNum() entry.FileNum
	// SegmentLimit returns the length in bytes at which a segment that begins now
	// is full. A longer group has a segment of its own.
	SegmentLimit() int64
	// GoOn makes the manifest say that another session goes on with the journal. A full disk may
	// refuse that.
	GoOn() error
	// Register makes the manifest say that the frames up to end are durable. A full disk
	// may refuse that.
	Register(end frame.End) error
	// DiskFull tells that a full disk has refused an Append or a Sync.
	DiskFull()
}

// Journal appends to the chain. Append, Sync, Retract, Rotate and Close are called by one
// goroutine at a time (the leader of a commit group). All else may be called at any time by
// any goroutine.
type Journal struct {
	c    Config
	cur  *open // the segment being written; nil between Rotate and the next Append
	bulk int64 // bytes appended since the last sync
	// most bytes of cur are small values, which nobody reads there after their flush
	small   bool
	durable atomic.Uint64         // proven.Number, which Append reads without a lock
	synced  int64                 // bytes that the last sync made durable; 0 = there was none
	syncing sync.Mutex            // held while segments are taken from sealed; locked before mu
	before  Point                 // the point before the last Append, for Retract
	goesOn  bool                  // Owner.GoOn has succeeded: the manifest knows of this session
	failure atomic.Pointer[error] // what Err returns; nil: the journal goes on
	lean    atomic.Bool           // the disk is nearly full: fill no file ahead
	written atomic.Int64          // see Written
	ahead   atomic.Int64          // see Ahead

	mu     sync.Mutex    // guards what follows
	point  Point         // where the next frame goes
	live   []SegmentInfo // see Segments; the last one is cur, if there is one
	proven Point         // see DurableEnd
	// greatest number of a frame that is registered
	registered uint64
	sealed     []*open // sealed, not yet synced; in order
	closed     bool
}

// open is a segment whose file is open for writing.
type open struct {
	*segment.Writer
	limit  int64           // greatest length of the file in bytes: its readers map no more
	named  bool            // its directory was synced, so a crash doesn't lose its name
	reader *segment.Reader // for the first call of OpenReader; guarded by Journal.mu
}

// Close closes the file, and the reader if OpenReader has not handed it out. Unless
// Journal.mu is held, OpenReader must not find o any more.
func (o *open) Close() error {
	if o.reader != nil {
		_ = o.reader.Close()
	}
	return o.Writer.Close()
}

// New returns the journal that goes on at c.Begin. It creates no file before the
// first Append. Everything before c.Begin must be durable, as it is after Replay.
func New(c Config) *Journal {
	j := &Journal{c: c, point: c.Begin, proven: c.Begin, live: slices.Clone(c.Found), registered: c.Registered}
	j.c.Written = &j.written
	j.durable.Store(c.Begin.Number)
	return j
}

// Append writes a group of transactions as one frame, in one write, and returns
// where the first record lies; the others follow without a gap. Each transaction
// is whole records, to which Append gives their version and their checksums. Versions
// ascend; the newest commit so far has the version before. A transaction whose version
// is not the next one must say it (entry.PutVersion), or begin with a record of its own
// checksum.
//
// The records may be read as soon as Append returns; they are durable after the next
// Sync. After errs.ErrInvalid, for what is no group, and after an error that passes (as
// package errs says) nothing of the group is written, and the next one may succeed.
// After any other error the journal has stopped, see Err.
func (j *Journal) Append(before entry.Version, versions []entry.Version, transactions [][]byte) (entry.Position, error) {
	if err := j.Err(); err != nil {
		return entry.Position{}, err
	}
	f := segment.Frame{Content: frame.Content{Kind: frame.Group, Versions: versions, Payload: transactions}, Transactions: uint16(len(transactions))}
	if len(versions) == 0 || len(versions) != len(transactions) {
		return entry.Position{}, fmt.Errorf("%w: group of %d transactions, %d versions", errs.ErrInvalid, len(transactions), len(versions))
	}
	f.Skipped = uint64(versions[0] - before - 1)
	size, err := f.Measure(j.isEncrypted())
	if err != nil {
		return entry.Position{}, err
	}
	if len(transactions) > math.MaxUint16 || size > frame.MaxSize {
		return entry.Position{}, fmt.Errorf("%w: group of %d transactions, %d bytes", errs.ErrInvalid, len(transactions), size)
	}
	if err := j.makeRoomForFrame(size); err != nil {
		return entry.Position{}, j.refusedError(err)
	}
	// Not before makeRoomForFrame: a seal that it writes stays if Retract takes this frame back.
	j.before = j.point
	// The frame says how many frames before it may not be durable yet. So it proves that all
	// earlier ones were, and Replay can tell a lost frame from a torn tail.
	f.Unsynced, f.Ahead = j.unsyncedFrames(), j.zerosAhead(size)
	off, err := j.cur.Append(f)
	if errors.Is(err, errs.ErrInvalid) { // found before anything was written
		return entry.Position{}, err
	}
	if err != nil {
		// A part of the frame may be in the file. No later frame may follow it there: Replay would
		// stop at the bad one and lose those behind it.
		return entry.Position{}, j.refusedError(j.cutBack(err))
	}
	j.bulk += size
	j.updateState(false)
	return entry.Position{Segment: j.cur.Number(), Offset: off, Encrypted: j.isEncrypted()}, nil
}

// isEncrypted reports whether segments that begin now are.
func (j *Journal) isEncrypted() bool { return j.c.Ring != nil }

// Written is how many bytes were written to the journal's files: frames, headers, and
// zeros ahead of them.
func (j *Journal) Written() int64 { return j.written.Load() }

// Ahead is how many zeros lie behind the end of the newest segment.
func (j *Journal) Ahead() int64 { return j.ahead.Load() }

// unsyncedFrames counts the frames that are not yet known to be durable.
func (j *Journal) unsyncedFrames() uint64 { return j.point.Number - j.durable.Load() }

// makeRoomForFrame makes cur a segment into which a frame of this size fits.
func (j *Journal) makeRoomForFrame(size int64) error {
	// A segment never passes its limit, which is how long its readers' mapping is.
	if j.cur != nil && j.cur.End()+size+segment.SealSize(j.isEncrypted()) > j.cur.limit {
		// The seal has its place within the limit, so it always fits.
		if err := j.sealSegment(); err != nil {
			return err
		}
	}
	if j.cur == nil {
		return j.beginSegment(size)
	}
	return nil
}

// zerosAhead returns the offset up to which the file is filled with zeros behind a frame of this
// size; 0 = no zeros. Zeros pay where commits are small and synced: then a sync need not
// record a new length each time. They also pay where many values that stay in the file are
// written without a sync.
func (j *Journal) zerosAhead(size int64) int64 {
	end, allocated := j.cur.End()+size, j.cur.Allocated()
	if end <= allocated || j.lean.Load() {
		return 0
	}
	if j.bulk >= bulkFill {
		if t := j.cur.At(); t.Records > 0 { // without records, the segment before decides
			j.small = t.OwnBytes < t.SmallBytes
		}
		if j.small {
			return 0 // few values stay here, so nobody reads this file through large pages
		}
		block := int64(segment.BlockSize)
		if size < smallFrame {
			block = smallBlock
		}
		ahead := (end + block - 1) / block * block
		if ahead >= j.cur.limit {
			return 0 // the segment ends in this block, so zeros behind it would be wasted
		}
		return ahead
	}
	if j.synced == 0 || j.synced > smallSync || j.bulk > smallSync || end-allocated > mostFill {
		return 0
	}
	// Steps that double the file keep the zeros in proportion to what is written.
	ahead := max(end, allocated+min(allocated, mostFill))
	return min((ahead+leastFill-1)/leastFill*leastFill, j.cur.limit)
}

// beginSegment starts a new segment.
func (j *Journal) beginSegment(size int64) error {
	// Each sealed segment that waits for its sync keeps a file open. The commit waits for this sync, or
	// commits without a sync could use up the file descriptors of the process.
	if j.c.MaxUnsynced > 0 && j.OpenFiles() >= j.c.MaxUnsynced {
		if err := j.SyncSealed(); err != nil {
			return err
		}
	}
	// Before the first frame of this session: if the manifest still said that the journal was
	// closed, Replay would refuse the frames behind that end as another store's.
	if !j.goesOn {
		if err := j.c.Owner.GoOn(); err != nil {
			return fmt.Errorf("record that the journal goes on: %w", err)
		}
		j.goesOn = true
	}
	// The header names the frame before, so that Replay can tell which file continues the
	// chain. The frame's tag stands for its file's file key id.
	h := segment.Header{
		Kind:        filename.Journal,
		Number:      j.c.Owner.NextNum(),
		Before:      j.point.Name,
		PrevVersion: j.point.LastVersion,
	}
	h.Before.KeyID = crypt.FileKeyID{}
	w, err := segment.Create(j.c.Config, h)
	if err != nil {
		return fmt.Errorf("begin journal segment %s: %w", filename.Of(h.Kind, h.Number), err)
	}
	// The reader is opened now: a group can be refused before it is written, but not
	// when it is durable and can't be read.
	limit := max(j.c.Owner.SegmentLimit(), segment.HeaderSize+size+segment.SealSize(j.isEncrypted()))
	r, err := w.OpenReader(limit, j.c.NoMap)
	if err != nil {
		_ = w.Close()
		_ = j.c.FS.Remove(filepath.Join(j.c.Dir, w.Name())) // or the next Open does
		return fmt.Errorf("begin journal segment %s: %w", w.Name(), err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.cur = &open{Writer: w, limit: limit, reader: r}
	h.KeyID = w.KeyID()
	// Listed before it has frames: a reader may ask for it as soon as Append has returned.
	j.live = append(j.live, emptySegment(&h))
	return nil
}

// updateState brings point and live up to date with cur.
func (j *Journal) updateState(sealed bool) {
	at := j.cur.At()
	// A segment may also end without its seal.
	at.Sealed = sealed
	j.mu.Lock()
	defer j.mu.Unlock()
	// A segment without records has no greatest version, and the point must keep its own.
	j.point = Point{at.End, max(j.point.LastVersion, at.Max)}
	j.live[len(j.live)-1].Place = at
	j.ahead.Store(j.cur.Allocated() - j.cur.End())
	if sealed {
		j.ahead.Store(0) // they are cut off with the next sync
		j.sealed = append(j.sealed, j.cur)
		j.cur = nil
	}
}

// sealSegment ends cur. Its file stays open until it was synced: a descriptor opened later
// might not report that an earlier write back has failed.
func (j *Journal) sealSegment() error {
	if err := j.cur.Seal(j.unsyncedFrames()); err != nil {
		if err = j.cutBack(err); errors.Is(err, errs.ErrStopped) {
			return err
		}
		return nil // a segment may end without a seal
	}
	j.updateState(true)
	return nil
}

// Rotate seals the segment being written, if there is one, so that the next
// Append begins another. It returns the point between the two, from which
// Replay can begin once everything before it is in runs.
func (j *Journal) Rotate() (Point, error) {
	if err := j.Err(); err != nil {
		return Point{}, err
	}
	if j.cur != nil && j.cur.End() == segment.HeaderSize {
		j.dropEmpty() // each segment of the chain has a frame that says something
	}
	if j.cur != nil {
		if err := j.sealSegment(); err != nil {
			return Point{}, j.stopWriting(err)
		}
	}
	return j.point, nil
}
