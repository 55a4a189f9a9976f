package otelstorage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/brockdb/brock"
)

// A store stops when a sync fails: nobody knows then what is on the disk. It is opened again, which
// reads what is there, and writes again what may not be durable. The first attempt comes at once, and
// calls that the stop has interrupted wait for it and are then executed again. Later attempts come
// after a wait that doubles, and calls fail meanwhile.
const (
	firstWait = time.Second
	mostWait  = time.Minute // a store that has worked for as long is opened again at once
)

// store is a brock.DB while it is open. When it has stopped another one takes its place.
type store struct {
	db      *brock.DB
	room    *room
	meters  metric.Registration // nil if there are none
	endSync func()              // ends the syncs of buffered writes, and waits
	cause   error               // why it has stopped; set before over is closed
	over    chan struct{}       // closed: nobody waits for the store that takes its place
	ended   sync.Once           // over is closed
	closed  bool
}

// end lets calls go on that wait for the next store.
func (s *store) end() { s.ended.Do(func() { close(s.over) }) }

// close closes the store, which makes all writes durable. A second call does nothing.
func (s *store) close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	s.endSync()
	// Before the store is closed: a collection of metrics would find nothing.
	err := s.meters.Unregister()
	return errors.Join(err, s.db.Close())
}

// open opens the store, and creates it if there is none. The caller holds mu.
func (s *brockStorage) open(ctx context.Context, host component.Host) (*store, error) {
	options := s.storeOptions(host)
	db, err := s.openStore(ctx, options)
	if err != nil {
		return nil, err
	}
	next := &store{db: db, room: newRoom(db, options), over: make(chan struct{})}
	if next.meters, err = registerMetrics(s.set, db, next.room); err != nil {
		return nil, errors.Join(fmt.Errorf("register metrics: %w", err), db.Close())
	}
	next.endSync = s.syncRegularly(db)
	return next, nil
}

// noteStopped tells keepOpen that a store has stopped.
func (s *brockStorage) noteStopped() {
	select {
	case s.stopped <- struct{}{}:
	default: // it was told already
	}
}

// keepOpen opens the store again whenever it has stopped, until Shutdown.
func (s *brockStorage) keepOpen(host component.Host) {
	defer close(s.ended)
	var wait time.Duration
	opened := time.Now()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.stopped:
		}
		stopped := s.noteCause(host)
		if stopped == nil {
			continue // another one has taken its place since
		}
		if time.Since(opened) > mostWait {
			wait = 0
		}
		for done := false; !done; wait = min(max(2*wait, firstWait), mostWait) {
			if wait > 0 {
				stopped.end()
				select {
				case <-s.ctx.Done():
					return
				case <-time.After(wait):
				}
			}
			done = s.reopen(stopped, host)
		}
		opened = time.Now()
	}
}

// noteCause returns the store if it has stopped, and reports why; nil if it has not.
func (s *brockStorage) noteCause(host component.Host) *store {
	s.mu.Lock()
	defer s.mu.Unlock()
	cause := s.store.db.Err()
	if s.closed || cause == nil {
		return nil
	}
	s.store.cause = cause
	s.set.Logger.Error("The store has stopped, and is opened again.", zap.Error(cause))
	componentstatus.ReportStatus(host, componentstatus.NewRecoverableErrorEvent(cause))
	return s.store
}

// reopen puts another store in the place of one that has stopped, and reports whether it could.
func (s *brockStorage) reopen(stopped *store, host component.Host) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return true
	}
	// After the clients have the next store, or there is none.
	defer stopped.end()
	// Its error is the cause again.
	_ = stopped.close()
	next, err := s.open(s.ctx, host)
	if err == nil {
		err = s.handOver(next)
	}
	if err != nil {
		s.set.Logger.Error("The store that had stopped can't be opened. It is tried again.", zap.Error(err))
		componentstatus.ReportStatus(host, componentstatus.NewRecoverableErrorEvent(err))
		return false
	}
	s.set.Logger.Info("The store that had stopped is open again.")
	componentstatus.ReportStatus(host, componentstatus.NewEvent(componentstatus.StatusOK))
	return true
}

// handOver makes next the store of all clients, or closes it.
func (s *brockStorage) handOver(next *store) error {
	opened := make(map[string]*openKeyspace, len(s.shared))
	for name := range s.shared {
		k, err := next.db.Keyspace(name)
		if err != nil {
			return errors.Join(fmt.Errorf("storage %s: %w", name, err), next.close())
		}
		opened[name] = &openKeyspace{Keyspace: k, store: next}
	}
	for name, k := range s.shared {
		k.now.Store(opened[name])
	}
	s.store = next
	return nil
}
