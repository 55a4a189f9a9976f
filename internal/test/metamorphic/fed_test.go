package metamorphic

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/brockdb/brock"
)

// A consumer of the change feed holds a replica of the store that it makes of nothing else. It reads
// now and then, and goes on where it was, also after a crash. The replica must be the store.

// replica is what the consumer has.
type replica struct {
	at    brock.Position
	pairs map[string]replicated
	lost  bool // the position may be refused: a rewriting has dropped history, or the program goes on in a copy
}

type replicated struct {
	value   string
	meta    byte
	expires int64 // in Unix milliseconds; 0: never
}

// pullSome has the consumer read some commits.
func (w *world) pullSome() { w.pull(1 + w.rng.IntN(20)) }

// pull has the consumer read some commits, or all that are durable.
func (w *world) pull(most int) {
	w.t.Helper()
	o := brock.WatchOptions{After: w.fed.at, Snapshot: w.fed.at == brock.Position{}}
	for c, err := range w.db.Watch(context.Background(), o) {
		if errors.Is(err, brock.ErrVersionGone) && (w.o.FeedRetention.Bytes == 0 || w.fed.lost) {
			w.note("history is gone at %v", w.fed.at)
			w.fed.at, w.fed.lost = brock.Position{}, false
			w.pull(most)
			return
		}
		w.must("watch", err)
		if c.Snapshot {
			w.fed.pairs = map[string]replicated{}
		} else if before := w.fed.at.Version(); c.Version < before {
			w.fatalf("version %d is fed after %d", c.Version, before)
		}
		w.applyFed(c)
		w.fed.at = c.Position()
		if most--; most == 0 || c.Caught {
			return
		}
	}
}

// applyFed applies a commit to the replica.
func (w *world) applyFed(c *brock.Commit) {
	for ch, err := range c.Changes() {
		w.must("change", err)
		switch key := string(ch.Key); ch.Kind {
		case brock.ChangeSet:
			v, err := ch.Value()
			w.must("value of a change", err)
			p := replicated{value: string(v), meta: ch.Meta}
			if !ch.ExpiresAt.IsZero() {
				p.expires = ch.ExpiresAt.UnixMilli()
			}
			w.fed.pairs[key] = p
		case brock.ChangeDelete:
			delete(w.fed.pairs, key)
		case brock.ChangeDeleteRange:
			upper := string(ch.Upper)
			maps.DeleteFunc(w.fed.pairs, func(k string, _ replicated) bool { return k >= key && (ch.Upper == nil || k < upper) })
		}
	}
}

// checkFed has the consumer read all, and compares the replica with the store.
func (w *world) checkFed(what string) {
	w.t.Helper()
	w.must("sync", w.db.Sync(context.Background()))
	w.pull(-1)
	if got, want := w.fed.at.Version(), w.db.Version(); got != want {
		w.fatalf("%s: the consumer ends at version %d of %d", what, got, want)
	}
	lives := func(p replicated) bool {
		// What has expired may be gone for good before the clock went back.
		return p.expires == 0 || !w.wentBack && p.expires > w.now
	}
	stored := map[string]replicated{}
	w.must(what, w.db.View(func(txn *brock.Txn) error {
		for item, err := range txn.All() {
			if err != nil {
				return err
			}
			v, err := item.Value()
			if err != nil {
				return err
			}
			p := replicated{value: string(v), meta: item.Meta()}
			if !item.ExpiresAt().IsZero() {
				p.expires = item.ExpiresAt().UnixMilli()
			}
			if lives(p) {
				stored[string(item.Key())] = p
			}
		}
		return nil
	}))
	fed := maps.Clone(w.fed.pairs)
	maps.DeleteFunc(fed, func(_ string, p replicated) bool { return !lives(p) })
	keys := maps.Clone(stored)
	maps.Copy(keys, fed)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if stored[k] != fed[k] {
			w.fatalf("%s: %q is %s in the store, %s in the replica of version %d", what, k, short(stored[k]), short(fed[k]), w.fed.at.Version())
		}
	}
}

func short(p replicated) string {
	return fmt.Sprintf("%.40q, %d bytes, meta %d, expires %d", p.value, len(p.value), p.meta, p.expires)
}
