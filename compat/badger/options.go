package badger

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/dgraph-io/ristretto/v2/z"

	"github.com/brockdb/brock/compat/badger/options"
)

// Options configures a store. The fields are those of Badger, so that programs which set them compile.
// Those of Badger's engine are checked as Badger checks them, and change nothing.
type Options struct {
	Dir      string // directory of the store
	ValueDir string // directory of journal and values; it may be Dir, in any spelling

	SyncWrites        bool                    // a commit waits until it is on the disk
	NumVersionsToKeep int                     // versions of each key that stay
	ReadOnly          bool                    // nothing is written
	Logger            Logger                  // takes messages; nil: nobody
	Compression       options.CompressionType // of values that are stored out of the tree
	InMemory          bool                    // the store is in memory only; Dir and ValueDir are empty
	MetricsEnabled    bool                    // the store counts in the expvar metrics
	NumGoroutines     int                     // goroutines of a Stream

	MemTableSize        int64 // the memory of the store is four times this, from 16 MiB to 256 MiB
	BaseTableSize       int64 // Badger's engine
	BaseLevelSize       int64 // Badger's engine
	LevelSizeMultiplier int   // Badger's engine
	TableSizeMultiplier int   // Badger's engine
	MaxLevels           int   // levels that DB.Levels shows

	VLogPercentile     float64 // Badger's engine
	ValueThreshold     int64   // Badger's engine
	NumMemtables       int     // Badger's engine
	BlockSize          int     // Badger's engine
	BloomFalsePositive float64 // Badger's engine
	BlockCacheSize     int64   // Badger's engine
	IndexCacheSize     int64   // Badger's engine

	NumLevelZeroTables      int // Badger's engine
	NumLevelZeroTablesStall int // Badger's engine

	ValueLogFileSize   int64  // bytes of a file of the journal and of values, at most 256 MiB; longest value
	ValueLogMaxEntries uint32 // Badger's engine

	NumCompactors        int  // Badger's engine
	CompactL0OnClose     bool // Badger's engine
	LmaxCompaction       bool // Badger's engine
	ZSTDCompressionLevel int  // Badger's engine

	VerifyValueChecksum bool // each read is verified

	EncryptionKey                 []byte        // 16, 24 or 32 bytes encrypt the store; empty: it is plain
	EncryptionKeyRotationDuration time.Duration // after this time a new data key is made

	BypassLockGuard bool // with ReadOnly: another process may write the store meanwhile

	ChecksumVerificationMode options.ChecksumVerificationMode // OnBlockRead and above: each read is verified

	DetectConflicts bool // commits are checked for conflicts

	NamespaceOffset int // the namespace is in the 8 bytes from here on in each key; negative: there are none

	ExternalMagicVersion uint16 // a number of the application, which every Open must give

	// LimitTxnSize makes transactions return ErrTxnTooBig where Badger's would, by the same count. It is
	// not a field of Badger's. Without it a transaction may be larger than memory.
	LimitTxnSize bool

	managedTxns   bool  // the caller gives the versions
	maxBatchCount int64 // writes of a transaction from which Badger finds it too big
	maxBatchSize  int64 // bytes of the same
}

const maxValueThreshold = 1 << 20

// nodeSize is the size that Badger counts for an entry beside its key and value.
const nodeSize = 96

// DefaultOptions returns the options with Badger's defaults for a store in path.
func DefaultOptions(path string) Options {
	return Options{
		Dir:      path,
		ValueDir: path,

		NumVersionsToKeep: 1,
		Logger:            newDefaultLog(INFO),
		Compression:       options.Snappy,
		MetricsEnabled:    true,
		NumGoroutines:     8,

		MemTableSize:        64 << 20,
		BaseTableSize:       2 << 20,
		BaseLevelSize:       10 << 20,
		LevelSizeMultiplier: 10,
		TableSizeMultiplier: 2,
		MaxLevels:           7,

		ValueThreshold:     maxValueThreshold,
		NumMemtables:       5,
		BlockSize:          4 << 10,
		BloomFalsePositive: 0.01,
		BlockCacheSize:     256 << 20,

		NumLevelZeroTables:      5,
		NumLevelZeroTablesStall: 15,

		ValueLogFileSize:   1<<30 - 1,
		ValueLogMaxEntries: 1000000,

		NumCompactors:        4,
		ZSTDCompressionLevel: 1,

		EncryptionKey:                 []byte{},
		EncryptionKeyRotationDuration: 10 * 24 * time.Hour,
		DetectConflicts:               true,
		NamespaceOffset:               -1,
	}
}

// LSMOnlyOptions returns DefaultOptions: where values lie is Brock's decision.
func LSMOnlyOptions(path string) Options {
	return DefaultOptions(path).WithValueThreshold(maxValueThreshold)
}

