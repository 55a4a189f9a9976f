package brock

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/brockdb/brock/vfs"
)

// Options configures a store. The zero value with a Dir is a good configuration.
type Options struct {
	Dir      string // directory of keys, manifest and, by default, values
	ValueDir string // directory of journal and value segments, which may be on another disk; belongs to this store alone, and every Open must name it; "" = Dir. It doesn't matter how the names are written, or which links they go through

	Mode      OpenMode      // default ReadWrite
	InMemory  bool          // everything in memory, gone at Close; Dir and FS must be empty
	MustExist bool          // Open returns ErrNotExist instead of creating a store
	MustBeNew bool          // Open returns ErrExist instead of opening a store that exists
	Recover   Recovery      // what Open does about damage; default Strict
	LockWait  time.Duration // how long Open waits while another process has the store open; 0 = not at all

	// Keys encrypts a new store, and opens an encrypted one; nil = the store is plain. Open
	// returns ErrKey if it doesn't fit the store.
	Keys KeyProvider

	FS     vfs.FS           // the file system; nil = the operating system's
	Logger *slog.Logger     // logs what happens in the background; nil = silent
	Events Events           // calls for what happens in the background; nil fields are skipped
	Now    func() time.Time // clock for expiry, also called under locks: it must not wait, or call the store; nil = time.Now

	Durability  Durability // of commits whose transaction does not choose; DefaultDurability = Synced
	DiskLimit   int64      // bytes that all files may take: beyond, commits return ErrNoSpace, as on a full disk; background work may exceed it for a while; 0 = no limit, at least 1 MB
	MemoryLimit int64      // bytes of memory for memtables and caches, mapped files not counted; all else takes up to 32 MB more; 0 = DefaultMemoryLimit, at least 4 MB

	// VerifyReads verifies every page and every value each time that it is read. Without it
	// that is done the first time in a minute or so (docs/guarantees.md, "Damage"), and a read
	// may return what has rotted on the disk since then. With it a get takes about twice as
	// long, and a value 0.1 us more for each KB.
	VerifyReads bool

	// CopyValues makes Item.Key, Value and ValueFunc return copies of what lies in files or
	// memtables. Then a disk that fails later can't end the process; see the package comment.
	CopyValues bool

	FeedRetention FeedRetention // history that stays for DB.Watch; zero = none

	KeyspaceDefaults KeyspaceOptions // options of the default keyspace, which are not stored: give them to every Open; and defaults of named ones
	Maintenance      Maintenance     // background work that keeps files small
	Tuning           Tuning          // sizes for experts; zero fields have good defaults
}

// OpenMode says what a store is opened for.
type OpenMode uint8

// The modes.
const (
	ReadWrite OpenMode = 0 // one process, which holds the lock alone
	ReadOnly  OpenMode = 1 // any number of processes; nothing is written, no lock file either
	Follow    OpenMode = 2 // as ReadOnly, while another process may have the store open for writing; see DB.Refresh
)

// Recovery says what Open does if a durable part of the journal or of MANIFEST is damaged or
// missing. The torn end that a crash leaves is no damage: Open always repairs it.
type Recovery uint8

// The recoveries.
const (
	// Strict: Open returns the CorruptionError, and changes nothing.
	Strict Recovery = 0

	// UpTo: Open leaves out the damage and everything that was committed behind it. It
	// needs Mode ReadOnly. The store is shown as of one version, with the keyspaces and
	// options that it had before the damage. DB.Loss and Events.Loss say what is left out.
	// Open returns the CorruptionError if no such state is whole: SUPER or the beginning of
	// MANIFEST is damaged, or files of that state were removed later. To go on writing,
	// Salvage into a new store.
	UpTo Recovery = 1
)

// Durability says what a nil error from a commit means.
type Durability uint8

// The durabilities.
const (
	DefaultDurability Durability = 0 // transaction: use Options.Durability; store: Synced
	Synced            Durability = 1 // the commit survives a power loss; concurrent commits share one sync
	Buffered          Durability = 2 // the commit survives a crash of the process; a power loss only after the next Sync
)

