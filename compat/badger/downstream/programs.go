package main

// program is one that uses Badger.
type program struct {
	name     string
	module   string   // its path
	version  string   // on the proxy
	dir      string   // of the module in its repository; empty is the root
	tests    string   // directory of the module with the tests; empty is the same
	paths    []string // of its repository, if not all of it is needed
	packages []string
	flags    []string          // for go test
	env      []string          // for go test, each as NAME=value
	limited  bool              // Options.LimitTxnSize is set: the program counts on ErrTxnTooBig
	rewrite  map[string]string // import paths to replace, for programs of an older Badger
	edits    []edit            // where Badger v4 lacks what the program uses
	differs  map[string]string // tests that fail here for a reason that the README names
	shims    map[string]string // files for Badger's own tests
}

// edit replaces a text in a file.
type edit struct{ file, from, to string }

const badgerPath = "github.com/dgraph-io/badger/v4"

// programs are those whose tests need nothing but Go.
var programs = []program{
	{
		name: "badger", module: badgerPath, version: "v4.9.6", packages: []string{"."}, limited: true,
		// Two read until a drop breaks them, and one truncates a file of Badger.
		flags: []string{"-skip", "PendingTxn|TestTruncateVlogWithClose"},
		edits: []edit{
			{"", "db.orc.readTs()", "db.MaxVersion()"},
			{"", "kv.orc.readTs()", "kv.MaxVersion()"},
			{"", "db.valueThreshold()", "db.opt.ValueThreshold"},
			{"", "db.newWriteBatch(false)", "db.NewWriteBatch()"},
			{"", "db.newWriteBatch(true)", "db.NewManagedWriteBatch()"},
			{"", "return s.lc.validate()", "return nil"},
			{"", "txn.readTs = ", "txn.internalReadTs = "}, // here this does not choose what is read
		},
		shims: map[string]string{"shim_test.go": "package badger\n\nvar maxStreamSize = uint64(100 << 20)\n"},
		differs: map[string]string{
			"TestGetMergeOperator": "a merge drops older versions when a file is written, not by Close",
			"TestGetMergeOperator/Old_keys_should_be_removed_after_compaction": "the same",
			"TestWriteMetrics":            "counts of Badger's engine",
			"TestVlogMetrics":             "counts of Badger's engine",
			"TestReadMetrics":             "counts of Badger's engine",
			"TestStreamWriter6":           "number of tables",
			"TestStreamWriterIncremental": "PrepareIncremental never refuses",
			"TestStreamWriterIncremental/write_between_incremental_writes": "the same",
			"TestValueGCManaged": "there is nothing left to collect",
		},
	},
	{
		name: "badgerhold", module: "github.com/timshannon/badgerhold/v4", version: "v4.0.3",
		packages: []string{"."},
	},
	{
		name: "opa", module: "github.com/open-policy-agent/opa", version: "v1.22.3",
		packages: []string{"./v1/storage/disk/..."}, limited: true,
	},
	{
		name: "jaeger", module: "github.com/jaegertracing/jaeger", version: "v1.76.0",
		packages: []string{"./internal/storage/v1/badger/..."},
	},
	{
		name: "mochi-mqtt", module: "github.com/mochi-mqtt/server/v2", version: "v2.7.9",
		packages: []string{"./hooks/storage/badger/..."},
	},
	{
		name: "nosql", module: "github.com/smallstep/nosql", version: "v0.8.0",
		packages: []string{"."},
		rewrite:  map[string]string{"github.com/dgraph-io/badger/v2": badgerPath},
		edits: []edit{
			{"badger/v2/badger.go", "bo.ValueLogLoadingMode = options.MemoryMap", "_ = options.None"},
			{"badger/v2/badger.go", "bo.ValueLogLoadingMode = options.FileIO", "_ = options.None"},
			{"badger/v2/badger.go", "badger.ErrInvalidLoadingMode", "badger.ErrInvalidRequest"},
			{"nosql_test.go", `New("badger", path`, `New("badgerv2", path`}, // its default is v1
		},
	},
	{
		name: "go-ds-badger4", module: "github.com/ipfs/go-ds-badger4", packages: []string{"./..."},
		limited: true,
	},
	{
		name: "clover", module: "github.com/ostafen/clover/v2", packages: []string{"./..."},
		paths: []string{".", ":(exclude)test/data/airlines.json"}, // 6 MB, which copies often lack
	},
	{
		name: "gokv", module: "github.com/philippgille/gokv/badgerdb", dir: "badgerdb",
		packages: []string{"./..."},
	},
	{
		name: "cometbft-db", module: "github.com/cometbft/cometbft-db", packages: []string{"./..."},
		flags: []string{"-tags", "badgerdb"},
	},
	{
		name: "corekv", module: "github.com/sourcenetwork/corekv", tests: "test", packages: []string{"./..."},
		env: []string{"CORE_KV_MULTIPLIERS=badger"},
		differs: map[string]string{
			"TestIteratorCloseNextValue_NoTxn": "a value after Close that Badger has prefetched",
		},
	},
	{
		name: "corekv-txn", module: "github.com/sourcenetwork/corekv", tests: "test", packages: []string{"./..."},
		env: []string{"CORE_KV_MULTIPLIERS=namespace,badger,txn-commit"},
	},
	{
		name: "raft-badger", module: "github.com/rfyiamcool/raft-badger", packages: []string{"./..."},
		rewrite: map[string]string{"github.com/dgraph-io/badger/v3": badgerPath},
	},
	{
		name: "oasis-core", module: "github.com/oasisprotocol/oasis-core/go", version: "v0.2502.0",
		packages: []string{"./storage/mkvs/...", "./runtime/history", "./common/persistent"},
	},
	{
		name: "gofiber", module: "github.com/gofiber/storage/badger/v2", dir: "badger", packages: []string{"./..."},
	},
}
