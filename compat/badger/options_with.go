package badger

import (
	"time"

	"github.com/brockdb/brock/compat/badger/options"
)

// Each method returns a copy of the options in which one field is set.

// WithDir returns the options with Dir: the directory of keys.
func (opt Options) WithDir(val string) Options {
	opt.Dir = val
	return opt
}

// WithValueDir returns the options with ValueDir: the directory of the journal and of values,
// which may be Dir.
func (opt Options) WithValueDir(val string) Options {
	opt.ValueDir = val
	return opt
}

// WithSyncWrites returns the options with SyncWrites: whether a commit waits until it is on the
// disk.
func (opt Options) WithSyncWrites(val bool) Options {
	opt.SyncWrites = val
	return opt
}

// WithNumVersionsToKeep returns the options with NumVersionsToKeep: how many versions of a key
// stay.
func (opt Options) WithNumVersionsToKeep(val int) Options {
	opt.NumVersionsToKeep = val
	return opt
}

// WithNumGoroutines returns the options with NumGoroutines: how many goroutines a Stream has.
func (opt Options) WithNumGoroutines(val int) Options {
	opt.NumGoroutines = val
	return opt
}

// WithReadOnly returns the options with ReadOnly: whether nothing is written.
func (opt Options) WithReadOnly(val bool) Options {
	opt.ReadOnly = val
	return opt
}

// WithMetricsEnabled returns the options with MetricsEnabled: whether the store counts in the
// expvar metrics.
func (opt Options) WithMetricsEnabled(val bool) Options {
	opt.MetricsEnabled = val
	return opt
}

// WithLogger returns the options with Logger: where messages go; nil is nowhere.
func (opt Options) WithLogger(val Logger) Options {
	opt.Logger = val
	return opt
}

// WithBaseTableSize returns the options with BaseTableSize: a size of Badger's engine, which
// changes nothing.
func (opt Options) WithBaseTableSize(val int64) Options {
	opt.BaseTableSize = val
	return opt
}

// WithLevelSizeMultiplier returns the options with LevelSizeMultiplier: a ratio of Badger's
// engine, which changes nothing.
func (opt Options) WithLevelSizeMultiplier(val int) Options {
	opt.LevelSizeMultiplier = val
	return opt
}

// WithMaxLevels returns the options with MaxLevels: how many levels DB.Levels shows.
func (opt Options) WithMaxLevels(val int) Options {
	opt.MaxLevels = val
	return opt
}

// WithValueThreshold returns the options with ValueThreshold: a size of Badger's engine, which
// is checked and changes nothing.
func (opt Options) WithValueThreshold(val int64) Options {
	opt.ValueThreshold = val
	return opt
}

// WithVLogPercentile returns the options with VLogPercentile: a number of Badger's engine, which
// is checked and changes nothing.
func (opt Options) WithVLogPercentile(t float64) Options {
	opt.VLogPercentile = t
	return opt
}

// WithNumMemtables returns the options with NumMemtables: a number of Badger's engine, which
// changes nothing.
func (opt Options) WithNumMemtables(val int) Options {
	opt.NumMemtables = val
	return opt
}

// WithMemTableSize returns the options with MemTableSize: the size from which the memory of the
// store and the limits of LimitTxnSize follow.
func (opt Options) WithMemTableSize(val int64) Options {
	opt.MemTableSize = val
	return opt
}

// WithBloomFalsePositive returns the options with BloomFalsePositive: a number of Badger's
// engine, which changes nothing.
func (opt Options) WithBloomFalsePositive(val float64) Options {
	opt.BloomFalsePositive = val
	return opt
}

// WithBlockSize returns the options with BlockSize: a size of Badger's engine, which changes
// nothing.
func (opt Options) WithBlockSize(val int) Options {
	opt.BlockSize = val
	return opt
}

// WithNumLevelZeroTables returns the options with NumLevelZeroTables: a number of Badger's
// engine, which changes nothing.
func (opt Options) WithNumLevelZeroTables(val int) Options {
	opt.NumLevelZeroTables = val
	return opt
}

// WithNumLevelZeroTablesStall returns the options with NumLevelZeroTablesStall: a number of
// Badger's engine, which changes nothing.
func (opt Options) WithNumLevelZeroTablesStall(val int) Options {
	opt.NumLevelZeroTablesStall = val
	return opt
}

// WithBaseLevelSize returns the options with BaseLevelSize: a size of Badger's engine, which
// changes nothing.
func (opt Options) WithBaseLevelSize(val int64) Options {
	opt.BaseLevelSize = val
	return opt
}

