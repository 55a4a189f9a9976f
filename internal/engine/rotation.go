package engine

import (
	"context"
	"fmt"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/jobs"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/version/layout"
)

// Rotation says what RotateKey is to do.
type Rotation struct {
	Keys    keyring.Provider // wraps the data keys from now on; nil = the current provider
	Rewrite bool             // also rewrite files that are under older data keys, or plain
	Master  bool             // only wrap the existing data keys again; Rewrite is ignored
}

// Rotator changes the data key of the store. It removes an old key when no file is encrypted
// under it any more. The layout tells policy which files are still to be rewritten, so the
// rewriting goes on after the next Open, also after a crash.
type Rotator struct {
	*state
	work   *Worker
	copies *copying

	turn jobs.Turn // for changing and removing keys; taken before all mutexes
}

// Provider returns the provider of master keys that Rotate has set last, or else that of Open; nil
// for a plain store.
func (r *Rotator) Provider() keyring.Provider {
	if r.cfg.Keyring == nil {
		return nil
	}
	return r.cfg.Keyring.Provider()
}

// Rotate changes the keys of an encrypted store, as o says, while others read and write. After an
// error, it may have done a part.
func (r *Rotator) Rotate(ctx context.Context, o Rotation) error {
	return r.lifetime.Do(ctx, func(ctx context.Context) error { return r.rotateKeys(ctx, o) })
}

func (r *Rotator) rotateKeys(ctx context.Context, o Rotation) error {
	if r.cfg.Keyring == nil {
		return fmt.Errorf("%w: the store is not encrypted; EncryptStore makes an encrypted one of it", errs.ErrUnsupported)
	}
	if !o.Master && r.cfg.Keyring.Full() {
		if err := r.freeKeySlot(ctx, o.Rewrite); err != nil {
			return err
		}
	}
	if err := r.changeKeys(ctx, o); err != nil || o.Master || !o.Rewrite {
		return err
	}
	return r.rewriteFiles(ctx)
}

// freeKeySlot removes the data keys that nothing is under from a full keyring. If all are needed and
// it may rewrite, it first rewrites what is under older keys under the current one: else a full
// keyring could never get another key.
func (r *Rotator) freeKeySlot(ctx context.Context, rewrite bool) error {
	if err := r.changeAlone(ctx, r.renewAndPrune); err != nil || !rewrite || !r.cfg.Keyring.Full() {
		return err
	}
	err := r.recordEdit(func(l *layout.Layout) (*layout.Edit, error) {
		return &layout.Edit{DataKey: layout.DataKey{ID: l.DataKey().ID, Rewrite: true}}, nil
	})
	if err != nil {
		return err
	}
	return r.rewriteFiles(ctx)
}

// changeAlone calls change, which removes keys. It waits until no other change and no copy is under
// way.
func (r *Rotator) changeAlone(ctx context.Context, change func(context.Context) error) error {
	if err := r.turn.Take(ctx); err != nil {
		return err
	}
	defer r.turn.Leave()
	if err := r.copies.beginChange(ctx); err != nil {
		return err
	}
	defer r.copies.endChange()
	if err := r.lifetime.stopReason(); err != nil {
		return err
	}
	return change(ctx)
}

// renewAndPrune leaves no slot of SUPER and no frame of the manifest under an older key, as after
// a change that has failed in its middle, and then removes the data keys that nothing is under.
func (r *Rotator) renewAndPrune(ctx context.Context) error {
	if err := r.log.Renew(); err != nil {
		return err
	}
	return r.pruneKeys(ctx, r.cfg.Ring.Current())
}

// changeKeys makes a new data key current or, for a change of the master key, wraps the existing
// data keys again.
func (r *Rotator) changeKeys(ctx context.Context, o Rotation) error {
	if err := r.turn.Take(ctx); err != nil {
		return err
	}
	defer r.tasks.kickAll() // tryFinishRewriting may have found the turn taken
	defer r.turn.Leave()
	if err := r.lifetime.stopReason(); err != nil {
		return err
	}
	// The provider may take long to answer. Ask it now, before copies have to wait.
	draft, err := r.draftKeys(ctx, o)
	if err != nil {
		return err
	}
	// No copy may be under way: it has the keyring of one moment, and files of a later one
	// could be under a key that this keyring lacks.
	if err := r.copies.beginChange(ctx); err != nil {
		return err
	}
	defer r.copies.endChange()
	// First the keyring is durable, then files are written under the key. In the other order a
	// crash could leave files whose key nobody has.
	id, err := r.cfg.Keyring.Write(draft)
	if err != nil {
		return err
	}
	if o.Master {
		return r.cfg.Keyring.Clean()
	}
	before := r.cfg.Ring.Current()
	if err := r.cfg.Ring.SetCurrent(id); err != nil {
		return err
	}
	err = r.recordEdit(func(l *layout.Layout) (*layout.Edit, error) {
		// A rewriting that is under way goes on, even if this change asks for none.
		return &layout.Edit{DataKey: layout.DataKey{ID: id, Rewrite: o.Rewrite || l.DataKey().Rewrite}}, nil
	})
	if err != nil {
		_ = r.cfg.Ring.SetCurrent(before) // can't fail: the Ring has that key
		return err
	}
	// From here on the new key is current, even if a later step fails. Work that has begun under
	// the key before may go on: pruneKeys keeps that key for it.
	if err := r.log.Renew(); err != nil {
		return err
	}
	// The active journal segment is under the old key. It is needed until its memtable is flushed,
	// so seal that now.
	if err := r.cfg.Exclusive(ctx, r.work.writer.sealAny); err != nil {
		return err
	}
	return r.pruneKeys(ctx, before)
}