// KeyspaceOptions says how the entries of a keyspace are kept. The options of a
// named keyspace are stored with it. Its zero fields mean Options.KeyspaceDefaults;
// use a negative TTL or Age for none where the defaults have one.
type KeyspaceOptions struct {
	ValueThreshold int           // length in bytes from which a value is stored in a segment, out of the tree; 0 = DefaultValueThreshold, <0 = only from 1 MiB
	TTL            time.Duration // time to live of entries that set none; 0 = for ever; resolution 1 ms
	Versions       Retention     // which older versions are kept; zero = only the latest version
	Compression    Compression   // of values that are stored out of the tree; zero = none
	CompressAbove  int           // length in bytes from which compression is tried; 0 = DefaultCompressAbove
}

// Compression says how the values of a keyspace are compressed when they are
// written: each value by itself, and only if that saves at least 1/8 of it. It may
// change at any time: each value is read as it was written.
//
// A value that goes to a file at once, as it has no room in its transaction's memory
// (TxnOptions.MaxMemory), is stored as it is.
//
// When values don't get smaller, only one in 64 is tried, so that they cost little.
// A compressed value is decoded into new memory when it is read; other values are
// handed out where they lie in a mapped file.
type Compression uint8

// The compressions.
const (
	DefaultCompression Compression = 0 // use Options.KeyspaceDefaults; there: NoCompression
	NoCompression      Compression = 1
	S2                 Compression = 2 // fast: text takes half of its space
	Zstd               Compression = 3 // several times slower; saves another quarter
)

// Retention says which old versions of a key are kept: those that Versions or Age
// asks for. What an open transaction reads is kept in any case.
//
// Age keeps whole states of the store, which TxnOptions.ReadAt can read: each
// version that was the newest within Age, or that an open transaction reads.
// Versions keeps the history of each key by itself, back to its last delete;
// Txn.Versions and IteratorOptions.AllVersions show it.
// Manual keeps whole states as Age does, until SetDiscardVersion gives them up.
type Retention struct {
	Versions int           // keep the N newest versions of each key; 0 and 1 = only the latest
	Age      time.Duration // keep versions that were the newest at most this long ago; 0 = none
	Manual   bool          // keep all versions from Keyspace.SetDiscardVersion on; without Age
}

// FeedRetention says how much history stays for Watch in the files of the journal, so that a
// consumer that was away can go on where it was. Zero: none; then only an open Watch holds history.
// With both fields, history goes as soon as it is beyond one of them. When the disk is full, it goes
// first. Every Open for writing gives it: one without it drops the history.
type FeedRetention struct {
	Age   time.Duration // how old history may be; looked at when something is flushed or compacted
	Bytes int64         // of files, at most, counted in whole journal segments (Tuning.SegmentSize)
}

// Maintenance configures the background work by which a store keeps its files
// small.
type Maintenance struct {
	// GarbageRatio is the garbage budget: the bytes in files that no entry needs, as
	// a share of the live data, while clients write; 0 = 0.5, from 0.05 to 4. A
	// smaller ratio takes less disk space, moves live values more often, and
	// throttles writers that overwrite at full speed more; docs/benchmarking.md
	// has the measured cost. Below 64 MB of live data it is less exact.
	GarbageRatio float64
	// IdleAfter is how long no client writes before idle compaction and collection
	// begin, which leave little garbage, whatever GarbageRatio is; 0 = 2 s.
	IdleAfter time.Duration
	// ScrubEvery is the time in which every byte of every file is read and verified
	// once, at rest and at a bounded rate, so that what rots on the disk is found while
	// there is a backup; 0 = 30 days, negative = never. What is found goes to
	// Events.Corruption, the Logger and Metrics. Stores in memory and read-only ones
	// are not scrubbed.
	ScrubEvery time.Duration
	// NoClustering leaves values where they are. Otherwise an idle store puts the
	// values of segments in key order once scans have jumped among them.
	NoClustering bool
}

// Tuning holds sizes whose defaults are good for nearly every store.
type Tuning struct {
	MemtableSize int64 // bytes of a memtable, which is flushed when it is full; 0 = 1/8 of MemoryLimit, at least 64 KB
	SegmentSize  int64 // bytes of a journal or value segment; 0 = 256 MB, from 64 KB to 2 GB
	RunFileSize  int64 // bytes of a file of a run; 0 = 256 MB, from 64 KB to 2 GB
	OpenFiles    int   // most file descriptors that the store has open at once; 0 = 256, at least 64
}

