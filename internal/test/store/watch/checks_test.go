package watch

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// event is a Commit as a consumer has seen it. Without changes it is progress.
type event struct {
	version uint64
	at      brock.Position
	changes []string
}

// stream is all that one consumer has seen, over all its Watches.
type stream struct {
	name     string
	prefixes [][]byte // of the default keyspace only; nil: all changes of all keyspaces
	at       brock.Position
	events   []event
}

func (s *stream) options() brock.WatchOptions {
	o := brock.WatchOptions{After: s.at, Prefixes: s.prefixes, Progress: time.Nanosecond}
	if s.prefixes != nil {
		o.Keyspaces = []*brock.Keyspace{nil}
	}
	return o
}

// pull reads some commits, or up to the end.
func (s *stream) pull(t *testing.T, db *brock.DB, most int) {
	t.Helper()
	for c, err := range db.Watch(t.Context(), s.options()) {
		assert.OK(t, err)
		e := event{version: c.Version, at: c.Position()}
		for ch, err := range c.Changes() {
			assert.OK(t, err)
			text := fmt.Sprintf("%v %q %q %q %d", ch.Kind, ch.Keyspace, ch.Key, ch.Upper, ch.Meta)
			if ch.Kind == brock.ChangeSet {
				text += fmt.Sprintf(" %x", assert.Must(ch.Value()))
			}
			e.changes = append(e.changes, text)
		}
		s.events = append(s.events, e)
		s.at = assert.Must(brock.ParsePosition(e.at.String()))
		if most--; most == 0 || c.Caught {
			return
		}
	}
}

// commits are the events that have changes.
func (s *stream) commits() []event {
	return slices.DeleteFunc(slices.Clone(s.events), func(e event) bool { return e.changes == nil })
}

// matching are the events of all commits, as the filter of s leaves them.
func (s *stream) matching(all *stream) (list []event) {
	for _, e := range all.commits() {
		if s.prefixes != nil {
			e.changes = slices.DeleteFunc(slices.Clone(e.changes), func(text string) bool {
				var kind, keyspace, key string
				if n, _ := fmt.Sscanf(text, "set %q %q", &keyspace, &key); n < 2 {
					if n, _ = fmt.Sscanf(text, "delete %q %q", &keyspace, &key); n < 2 {
						_, _ = fmt.Sscanf(text, "delete range %q", &keyspace)
						kind = text[:12]
					}
				}
				if keyspace != "" || kind == "keyspace cre" || kind == "keyspace dro" {
					return true
				}
				if kind == "delete range" { // over the prefix, or not
					var lo, up string
					_, _ = fmt.Sscanf(text, "delete range %q %q %q", &keyspace, &lo, &up)
					return !slices.ContainsFunc(s.prefixes, func(p []byte) bool { return lo < string(p)+"\xff" && (up == "" || up > string(p)) })
				}
				return !slices.ContainsFunc(s.prefixes, func(p []byte) bool { return bytes.HasPrefix([]byte(key), p) })
			})
		}
		if len(e.changes) > 0 {
			list = append(list, e)
		}
	}
	return list
}

func sameEvents(got, want []event) error {
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i].version != want[i].version || got[i].at != want[i].at || !slices.Equal(got[i].changes, want[i].changes) {
			g, w := "nothing", "nothing"
			if i < len(got) {
				g = fmt.Sprintf("%.300v", got[i])
			}
			if i < len(want) {
				w = fmt.Sprintf("%.300v", want[i])
			}
			return fmt.Errorf("commit %d is %s, want %s", i, g, w)
		}
	}
	return nil
}

// before is what is stored below a key as of the version before a commit.
func before(t *testing.T, db *brock.DB, version uint64, key []byte) (value string) {
	t.Helper()
	value = "absent"
	if version == 1 {
		return value
	}
	assert.OK(t, db.ViewContext(t.Context(), brock.TxnOptions{ReadAt: version - 1}, func(txn *brock.Txn) error {
		item, err := txn.Get(key)
		if err != nil {
			return nil
		}
		value = shown(assert.Must(item.ValueCopy(nil)), item.Meta(), item.ExpiresAt())
		return nil
	}))
	return value
}

// replay calls fn for each first set of a key of the default keyspace in a commit, with what a replica
// has below the key.
func replay(t *testing.T, db *brock.DB, from brock.Position, fn func(version uint64, key []byte, has string)) {
	rep := newReplica()
	rep.at = from
	for c, err := range db.Watch(t.Context(), brock.WatchOptions{After: from}) {
		assert.OK(t, err)
		seen := map[string]bool{}
		for ch, err := range c.Changes() {
			assert.OK(t, err)
			if ch.Kind == brock.ChangeDeleteRange {
				break // what follows is behind it
			}
			if ch.Keyspace == "" && ch.Kind == brock.ChangeSet && !seen[string(ch.Key)] {
				has, ok := rep.keyspaces[""][string(ch.Key)]
				if !ok {
					has = "absent"
				}
				fn(c.Version, ch.Key, has)
			}
			seen[string(ch.Key)] = true
		}
		if rep.apply(t, c); c.Caught {
			return
		}
	}
}