// prepare checks the options as Badger does, and fills in what follows from them.
func (opt *Options) prepare() error {
	opt.maxBatchSize = 15 * opt.MemTableSize / 100
	opt.maxBatchCount = opt.maxBatchSize / nodeSize
	switch {
	case opt.NumCompactors == 1:
		return errors.New("Cannot have 1 compactor. Need at least 2")
	case opt.InMemory && (opt.Dir != "" || opt.ValueDir != ""):
		return errors.New("Cannot use badger in Disk-less mode with Dir or ValueDir set")
	case !(opt.VLogPercentile >= 0 && opt.VLogPercentile <= 1):
		return errors.New("vlogPercentile must be within range of 0.0-1.0")
	case opt.ValueThreshold > maxValueThreshold:
		return fmt.Errorf("Invalid ValueThreshold, must be less or equal to %d", maxValueThreshold)
	case opt.ValueThreshold > opt.maxBatchSize:
		return fmt.Errorf("Valuethreshold %d greater than max batch size of %d. Either "+
			"reduce opt.ValueThreshold or increase opt.BaseTableSize.", opt.ValueThreshold, opt.maxBatchSize)
	case opt.ValueLogFileSize < 1<<20 || opt.ValueLogFileSize >= 2<<30:
		return ErrValueLogSize
	}
	if opt.ReadOnly {
		opt.CompactL0OnClose = false
	}
	if opt.InMemory {
		opt.SyncWrites = false
		opt.ValueThreshold = math.MaxInt32
	}
	return nil
}

// FromSuperFlag returns the options with the fields that superflag sets, as in
// "numgoroutines=4; compression=zstd:3". Names are those of the fields, in any case. Logger and
// EncryptionKey can't be set. As in Badger, a flag that is not known ends the process.
func (opt Options) FromSuperFlag(superflag string) Options {
	flags := z.NewSuperFlag(superflag).MergeAndCheckDefault(opt.superFlag() + "compression=;")
	opt.eachFlag(func(name string, field reflect.Value) {
		switch field.Kind() {
		case reflect.Bool:
			field.SetBool(flags.GetBool(name))
		case reflect.Int, reflect.Int64:
			field.SetInt(flags.GetInt64(name))
		case reflect.Uint32, reflect.Uint64:
			field.SetUint(flags.GetUint64(name))
		case reflect.Float64:
			field.SetFloat(flags.GetFloat64(name))
		case reflect.String:
			field.SetString(flags.GetString(name))
		}
	})
	if z.NewSuperFlag(superflag).Has("compression") {
		opt.setCompression(flags.GetString("compression"))
	}
	return opt
}

// eachFlag calls fn for each exported field but Compression, with its name in lower case.
func (opt *Options) eachFlag(fn func(name string, field reflect.Value)) {
	v := reflect.ValueOf(opt).Elem()
	for i := range v.NumField() {
		if name := strings.ToLower(v.Type().Field(i).Name); v.Field(i).CanSet() && name != "compression" {
			fn(name, v.Field(i))
		}
	}
}

// superFlag returns the fields as a flag that FromSuperFlag reads.
func (opt Options) superFlag() string {
	var b strings.Builder
	opt.eachFlag(func(name string, field reflect.Value) {
		switch field.Kind() {
		case reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint32, reflect.Uint64, reflect.Float64, reflect.String:
			// Not the text of a type's own String method: a duration is a number here.
			switch {
			case field.CanInt():
				fmt.Fprintf(&b, "%s=%d; ", name, field.Int())
			default:
				fmt.Fprintf(&b, "%s=%v; ", name, field.Interface())
			}
		}
	})
	return b.String()
}

// setCompression sets Compression and the level by a flag: none, snappy, zstd:level, or a number.
func (opt *Options) setCompression(flag string) {
	name, level, hasLevel := strings.Cut(flag, ":")
	switch name {
	case "none":
		opt.Compression, opt.ZSTDCompressionLevel = options.None, 0
		return
	case "snappy":
		opt.Compression, opt.ZSTDCompressionLevel = options.Snappy, 0
		return
	case "zstd":
		opt.Compression, opt.ZSTDCompressionLevel = options.ZSTD, 3
		if n, err := strconv.Atoi(level); hasLevel && err == nil && n > 0 {
			opt.ZSTDCompressionLevel = n
		}
		return
	}
	n, err := strconv.ParseUint(flag, 10, 32)
	if err != nil || n > uint64(options.ZSTD) {
		n = uint64(options.None)
		opt.Warningf("Invalid format or compression type. Got: %s", flag)
	}
	opt.Compression = options.CompressionType(n)
}
