package brock

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/base/jobs"
	"github.com/brockdb/brock/internal/engine"
	"github.com/brockdb/brock/report"
)

// Events are functions that a store calls when something happens in the background.
// They are called one at a time, in the order in which it happened, on a goroutine of
// their own: nothing waits for them, and they may call all methods of the DB, Close too.
// Options.Logger is served in the same way, each message after the call that it belongs
// to. Nil fields are skipped.
//
// Behind a call that takes long, the newest 1,024 events wait; Metrics.EventsDropped
// counts those that were dropped. Close delivers the events that wait, but drops
// the rest if one call takes more than 1 s, or all together more than 5 s. Nothing is told
// after Close. A function that panics ends the program.
type Events struct {
	Flush           func(WorkInfo)         // a memtable was written to files, or that failed
	Compaction      func(WorkInfo)         // runs were compacted, or that failed
	Collection      func(WorkInfo)         // live values were moved out of segments with garbage, or that failed
	Spill           func(WorkInfo)         // a transaction larger than its memory was committed, or that failed
	WriteStall      func(StallInfo)        // writers begin or cease to be throttled
	DiskSpace       func(DiskSpaceInfo)    // the disk is full and writes are refused, or no longer
	Corruption      func(*CorruptionError) // background work has found damaged data
	Loss            func(Loss)             // Open has left data out because of damage, as Options.Recover allows
	BackgroundError func(error)            // background work has found that nothing can be written any more, for this reason; called once
	Leak            func(LeakInfo)         // the garbage collector has found a transaction that was never ended, or a Snapshot
	LongReader      func(ReaderInfo)       // an open transaction or Snapshot has kept replaced data for more than 1 min; called again after 2, 4, 8 min and so on
}

// WorkInfo describes a finished piece of background work.
type WorkInfo = report.Work

// ReaderInfo describes a long reader: the oldest open transaction or Snapshot, and the data that
// is kept only for these. Metrics has the same at any time.
type ReaderInfo = report.Reader

// LeakInfo describes a transaction or Snapshot that was never ended and that nobody can end any more.
type LeakInfo = report.Leak

// Loss describes the data that Open has left out because of damage (Options.Recover), as
// far as it is known.
type Loss = report.Loss

// StallInfo describes the begin or the end of a time in which writers are throttled.
type StallInfo = report.Stall

// DiskSpaceInfo says that writes are refused, because the disk is full or
// Options.DiskLimit is reached, or that they are accepted again.
type DiskSpaceInfo = report.DiskSpace

// reporter calls the functions of the user. It passes what happens in the background to Events and a
// logger, and asks the clock. It queues the calls
// for a goroutine of their own: at the place of an event locks are held, or commits wait.
type reporter struct {
	to     atomic.Pointer[userFuncs] // empty once Close has made the last calls
	calls  jobs.Calls                // those that wait, in order; at most 1,024, see Events
	ended  atomic.Pointer[error]     // why writing has ended, as BackgroundError was told; nil while it goes on
	leaked atomic.Int64              // number of leaks
}

// userFuncs are the user's functions and logger.
type userFuncs struct {
	Events
	log   *slog.Logger     // nil: silent
	clock func() time.Time // nil: the system's
}

func newReporter(to userFuncs) *reporter {
	r := new(reporter)
	r.to.Store(&to)
	return r
}

// clockTime is Options.Now, until endReports.
func (r *reporter) clockTime() time.Time {
	if clock := r.to.Load().clock; clock != nil {
		return clock()
	}
	return time.Now()
}

// endReports makes the calls that wait, and lets go of the user's functions: nothing is told afterwards.
func (r *reporter) endReports() {
	r.calls.Drain(lastCall)
	// A leaked transaction keeps the reporter. If one of the user's functions leads to the
	// transaction, it could never be freed.
	r.to.Store(new(userFuncs))
}

// lastCall is how long Close waits for one call of a user's function to return.
const lastCall = time.Second

// queueReport queues a call of call, unless that is nil, and a log message.
func queueReport[Info any](r *reporter, call func(Info), info Info, level slog.Level, message string, args ...any) {
	if call != nil {
		r.calls.Add(func() { call(info) })
	}
	r.queueMessage(level, message, args...)
}

// queueMessage queues a log message. Its time is that of this call of say.
func (r *reporter) queueMessage(level slog.Level, message string, args ...any) {
	log := r.to.Load().log
	if log == nil {
		return
	}
	record := slog.NewRecord(time.Now(), level, message, 0)
	record.Add(args...)
	// Enabled is the user's code too, so it waits with the rest: locks may be held here.
	r.calls.Add(func() {
		if ctx := context.Background(); log.Enabled(ctx, level) {
			_ = log.Handler().Handle(ctx, record) // as slog does
		}
	})
}

