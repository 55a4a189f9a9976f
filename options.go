package brock

import (
	"log/slog"
	"time"

	"github.com/brockdb/brock/vfs"
)

// Options configures a store. The zero value with a Dir is a good configuration.
type Options struct {
	Dir      string // keys, manifest and, by default, values
	ValueDir string // journal and value segments, perhaps on another disk; "" = Dir

	Mode      OpenMode      // ReadWrite unless said otherwise
	InMemory  bool          // everything in memory, gone at Close; Dir and FS must be empty
	MustExist bool          // ErrNotExist instead of creating a store
	MustBeNew bool          // ErrExist instead of opening one
	LockWait  time.Duration // how long to wait while another process has the store; 0 = not at all

	FS     vfs.FS           // the file system; nil = the operating system's
	Logger *slog.Logger     // what happens in the background; nil = silent
	Events Events           // the same as calls; nil fields are skipped
	Now    func() time.Time // the clock of expiry; nil = time.Now

	Durability  Durability // of commits that don't choose; DefaultDurability = Synced
	DiskLimit   int64      // bytes of all files: ErrNoSpace before they are more, as on a full disk; work in the background may exceed it for a while; 0 = none, at least 1 MB
	MemoryLimit int64      // bytes of memory that is not mapped from files, whatever the size of the store; up to 32 MB more for the rest; 0 = DefaultMemoryLimit, at least 4 MB

	KeyspaceDefaults KeyspaceOptions // how the default keyspace's entries are kept; what a named one doesn't choose when it is made
	Maintenance      Maintenance     // how the store looks after its space
	Tuning           Tuning          // for experts; zero fields follow from MemoryLimit
}

// OpenMode says what a store may be opened for.
type OpenMode uint8

// The modes.
const (
	ReadWrite OpenMode = iota // one process, which holds the lock alone
	ReadOnly                  // any number of processes; nothing at all is written
)

// Durability says what a nil error from a commit means.
type Durability uint8

// The durabilities.
const (
	DefaultDurability Durability = iota // the transaction's: the store's; the store's: Synced
	Synced                              // survives a power loss; commits share their syncs
	Buffered                            // survives a crash of the process, and a power loss after the next Sync
)

// KeyspaceOptions says how the entries of a keyspace are kept. Those of a named
// keyspace are stored with it; there a negative TTL or Age is none, for stores
// whose KeyspaceDefaults have one.
type KeyspaceOptions struct {
	ValueThreshold int           // values of at least this many bytes stay out of the tree; 0 = DefaultValueThreshold, <0 = only those of 1 MiB and more
	TTL            time.Duration // time to live of entries that don't say; 0 = for ever, millisecond resolution
	Versions       Retention     // older versions kept; zero = the latest only
	Compression    Compression   // of single values that stay out of the tree; zero = none
	CompressAbove  int           // values of at least this many bytes are compressed; 0 = DefaultCompressAbove
}

// Compression says how the values of a keyspace are compressed when they are
// written: each by itself, and only where that saves an eighth of it. It may
// change between two openings; values are read however they were written.
//
// Values that don't get smaller are soon no longer tried but now and then, so
// they cost next to nothing. A value that did is decoded when it is read, into
// memory of its own, where others are handed out as they lie in a mapped file.
type Compression uint8

// The compressions.
const (
	DefaultCompression Compression = iota // that of Options.KeyspaceDefaults; there: NoCompression
	NoCompression
	S2   // fast: text takes half of its space
	Zstd // takes several times as long for another quarter
)

// Retention keeps an old version of a key while either rule holds. What an open
// transaction reads is kept in any case.
//
// Only Age keeps whole states of the store, to be read by TxnOptions.ReadAt: that
// may be any version which was the newest within Age, or which a transaction
// holds. Versions keeps the history of each key for itself, back to its last
// delete; it is shown by Txn.Versions and IteratorOptions.AllVersions.
type Retention struct {
	Versions int           // it is among this many newest of its key; 0 and 1 = the latest only
	Age      time.Duration // it was the newest at most this long ago; 0 = no such rule
}

