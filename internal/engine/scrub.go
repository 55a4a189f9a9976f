package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/report"
)

// scrubber verifies every file in turn, also files that nobody reads, so that rot is found
// while there may still be a backup. A pass over all files takes half of Config.ScrubEvery.
// How far the pass should be follows from the time alone, so a store that was closed for long
// catches up. The alarm rings when the next piece is due, and each hour.
type scrubber struct {
	*state

	// Only the task uses these; after the task has ended, Close does.
	progress layout.Scrub
	part     view.Scrubbed // of the file after progress.UpTo
	recorded int64         // when progress was last recorded, in Unix milliseconds

	bytes, passes, damaged atomic.Int64 // since Open
	ended                  atomic.Int64 // progress.Ended
}

const (
	scrubWait   = time.Second // between two pieces
	scrubBegin  = time.Minute // after Open
	scrubLeast  = 1 << 20     // bytes of a piece, while clients write
	scrubMost   = 16 << 20    // bytes of a piece at rest
	scrubRecord = time.Hour   // between two edits that record how far the pass is
)

// setFirstAlarm sets the alarm for the first time.
func (s *scrubber) setFirstAlarm() {
	s.progress = s.views.Current().Layout.Scrub()
	s.ended.Store(s.progress.Ended)
	if s.cfg.ScrubEvery > 0 {
		s.tasks.scrub.Set(scrubBegin)
	}
}

// addTo reports what was done since Open, and when a pass ended last.
func (s *scrubber) addTo(m *report.Tree) {
	m.ScrubbedBytes, m.Scrubs, m.Damaged = s.bytes.Load(), s.passes.Load(), s.damaged.Load()
	if at := s.ended.Load(); at != 0 {
		m.LastScrub = time.UnixMilli(at)
	}
}

// verifyDue verifies the next piece if it is due, and sets the alarm for the one after it.
func (s *scrubber) verifyDue(ctx context.Context) error {
	if s.lifetime.stopReason() != nil {
		return nil
	}
	wait, err := s.verifyNext(ctx)
	if err != nil {
		wait = scrubBegin // files could not be read now: nothing is known of them
	}
	s.tasks.scrub.Set(wait) // after Close this does nothing
	return nil
}

// verifyNext verifies a piece, and returns when the next one is due.
func (s *scrubber) verifyNext(ctx context.Context) (wait time.Duration, err error) {
	hold, err := s.views.Hold()
	if err != nil {
		return 0, err
	}
	defer s.views.ReclaimViews()
	defer hold.Release()
	now := s.cfg.Now().UnixMilli()
	every := s.cfg.ScrubEvery.Milliseconds()
	// A pass ends at the newest file of its beginning. Files that come later would keep a busy
	// store's pass from ever ending. If the clock was set back, begin again.
	if st := &s.progress; st.Began == 0 || st.UpTo >= st.Until && now >= st.Began+every || now < st.Began {
		*st, s.part = layout.Scrub{Began: now, Ended: st.Ended, Until: s.files.LastNum() + 1}, view.Scrubbed{}
	}
	if s.progress.UpTo >= s.progress.Until { // the next pass begins in time
		return time.Duration(s.progress.Began+every-now) * time.Millisecond, nil
	}
	// At least 1, as it divides below.
	total, did := int64(1), s.part.Bytes
	var file *view.ScrubFile
	list := hold.View().ScrubFiles()
	for i := range list {
		f := &list[i]
		switch {
		case f.Num <= s.progress.UpTo:
			did += f.Size
		case f.Num < s.progress.Until && file == nil:
			file = f
		}
		total += f.Size
	}
	due := int64(float64(total) * min(1, 2*float64(now-s.progress.Began)/float64(every)))
	if due <= did {
		left := float64(did+1-due) / float64(total) * float64(every) / 2
		return max(scrubWait, time.Duration(left)*time.Millisecond), nil
	}
	if file == nil {
		return scrubWait, s.finishPass(now)
	}
	// Large pieces make up for lost time at rest. While clients write, they would delay their
	// reads.
	most := min(max(due-did, scrubLeast), scrubMost)
	if !s.isIdle() { // clients write
		most = scrubLeast
	}
	return scrubWait, s.verifyPiece(ctx, file, most, now)
}

// verifyPiece verifies the next bytes of a file: about most of them, as it ends behind a whole
// chunk or frame.
func (s *scrubber) verifyPiece(ctx context.Context, f *view.ScrubFile, most, now int64) error {
	// The file of the last piece may have been replaced. Then the next one begins at its start.
	if s.part.Num != f.Num {
		s.part = view.Scrubbed{Num: f.Num}
	}
	before := s.part.Bytes
	done, err := f.Scrub(s.files.SegmentConfig(), &s.part, most, s.reportDamage)
	if err := view.ReportDamage(err, s.reportDamage); err != nil {
		return err
	}
	s.bytes.Add(s.part.Bytes - before)
	if ctx.Err() != nil || !done {
		return errs.Ended(ctx)
	}
	s.progress.UpTo, s.part = f.Num, view.Scrubbed{}
	// An edit costs a sync, so not each file has one. After a crash the pass repeats some files.
	if now-s.recorded >= scrubRecord.Milliseconds() {
		s.recordProgress(now)
	}
	return nil
}

// reportDamage passes damage on, and makes readers verify all pages again.
func (s *scrubber) reportDamage(c *errs.Corruption) {
	// Pages that were found good before may have been damaged by the same fault.
	s.files.Open.Bits.Forget()
	s.damaged.Add(1)
	s.views.Current().NameKeys(c)
	s.cfg.OnDamage(c)
}

// finishPass ends a pass with the manifest.
func (s *scrubber) finishPass(now int64) error {
	if err := view.ReportDamage(s.log.Verify(s.reportDamage), s.reportDamage); err != nil {
		return err
	}
	s.passes.Add(1)
	s.ended.Store(now)
	s.progress.Ended, s.progress.UpTo = now, s.progress.Until
	s.recordProgress(now)
	return nil
}

// recordProgress records in the manifest how far the pass is. If that fails, the state is kept in
// memory alone, until Close. A failure after which nothing can be recorded has ended background work.
func (s *scrubber) recordProgress(now int64) {
	s.recorded = now
	_ = s.recordEdit(func(*layout.Layout) (*layout.Edit, error) { return &layout.Edit{Scrub: s.progress}, nil })
}
