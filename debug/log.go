package debug

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/brockdb/brock"
)

// Limits of a Log.
const (
	maxEvents    = 200 // events that stay
	maxConflicts = 100 // keys and ranges whose conflicts are counted
	maxConflict  = 256 // bytes of such a key that are kept
)

// Log keeps the newest events of a store and counts conflicts by key, for the page. A store tells its
// events only to what Options.Events has when it is opened, so a Log comes first:
//
//	log := debug.NewLog()
//	db, err := brock.Open(brock.Options{Dir: dir, Events: log.Events(brock.Events{})})
//	http.Handle("/debug/brock/", debug.Handler(db, debug.Events(log)))
//
// It holds 200 events and 100 keys, needs no goroutine, and may be used by several at once.
type Log struct {
	mu        sync.Mutex // guards:
	events    []event    // the oldest first
	conflicts map[string]*conflict
	missed    int64 // conflicts over keys that found no room
}

// event is what happened.
type event struct {
	At    int64  `json:"at"`
	Kind  string `json:"kind"`
	Text  string `json:"text"`
	Bad   bool   `json:"bad,omitempty"`
	Took  int64  `json:"took,omitempty"` // milliseconds
	Bytes int64  `json:"bytes,omitempty"`
}

// conflict counts the conflicts over one key or range.
type conflict struct {
	Keyspace binary `json:"keyspace"`
	Key      binary `json:"key"`
	Range    bool   `json:"range"` // there is no Key: commits conflicted over a range
	Lower    binary `json:"lower,omitempty"`
	Upper    binary `json:"upper,omitempty"`
	Count    int64  `json:"count"`
	Runs     int64  `json:"runs"` // of Update, that ended in these
	Last     int64  `json:"last"`
}

// NewLog returns an empty Log.
func NewLog() *Log { return &Log{conflicts: make(map[string]*conflict)} }

// Events returns functions for Options.Events that note what happens and then call those of next.
func (l *Log) Events(next brock.Events) brock.Events {
	e := next
	work := func(kind string, then func(brock.WorkInfo)) func(brock.WorkInfo) {
		return func(w brock.WorkInfo) {
			text := w.Reason
			if w.Err != nil {
				text += ": " + w.Err.Error()
			}
			l.note(event{Kind: kind, Text: text, Bad: w.Err != nil, Took: w.Took.Milliseconds(), Bytes: w.BytesOut})
			pass(then, w)
		}
	}
	e.Flush, e.Compaction = work("flush", next.Flush), work("compaction", next.Compaction)
	e.Collection, e.Spill = work("collection", next.Collection), work("spill", next.Spill)
	e.WriteStall = func(s brock.StallInfo) {
		text := "writers wait: " + s.Reason
		if !s.Begin {
			text = "writers go on"
		}
		l.note(event{Kind: "stall", Text: text, Bad: s.Begin, Took: s.Took.Milliseconds()})
		pass(next.WriteStall, s)
	}
	e.DiskSpace = func(s brock.DiskSpaceInfo) {
		text := "writes are accepted again"
		if s.Full {
			text = fmt.Sprintf("writes are refused: %v", s.Err)
		}
		l.note(event{Kind: "disk", Text: text, Bad: s.Full, Bytes: max(0, s.Left)})
		pass(next.DiskSpace, s)
	}
	e.Corruption = func(c *brock.CorruptionError) {
		l.note(event{Kind: "damage", Text: c.Error(), Bad: true})
		pass(next.Corruption, c)
	}
	e.Loss = func(s brock.Loss) {
		l.note(event{Kind: "loss", Text: fmt.Sprintf("the store is shown as of version %d: what is behind the damage is left out", s.Version), Bad: true, Bytes: s.Bytes})
		pass(next.Loss, s)
	}
	e.BackgroundError = func(err error) {
		l.note(event{Kind: "stopped", Text: err.Error(), Bad: true})
		pass(next.BackgroundError, err)
	}
	e.Leak = func(s brock.LeakInfo) {
		l.note(event{Kind: "leak", Text: "a transaction was never ended: it began in " + s.Begun, Bad: true})
		pass(next.Leak, s)
	}
	e.LongReader = func(s brock.ReaderInfo) {
		l.note(event{Kind: "reader", Text: "old data is kept for a transaction: it began in " + s.Begun, Bad: true, Took: s.For.Milliseconds(), Bytes: s.FileBytes + s.MemoryBytes})
		pass(next.LongReader, s)
	}
	return e
}

// pass calls the function of the user, if there is one.
func pass[T any](fn func(T), v T) {
	if fn != nil {
		fn(v)
	}
}

// note adds an event.
func (l *Log) note(e event) {
	e.At = time.Now().UnixMilli()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.events) == maxEvents {
		l.events = append(l.events[:0], l.events[1:]...)
	}
	l.events = append(l.events, e)
}

// NoteConflict counts a conflict by its key, if err has a *brock.ConflictError, and does nothing else.
// It returns err, so that it fits around a call:
//
//	err = log.NoteConflict(db.Update(fn))
//
// The runs that an Update repeats by itself don't come here: it tells only of the last.
func (l *Log) NoteConflict(err error) error {
	var c *brock.ConflictError
	if !errors.As(err, &c) {
		return err
	}
	cut := func(key []byte) binary {
		if key == nil {
			return nil
		}
		return append(binary{}, key[:min(len(key), maxConflict)]...)
	}
	n := conflict{Keyspace: binary(c.Keyspace), Key: cut(c.Key), Range: c.Key == nil, Lower: cut(c.Lower), Upper: cut(c.Upper)}
	name := fmt.Sprintf("%q %q %q %q", c.Keyspace, n.Key, n.Lower, n.Upper)
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.conflicts[name]
	if known == nil {
		if len(l.conflicts) == maxConflicts && !l.dropRareLocked() {
			l.missed++
			return err
		}
		known = &n
		l.conflicts[name] = known
	}
	known.Count++
	known.Runs += int64(c.Runs)
	known.Last = time.Now().UnixMilli()
	return err
}

// dropRareLocked forgets a key with one conflict, the oldest, so that keys that come later can be
// counted.
func (l *Log) dropRareLocked() bool {
	rare, last := "", int64(0)
	for name, c := range l.conflicts {
		if c.Count == 1 && (rare == "" || c.Last < last) {
			rare, last = name, c.Last
		}
	}
	if rare == "" {
		return false
	}
	delete(l.conflicts, rare)
	l.missed++
	return true
}

// eventPage is what a Log has.
type eventPage struct {
	Events    []event    `json:"events"` // the newest first
	Conflicts []conflict `json:"conflicts"`
	Missed    int64      `json:"missed"` // conflicts over keys that are not listed
}

// events answers with what the Log has.
func (h *handler) events(*http.Request) (any, error) {
	p := &eventPage{Events: []event{}, Conflicts: []conflict{}}
	if h.log == nil {
		return p, nil
	}
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	p.Missed = h.log.missed
	for i := len(h.log.events) - 1; i >= 0; i-- {
		p.Events = append(p.Events, h.log.events[i])
	}
	for _, c := range h.log.conflicts {
		i := len(p.Conflicts)
		for i > 0 && p.Conflicts[i-1].Count < c.Count {
			i--
		}
		p.Conflicts = append(p.Conflicts[:i], append([]conflict{*c}, p.Conflicts[i:]...)...)
	}
	return p, nil
}
