package engine

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/journal"
	"github.com/brockdb/brock/report"
)

// FeedRetention is how much history stays for the change feed. Zero: none.
type FeedRetention struct {
	Age   time.Duration // of what is newer; 0: of any age, up to Bytes
	Bytes int64         // of files, at most; 0: without a bound, up to Age
}

// unreadBytes is how much an open reader may hold beyond the retention, up to the whole segments that
// it ends in.
const unreadBytes = 64 << 20

// FeedReader is an open reader of the change feed.
type FeedReader interface {
	// Unread returns up to which version all was read, and how far in which journal segment.
	Unread() (read entry.Version, segment entry.FileNum, offset int64)
}

// feedKeeper decides what stays for the change feed: what the retention says, and what open readers
// have not read. Each edit asks it; while nobody wants a feed, an edit says nothing of it.
type feedKeeper struct {
	retention FeedRetention
	now       func() time.Time

	readers atomic.Int64 // that are open
	refused atomic.Int64 // that have asked for what is gone

	mu   sync.Mutex
	open map[FeedReader]bool // false: what it needs is gone, so nothing is held for it
}

func newFeedKeeper(r FeedRetention, now func() time.Time) *feedKeeper {
	return &feedKeeper{retention: r, now: now, open: make(map[FeedReader]bool)}
}

// Keep has what r has not read stay, until remove is called.
func (k *feedKeeper) Keep(r FeedReader) (remove func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open[r] = true
	k.readers.Add(1)
	return func() {
		k.readers.Add(-1)
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.open, r)
	}
}

// Readers is how many are open.
func (k *feedKeeper) Readers() int { return int(k.readers.Load()) }

// isWanted reports whether anything is to stay for the change feed.
func (k *feedKeeper) isWanted() bool {
	if k.retention != (FeedRetention{}) {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, held := range k.open {
		if held {
			return true
		}
	}
	return false
}

// CountRefusal counts a reader that has asked for what is gone.
func (k *feedKeeper) CountRefusal() { k.refused.Add(1) }

// retain says in an edit of l what stays for the change feed, and what goes: of the segments that
// the edit takes from the journal, of what it commits itself, and of what l has. The journal is
// durable up to the frame with this number.
func (k *feedKeeper) retain(edit *layout.Edit, l *layout.Layout, unflushed []journal.SegmentInfo, durable uint64) {
	now := l.Feed()
	if !k.isWanted() && now.Empty() {
		edit.FeedCommits = nil
		return
	}
	for _, s := range unflushed {
		// A segment without records has no version.
		if s.File <= l.FlushedTo() || s.File > edit.FlushedTo || s.Max == 0 {
			continue
		}
		// The manifest must not name what a power loss would take. Without it there would be a gap,
		// so what is older goes, too.
		if s.Number > durable {
			edit.FeedFrom = s.Max
			continue
		}
		edit.FeedSegments = append(edit.FeedSegments, layout.FeedSegment{End: s.End, Last: s.Max})
	}
	for i := range edit.FeedCommits {
		if c := &edit.FeedCommits[i]; c.Keyspace.ID == entry.DefaultKeyspace {
			c.Segments = edit.AddSegments
			if len(edit.AddRuns) > 0 {
				c.Run = edit.AddRuns[0]
			}
		}
	}
	next := layout.Feed{
		Segments: append(now.Segments[:len(now.Segments):len(now.Segments)], edit.FeedSegments...),
		Commits:  append(now.Commits[:len(now.Commits):len(now.Commits)], edit.FeedCommits...),
	}
	edit.FeedFrom = max(edit.FeedFrom, k.dropped(next, l))
	k.forget(edit.FeedFrom)
}

// forget forgets the readers that need what goes with upTo: what comes later is of no use to them.
func (k *feedKeeper) forget(upTo entry.Version) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for r := range k.open {
		if read, _, _ := r.Unread(); read < upTo {
			k.open[r] = false
		}
	}
}

// dropped returns the version up to which a feed may go; 0: all of it stays.
func (k *feedKeeper) dropped(feed layout.Feed, l *layout.Layout) entry.Version {
	items := feed.Items()
	need := k.needed(feed, items)
	most, aged := k.retention.Bytes, entry.Version(0)
	if k.retention.Age > 0 {
		aged = l.VersionAt(k.now().Add(-k.retention.Age).UnixMilli())
		if most == 0 {
			most = math.MaxInt64
		}
	}
	// Files under a data key that is to go can't stay: nothing writes them again.
	rewritten := entry.Version(0)
	if l.DataKey().Rewrite {
		rewritten = feed.NewestUnder(l.IsOld)
	}
	bytes := int64(0)
	for i := len(items) - 1; i >= 0; i-- {
		item := items[i]
		bytes += item.Bytes
		retained := bytes <= most && item.Last > aged
		if item.Last <= rewritten || !retained && item.Last <= need {
			return item.Last
		}
	}
	return 0
}

// needed returns the version behind which all must stay, for readers that have not fallen too far
// behind; MaxVersion: nothing.
func (k *feedKeeper) needed(feed layout.Feed, items []layout.FeedItem) entry.Version {
	k.mu.Lock()
	defer k.mu.Unlock()
	need := entry.MaxVersion
	for r, held := range k.open {
		if read, unread := measureUnread(r, feed, items); held && unread <= unreadBytes {
			need = min(need, read)
		}
	}
	return need
}

// measureUnread returns up to which version a reader has read, and how many bytes of a feed it has not.
func measureUnread(r FeedReader, feed layout.Feed, items []layout.FeedItem) (read entry.Version, unread int64) {
	read, num, offset := r.Unread()
	for _, item := range items {
		if item.Last > read {
			unread += item.Bytes
		}
	}
	for _, s := range feed.Segments {
		if s.File == num && s.Last > read {
			unread -= offset
		}
	}
	return read, unread
}

// addTo reports what stays for the change feed, and its readers.
func (k *feedKeeper) addTo(m *report.Tree, l *layout.Layout, unflushed []journal.SegmentInfo) {
	feed := l.Feed()
	items := feed.Items()
	for _, item := range items {
		m.FeedBytes += item.Bytes
	}
	if len(items) > 0 {
		if at, known := l.AgesAt(items[0].Last, 0); known {
			m.FeedAge = max(k.now().Sub(time.UnixMilli(at)), 0)
		}
	}
	m.WatchesRefused, m.Watches = k.refused.Load(), int(k.readers.Load())
	// Readers are told apart by what they have not read of the journal, too.
	for _, s := range unflushed {
		if s.File > l.FlushedTo() && s.Max > 0 {
			feed.Segments = append(feed.Segments[:len(feed.Segments):len(feed.Segments)], layout.FeedSegment{End: s.End, Last: s.Max})
		}
	}
	items = feed.Items()
	k.mu.Lock()
	defer k.mu.Unlock()
	for r := range k.open {
		read, unread := measureUnread(r, feed, items)
		m.WatchUnreadBytes = max(m.WatchUnreadBytes, unread)
		if v := uint64(read); v < m.Version {
			m.WatchBehind = max(m.WatchBehind, m.Version-v)
		}
	}
}
