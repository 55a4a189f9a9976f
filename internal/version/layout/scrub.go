package layout

import "github.com/brockdb/brock/internal/base/entry"

// Scrub says how far the files of the store have been verified at rest. A pass takes
// the files in the order of their numbers. The zero value: no pass has begun.
type Scrub struct {
	Began int64         // when the pass began, in Unix milliseconds
	Ended int64         // when the last whole pass ended; 0: none has
	UpTo  entry.FileNum // the pass has verified the files up to this number
	Until entry.FileNum // files from this number on were written since it began
}

// Scrub is how far the files have been verified at rest.
func (l *Layout) Scrub() Scrub { return l.scrub }
