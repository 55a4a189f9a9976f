package tree

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/vfs"
)

// lifetime tells all work whether the store closes, and whether background work
// has ended.
type lifetime struct {
	views     *view.Set
	closing   context.Context // ends when Close begins
	cancel    context.CancelCauseFunc
	failure   atomic.Pointer[error] // why background work has ended
	onFailure func(error)           // may be nil
}

func newLifetime(views *view.Set, onFailure func(error)) *lifetime {
	l := &lifetime{views: views, onFailure: onFailure}
	l.closing, l.cancel = context.WithCancelCause(context.Background())
	return l
}

// fail ends background work; writes that need it will report err.
func (l *lifetime) fail(err error) {
	err = vfs.NoSpace(err)
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

// until returns a context that also ends with the store. The caller calls end.
func (l *lifetime) until(ctx context.Context) (bound context.Context, end func()) {
	bound, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.closing, func() { cancel(errs.ErrClosed) })
	return bound, func() {
		stop()
		cancel(nil)
	}
}
