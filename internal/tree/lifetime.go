package tree

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/view"
)

// lifetime tells all work whether the store closes, and whether background work
// has ended.
type lifetime struct {
	views     *view.Set
	closing   context.Context // ends when Close begins
	cancel    context.CancelCauseFunc
	failure   atomic.Pointer[error] // why background work has ended
	onFailure func(error)           // may be nil

	flushing atomic.Int64          // runs of flushes that have begun
	unable   atomic.Pointer[error] // why the last of them is to be tried again; nil if it was done
	since    atomic.Int64          // the run that has failed so last
}

func newLifetime(views *view.Set, onFailure func(error)) *lifetime {
	l := &lifetime{views: views, onFailure: onFailure}
	l.closing, l.cancel = context.WithCancelCause(context.Background())
	return l
}

// fail ends background work; writes that need it will report err.
func (l *lifetime) fail(err error) {
	l.views.Current().Explain(err)
	if l.failure.CompareAndSwap(nil, &err) && l.onFailure != nil {
		l.onFailure(err)
	}
	l.views.Wake()
}

// failed is why background work has ended; nil while it goes on.
func (l *lifetime) failed() error {
	if err := l.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// stopped is failed, as a commit reports it.
func (l *lifetime) stopped() error {
	if err := l.failed(); err != nil {
		return fmt.Errorf("%w: background work has ended: %w", errs.ErrStopped, err)
	}
	return nil
}

// unflushed is why what is in memory can't be flushed for now; nil if it can, as far as
// is known.
func (l *lifetime) unflushed() error {
	if err := l.unable.Load(); err != nil {
		return *err
	}
	return nil
}

// flushFailed notes that this run of a flush has failed in a way that passes.
func (l *lifetime) flushFailed(run int64, err error) {
	l.unable.Store(&err)
	l.since.Store(run)
	l.views.Wake()
}

// until returns a context that ends with ctx, or when Close begins; it has no values. The
// caller calls end.
func (l *lifetime) until(ctx context.Context) (bound context.Context, end func()) {
	// A child of closing has ended once Close has begun, and not soon after.
	bound, cancel := context.WithCancelCause(l.closing)
	if ctx.Err() != nil {
		cancel(context.Cause(ctx))
	}
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return bound, func() {
		stop()
		cancel(nil)
	}
}
