package compact

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// Collection is one collection of segments.
type Collection struct {
	// Victims are the segments whose live records move.
	Victims []Victim
	// Files says where the new segment and the forwarding tables are written.
	Files segment.Config
	// NextNum gives out numbers for them that no file has.
	NextNum func() entry.FileNum
	// Memory bounds the bytes that keys and places of records take while they are sorted; 0 = no
	// bound. In addition each record that has moved takes 16 bytes.
	Memory int
	// Pace is called after each megabyte or so read or written, with that number of bytes, and
	// may wait. nil: no pauses.
	Pace func(ctx context.Context, n int) error
}

// Victim is a segment whose live records move, and the layout's description of it.
type Victim struct {
	*segment.Reader
	Segment *layout.Segment
}

// Forwarding is a finished forwarding table, and what it makes of the segment that it leads away
// from.
type Forwarding struct {
	layout.SegmentState
	Size int64 // in bytes
}

// Damaged is the error of work that can't read live records of a segment. That segment must
// stay as it is.
type Damaged struct {
	Segment entry.FileNum // the segment that can't be read
	Err     error         // an *errs.Corruption
}

// Error returns the message of the damage.
func (d *Damaged) Error() string { return d.Err.Error() }

// Unwrap returns the damage.
func (d *Damaged) Unwrap() error { return d.Err }

// Collect copies the live records of the victims to one new segment, and writes a forwarding table
// for each victim, which says where its records are now. The records are in key order. If their
// keys exceed Memory, there are several sequences, each in key order. If a live record can't be
// read, Collect returns a *Damaged: it leaves no live record out. It takes memory for keys and
// places, not for values. On an error it removes what it wrote.
func Collect(ctx context.Context, c Collection) (out Output, err error) {
	w := collector{Collection: c, out: &out, moves: make([][]segment.Move, len(c.Victims))}
	defer func() {
		if err != nil {
			w.removeOutputs()
		}
	}()
	for i := range c.Victims {
		if err := w.gatherLive(ctx, i); err != nil {
			return out, err
		}
	}
	if err := w.copyAll(ctx); err != nil {
		return out, err
	}
	// Nothing is live: the victims can simply go.
	if w.target == nil {
		return out, nil
	}
	return out, w.finishTarget()
}

// keyBlock is how many bytes of keys are gathered in one block of memory.
const keyBlock = 1 << 20

// liveBytes is the memory of a live record beside its key: 40 bytes, and half as much again for
// the room of a slice that grows.
const liveBytes = 40 * 3 / 2

// live is a record that moves.
type live struct {
	key    []byte // in a block of keys
	offset int64  // where it begins in its segment
	size   uint32 // bytes of the record
	victim uint32 // index in Victims
}

// collector gathers what is live, then writes it.
type collector struct {
	Collection
	out     *Output
	records []live               // gathered, not yet written
	memory  int                  // bytes that records and their keys take
	keys    []byte               // the block that is being filled
	unpaced int                  // bytes read and written since the last call of Pace
	target  *segment.ValueWriter // the segment that records move to; nil: there is none yet
	moves   [][]segment.Move     // where records have moved, by victim
}

// gatherLive notes the live records of a victim, in one sequential read of it.
func (w *collector) gatherLive(ctx context.Context, victim int) error {
	v := w.Victims[victim]
	found := uint64(0)
	want := v.Segment.Records - v.Segment.DeadRecords()
	w.moves[victim] = make([]segment.Move, 0, min(want, uint64(v.End())/layout.Granule))
	w.out.Bytes += uint64(v.End())
	err := v.Scan(false, func(off int64, rec *entry.Record) error {
		if err := w.paceWork(ctx, rec.Size); err != nil || !v.Segment.Owned(off, rec) {
			return err
		}
		// Memory is full: begin another sequence in key order.
		if w.Memory > 0 && w.memory+liveBytes+len(rec.Key) > w.Memory {
			if err := w.copyAll(ctx); err != nil {
				return err
			}
		}
		found++
		w.memory += liveBytes + len(rec.Key)
		w.records = append(w.records, live{key: w.copyKey(rec.Key), offset: off, size: uint32(rec.Size), victim: uint32(victim)})
		return nil
	})
	if err != nil {
		return wrapDamage(v.Segment.Num, err)
	}
	// Otherwise live records would be lost with the segment.
	if found != want {
		return wrapDamage(v.Segment.Num, errs.NewCorruption(filename.Of(v.Segment.Kind, v.Segment.Num), -1,
			"%d records are live, and %d by the manifest", found, want))
	}
	return nil
}

