package tree

import (
	"context"
	"fmt"

	"github.com/brockdb/brock/internal/crypt"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/files"
	"github.com/brockdb/brock/internal/garbage"
	"github.com/brockdb/brock/internal/keyring"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/internal/view"
)

// Rotation says what RotateKey is to do.
type Rotation struct {
	Keys    keyring.Provider // wraps the data keys from now on; nil: the one that does now
	Rewrite bool             // what is under other data keys, too
	Master  bool             // wrap the data keys again, and change none
}

// rotator changes the data key of the store, and takes old ones away when nothing is under
// them any more. What is to be rewritten follows from the layout, as for all work
// (policy), so a rewriting goes on after a crash or an Open.
type rotator struct {
	cfg       *Config
	log       *manifest.Log
	views     *view.Set
	files     *files.Opener
	unflushed *files.Unflushed
	life      *lifetime
	writer    *writer
	flusher   *flusher
	compactor *compactor
	collector *collector
	installer *installer
	planner   *planner
	damaged   *garbage.Damaged
	keys      *keyUse
	flush     func(context.Context) error // that of background
	tasks     *tasks

	copies *copying

	turn turn // of those who change keys or take them away; taken before all mutexes
}

// turn is held by one goroutine at a time. Others wait for it no longer than their contexts.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t turn) try() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

func (t turn) leave() { <-t }

// rotate does what o says. After an error, it may have done a part.
func (r *rotator) rotate(ctx context.Context, o Rotation) error {
	switch {
	case r.cfg.ReadOnly:
		return errs.ErrReadOnly
	case r.cfg.Keyring == nil:
		return fmt.Errorf("%w: the store is not encrypted; EncryptStore makes an encrypted one of it", errs.ErrUnsupported)
	}
	ctx, end := r.life.until(ctx)
	defer end()
	if err := r.change(ctx, o); err != nil || o.Master || !o.Rewrite {
		return err
	}
	return r.rewrite(ctx)
}

// change makes a new data key current, or wraps the ones that there are again.
func (r *rotator) change(ctx context.Context, o Rotation) error {
	if err := r.turn.take(ctx); err != nil {
		return err
	}
	defer r.tasks.kick() // tryFinish may have found the turn taken
	defer r.turn.leave()
	if err := r.life.stopped(); err != nil {
		return err
	}
	// The provider may take long to answer: before copies have to wait.
	draft, err := r.draft(ctx, o)
	if err != nil {
		return err
	}
	// A copy has the keyring of one moment, and files of others.
	if err := r.copies.begin(ctx, true); err != nil {
		return err
	}
	defer r.copies.end(true)
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
	err = r.installer.record(func(l *layout.Layout) (*layout.Edit, error) {
		return &layout.Edit{DataKey: layout.DataKey{ID: id, Rewrite: o.Rewrite || l.DataKey().Rewrite}}, nil
	})
	if err != nil {
		_ = r.cfg.Ring.SetCurrent(before) // can't fail: the Ring has that key
		return err
	}
	// From here on the new key counts, whatever fails. What has begun under the key before may
	// go on: it stays until another change, or until all is rewritten.
	if err := r.log.Renew(); err != nil {
		return err
	}
	if err := r.cfg.Exclusive(r.writer.sealAny); err != nil {
		return err
	}
	r.files.RemoveSpares(false)
	return r.prune(before)
}

// draft has the provider do its part of a change.
func (r *rotator) draft(ctx context.Context, o Rotation) (*keyring.Draft, error) {
	if o.Master {
		return r.cfg.Keyring.DraftRewrap(ctx, o.Keys)
	}
	return r.cfg.Keyring.DraftKey(ctx, o.Keys, r.cfg.Now().UnixMilli())
}

