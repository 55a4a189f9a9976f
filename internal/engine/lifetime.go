package engine

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/view"
)

// Lifetime tells all work whether the store is closing, and whether background work has ended
// because of a failure.
type Lifetime struct {
	views     *view.Set
	closing   context.Context // ends when Close begins
	cancel    context.CancelCauseFunc
	failure   atomic.Pointer[error] // why background work has ended
	onFailure func(error)           // may be nil

	flushing atomic.Int64                 // number of attempts to flush that have begun
	unable   atomic.Pointer[flushFailure] // of the last attempt; nil if it has succeeded

	working sync.RWMutex // held for reading by calls that write or remove files
}

// flushFailure is the failure for now of an attempt to flush.
type flushFailure struct {
	attempt int64 // Lifetime.flushing when the attempt began
	err     error
}

func newLifetime(views *view.Set, onFailure func(error)) *Lifetime {
	l := &Lifetime{views: views, onFailure: onFailure}
	l.closing, l.cancel = context.WithCancelCause(context.Background())
	return l
}

// endBackground ends background work; writes that need it will report err.
func (l *Lifetime) endBackground(err error) {
	// NameKeys adds to the error. It must be done before others can read it.
	l.views.Current().NameKeys(err)
	// Only the first failure counts: later ones mostly follow from it.
	if l.failure.CompareAndSwap(nil, &err) {
		l.onFailure(err)
	}
	l.views.WakeWatchers()
}

// stopReason returns an ErrStopped that says why background work has ended; nil while it goes on.
func (l *Lifetime) stopReason() error {
	if err := l.failure.Load(); err != nil {
		return fmt.Errorf("%w: background work has ended: %w", errs.ErrStopped, *err)
	}
	return nil
}

// flushError returns why memtables can't be flushed for now; nil if they can, as far as is known.
func (l *Lifetime) flushError() error {
	if f := l.unable.Load(); f != nil {
		return f.err
	}
	return nil
}

// Do runs fn for a call that writes or removes files: Close waits for it. The context of fn
// ends with ctx, or when Close begins. No code of the user may run in fn, except for that of
// the file system: it could call Close.
func (l *Lifetime) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	l.working.RLock()
	defer l.working.RUnlock()
	// Look with the lock held. Close closes the Views before it waits for the lock, so it either
	// waits for this call or the call sees it.
	if l.views.Closed() {
		return errs.ErrClosed
	}
	ctx, end := l.Until(ctx)
	defer end()
	return fn(ctx)
}

// Remove runs fn, which closes files, and removes them if that may be done: not once the store is
// closed, as another process may have it open then.
func (l *Lifetime) Remove(fn func(may bool)) {
	l.working.RLock()
	defer l.working.RUnlock()
	fn(!l.views.Closed())
}

// endWork ends all work and waits for it. The Views are closed before, so that no more begins.
func (l *Lifetime) endWork() {
	l.cancel(errs.ErrClosed)
	l.views.WakeWatchers()
	// Their contexts have just ended, so the callers that have this lock soon give it back.
	l.working.Lock()
	defer l.working.Unlock()
}

// Until returns a context that ends with ctx, or when Close begins; it has no values. The
// caller calls end.
func (l *Lifetime) Until(ctx context.Context) (bound context.Context, end func()) {
	// It must be a child of closing, to have ended as soon as Close has begun; ctx follows later.
	bound, cancel := context.WithCancelCause(l.closing)
	if ctx.Err() != nil {
		cancel(errs.Ended(ctx))
	}
	stop := context.AfterFunc(ctx, func() { cancel(errs.Ended(ctx)) })
	return bound, func() {
		stop()
		cancel(nil)
	}
}

// untilChange is how long waitFor waits if no time ends it.
const untilChange = time.Duration(math.MaxInt64)

// waitFor returns after d, or when changed is closed, or with the context's error.
func waitFor(ctx context.Context, d time.Duration, changed <-chan struct{}) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return errs.Ended(ctx)
	case <-timer.C:
	case <-changed:
	}
	return nil
}
