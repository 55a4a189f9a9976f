package brock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/copies/feed"
)

// WatchOptions says what a Watch yields. The zero value is all commits from now on, as soon as they
// are durable.
type WatchOptions struct {
	After     Position      // the last commit that was handled; the zero Position: begin now
	Snapshot  bool          // first the state at one version, then what follows; After must be zero
	Keyspaces []*Keyspace   // only changes in these; none: in all
	Prefixes  [][]byte      // only changes of keys that begin with one of these; none: of all
	KeysOnly  bool          // values are not wanted: Change.Value returns ErrInvalid
	Buffered  bool          // also commits that a power loss may take back
	Progress  time.Duration // while commits come that don't match, an empty Commit at least so often; 0 = 1 s
}

// Commit is what one commit has changed: all of it, or what WatchOptions ask for. It is valid until
// the loop over Watch goes on.
type Commit struct {
	Version  uint64 // that the commit has given to the store
	Snapshot bool   // the changes make the store as of Version: its keyspaces and sets of all its pairs
	Caught   bool   // when it was yielded, there was nothing newer to show: a read at Version is the newest state

	position Position
	changes  func(yield func(*Change, error) bool)
}

// Position is the place behind the commit: a Watch with it in After goes on there.
func (c *Commit) Position() Position { return c.position }

// Changes yields the changes in an order in which they can be applied one after the other. It reads
// them while they are yielded: a commit of many GB needs no more memory than a small one. A progress
// Commit has none. It may be called again. An error ends it.
func (c *Commit) Changes() iter.Seq2[*Change, error] {
	if c.changes == nil {
		return func(func(*Change, error) bool) {}
	}
	return c.changes
}

// ChangeKind says what a Change does.
type ChangeKind uint8

// The kinds of a change.
const (
	ChangeSet             ChangeKind = 1 // Key has a value, Meta and ExpiresAt
	ChangeDelete          ChangeKind = 2 // Key is gone
	ChangeDeleteRange     ChangeKind = 3 // all keys from Key up to Upper are gone; a nil Upper is no bound
	ChangeKeyspaceCreated ChangeKind = 4 // Keyspace was made, and is empty
	ChangeKeyspaceDropped ChangeKind = 5 // Keyspace is gone, with all that was in it
)

// Change is one change of a Commit. It and its slices are valid until the loop over Changes goes on.
// An expiry is no change: ExpiresAt of the set has said when.
type Change struct {
	Kind      ChangeKind
	Keyspace  string // its name; "" is the default one
	Key       []byte // of a range the lower bound, empty without one
	Upper     []byte // of a range the bound behind its last key; nil without one
	Meta      byte
	ExpiresAt time.Time // the zero time is never

	value func() ([]byte, error) // nil: there is none
}

// makeChange returns the change that an entry makes, without its keyspace and value. The entry of a
// range delete has the bounds as key and value.
func makeChange(e *entry.Entry) Change {
	ch := Change{Kind: ChangeSet, Key: userKey(e.Key), Meta: e.Meta, ExpiresAt: expiryTime(e.Expires)}
	switch e.Kind {
	case entry.Delete:
		ch.Kind = ChangeDelete
	case entry.RangeDelete:
		ch.Kind = ChangeDeleteRange
		// The end of a keyspace is the beginning of the next one, so then there is no bound.
		if bytes.HasPrefix(e.Value, e.Key[:entry.PrefixLen(e.Key[0])]) {
			ch.Upper = userKey(e.Value)
		}
	}
	return ch
}

// Value returns the value of a ChangeSet in new memory. Nothing is read from the disk for it before
// it is called, but for small values.
func (c *Change) Value() ([]byte, error) {
	if c.value == nil {
		return nil, fmt.Errorf("brock: a change without a value: %w", ErrInvalid)
	}
	return c.value()
}

// feedPoll is how often a Watch of a follower looks for commits of the writer.
const feedPoll = 50 * time.Millisecond