// Defaults and bounds of options.
const (
	DefaultMemoryLimit    = 256 << 20 // 256 MiB
	DefaultValueThreshold = 512       // bytes
	DefaultCompressAbove  = 1 << 10   // 1 KiB
	DefaultRetries        = 16        // runs of Update after the first one, on conflicts
	DefaultGarbageRatio   = 0.5
	defaultIdleAfter      = 2 * time.Second
	defaultScrubEvery     = 30 * 24 * time.Hour
	defaultFileSize       = 256 << 20
	defaultOpenFiles      = 256
	minOpenFiles          = 64
	minMemoryLimit        = 4 << 20
	minDiskLimit          = 1 << 20
	minMemtableSize       = 64 << 10
	minFileSize           = 64 << 10
	maxFileSize           = 1 << 31
)

// DefaultOptions returns Options{Dir: dir} with every default filled in, to print or to
// edit. Sizes that depend on MemoryLimit stay zero, so that you can change MemoryLimit:
// Open fills them in, and DB.Options returns them.
func DefaultOptions(dir string) Options {
	return Options{Dir: dir}.withDefaults()
}

// withDefaults fills in the zero fields whose default depends on no other field. FS,
// Logger, Events and Now stay nil, so that the result can be printed and compared.
func (o Options) withDefaults() Options {
	o.Durability = cmp.Or(o.Durability, Synced)
	o.MemoryLimit = cmp.Or(o.MemoryLimit, DefaultMemoryLimit)
	o.KeyspaceDefaults.ValueThreshold = cmp.Or(o.KeyspaceDefaults.ValueThreshold, DefaultValueThreshold)
	o.KeyspaceDefaults.Versions.Versions = cmp.Or(o.KeyspaceDefaults.Versions.Versions, 1)
	o.KeyspaceDefaults.Compression = cmp.Or(o.KeyspaceDefaults.Compression, NoCompression)
	o.KeyspaceDefaults.CompressAbove = cmp.Or(o.KeyspaceDefaults.CompressAbove, DefaultCompressAbove)
	o.Maintenance.GarbageRatio = cmp.Or(o.Maintenance.GarbageRatio, DefaultGarbageRatio)
	o.Maintenance.IdleAfter = cmp.Or(o.Maintenance.IdleAfter, defaultIdleAfter)
	o.Maintenance.ScrubEvery = cmp.Or(o.Maintenance.ScrubEvery, defaultScrubEvery)
	o.Tuning.SegmentSize = cmp.Or(o.Tuning.SegmentSize, defaultFileSize)
	o.Tuning.RunFileSize = cmp.Or(o.Tuning.RunFileSize, defaultFileSize)
	o.Tuning.OpenFiles = cmp.Or(o.Tuning.OpenFiles, defaultOpenFiles)
	return o
}

// inForce is withDefaults, and also fills in the sizes that depend on other fields.
func (o Options) inForce() Options {
	o = o.withDefaults()
	o.Tuning.MemtableSize = cmp.Or(o.Tuning.MemtableSize, max(o.MemoryLimit/8, minMemtableSize))
	return o
}

// overDefaults fills in the zero fields from base, which has its defaults.
func (o KeyspaceOptions) overDefaults(base *KeyspaceOptions) KeyspaceOptions {
	o.ValueThreshold = cmp.Or(o.ValueThreshold, base.ValueThreshold)
	o.TTL = cmp.Or(o.TTL, base.TTL)
	o.Compression = cmp.Or(o.Compression, base.Compression)
	o.CompressAbove = cmp.Or(o.CompressAbove, base.CompressAbove)
	// Manual has no value for none, so a keyspace that sets any of Retention does not inherit it.
	o.Versions.Manual = o.Versions.Manual || base.Versions.Manual && o.Versions == (Retention{})
	o.Versions.Versions = cmp.Or(o.Versions.Versions, base.Versions.Versions)
	if !o.Versions.Manual {
		o.Versions.Age = cmp.Or(o.Versions.Age, base.Versions.Age)
	}
	// A negative value was given to have none where base has one.
	o.TTL, o.Versions.Age = max(o.TTL, 0), max(o.Versions.Age, 0)
	return o
}

// check is one condition of validateStore. If bad, the error is the field's name and the reason.
type check struct {
	bad           bool
	field, reason string
}

// firstRefusal returns an *OptionError for the first check that is bad; nil if there is none.
func firstRefusal(checks []check) error {
	for _, c := range checks {
		if c.bad {
			return &OptionError{Field: c.field, Reason: c.reason}
		}
	}
	return nil
}