// WithValueLogFileSize returns the options with ValueLogFileSize: the size of a file of the journal
// and of values, and of the longest value.
func (opt Options) WithValueLogFileSize(val int64) Options {
	opt.ValueLogFileSize = val
	return opt
}

// WithValueLogMaxEntries returns the options with ValueLogMaxEntries: a number of Badger's
// engine, which changes nothing.
func (opt Options) WithValueLogMaxEntries(val uint32) Options {
	opt.ValueLogMaxEntries = val
	return opt
}

// WithNumCompactors returns the options with NumCompactors: a number of Badger's engine, which
// is checked and changes nothing.
func (opt Options) WithNumCompactors(val int) Options {
	opt.NumCompactors = val
	return opt
}

// WithCompactL0OnClose returns the options with CompactL0OnClose: whether Close compacts in
// Badger; it changes nothing.
func (opt Options) WithCompactL0OnClose(val bool) Options {
	opt.CompactL0OnClose = val
	return opt
}

// WithEncryptionKey returns the options with EncryptionKey: the key that encrypts the store: 16,
// 24 or 32 bytes, or none.
func (opt Options) WithEncryptionKey(key []byte) Options {
	opt.EncryptionKey = key
	return opt
}

// WithEncryptionKeyRotationDuration returns the options with EncryptionKeyRotationDuration:
// after which time a new data key is made.
func (opt Options) WithEncryptionKeyRotationDuration(d time.Duration) Options {
	opt.EncryptionKeyRotationDuration = d
	return opt
}

// WithCompression returns the options with Compression: how values are compressed.
func (opt Options) WithCompression(cType options.CompressionType) Options {
	opt.Compression = cType
	return opt
}

// WithVerifyValueChecksum returns the options with VerifyValueChecksum: whether each read is
// verified.
func (opt Options) WithVerifyValueChecksum(val bool) Options {
	opt.VerifyValueChecksum = val
	return opt
}

// WithChecksumVerificationMode returns the options with ChecksumVerificationMode: when checksums
// are verified.
func (opt Options) WithChecksumVerificationMode(cvMode options.ChecksumVerificationMode) Options {
	opt.ChecksumVerificationMode = cvMode
	return opt
}

// WithBlockCacheSize returns the options with BlockCacheSize: a size of Badger's engine, which
// changes nothing.
func (opt Options) WithBlockCacheSize(size int64) Options {
	opt.BlockCacheSize = size
	return opt
}

// WithInMemory returns the options with InMemory: whether the store is in memory only.
func (opt Options) WithInMemory(b bool) Options {
	opt.InMemory = b
	return opt
}

// WithZSTDCompressionLevel returns the options with ZSTDCompressionLevel: a number of Badger's
// engine, which changes nothing.
func (opt Options) WithZSTDCompressionLevel(cLevel int) Options {
	opt.ZSTDCompressionLevel = cLevel
	return opt
}

// WithBypassLockGuard returns the options with BypassLockGuard: whether a read-only store is
// opened while another process writes it.
func (opt Options) WithBypassLockGuard(b bool) Options {
	opt.BypassLockGuard = b
	return opt
}

// WithIndexCacheSize returns the options with IndexCacheSize: a size of Badger's engine, which
// changes nothing.
func (opt Options) WithIndexCacheSize(size int64) Options {
	opt.IndexCacheSize = size
	return opt
}

// WithDetectConflicts returns the options with DetectConflicts: whether commits are checked for
// conflicts.
func (opt Options) WithDetectConflicts(b bool) Options {
	opt.DetectConflicts = b
	return opt
}

// WithNamespaceOffset returns the options with NamespaceOffset: where in a key its namespace is;
// negative is nowhere.
func (opt Options) WithNamespaceOffset(offset int) Options {
	opt.NamespaceOffset = offset
	return opt
}

// WithLimitTxnSize returns the options with LimitTxnSize: whether transactions larger than
// Badger's limits get ErrTxnTooBig.
func (opt Options) WithLimitTxnSize(val bool) Options {
	opt.LimitTxnSize = val
	return opt
}

// WithLoggingLevel returns the options with the default logger, which writes messages of this level
// and above to standard error: DEBUG, INFO, WARNING or ERROR.
func (opt Options) WithLoggingLevel(val loggingLevel) Options {
	opt.Logger = newDefaultLog(val)
	return opt
}

// WithExternalMagic returns the options with ExternalMagicVersion: a number of the application
// that is
// stored in a new store, and that every Open must give.
func (opt Options) WithExternalMagic(magic uint16) Options {
	opt.ExternalMagicVersion = magic
	return opt
}