// Maintenance says how a store looks after its space, which it does by itself.
type Maintenance struct {
	// GarbageRatio bounds, while clients write, what the files take that nobody
	// needs, as a share of the live data; 0 = 0.5, at least 0.05 and at most 4.
	// Less takes less space, moves live values more often, and slows writers
	// more when they overwrite as fast as they can; docs/benchmarking.md has the
	// measured cost. Below 64 MB of live data it is less exact.
	GarbageRatio float64
	// IdleAfter is for how long nothing is written before the store tidies up:
	// then little garbage stays, whatever GarbageRatio is; 0 = 2 s.
	IdleAfter time.Duration
	// NoClustering has values stay where they are, however scans jump. Otherwise
	// a store that rests sorts values once scans have shown that they lie in the
	// order in which they were written.
	NoClustering bool
}

// Tuning holds sizes that the defaults choose well for nearly everyone.
type Tuning struct {
	MemtableSize int64 // bytes of entries in memory before they are flushed; 0 = an eighth of MemoryLimit
	SegmentSize  int64 // bytes of a journal or value segment; 0 = 256 MB
	RunFileSize  int64 // bytes of a run's file; 0 = 256 MB
	OpenFiles    int   // file descriptors that the store has open, at most, however many files it has; 0 = 256, at least 64
}

// The defaults that depend on nothing else.
const (
	DefaultMemoryLimit    = 256 << 20
	DefaultValueThreshold = 512
	DefaultCompressAbove  = 1 << 10
	DefaultRetries        = 16 // of Update, after conflicts
	DefaultGarbageRatio   = 0.5
	defaultIdleAfter      = 2 * time.Second
	defaultFileSize       = 256 << 20
	defaultOpenFiles      = 256
	minOpenFiles          = 64
	minMemoryLimit        = 4 << 20
	minDiskLimit          = 1 << 20
	minMemtableSize       = 64 << 10
	minFileSize           = 64 << 10
	maxFileSize           = 1 << 31
)

// DefaultOptions is Options{Dir: dir} with every default filled in, to print or to edit.
func DefaultOptions(dir string) Options {
	return Options{Dir: dir}.withDefaults()
}

// withDefaults fills in the zero fields that have a default. FS, Logger, Events
// and Now stay nil, so that the result can be printed and compared.
func (o Options) withDefaults() Options {
	if o.Durability == DefaultDurability {
		o.Durability = Synced
	}
	if o.MemoryLimit == 0 {
		o.MemoryLimit = DefaultMemoryLimit
	}
	if o.KeyspaceDefaults.ValueThreshold == 0 {
		o.KeyspaceDefaults.ValueThreshold = DefaultValueThreshold
	}
	if o.KeyspaceDefaults.Versions.Versions == 0 {
		o.KeyspaceDefaults.Versions.Versions = 1
	}
	if o.KeyspaceDefaults.Compression == DefaultCompression {
		o.KeyspaceDefaults.Compression = NoCompression
	}
	if o.KeyspaceDefaults.CompressAbove == 0 {
		o.KeyspaceDefaults.CompressAbove = DefaultCompressAbove
	}
	if o.Maintenance.GarbageRatio == 0 {
		o.Maintenance.GarbageRatio = DefaultGarbageRatio
	}
	if o.Maintenance.IdleAfter == 0 {
		o.Maintenance.IdleAfter = defaultIdleAfter
	}
	if o.Tuning.MemtableSize == 0 {
		o.Tuning.MemtableSize = max(o.MemoryLimit/8, minMemtableSize)
	}
	if o.Tuning.SegmentSize == 0 {
		o.Tuning.SegmentSize = defaultFileSize
	}
	if o.Tuning.RunFileSize == 0 {
		o.Tuning.RunFileSize = defaultFileSize
	}
	if o.Tuning.OpenFiles == 0 {
		o.Tuning.OpenFiles = defaultOpenFiles
	}
	return o
}