// copyKey copies a key into a block of memory: one allocation for many keys.
func (w *collector) copyKey(key []byte) []byte {
	if len(w.keys)+len(key) > cap(w.keys) {
		w.keys = make([]byte, 0, max(keyBlock, len(key)))
	}
	at := len(w.keys)
	w.keys = append(w.keys, key...)
	return w.keys[at:len(w.keys):len(w.keys)]
}

// paceBytes is how much is read or written between two calls of Pace.
const paceBytes = 1 << 20

// paceWork notes that n bytes were read or written. After each megabyte it ends the work if ctx has
// ended, or else calls Pace.
func (w *collector) paceWork(ctx context.Context, n int) error {
	w.unpaced += n
	if n = w.unpaced; n < paceBytes {
		return nil
	}
	w.unpaced = 0
	if ctx.Err() != nil {
		return errs.Ended(ctx)
	}
	if w.Pace == nil {
		return nil
	}
	return w.Pace(ctx, n)
}

// copyAll writes the records that were gathered, in key order.
func (w *collector) copyAll(ctx context.Context) (err error) {
	if len(w.records) == 0 {
		return nil
	}
	if w.target == nil {
		if w.target, err = segment.NewValueWriter(w.Files, w.NextNum()); err != nil {
			return err
		}
	}
	// In key order, so that a scan reads the new segment from front to back.
	slices.SortFunc(w.records, func(a, b live) int {
		return cmp.Or(bytes.Compare(a.key, b.key), cmp.Compare(a.victim, b.victim), cmp.Compare(a.offset, b.offset))
	})
	for i := range w.records {
		r := &w.records[i]
		v := w.Victims[r.victim]
		h, err := w.target.CopyRecord(v.Reader, r.offset, int(r.size))
		if err != nil {
			// The damage is the source's: the target is a new file.
			return wrapDamage(v.Segment.Num, err)
		}
		w.moves[r.victim] = append(w.moves[r.victim], segment.Move{From: uint64(r.offset), To: h.Offset})
		r.key = nil // so that a block of keys is freed once all of its records are written
		if err := w.paceWork(ctx, int(r.size)); err != nil {
			return err
		}
	}
	w.records, w.memory, w.keys = w.records[:0], 0, nil
	return nil
}

// finishTarget makes the target durable, then the forwarding tables that lead to it: after a crash
// no forwarding table leads to a record that is not there.
func (w *collector) finishTarget() error {
	stats, err := w.target.Finish()
	if err != nil {
		return err
	}
	w.out.Values = []layout.Segment{DescribeValues(stats)}
	w.out.Read, w.out.Extracts = stats.Records, stats.Records
	for i, moves := range w.moves {
		slices.SortFunc(moves, func(a, b segment.Move) int { return cmp.Compare(a.From, b.From) })
		h := segment.ForwardingHeader{Number: w.NextNum(), Source: w.Victims[i].Segment.Num, Target: stats.Number}
		table, err := segment.WriteForwarding(w.Files, h, moves)
		if err != nil {
			return err
		}
		state := layout.SegmentState{Num: h.Source, Status: layout.Relocated, Map: h.Number, Target: h.Target, KeyID: table.KeyID}
		w.out.Forwardings = append(w.out.Forwardings, Forwarding{state, table.Size})
	}
	return nil
}

// removeOutputs removes what was written. If a removal fails, the next Open removes the file.
func (w *collector) removeOutputs() {
	for _, m := range w.out.Forwardings {
		_ = w.Files.FS.Remove(filename.New(filename.Forwarding, m.Map).In("", w.Files.Dir))
	}
	if w.target != nil {
		_ = w.target.Abort()
	}
	*w.out = Output{}
}

// wrapDamage returns a *Damaged if err says that segment num is damaged, else err.
func wrapDamage(num entry.FileNum, err error) error {
	if d := (*Damaged)(nil); errors.As(err, &d) {
		return err // of another segment, whose records were written meanwhile
	}
	if c := (*errs.Corruption)(nil); errors.As(err, &c) {
		return &Damaged{Segment: num, Err: err}
	}
	return err
}
