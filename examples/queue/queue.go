package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/brockdb/brock"
)

// Queue is a durable queue of jobs in a Brock store. Consumers claim jobs for a time, the lease: who
// completes a job in that time has it removed, else it is claimed again. Jobs may be delayed. Any
// number of goroutines may use it, of one process at a time.
//
// It has three keyspaces. A job's id is what SetVersioned makes of the commit's version, so ids rise in
// the order of commits without a counter:
//
//	payloads   the id before          what the job says
//	ready      due time, id           how often the job was claimed
//	leased     end of the lease, id   the same
type Queue struct {
	db                      *brock.DB
	payloads, ready, leased *brock.Keyspace
	lease                   time.Duration
	stop                    context.CancelFunc
	running                 sync.WaitGroup

	mu     sync.Mutex    // guards:
	from   place         // all ready jobs before it are handed out
	window []place       // the ready jobs from there on, in order; some of them
	news   chan struct{} // closed when there may be something to claim
	err    error         // that has ended the background work
}

// ID names a job.
type ID [brock.VersionedSuffix]byte

// payloadKey returns the key of the job's payload: the call of SetVersioned before that of the id has
// made it, so it has the number before, in the last 4 bytes.
func (id ID) payloadKey() []byte {
	number := id[len(id)-4:]
	binary.BigEndian.PutUint32(number, binary.BigEndian.Uint32(number)-1)
	return id[:]
}

// place is a key of ready or leased: a time in Unix milliseconds, big-endian, and an id, so that keys
// are in the order of times.
type place [8 + brock.VersionedSuffix]byte

func newPlace(at time.Time, id ID) (p place) {
	binary.BigEndian.PutUint64(p[:8], uint64(at.UnixMilli()))
	copy(p[8:], id[:])
	return p
}

func (p *place) time() time.Time { return time.UnixMilli(int64(binary.BigEndian.Uint64(p[:8]))) }
func (p *place) id() ID          { return ID(p[8:]) }

func (p *place) before(q *place) bool { return bytes.Compare(p[:], q[:]) < 0 }

// after returns the least place behind p.
func (p place) after() place {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i]++; p[i] != 0 {
			break
		}
	}
	return p
}

// Job is a claimed job.
type Job struct {
	ID      ID
	Payload []byte
	Claims  int // how often it was claimed, with this time
	leased  place
}

// ErrLeaseLost is returned for a job whose lease has ended: somebody else may have it.
var ErrLeaseLost = errors.New("queue: the lease has ended")

const windowSize = 256 // ready jobs that are read at once

// NewQueue returns the queue in db. A job is claimed for the time lease. Close it before db.
func NewQueue(db *brock.DB, lease time.Duration) (*Queue, error) {
	q := &Queue{db: db, lease: lease, news: make(chan struct{})}
	for name, ks := range map[string]**brock.Keyspace{"payloads": &q.payloads, "ready": &q.ready, "leased": &q.leased} {
		var err error
		if *ks, err = db.Keyspace(name); err != nil {
			return nil, err
		}
	}
	var ctx context.Context
	ctx, q.stop = context.WithCancel(context.Background())
	q.running.Go(func() { q.end(q.watchReady(ctx)) })
	q.running.Go(func() { q.end(q.returnExpired(ctx)) })
	return q, nil
}

// Close ends the background work. Claims that wait return an error.
func (q *Queue) Close() {
	q.stop()
	q.running.Wait()
}

// end notes why background work has ended.
func (q *Queue) end(err error) {
	q.stop()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
	q.wakeLocked()
}

// Put adds a job, durably. It can be claimed after delay.
func (q *Queue) Put(payload []byte, delay time.Duration) error {
	return q.PutAll([][]byte{payload}, delay)
}