// TestWatchChecks: the promises that etcd's robustness tests check of a watch, by the same names, on
// random histories: spills, range deletes, drops, flushes, compactions, collections and openings, with
// consumers that read all at the end, in pieces, in a follower and with a filter.
func TestWatchChecks(t *testing.T) {
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		r := draw.Rand(t)
		o := options(vfs.NewMem())
		o.Keys = storetest.DrawKeys(t)
		db := assert.Must(brock.Open(o))
		storetest.Set(t, db, "first=1")
		follower := storetest.OpenFollower(t, o)
		all, pieces := &stream{name: "all at the end"}, &stream{name: "in pieces"}
		all.pull(t, db, 1)
		start := all.at
		followed := &stream{name: "followed", at: start}
		filtered := &stream{name: "filtered", at: start, prefixes: [][]byte{[]byte("key 00"), []byte("key 11")}}
		pieces.at = start
		w := &writer{t: t, r: r, db: db, expires: time.Now().Add(time.Hour), large: true}
		for range 120 {
			w.step()
			switch r.IntN(8) {
			case 0:
				pieces.pull(t, db, 1+r.IntN(3))
			case 1:
				_, err := follower.Refresh(t.Context())
				assert.OK(t, err)
				followed.pull(t, follower, 1+r.IntN(9))
			case 2:
				filtered.pull(t, db, 1+r.IntN(5))
			case 3:
				if r.IntN(4) == 0 {
					assert.OK(t, db.Close())
					db = assert.Must(brock.Open(o))
					w.db = db
				}
			}
		}
		assert.OK(t, db.Sync(t.Context()))
		_, err := follower.Refresh(t.Context())
		assert.OK(t, err)
		all.pull(t, db, -1)
		pieces.pull(t, db, -1)
		filtered.pull(t, db, -1)
		followed.pull(t, follower, -1)
		for _, s := range []*stream{all, pieces, followed, filtered} {
			for _, c := range []struct {
				name  string
				check func() error
			}{
				{"ordered", func() error {
					for i := 1; i < len(s.events); i++ {
						if s.events[i].version < s.events[i-1].version {
							return fmt.Errorf("version %d after %d", s.events[i].version, s.events[i-1].version)
						}
					}
					return nil
				}},
				{"unique", func() error {
					seen := map[uint64]bool{}
					for _, e := range s.commits() {
						if seen[e.version] {
							return fmt.Errorf("version %d twice", e.version)
						}
						seen[e.version] = true
					}
					return nil
				}},
				{"atomic", func() error {
					// As a whole, commits are those of the reference, whose states TestRebuild compares.
					return sameEvents(s.commits(), s.matching(all))
				}},
				{"reliable", func() error {
					next := start.Version() + 1
					for _, e := range s.commits() {
						if s.prefixes == nil && e.version != next {
							return fmt.Errorf("version %d, want %d", e.version, next)
						}
						next++
					}
					if last := s.events[len(s.events)-1].version; last != db.Version() {
						return fmt.Errorf("ends at version %d of %d", last, db.Version())
					}
					return nil
				}},
				{"resumable", func() error {
					for range 10 {
						i := r.IntN(len(s.events))
						again := &stream{prefixes: s.prefixes, at: s.events[i].at}
						again.pull(t, db, -1)
						rest := &stream{events: s.events[i+1:]}
						if err := sameEvents(again.commits(), rest.commits()); err != nil {
							return fmt.Errorf("from %v on: %w", again.at, err)
						}
					}
					return nil
				}},
				{"bookmarkable", func() error {
					want := s.matching(all)
					delivered := 0
					for _, e := range s.events {
						if e.changes != nil {
							delivered++
						}
						if n := len(want); delivered < n && want[delivered].version <= e.version {
							return fmt.Errorf("progress of version %d before commit %d", e.version, want[delivered].version)
						}
					}
					return nil
				}},
				{"filter", func() error {
					if s.prefixes != nil && len(s.commits()) >= len(all.commits()) {
						return fmt.Errorf("nothing was left out")
					}
					return sameEvents(s.commits(), s.matching(all))
				}},
				{"is-create", func() error {
					creates := 0
					replay(t, db, start, func(version uint64, key []byte, has string) {
						if got := before(t, db, version, key); (got == "absent") != (has == "absent") && string(key) != "first" {
							err = fmt.Errorf("version %d sets %q, before it was %.50q, in the replica %.50q", version, key, got, has)
						} else if has == "absent" {
							creates++
						}
					})
					if creates == 0 {
						return fmt.Errorf("no key was made")
					}
					return err
				}},
				{"previous value", func() error {
					replay(t, db, start, func(version uint64, key []byte, has string) {
						if got := before(t, db, version, key); got != has && string(key) != "first" {
							err = fmt.Errorf("version %d sets %q, before it was %.50q, in the replica %.50q", version, key, got, has)
						}
					})
					return err
				}},
			} {
				if s != all && (c.name == "is-create" || c.name == "previous value") {
					continue // of the store, not of a consumer
				}
				if err := c.check(); err != nil {
					t.Errorf("%s: %s: %v", s.name, c.name, err)
				}
			}
		}
		assert.OK(t, db.Close())
	}
}
