package view

import (
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/pageio"
)

// Leader reads the current View for the commit leader, which needs it again and again: it holds a
// View for the time of one call only, and no version. One goroutine uses it at a time.
type Leader struct{ pin *Pin }

// NewLeader returns a Leader of the Set's Views.
func (s *Set) NewLeader() *Leader { return &Leader{&Pin{slot: s.readers.addSlot(), set: s}} }

// Newest is Pin.Newest.
func (l *Leader) Newest(key []byte, h uint64, since entry.Version) (newest entry.Version, found bool, err error) {
	l.pin.holdView()
	defer l.pin.releaseView()
	return l.pin.Newest(key, h, since)
}

// ChangedSince is Pin.ChangedSince.
func (l *Leader) ChangedSince(lo, hi []byte, since entry.Version) (changed bool, err error) {
	l.pin.holdView()
	defer l.pin.releaseView()
	return l.pin.ChangedSince(lo, hi, since)
}

// EachArrival is Pin.EachArrival of what is in memtables.
func (l *Leader) EachArrival(since entry.Version, fn func(lo, hi []byte) error) (all bool, err error) {
	l.pin.holdView()
	defer l.pin.releaseView()
	return l.pin.EachArrival(since, 0, fn)
}

// GetAt is Pin.Get at a version.
func (l *Leader) GetAt(key []byte, h uint64, at entry.Version, dst *entry.Entry) (found bool, err error) {
	l.pin.holdView()
	defer l.pin.releaseView()
	defer pageio.Guard(pageio.Arm(), &err, someMapping)
	_, found, err = l.pin.view.FindKey(key, h, 0, at, dst)
	return found, err
}

// UnhiddenBytes estimates how many bytes runs have in [lo, hi) that no range delete up to version
// at hides. It is too low if more than about 32 range deletes lie there, and 0 if the runs can't be
// read.
func (l *Leader) UnhiddenBytes(lo, hi []byte, at entry.Version) (n int64) {
	l.pin.holdView()
	defer l.pin.releaseView()
	var fault error
	defer pageio.Guard(pageio.Arm(), &fault, someMapping)
	return l.pin.view.unhiddenBytes(lo, hi, at)
}