// over fills in the zero fields from base, which has its defaults.
func (o KeyspaceOptions) over(base *KeyspaceOptions) KeyspaceOptions {
	if o.ValueThreshold == 0 {
		o.ValueThreshold = base.ValueThreshold
	}
	if o.TTL == 0 {
		o.TTL = base.TTL
	}
	if o.Compression == DefaultCompression {
		o.Compression = base.Compression
	}
	if o.CompressAbove == 0 {
		o.CompressAbove = base.CompressAbove
	}
	if o.Versions.Versions == 0 {
		o.Versions.Versions = base.Versions.Versions
	}
	if o.Versions.Age == 0 {
		o.Versions.Age = base.Versions.Age
	}
	o.TTL, o.Versions.Age = max(o.TTL, 0), max(o.Versions.Age, 0)
	return o
}

// check refuses a field if bad: the reason follows the field's name.
type check struct {
	bad           bool
	field, reason string
}

// refusal is an *OptionError of the first check that is bad, nil if there is none.
func refusal(checks []check) error {
	for _, c := range checks {
		if c.bad {
			return &OptionError{Field: c.field, Reason: c.reason}
		}
	}
	return nil
}

// validate reports the first field that can't be, by its name after field.
func (o *KeyspaceOptions) validate(field string) error {
	return refusal([]check{
		{o.TTL < 0, field + "TTL", "is negative"},
		{o.TTL > 0 && o.TTL < time.Millisecond, field + "TTL", "is below a millisecond"},
		{o.Compression > Zstd, field + "Compression", "is unknown"},
		{o.CompressAbove < 0, field + "CompressAbove", "is negative"},
		{o.Versions.Versions < 0, field + "Versions.Versions", "is negative"},
		{o.Versions.Age < 0, field + "Versions.Age", "is negative"},
	})
}

// validate reports the first field that can't be, as an *OptionError. The
// options have their defaults already.
func (o *Options) validate() error {
	m, t := &o.Maintenance, &o.Tuning
	inMemory := []check{
		{o.Dir != "", "Dir", "must be empty for an InMemory store"},
		{o.ValueDir != "", "ValueDir", "must be empty for an InMemory store"},
		{o.FS != nil, "FS", "must be nil for an InMemory store"},
		{o.MustExist, "MustExist", "an InMemory store is always new"},
		{o.Mode == ReadOnly, "Mode", "an InMemory store is always new, so nothing could be read"},
	}
	all := []check{
		{!o.InMemory && o.Dir == "", "Dir", "is empty"},
		{o.Mode > ReadOnly, "Mode", "is unknown"},
		{o.MustExist && o.MustBeNew, "MustBeNew", "contradicts MustExist"},
		{o.MustBeNew && o.Mode == ReadOnly, "MustBeNew", "contradicts ReadOnly"},
		{o.LockWait < 0, "LockWait", "is negative"},
		{o.Durability > Buffered, "Durability", "is unknown"},
		{o.DiskLimit != 0 && o.DiskLimit < minDiskLimit, "DiskLimit", "is below 1 MB"},
		{o.MemoryLimit < minMemoryLimit, "MemoryLimit", "is below 4 MB"},
		{!(m.GarbageRatio >= 0.05 && m.GarbageRatio <= 4), "Maintenance.GarbageRatio", "is not between 0.05 and 4"}, // nor NaN
		{m.IdleAfter < 0, "Maintenance.IdleAfter", "is negative"},
		{t.MemtableSize < minMemtableSize, "Tuning.MemtableSize", "is below 64 KB"},
		{t.MemtableSize > o.MemoryLimit, "Tuning.MemtableSize", "is above MemoryLimit"},
		{t.SegmentSize < minFileSize || t.SegmentSize > maxFileSize, "Tuning.SegmentSize", "is not between 64 KB and 2 GB"},
		{t.RunFileSize < minFileSize || t.RunFileSize > maxFileSize, "Tuning.RunFileSize", "is not between 64 KB and 2 GB"},
		{t.OpenFiles < minOpenFiles, "Tuning.OpenFiles", "is below 64"},
	}
	if o.InMemory {
		all = append(inMemory, all...)
	}
	if err := refusal(all); err != nil {
		return err
	}
	return o.KeyspaceDefaults.validate("KeyspaceDefaults.")
}