// PutAll adds jobs by one commit.
func (q *Queue) PutAll(payloads [][]byte, delay time.Duration) error {
	var due [8]byte
	binary.BigEndian.PutUint64(due[:], uint64(time.Now().Add(delay).UnixMilli()))
	// It reads nothing, so it conflicts with nothing.
	return q.db.Update(func(txn *brock.Txn) error {
		for _, payload := range payloads {
			err := errors.Join(txn.In(q.payloads).SetVersioned(nil, payload), txn.In(q.ready).SetVersioned(due[:], nil))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Claim returns the job that is due first, and waits for one until ctx ends. The claim is durable.
func (q *Queue) Claim(ctx context.Context) (*Job, error) {
	for {
		p, news, wait, err := q.next()
		if err != nil {
			return nil, err
		}
		if news == nil {
			job, err := q.claim(p)
			if job != nil || err != nil {
				return job, err
			}
			continue // it was handed out twice, and is claimed
		}
		timer := time.NewTimer(wait)
		select {
		case <-news:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// next hands out the next ready job. If none is due, it returns a channel that tells of new ones,
// and how long it takes until the next one is due.
//
// What it says is a hint, which keeps consumers out of each other's way. Only claim decides.
func (q *Queue) next() (p place, news <-chan struct{}, wait time.Duration, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return p, nil, 0, q.err
	}
	if len(q.window) == 0 {
		if err := q.fillWindow(); err != nil {
			return p, nil, 0, err
		}
	}
	if len(q.window) == 0 {
		return p, q.news, time.Hour, nil
	}
	p = q.window[0]
	if wait := time.Until(p.time()); wait > 0 {
		return p, q.news, wait, nil
	}
	q.window, q.from = q.window[1:], p.after()
	return p, nil, 0, nil
}

// fillWindow reads the next ready jobs.
func (q *Queue) fillWindow() error {
	return q.ready.View(func(txn *brock.Txn) error {
		it := txn.NewIterator(brock.IteratorOptions{KeysOnly: true, Lower: q.from[:]})
		defer it.Close()
		for it.Rewind(); it.Valid() && len(q.window) < windowSize; it.Next() {
			q.window = append(q.window, place(it.Item().Key()))
		}
		return it.Err()
	})
}

// claim moves a job from ready to leased. It returns nil if the job is not ready any more.
func (q *Queue) claim(p place) (*Job, error) {
	job := &Job{ID: p.id()}
	err := q.db.Update(func(txn *brock.Txn) error {
		item, err := txn.In(q.ready).Get(p[:])
		if err != nil {
			return err
		}
		payload, err := txn.In(q.payloads).Get(job.ID.payloadKey())
		if err != nil {
			return fmt.Errorf("queue: job %x has no payload: %w", job.ID, err)
		}
		if job.Payload, err = payload.ValueCopy(nil); err != nil {
			return err
		}
		job.Claims = int(item.Meta()) + 1
		job.leased = newPlace(time.Now().Add(q.lease), job.ID)
		return errors.Join(
			txn.In(q.ready).Delete(p[:]),
			txn.In(q.leased).SetEntry(brock.NewEntry(job.leased[:], nil).WithMeta(byte(min(job.Claims, 255)))),
		)
	})
	if err == brock.ErrKeyNotFound {
		return nil, nil
	}
	return job, err
}

// Complete removes a claimed job for ever, durably. It returns ErrLeaseLost if its lease has ended.
func (q *Queue) Complete(job *Job) error {
	return q.leave(job.leased, func(txn *brock.Txn, _ byte) error {
		return txn.In(q.payloads).Delete(job.ID.payloadKey())
	})
}

// Return gives a claimed job back, to be claimed after delay. It returns ErrLeaseLost if its lease
// has ended.
func (q *Queue) Return(job *Job, delay time.Duration) error {
	return q.leave(job.leased, q.makeReady(newPlace(time.Now().Add(delay), job.ID)))
}

// makeReady returns a function for leave that puts a job into ready.
func (q *Queue) makeReady(p place) func(*brock.Txn, byte) error {
	return func(txn *brock.Txn, claims byte) error {
		return txn.In(q.ready).SetEntry(brock.NewEntry(p[:], nil).WithMeta(claims))
	}
}

// leave ends a lease, and does with the job what fn says, by one commit.
func (q *Queue) leave(leased place, fn func(txn *brock.Txn, claims byte) error) error {
	return q.db.Update(func(txn *brock.Txn) error {
		// The read makes a conflict of two who end the same lease.
		item, err := txn.In(q.leased).Get(leased[:])
		if err == brock.ErrKeyNotFound {
			return ErrLeaseLost
		} else if err != nil {
			return err
		}
		claims := item.Meta()
		return errors.Join(txn.In(q.leased).Delete(leased[:]), fn(txn, claims))
	})
}

// watchReady wakes those who wait when jobs become ready. No commit is missing, so no job stays
// behind that is due before one that was handed out.
func (q *Queue) watchReady(ctx context.Context) error {
	for {
		var now brock.Position
		err := q.db.View(func(txn *brock.Txn) error {
			now = txn.Position()
			return nil
		})
		if err != nil {
			return err
		}
		q.restart(place{}) // what was committed before now is read again
		if err := q.follow(ctx, now); !errors.Is(err, brock.ErrVersionGone) {
			return err
		}
	}
}

// follow tells of jobs that become ready from a place on, until ctx ends. It returns ErrVersionGone if
// it can't keep up with what is committed.
func (q *Queue) follow(ctx context.Context, from brock.Position) error {
	for commit, err := range q.db.Watch(ctx, brock.WatchOptions{After: from, Keyspaces: []*brock.Keyspace{q.ready}, KeysOnly: true}) {
		if err != nil {
			return err
		}
		for change, err := range commit.Changes() {
			if err != nil {
				return err
			}
			if change.Kind == brock.ChangeSet {
				q.restart(place(change.Key))
			}
		}
	}
	return nil
}

// restart has p, and what is ready behind it, looked at.
func (q *Queue) restart(p place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.before(&q.from) {
		q.from, q.window = p, nil
	} else if n := len(q.window); n > 0 && p.before(&q.window[n-1]) {
		q.window = nil // it lies between those in the window
	}
	q.wakeLocked()
}

func (q *Queue) wakeLocked() {
	close(q.news)
	q.news = make(chan struct{})
}

// returnExpired makes jobs ready again whose lease has ended.
func (q *Queue) returnExpired(ctx context.Context) error {
	tick := time.NewTicker(max(q.lease/10, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		expired, err := q.listExpired()
		if err != nil {
			return err
		}
		for _, p := range expired {
			err := q.leave(p, q.makeReady(newPlace(time.Now(), p.id())))
			if err != nil && err != ErrLeaseLost { // lost: it was completed just now
				return err
			}
		}
	}
}

// listExpired lists leases that have ended.
func (q *Queue) listExpired() (expired []place, err error) {
	now := newPlace(time.Now(), ID{})
	err = q.leased.View(func(txn *brock.Txn) error {
		it := txn.NewIterator(brock.IteratorOptions{KeysOnly: true, Upper: now[:]})
		defer it.Close()
		for it.Rewind(); it.Valid() && len(expired) < windowSize; it.Next() {
			expired = append(expired, place(it.Item().Key()))
		}
		return it.Err()
	})
	return expired, err
}

// Len returns about how many jobs there are, claimed ones too.
func (q *Queue) Len() int64 {
	n, _ := q.payloads.EstimateSize(nil, nil)
	return n
}
