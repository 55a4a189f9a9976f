package engine

import (
	"context"
	"time"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/jobs"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/report"
)

// Config is what an Engine needs; all fields are set unless said otherwise.
type Config struct {
	view.OpenerConfig                  // FS holds the directories open; Follow needs ReadOnly
	Keyring           *keyring.Keyring // the file that Ring's keys are from; nil: the store is plain
	ReadOnly          bool             // nothing is written, no work is done in the background
	UpTo              bool             // open up to damage of the journal, as manifest.Options.UpTo
	Sizes                              // how long files are, and all together
	Feed              FeedRetention    // history for the change feed
	Policy            policy.Options   // what stays, and how much garbage
	Maintenance                        // work that nobody waits for
	Now               func() time.Time // the clock
	Jobs              *jobs.Pool       // runs the work in the background

	// Exclusive runs fn in the place of a commit leader, so that it may seal.
	Exclusive func(ctx context.Context, fn func() error) error
	// PastDeletes is scan.PastDeletes.
	PastDeletes func(p *view.Pin, now uint64, from []byte) (next []byte, err error)

	Events
}

// Sizes bounds what is written.
type Sizes struct {
	MemtableBytes int   // arena bytes at which a memtable is sealed
	JournalBytes  int64 // journal bytes at which the memtable is sealed
	SegmentBytes  int64 // bytes at which a journal or value segment ends
	DiskLimit     int64 // bytes of all files; 0 = none
}

// Maintenance says when a store at rest works.
type Maintenance struct {
	NoClustering bool          // leave values in the order of their arrival, even if scans jump
	ScrubEvery   time.Duration // in which every file is verified once; 0 = never
	IdleAfter    time.Duration // silence of writers after which idle compaction begins
}

// Events are told in the order in which they happen. None of them may
// wait: commits wait for it, and locks are held.
type Events struct {
	OnWork    func(Work)             // every finished piece of background work
	OnStall   func(report.Stall)     // writers begin to be throttled, or no longer are
	OnSpace   func(report.DiskSpace) // a full disk begins to refuse writes, or no longer does
	OnDamage  func(*errs.Corruption) // what a scrub, or a rewriting under a new data key, has found
	OnFailure func(error)            // the error that ends background work, once
	// OnLongReader is told of a reader that keeps replaced data for more than a
	// minute, and again when that time has doubled.
	OnLongReader func(report.Reader)
}

// unixMilli returns the time for expiry, in Unix milliseconds.
func (c *Config) unixMilli() uint64 { return uint64(max(c.Now().UnixMilli(), 0)) }