// rewrite returns when nothing is under an old key any more.
func (r *rotator) rewrite(ctx context.Context) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	for {
		if err := r.life.stopped(); err != nil {
			return err
		}
		if _, err := r.collector.all(ctx, whileBusy); err != nil {
			return err
		}
		if err := r.compactor.run(ctx, false); err != nil {
			return err
		}
		if err := r.finish(ctx); err != nil {
			return err
		}
		v, changed := r.views.Await()
		if r.views.Closed() {
			return errs.ErrClosed
		}
		if !v.Layout.DataKey().Rewrite {
			return nil
		}
		if plan := r.planner.decide(v, nil); plan.Collect != nil || plan.Compaction != nil {
			continue
		}
		if n := v.Layout.OldBytes(); n > 0 {
			return r.stuck(n)
		}
		// A large transaction has files under an old key, or a flush is under way.
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// stuck says why there is nothing to do for the bytes that are under old keys.
func (r *rotator) stuck(bytes uint64) error {
	why := errs.ErrNoSpace
	if len(r.damaged.List()) > 0 {
		why = errs.ErrCorrupt
	}
	return fmt.Errorf("%w: %d bytes of files stay under old data keys for now", why, bytes)
}

// finish ends a rewriting when nothing is left to do: it takes the old keys away, and the
// layout says that all is rewritten.
func (r *rotator) finish(ctx context.Context) error {
	if !r.rewritten() {
		return nil
	}
	if err := r.turn.take(ctx); err != nil {
		return err
	}
	defer r.turn.leave()
	if err := r.copies.begin(ctx, true); err != nil {
		return err
	}
	defer r.copies.end(true)
	return r.finishAlone()
}

// tryFinish is finish as a task, which leaves it for later rather than wait for a copy.
func (r *rotator) tryFinish(context.Context) error {
	if !r.rewritten() {
		return nil
	}
	if !r.turn.try() {
		return nil
	}
	defer r.turn.leave()
	if !r.copies.try() {
		return nil
	}
	defer r.copies.end(true)
	return r.finishAlone()
}

func (r *rotator) finishAlone() error {
	if !r.rewritten() {
		return nil
	}
	// Slots of SUPER and spare segments may be under old keys, too.
	if err := r.log.Renew(); err != nil {
		return err
	}
	r.files.RemoveSpares(false)
	if err := r.prune(r.cfg.Ring.Current()); err != nil {
		return err
	}
	defer r.views.Wake()
	return r.installer.record(func(l *layout.Layout) (*layout.Edit, error) {
		return &layout.Edit{DataKey: layout.DataKey{ID: l.DataKey().ID}}, nil
	})
}

// rewritten reports whether a rewriting is under way and has nothing left to do. What is in
// memory and in a journal under an old key is flushed first.
func (r *rotator) rewritten() bool {
	v := r.views.Current()
	l := v.Layout
	if !l.DataKey().Rewrite || l.OldBytes() > 0 || r.keys.older() {
		return false
	}
	if len(v.Tables) == 1 && v.Active().Empty() {
		return true
	}
	for _, s := range r.unflushed.Segments() {
		if l.IsOld(s.Life) {
			r.tasks.seal.Kick()
			return false
		}
	}
	return true
}

// prune removes the data keys under which nothing is, but for that with the id before, unless
// work is under way that began under another one than the current: then it leaves all for later.
// No flush is under way meanwhile; the journal of one that began under another key has that key,
// so that rewritten reports false until it has ended.
func (r *rotator) prune(before crypt.ID) error {
	r.flusher.mu.Lock()
	defer r.flusher.mu.Unlock()
	r.installer.recording.Lock()
	defer r.installer.recording.Unlock()
	if r.keys.older() {
		return nil
	}
	l := r.views.Current().Layout
	needed := map[crypt.ID]bool{before: true}
	for life := range l.Lives() {
		needed[life.Key] = true
	}
	for _, end := range l.JournalEnds() {
		if end.Segment > l.FlushedTo() { // else nobody reads it any more
			needed[end.Life.Key] = true
		}
	}
	for _, s := range r.unflushed.Segments() {
		needed[s.Life.Key] = true
	}
	return r.cfg.Keyring.Keep(func(id crypt.ID) bool { return needed[id] })
}
