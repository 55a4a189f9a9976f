package engine

import (
	"context"
	"time"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/jobs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/vfs"
)

// Config is what an Engine needs; all fields are set unless said otherwise.
type Config struct {
	filename.Store                  // FS holds the directories open
	Base           vfs.FS           // in which copies of the store are made
	NoLinks        bool             // Base is another file system than FS
	Keyring        *keyring.Keyring // the file that Ring's keys are from; nil: the store is plain

	ReadOnly bool // nothing is written, no work is done in the background
	Follow   bool // another process may be writing; ReadOnly is set, too
	UpTo     bool // open the store up to damage of its journal, as manifest.Options.UpTo does for edits

	Memory        int64 // bytes that all parts together may take; 0 = no bound
	MemtableBytes int   // arena bytes at which a memtable is sealed
	JournalBytes  int64 // journal bytes at which the memtable is sealed
	SegmentBytes  int64 // bytes at which a journal segment ends
	RunFileBytes  int64 // bytes at which a file of a run ends
	VerifyReads   bool  // verify what is mapped each time that it is read
	OpenFiles     int   // file descriptors, at most; 0 = no limit
	CacheBytes    int64 // of run chunks, where files are not mapped; 0 = a default
	DiskLimit     int64 // bytes of all files; 0 = none

	Policy       policy.Options
	NoClustering bool          // leave values in the order of their arrival, even if scans jump
	ScrubEvery   time.Duration // in which every file is verified once; 0 = never
	IdleAfter    time.Duration // silence of writers after which idle compaction begins

	Now  func() time.Time
	Jobs *jobs.Pool
	// Exclusive runs fn in the place of a commit leader, so that it may seal.
	Exclusive func(ctx context.Context, fn func() error) error
	// PastDeletes is scan.PastDeletes.
	PastDeletes func(p *view.Pin, now uint64, from []byte) (next []byte, err error)

	Events
}

// Events are told in the order in which they happen; each function may be nil. None of them may
// wait: commits wait for it, and locks are held.
type Events struct {
	OnWork    func(Work)             // every finished piece of background work
	OnStall   func(Stall)            // writers begin to be throttled, or no longer are
	OnSpace   func(DiskSpace)        // writes begin to be refused because the disk is full, or no longer are
	OnDamage  func(*errs.Corruption) // what a scrub has found
	OnFailure func(error)            // the error that ends background work, once
	// OnLongReader is told of a reader that keeps replaced data for more than a
	// minute, and again when that time has doubled.
	OnLongReader func(view.LongReader)
}

// unixMilli returns the time for expiry, in Unix milliseconds.
func (c *Config) unixMilli() uint64 { return uint64(max(c.Now().UnixMilli(), 0)) }