// onWork passes on that background work was finished.
func (r *reporter) onWork(w engine.Work) {
	to := r.to.Load()
	call := to.Compaction
	switch w.Kind {
	case "flush":
		call = to.Flush
	case "spill":
		call = to.Spill
	case "collection":
		call = to.Collection
	}
	args := []any{"reason", w.Reason, "entries", w.EntriesIn, "dropped", w.Dropped, "bytesOut", w.BytesOut, "took", w.Took}
	if w.Err != nil {
		args = append(args, "err", w.Err)
	}
	// Collections and clusterings go on after damage. Other work ends then, and writing with it:
	// onEnd reports that.
	var c *CorruptionError
	if w.Segments > 0 && errors.As(w.Err, &c) {
		r.onFoundDamage(c)
	}
	queueReport(r, call, w.Work, slog.LevelDebug, w.Kind, args...)
}

// onDamage passes err on if it is a CorruptionError.
func (r *reporter) onDamage(err error) {
	var c *CorruptionError
	// Without a log line: each caller writes one that says more.
	if call := r.to.Load().Corruption; call != nil && errors.As(err, &c) {
		r.calls.Add(func() { call(c) })
	}
}

// onLongReader passes on that an open transaction keeps replaced data.
func (r *reporter) onLongReader(info ReaderInfo) {
	queueReport(r, r.to.Load().LongReader, info, slog.LevelWarn, "an open transaction or snapshot keeps replaced data",
		"begun", info.Begun, "version", info.Version, "for", info.For, "files", info.FileBytes, "memory", info.MemoryBytes)
}

// onLeak passes on that a transaction was never ended.
func (r *reporter) onLeak(l LeakInfo) {
	r.leaked.Add(1)
	queueReport(r, r.to.Load().Leak, l, slog.LevelWarn, "a transaction or snapshot was never ended", "begun", l.Begun, "version", l.Version, "kept", l.Kept)
}

// onStall passes on that writers are throttled, or no longer.
func (r *reporter) onStall(s StallInfo) {
	if s.Begin {
		queueReport(r, r.to.Load().WriteStall, s, slog.LevelWarn, "writers are throttled", "reason", s.Reason)
	} else {
		queueReport(r, r.to.Load().WriteStall, s, slog.LevelWarn, "writers are no longer throttled", "reason", s.Reason, "took", s.Took)
	}
}

// onDiskSpace passes on that writes are refused because the disk is full, or no
// longer.
func (r *reporter) onDiskSpace(s DiskSpaceInfo) {
	if s.Full {
		queueReport(r, r.to.Load().DiskSpace, s, slog.LevelWarn, "disk full: writes are refused", "left", s.Left, "reserve", s.Reserve, "err", s.Err)
	} else {
		queueReport(r, r.to.Load().DiskSpace, s, slog.LevelWarn, "the disk is no longer full", "left", s.Left, "reserve", s.Reserve)
	}
}

// onRefusal passes on that background work was refused, as by a full disk. A nil err says
// that it goes on.
func (r *reporter) onRefusal(work string, err error) {
	if err != nil {
		r.queueMessage(slog.LevelWarn, "background work was refused, and is tried again", "work", work, "error", err)
	} else {
		r.queueMessage(slog.LevelWarn, "background work is no longer refused", "work", work)
	}
}

// onFoundDamage passes on that background work, which goes on, has found damage.
func (r *reporter) onFoundDamage(c *CorruptionError) {
	r.onDamage(c)
	r.queueMessage(slog.LevelError, "damaged data was found", "err", c)
}

// onLoss passes on what Open has left out because of damage.
func (r *reporter) onLoss(l Loss) {
	queueReport(r, r.to.Load().Loss, l, slog.LevelError, "the store is opened up to damage", "err", l.Damage,
		"version", l.Version, "lastVersion", l.LastVersion, "commits", l.Commits, "edits", l.Edits, "bytes", l.Bytes)
}

// onFailure passes on why background work, and soon writing, has ended.
func (r *reporter) onFailure(err error) { r.onEnd("background work has ended", err) }

// onTaskError passes on that nothing can be written any more, if err says so: the journal or
// the manifest has stopped, for instance because a sync failed. Without this call the user
// would only learn of it from the next write.
func (r *reporter) onTaskError(_ string, err error) {
	// All else ends one piece of work, and the next Flush, compaction or collection tries again:
	// BackgroundError promises more than that.
	if errors.Is(err, ErrStopped) {
		r.onEnd("nothing can be written any more", err)
	}
}

// onEnd passes on why writing has ended. Only the first reason is passed on.
func (r *reporter) onEnd(message string, err error) {
	// The first reason is the cause. Once it is there all other work fails too, and would hide it.
	if !r.ended.CompareAndSwap(nil, &err) {
		return
	}
	r.onDamage(err)
	queueReport(r, r.to.Load().BackgroundError, err, slog.LevelError, message, "error", err)
}
