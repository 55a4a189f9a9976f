package view

import "github.com/brockdb/brock/internal/base/entry"

// Leader reads the current View for the commit leader, which needs it again and again: it holds a
// View for the time of one call only, and no version. One goroutine uses it at a time.
type Leader struct{ pin *Pin }

// NewLeader returns a Leader of the Set's Views.
func (s *Set) NewLeader() *Leader { return &Leader{&Pin{slot: s.readers.addSlot(), set: s}} }

// Newest is Pin.Newest.
func (l *Leader) Newest(key []byte, h uint64, since entry.Version) (newest entry.Version, found bool, err error) {
	l.pin.enter()
	defer l.pin.leave()
	return l.pin.Newest(key, h, since)
}

// ChangedSince is Pin.ChangedSince.
func (l *Leader) ChangedSince(lo, hi []byte, since entry.Version) (changed bool, err error) {
	l.pin.enter()
	defer l.pin.leave()
	return l.pin.ChangedSince(lo, hi, since)
}

// EachArrival is Pin.EachArrival of what is in memtables.
func (l *Leader) EachArrival(since entry.Version, fn func(lo, hi []byte) error) (all bool, err error) {
	l.pin.enter()
	defer l.pin.leave()
	return l.pin.EachArrival(since, 0, fn)
}

// GetAt is Pin.GetAt.
func (l *Leader) GetAt(key []byte, h uint64, at entry.Version, dst *entry.Entry) (found bool, err error) {
	l.pin.enter()
	defer l.pin.leave()
	return l.pin.GetAt(key, h, at, dst)
}

// Unhidden is Pin.Unhidden.
func (l *Leader) Unhidden(lo, hi []byte, at entry.Version) int64 {
	l.pin.enter()
	defer l.pin.leave()
	return l.pin.Unhidden(lo, hi, at)
}