// Watch yields what is committed, commit by commit, in the order of versions: nothing is missing,
// nothing comes twice, and no commit comes in part. It goes on for ever, until the loop ends, ctx
// ends or the store is closed; then, and after any error, the last pair has the error. A commit is
// visible to reads before it is yielded, and it is durable, unless Buffered is set: a Watch without
// After begins with a Sync.
//
// The consumer pulls: a Watch has no goroutine and no queue. While it waits it costs nothing, and a
// slow consumer never slows a writer. What it has not read stays in the store's files for it: up to
// 64 MB, and the journal segments in which these begin and end, or as much as Options.FeedRetention
// says. A consumer that falls behind further gets ErrVersionGone, and so does one with an After that
// the history does not reach, or that is of another past: see Position. It begins again with
// Snapshot.
//
// In a store opened with Mode Follow, Watch yields what the writer in the other process commits, and
// holds nothing in the writer's files: there Options.FeedRetention of the writer counts alone. It
// calls Refresh by itself. In a store that is ReadOnly it yields what is there.
//
// Other errors are a *CorruptionError, those of Refresh and Sync, ErrInvalid and ErrClosed. A Watch reads all
// commits, whatever the filter: to serve many consumers, let one Watch feed them. Any number of
// Watches may run at once.
func (db *DB) Watch(ctx context.Context, o WatchOptions) iter.Seq2[*Commit, error] {
	return func(yield func(*Commit, error) bool) {
		w := watch{db: db, o: o}
		err := w.run(ctx, yield)
		if errors.Is(err, ErrVersionGone) {
			db.engine.Feed.CountRefusal()
		}
		if err != nil && !errors.Is(err, errLoopLeft) {
			yield(nil, err)
		}
	}
}

var errLoopLeft = errors.New("the loop was left")

// watch is a Watch under way.
type watch struct {
	db       *DB
	o        WatchOptions
	wanted   map[entry.KeyspaceID]bool // nil: all
	reader   *feed.Reader
	remove   func() // ends what the engine holds for reader
	snapshot *Txn   // to begin with; nil: none

	shown   entry.Version // version of the last Commit that was yielded
	shownAt time.Time     // when it was yielded, or the Watch began
	caught  bool          // its Caught

	rung   <-chan struct{} // closed when there is news; nil: the Watch does not listen
	seen   entry.Version   // newest visible version when it woke last
	seenAt time.Time       // when it woke, and there was something newer than before
}

// prepare checks the options, and makes the filter and the defaults.
func (w *watch) prepare() (err error) {
	o := &w.o
	switch {
	case o.Snapshot && o.After != Position{}:
		return &OptionError{Field: "After", Reason: "contradicts Snapshot, which begins anew"}
	case o.Progress < 0:
		return &OptionError{Field: "Progress", Reason: "is negative"}
	case o.Progress == 0:
		o.Progress = time.Second
	}
	if len(o.Keyspaces) > 0 {
		w.wanted = make(map[entry.KeyspaceID]bool)
	}
	for _, k := range o.Keyspaces {
		k = resolveKeyspace(w.db, k)
		if err := k.checkExists(); err != nil {
			return err
		}
		w.wanted[k.at.ID] = true
	}
	o.Prefixes = slices.Clone(o.Prefixes)
	for i, p := range o.Prefixes {
		if o.Prefixes[i], err = cloneKey(p); err != nil { // the caller's memory may be mapped
			return err
		}
	}
	return nil
}

func (w *watch) run(ctx context.Context, yield func(*Commit, error) bool) error {
	if err := checkRead(ctx, w.db); err != nil {
		return err
	}
	if err := w.prepare(); err != nil {
		return err
	}
	ctx, end := w.db.engine.Lifetime.Until(ctx)
	defer end()
	if err := w.begin(ctx); err != nil {
		return err
	}
	defer w.remove()
	defer w.reader.Release()
	defer w.snapshot.Discard() // also if the loop panics
	// What is shown first is there already, and maybe not durable.
	if w.db.commits != nil && !w.o.Buffered && w.o.After == (Position{}) {
		if err := w.db.commits.Sync(ctx); err != nil {
			return err
		}
	}
	if w.snapshot != nil {
		if err := w.yieldSnapshot(w.snapshot, yield); err != nil {
			return err
		}
		w.snapshot.Discard()
	}
	for {
		if err := w.next(ctx, yield); err != nil {
			return err
		}
	}
}

// begin makes the snapshot and the reader of what follows.
func (w *watch) begin(ctx context.Context) error {
	if _, err := w.db.Refresh(ctx); err != nil {
		return err
	}
	if w.db.commits == nil {
		return w.openReader(ctx)
	}
	// Between two commits: an edit that commits asks before whether anybody wants it for the feed.
	return w.db.commits.Do(ctx, func() error { return w.openReader(ctx) })
}

