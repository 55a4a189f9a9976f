package scan

import (
	"bytes"
	"fmt"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/pageio"
)

// behind is what a scan needs that may go on behind damage: the damage ends the move, its
// user decides, and then the move is made again, with the damage accepted. So no code of
// the user runs within a walk.
type behind struct {
	accepted map[string]bool
	met      *errs.Corruption // what the last move has ended with

	key     []byte        // where the last move began
	version entry.Version // of the entry there
	seek    bool          // it was a seek
}

// seeks notes where a seek begins.
func (w *walk) seeks(key []byte) {
	b := w.behind
	b.key, b.seek = append(b.key[:0], key...), true
	if b.met != nil { // it has another chance
		w.again()
	}
}

// moves notes where a move begins. What readahead has met stays.
func (b *behind) moves(e *entry.Entry) {
	b.key, b.version, b.seek = append(b.key[:0], e.Key...), e.Version, false
}

// again forgets the damage that was met. What failed to find out what is deleted stays
// so: it is made anew. A seek must follow.
func (w *walk) again() {
	w.behind.met = nil
	w.store.Close()
	w.rescue()
	w.source(w.own, w.coverOfAll())
}

// nameOf is what an accepted damage is known by.
func nameOf(c *errs.Corruption) string {
	lo, _, _ := errs.Concerned(c)
	return fmt.Sprintf("%s %d %s", c.File, c.Offset, lo)
}

// rescue makes the store's part of the source anew.
func (w *walk) rescue() {
	b := w.behind
	w.store, w.storeCover = w.pin.Rescuer(!w.all, func(c *errs.Corruption) bool {
		if b.accepted[nameOf(c)] {
			return true
		}
		b.met = c
		return false
	})
}

// Damage is what the last move has ended with, if GoOn leads behind it; else nil.
func (s *Scan) Damage() *errs.Corruption {
	if b := s.walk.behind; b != nil && s.Err() != nil {
		return b.met
	}
	return nil
}

// GoOn makes the last move again, which has ended with Damage, behind that.
func (s *Scan) GoOn() (ok bool) {
	defer pageio.Guard(pageio.Arm(), &s.err, pageio.SomeFile)
	b := s.walk.behind
	if b.accepted == nil {
		b.accepted = make(map[string]bool)
	}
	b.accepted[nameOf(b.met)] = true
	s.err = nil
	s.walk.again()
	ok = s.behindPlace(b)
	if s.readahead != nil {
		return s.readahead.begin(ok, s.turned)
	}
	return ok
}

// behindPlace moves to the first entry behind the place where the last move began, in its
// direction.
func (s *Scan) behindPlace(b *behind) (ok bool) {
	key := b.key
	switch {
	case b.seek:
		return s.seek(key, s.turned)
	case s.turned == s.all: // versions of a key come newest first
		key = append(bytes.Clone(key), 0)
	}
	ok = s.seek(key, s.turned)
	if !s.all {
		return ok
	}
	for ok && bytes.Equal(s.walk.entry.Key, b.key) {
		if v := s.walk.entry.Version; s.turned && v > b.version || !s.turned && v < b.version {
			break
		}
		ok = s.move(s.turned)
	}
	return ok
}
