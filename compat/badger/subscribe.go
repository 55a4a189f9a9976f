package badger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/compat/badger/pb"
)

// KVList is a list of pairs.
type KVList = pb.KVList

// changesPerCall is how many changes of one commit a callback gets at once, at most.
const changesPerCall = 1000

// watchers are the Subscribes under way.
type watchers struct {
	mu      sync.Mutex // guards:
	all     map[*watcher]struct{}
	closing bool
	last    uint64 // closing: the version of the last commit

	running sync.WaitGroup // Subscribes that have not returned
}

// watcher is a Subscribe under way.
type watcher struct {
	cancel context.CancelFunc
	begun  bool   // commits from now on are delivered; guarded by watchers.mu, as is
	seen   uint64 // version up to which commits were delivered
}

// enter adds a Subscribe. It reports false once the store is being closed.
func (w *watchers) enter(s *watcher) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing {
		return false
	}
	if w.all == nil {
		w.all = make(map[*watcher]struct{})
	}
	w.all[s] = struct{}{}
	w.running.Add(1)
	return true
}

func (w *watchers) leave(s *watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, s)
	w.running.Done()
}

// delivered notes that a Subscribe has delivered up to a version, and reports whether that was the last
// one of a store that is being closed.
func (w *watchers) delivered(s *watcher, version uint64) (ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.seen, s.begun = version, true
	return w.closing && version >= w.last
}

// drain ends all Subscribes, once they have delivered what was committed.
func (w *watchers) drain(db *DB) {
	w.mu.Lock()
	w.closing, w.last = true, db.store.Version()
	for s := range w.all {
		if s.seen >= w.last { // it waits for a commit
			s.cancel()
		}
	}
	w.mu.Unlock()
	w.running.Wait()
}

// Subscribe calls cb with what is committed from now on, commit by commit: the pairs whose keys match. A
// delete is a pair without a value; drops and expiry are not shown. Of a commit with very many pairs cb
// gets some thousand at a time. The list is cb's to keep. Subscribe returns the error of ctx or of cb;
// nil once the store is closed, and cb has had all that was committed before; ErrNilCallback; an error
// for IgnoreBytes that can't be read; and brock.ErrVersionGone if cb is so slow that the history which
// it has not seen, some 64 MB, is gone: it never holds up writers.
func (db *DB) Subscribe(ctx context.Context, cb func(kv *KVList) error, matches []pb.Match) error {
	if cb == nil {
		return ErrNilCallback
	}
	var patterns []pattern
	for i := range matches {
		p, err := parseMatch(&matches[i])
		if err != nil {
			return fmt.Errorf("while creating a new subscriber: %w", err)
		}
		patterns = append(patterns, p)
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &watcher{cancel: cancel}
	if !db.watchers.enter(s) {
		return ErrDBClosed
	}
	defer db.watchers.leave(s)
	for commit, err := range db.store.Watch(inner, brock.WatchOptions{Buffered: true}) {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case inner.Err() != nil, errors.Is(err, brock.ErrClosed):
			return nil // by drain
		case err != nil:
			return err
		}
		if err := db.deliver(commit, patterns, cb); err != nil {
			return err
		}
		if db.watchers.delivered(s, commit.Version) {
			return nil
		}
	}
	return nil
}

// deliver calls cb with the changes of a commit that match.
func (db *DB) deliver(commit *brock.Commit, patterns []pattern, cb func(*KVList) error) error {
	list := &KVList{}
	for change, err := range commit.Changes() {
		if err != nil {
			return err
		}
		kv, err := db.changedPair(change, commit.Version, patterns)
		if err != nil {
			return err
		}
		if kv == nil {
			continue
		}
		if list.Kv = append(list.Kv, kv); len(list.Kv) == changesPerCall {
			if err := cb(list); err != nil {
				return err
			}
			list = &KVList{}
		}
	}
	if len(list.Kv) == 0 {
		return nil
	}
	return cb(list)
}

// changedPair returns the pair of a change; nil if it is not shown or does not match.
func (db *DB) changedPair(c *brock.Change, version uint64, patterns []pattern) (*pb.KV, error) {
	if c.Keyspace != db.data.Name() || c.Kind != brock.ChangeSet && c.Kind != brock.ChangeDelete {
		return nil, nil
	}
	key := c.Key
	if db.opt.managedTxns {
		if c.Kind == brock.ChangeDelete {
			return nil, nil // a version that was given up
		}
		stem, v, ok := parseStored(c.Key)
		if !ok {
			return nil, errCutVersion
		}
		key, version = userKeyOf(stem, nil), v
	}
	if !matchesAny(patterns, key) {
		return nil, nil
	}
	kv := &pb.KV{Key: bytes.Clone(key), Version: version, Meta: []byte{c.Meta}}
	if c.Kind == brock.ChangeDelete {
		return kv, nil
	}
	value, err := c.Value()
	if err != nil {
		return nil, err
	}
	if !db.opt.managedTxns {
		if kv.Value = value; !c.ExpiresAt.IsZero() {
			kv.ExpiresAt = uint64(c.ExpiresAt.Unix())
		}
		return kv, nil
	}
	expiresAt, userMeta, ok := parseHeader(c.Meta, value)
	if !ok {
		return nil, errCutVersion
	}
	kv.Meta[0], kv.ExpiresAt, kv.Value = userMeta, expiresAt, value[headerLen(c.Meta):]
	return kv, nil
}

// pattern is a pb.Match: a key matches if it begins with prefix, but for the bytes that are ignored.
type pattern struct {
	prefix  []byte
	ignored []bool // by position; shorter than prefix if the rest counts
}

func parseMatch(m *pb.Match) (pattern, error) {
	p := pattern{prefix: bytes.Clone(m.GetPrefix())}
	if strings.TrimSpace(m.GetIgnoreBytes()) == "" {
		return p, nil
	}
	p.ignored = make([]bool, len(p.prefix))
	for part := range strings.SplitSeq(m.GetIgnoreBytes(), ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(strings.TrimSpace(first))
		if err != nil {
			return p, fmt.Errorf("badger: IgnoreBytes %q: %w", m.GetIgnoreBytes(), err)
		}
		to, err := strconv.Atoi(strings.TrimSpace(last))
		if err != nil || from < 0 || to < from {
			return p, fmt.Errorf("badger: IgnoreBytes %q: %q is no range", m.GetIgnoreBytes(), part)
		}
		for i := from; i <= to && i < len(p.ignored); i++ {
			p.ignored[i] = true
		}
	}
	return p, nil
}

func (p *pattern) matches(key []byte) bool {
	if len(key) < len(p.prefix) {
		return false
	}
	if p.ignored == nil {
		return bytes.HasPrefix(key, p.prefix)
	}
	for i, b := range p.prefix {
		if key[i] != b && !p.ignored[i] {
			return false
		}
	}
	return true
}

func matchesAny(patterns []pattern, key []byte) bool {
	for i := range patterns {
		if patterns[i].matches(key) {
			return true
		}
	}
	return false
}