// openReader is begin, where nothing is committed. It returns ErrVersionGone unless After is in the
// history of this store.
func (w *watch) openReader(ctx context.Context) (err error) {
	e := w.db.engine
	after := e.Views.Visible()
	if p := w.o.After; p != (Position{}) {
		if v := entry.Version(p.version); v > after || positionAt(w.db, v) != p {
			return fmt.Errorf("brock: position %v is not in the history of this store: %w", p, ErrVersionGone)
		}
		after = entry.Version(p.version)
	}
	if w.o.Snapshot {
		if w.snapshot, err = w.db.Begin(ctx, TxnOptions{}); err != nil {
			return err
		}
		after = w.snapshot.at
	}
	c := feed.Config{Views: e.Views, Lost: func(v entry.Version) (entry.Version, bool) { return e.Sessions().Lost(v) }, Values: !w.o.KeysOnly}
	if e.Journal != nil && !w.o.Buffered {
		c.Durable = func() uint64 { return e.Journal.DurableEnd().Number }
	}
	w.reader = feed.NewReader(c, after)
	w.shown, w.shownAt = after, time.Now()
	w.remove = e.Feed.Keep(w.reader)
	return nil
}

// next yields the next commit that matches, or a progress Commit, or waits.
func (w *watch) next(ctx context.Context, yield func(*Commit, error) bool) error {
	if err := errs.Ended(ctx); err != nil {
		return err
	}
	c, err := w.reader.Next()
	if err != nil {
		return err
	}
	last, _, _ := w.reader.Unread()
	switch {
	case c == nil && w.caught && (last == w.shown || w.wait() > 0):
		return w.sleep(ctx, last)
	case c == nil: // what was yielded last is the newest now, or the filter has left out all for long
		return w.yield(&Commit{Version: uint64(last), Caught: true}, yield)
	}
	matches, err := w.matches(c)
	if err != nil {
		return err
	}
	if matches {
		return w.yield(&Commit{Version: uint64(c.Version), Caught: c.Version >= w.db.engine.Views.Visible(), changes: w.changes(c)}, yield)
	}
	if w.wait() <= 0 {
		return w.yield(&Commit{Version: uint64(c.Version)}, yield)
	}
	return nil
}

// wait is how long no progress Commit is due.
func (w *watch) wait() time.Duration { return w.o.Progress - time.Since(w.shownAt) }

// A Watch that finds something newer each time it wakes does so once in wakeEvery, and wakeShare
// longer for each Watch of the store: a wake-up takes some microseconds of a processor.
const (
	wakeEvery = time.Millisecond
	wakeShare = 10 * time.Microsecond
)

// sleep waits until there may be more behind version last, or takes the bell for that. If commits
// were left out, it also waits for the time of a progress Commit.
func (w *watch) sleep(ctx context.Context, last entry.Version) error {
	views, follows := w.db.engine.Views, w.db.source.Follower != nil
	var timer <-chan time.Time
	rest := wakeEvery + wakeShare*time.Duration(w.db.engine.Feed.Readers()) - time.Since(w.seenAt)
	switch {
	case rest > 0 && !follows:
		// Commits come fast. Nobody listens to the bell: to wake a Watch costs a commit more than all
		// else that it does.
		timer = time.After(rest)
	case w.rung == nil:
		w.rung = views.News.Wait()
		return nil // look again: it has not rung for what came since the last look
	case follows:
		timer = time.After(feedPoll)
	case last > w.shown:
		timer = time.After(w.wait())
	}
	select {
	case <-ctx.Done():
		return errs.Ended(ctx)
	case <-w.rung:
	case <-timer:
		if follows {
			if _, err := w.db.Refresh(ctx); err != nil {
				return err
			}
		}
	}
	w.rung = nil
	if now := views.Visible(); now > w.seen {
		w.seen, w.seenAt = now, time.Now()
	}
	return nil
}

// yield yields a Commit.
func (w *watch) yield(c *Commit, yield func(*Commit, error) bool) error {
	v := entry.Version(c.Version)
	c.position = positionAt(w.db, v)
	if w.shown, w.caught = v, c.Caught; !yield(c, nil) {
		return errLoopLeft
	}
	w.shownAt = time.Now()
	return nil
}

// wants reports whether a change in a keyspace matches the filter; nil: one of all of it.
func (w *watch) wants(id entry.KeyspaceID, ch *Change) bool {
	if w.wanted != nil && !w.wanted[id] {
		return false
	}
	if len(w.o.Prefixes) == 0 || ch == nil {
		return true
	}
	return slices.ContainsFunc(w.o.Prefixes, func(p []byte) bool {
		if ch.Kind != ChangeDeleteRange {
			return bytes.HasPrefix(ch.Key, p)
		}
		// The range may have keys with the prefix: it begins before their end, and ends behind their
		// beginning.
		end := afterPrefix(nil, p)
		return (end == nil || bytes.Compare(ch.Key, end) < 0) && (ch.Upper == nil || bytes.Compare(ch.Upper, p) > 0)
	})
}