// validateKeyspace returns an *OptionError for the first field that is invalid. The error names the
// field with prefix before it.
func (o *KeyspaceOptions) validateKeyspace(prefix string) error {
	return firstRefusal([]check{
		{o.TTL < 0, prefix + "TTL", "is negative"},
		{o.TTL > 0 && o.TTL < time.Millisecond, prefix + "TTL", "is below a millisecond"},
		{o.Compression > Zstd, prefix + "Compression", "is unknown"},
		{o.CompressAbove < 0, prefix + "CompressAbove", "is negative"},
		{o.Versions.Versions < 0, prefix + "Versions.Versions", "is negative"},
		{o.Versions.Age < 0, prefix + "Versions.Age", "is negative"},
		{o.Versions.Age > 0 && o.Versions.Manual, prefix + "Versions.Age", "contradicts Manual"},
	})
}

// validateStore returns an *OptionError for the first field that is invalid. The options have
// their defaults already.
func (o *Options) validateStore() error {
	m, t := &o.Maintenance, &o.Tuning
	err := firstRefusal([]check{
		// For a store in memory the checks of its own come first: they say more.
		{o.InMemory && o.Dir != "", "Dir", "must be empty for an InMemory store"},
		{o.InMemory && o.ValueDir != "", "ValueDir", "must be empty for an InMemory store"},
		{o.InMemory && o.FS != nil, "FS", "must be nil for an InMemory store"},
		{o.InMemory && o.MustExist, "MustExist", "an InMemory store is always new"},
		{o.InMemory && o.Mode != ReadWrite, "Mode", "an InMemory store is always new, so nothing could be read"},
		{!o.InMemory && o.Dir == "", "Dir", "is empty"},
		{o.Mode > Follow, "Mode", "is unknown"},
		{o.Recover > UpTo, "Recover", "is unknown"},
		{o.Recover == UpTo && o.Mode != ReadOnly, "Recover", "needs Mode ReadOnly"},
		{o.MustExist && o.MustBeNew, "MustBeNew", "contradicts MustExist"},
		{o.MustBeNew && o.Mode != ReadWrite, "MustBeNew", "contradicts a Mode that writes nothing"},
		{o.LockWait < 0, "LockWait", "is negative"},
		{o.Durability > Buffered, "Durability", "is unknown"},
		{o.DiskLimit != 0 && o.DiskLimit < minDiskLimit, "DiskLimit", "is below 1 MB"},
		{o.MemoryLimit < minMemoryLimit, "MemoryLimit", "is below 4 MB"},
		{!(m.GarbageRatio >= 0.05 && m.GarbageRatio <= 4), "Maintenance.GarbageRatio", "is not between 0.05 and 4"}, // nor NaN
		{o.FeedRetention.Age < 0, "FeedRetention.Age", "is negative"},
		{o.FeedRetention.Bytes < 0, "FeedRetention.Bytes", "is negative"},
		{m.IdleAfter < 0, "Maintenance.IdleAfter", "is negative"},
		{t.MemtableSize < minMemtableSize, "Tuning.MemtableSize", "is below 64 KB"},
		{t.MemtableSize > o.MemoryLimit, "Tuning.MemtableSize", "is above MemoryLimit"},
		{t.SegmentSize < minFileSize || t.SegmentSize > maxFileSize, "Tuning.SegmentSize", "is not between 64 KB and 2 GB"},
		{t.RunFileSize < minFileSize || t.RunFileSize > maxFileSize, "Tuning.RunFileSize", "is not between 64 KB and 2 GB"},
		{t.OpenFiles < minOpenFiles, "Tuning.OpenFiles", "is below 64"},
	})
	if err != nil {
		return err
	}
	return o.KeyspaceDefaults.validateKeyspace("KeyspaceDefaults.")
}

// isSynced reports whether a commit of this durability waits for the disk.
func (o *Options) isSynced(d Durability) bool {
	if d == DefaultDurability {
		d = o.Durability
	}
	return d == Synced
}

// maxTxnMemory bounds the bytes that a transaction's writes take in memory: if none are in
// files, all of them go into one memtable.
const maxTxnMemory = 1 << 30

// txnMemory returns how many bytes a transaction's writes may take in memory. asked is
// TxnOptions.MaxMemory; 0 = the default.
func (o *Options) txnMemory(asked int64) int64 {
	if asked > 0 {
		return asked
	}
	return min(o.MemoryLimit/8, maxTxnMemory)
}
