package badger

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock"
)

// queueLen is how many commits of CommitWith may wait before the next CommitWith does, as in Badger.
const queueLen = 1000

// commitQueue carries out the commits of CommitWith, in the order of the calls. Its goroutine, which the
// first one starts and close ends, takes all that wait at once, as a round.
type commitQueue struct {
	db   *DB
	left atomic.Int64 // commits that are not over

	mu      sync.Mutex // guards what follows
	changed sync.Cond  // they have changed
	waiting []queued
	working bool   // there is the goroutine
	closed  bool   // no more commits
	added   uint64 // how many there were
	ended   uint64 // how many are over
}

// queued is a transaction to commit, and who is told of the result.
type queued struct {
	txn     *brock.Txn        // of a store that is not managed
	writes  map[string]*Entry // of a managed one
	version uint64            // managed: of the writes
	done    func(error)
}

func newCommitQueue(db *DB) *commitQueue {
	q := &commitQueue{db: db}
	q.changed.L = &q.mu
	return q
}

// add has c carried out. c.done gets a goroutine of its own. It returns false after close.
func (q *commitQueue) add(c queued) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) >= queueLen && !q.closed {
		q.changed.Wait()
	}
	if q.closed {
		return false
	}
	q.waiting = append(q.waiting, c)
	q.added++
	q.left.Add(1)
	q.changed.Broadcast()
	if !q.working {
		q.working = true
		go q.work()
	}
	return true
}

func (q *commitQueue) work() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed || len(q.waiting) > 0 {
		if len(q.waiting) == 0 {
			q.changed.Wait()
			continue
		}
		round := q.waiting
		q.waiting = nil
		q.changed.Broadcast()
		q.mu.Unlock()
		results := q.commit(round)
		q.mu.Lock()
		q.ended += uint64(len(round))
		q.left.Add(-int64(len(round)))
		q.changed.Broadcast()
		for i := range round {
			go round[i].done(writeError(results[i]))
		}
	}
	q.working = false
	q.changed.Broadcast()
}

// commit carries out a round, and returns the results. In a managed store, where all is checked before, it
// is one commit of Brock, with one sync. In another each transaction may conflict with the one before.
// Commits of several goroutines would share syncs there, too, but come in any order.
func (q *commitQueue) commit(round []queued) []error {
	results := make([]error, len(round))
	if !q.db.opt.managedTxns {
		for i := range round {
			results[i] = round[i].txn.CommitContext(context.Background())
		}
		return results
	}
	w := newVersionWriter(q.db)
	for i := range round {
		err := w.addAll(round[i].writes, round[i].version)
		if err != nil && len(round) > 1 { // a part of these writes is in the batch
			for i := range round {
				results[i] = q.commit(round[i : i+1])[0]
			}
			return results
		}
		if err != nil {
			return []error{err}
		}
	}
	err := w.commit(brock.DefaultDurability)
	for i := range results {
		results[i] = err
	}
	return results
}

// settle waits for the commits that were added before.
func (q *commitQueue) settle() {
	if q.left.Load() == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for last := q.added; q.ended < last; {
		q.changed.Wait()
	}
}

// close waits for all commits, and has add refuse later ones.
func (q *commitQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
	for q.working {
		q.changed.Wait()
	}
}