// matches reports whether a commit has a change that matches the filter.
func (w *watch) matches(c *feed.Commit) (bool, error) {
	if w.wanted == nil && len(w.o.Prefixes) == 0 {
		return true, nil
	}
	if k := c.Keyspace(); k != nil {
		return w.wants(k.ID, nil), nil
	}
	for ch, err := range c.Changes() {
		if err != nil {
			return false, err
		}
		if out := makeChange(&ch.Entry); w.wants(ch.Keyspace, &out) {
			return true, nil
		}
	}
	return false, nil
}

// changes returns Commit.changes of a commit.
func (w *watch) changes(c *feed.Commit) func(func(*Change, error) bool) {
	return func(yield func(*Change, error) bool) {
		if k := c.Keyspace(); k != nil {
			kind := ChangeKeyspaceCreated
			if k.Dropped {
				kind = ChangeKeyspaceDropped
			}
			yield(&Change{Kind: kind, Keyspace: k.Name}, nil)
			return
		}
		var out Change
		var id entry.KeyspaceID // of name; the default one has none
		var name string
		for ch, err := range c.Changes() {
			if err != nil {
				yield(nil, err)
				return
			}
			if out = makeChange(&ch.Entry); !w.wants(ch.Keyspace, &out) {
				continue
			}
			if ch.Keyspace != id {
				var ok bool
				if name, ok = feed.KeyspaceName(w.db.engine.Views.Current().Layout, ch.Keyspace); !ok {
					yield(nil, fmt.Errorf("brock: the keyspace of a change was dropped, and the history does not tell its name: %w", ErrVersionGone))
					return
				}
				id = ch.Keyspace
			}
			if out.Keyspace = name; out.Kind == ChangeSet && !w.o.KeysOnly {
				out.value = ch.ReadValue
			}
			if !yield(&out, nil) {
				return
			}
		}
	}
}

// yieldSnapshot yields the state that a transaction sees.
func (w *watch) yieldSnapshot(t *Txn, yield func(*Commit, error) bool) error {
	c := &Commit{Version: t.ReadVersion(), Snapshot: true, Caught: true}
	c.changes = func(yield func(*Change, error) bool) {
		if w.wants(entry.DefaultKeyspace, nil) && !w.eachPair(t, nil, yield) {
			return
		}
		named := w.db.keyspaces.byName()
		for _, k := range t.pin.View().Layout.Keyspaces() {
			if !w.wants(k.ID, nil) {
				continue
			}
			if !yield(&Change{Kind: ChangeKeyspaceCreated, Keyspace: k.Name}, nil) {
				return
			}
			// If it was dropped since, nobody can read it any more. The feed tells of the drop.
			if ks := named.find(k.Name); ks != nil && ks.at.ID == k.ID && !w.eachPair(t, ks, yield) {
				return
			}
		}
	}
	return w.yield(c, yield)
}

// eachPair yields the pairs of a keyspace that a transaction sees, as sets. It returns false if yield
// did, or after an error.
func (w *watch) eachPair(t *Txn, k *Keyspace, yield func(*Change, error) bool) bool {
	prefixes := w.o.Prefixes
	if len(prefixes) == 0 {
		prefixes = [][]byte{nil}
	}
	var out Change
	for i, p := range prefixes {
		for item, err := range t.In(k).Items(IteratorOptions{Prefix: p, KeysOnly: w.o.KeysOnly}) {
			if errors.Is(err, ErrKeyspaceNotFound) { // dropped just now
				return true
			}
			if err != nil {
				yield(nil, err)
				return false
			}
			// Prefixes may lie in each other: each key comes once.
			if slices.ContainsFunc(prefixes[:i], func(q []byte) bool { return bytes.HasPrefix(item.Key(), q) }) {
				continue
			}
			out = Change{Kind: ChangeSet, Keyspace: resolveKeyspace(w.db, k).Name(), Key: item.Key(), Meta: item.Meta(), ExpiresAt: item.ExpiresAt()}
			if !w.o.KeysOnly {
				out.value = func() ([]byte, error) { return item.ValueCopy(nil) }
			}
			if !yield(&out, nil) {
				return false
			}
		}
	}
	return true
}