// draftKeys asks the provider for what the change needs, and writes nothing.
func (r *Rotator) draftKeys(ctx context.Context, o Rotation) (*keyring.Draft, error) {
	if o.Master {
		return r.cfg.Keyring.DraftRewrap(ctx, o.Keys)
	}
	return r.cfg.Keyring.DraftKey(ctx, o.Keys, r.cfg.Now().UnixMilli())
}

// rewriteFiles flushes, collects and compacts until no file is under an old key any more.
func (r *Rotator) rewriteFiles(ctx context.Context) error {
	if err := r.work.Flush(ctx); err != nil {
		return err
	}
	for {
		if err := r.lifetime.stopReason(); err != nil {
			return err
		}
		if _, err := r.work.collector.collectPlanned(ctx, whileBusy); err != nil {
			return err
		}
		if _, err := r.work.compactor.compactPlanned(ctx, whileBusy); err != nil {
			return err
		}
		if err := r.finishRewriting(ctx); err != nil {
			return err
		}
		// Get the channel before planning: an edit that comes in between must not be missed.
		v, changed := r.views.WatchView()
		if r.views.Closed() {
			return errs.ErrClosed
		}
		if !v.Layout.DataKey().Rewrite {
			return nil
		}
		if plan := r.planWork(v, whileBusy); plan.Collect != nil || plan.Compaction != nil {
			continue
		}
		if n := v.Layout.OldBytes(); n > 0 {
			return r.explainStuck(n)
		}
		// A large transaction has files under an old key, or a flush is under way.
		if err := waitFor(ctx, untilChange, changed); err != nil {
			return err
		}
	}
}

// explainStuck returns the error of a rewriting that can't go on while some bytes are under old
// keys: there is damage, or else no disk space.
func (r *Rotator) explainStuck(bytes uint64) error {
	// Policy plans nothing, and yet there is work. It leaves out two things only: damaged files,
	// and what doesn't fit on the disk.
	why := errs.ErrNoSpace
	if len(r.damaged.list()) > 0 {
		why = errs.ErrCorrupt
	}
	return fmt.Errorf("%w: %d bytes of files stay under old data keys for now", why, bytes)
}

// finishRewriting ends a rewriting if no work is left: it removes the old keys and records in the
// layout that all is rewritten. It waits until no copy is under way.
func (r *Rotator) finishRewriting(ctx context.Context) error {
	if !r.isRewritten() {
		return nil
	}
	return r.changeAlone(ctx, r.finishRewritingAlone)
}

// tryFinishRewriting is finishRewriting as a background task. It does not wait for a copy or for a change of
// keys: these kick the task when they end.
func (r *Rotator) tryFinishRewriting(ctx context.Context) error {
	if !r.isRewritten() || !r.turn.Try() {
		return nil
	}
	defer r.turn.Leave()
	if !r.copies.tryChange() {
		return nil
	}
	defer r.copies.endChange()
	return r.finishRewritingAlone(ctx)
}

func (r *Rotator) finishRewritingAlone(ctx context.Context) error {
	// Look again: while this waited for its turn, another change may have made a new key current.
	if !r.isRewritten() {
		return nil
	}
	// Nothing writes the files of the change feed again.
	l := r.views.Current().Layout
	if err := r.work.flusher.dropFeed(l.Feed().NewestUnder(l.IsOld)); err != nil {
		return err
	}
	if err := r.renewAndPrune(ctx); err != nil {
		return err
	}
	// This comes last. If the process ends before, the layout still asks for the rewriting, and the
	// next session finishes it.
	return r.recordEdit(func(l *layout.Layout) (*layout.Edit, error) {
		return &layout.Edit{DataKey: layout.DataKey{ID: l.DataKey().ID}}, nil
	})
}

// isRewritten reports whether a rewriting is under way and has no work left. If a journal segment
// under an old key still waits for its flush, it starts one and returns false.
func (r *Rotator) isRewritten() bool {
	v := r.views.Current()
	l := v.Layout
	if !l.DataKey().Rewrite || l.OldBytes() > 0 || r.keys.hasOlder() {
		return false
	}
	// Nothing is to be flushed, so no seal would help. pruneKeys keeps the keys of the segments
	// that are left.
	if len(v.Tables) == 1 && v.Active().Empty() {
		return true
	}
	for _, s := range r.unflushed.segments() {
		if l.IsOld(s.KeyID) {
			r.tasks.seal.Kick()
			return false
		}
	}
	return true
}

// pruneKeys removes the data keys that no file is under; it keeps the key with the id before. It
// removes none while work is under way that began under a key other than the current one:
// that work may still write files under its key.
//
// No flush runs meanwhile, as pruneKeys has the flusher's turn.
func (r *Rotator) pruneKeys(ctx context.Context, before crypt.ID) error {
	if err := r.work.flusher.turn.Take(ctx); err != nil {
		return err
	}
	defer r.work.flusher.turn.Leave()
	r.applying.Lock()
	defer r.applying.Unlock()
	// Under the lock no other work records an edit, and work that begins from here on has the
	// current key. So what is listed below is all that may be under an older key.
	if r.keys.hasOlder() {
		return nil
	}
	l := r.views.Current().Layout
	needed := map[crypt.ID]bool{before: true}
	for _, f := range l.AllFiles() {
		needed[f.KeyID.Key] = true
	}
	for _, end := range l.JournalEnds() {
		if end.File > l.FlushedTo() { // flushed segments are not replayed
			needed[end.KeyID.Key] = true
		}
	}
	for _, s := range r.unflushed.segments() {
		needed[s.KeyID.Key] = true
	}
	return r.cfg.Keyring.Keep(func(id crypt.ID) bool { return needed[id] })
}
