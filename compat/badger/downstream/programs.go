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
}

// edit replaces a text in a file.
type edit struct{ file, from, to string }

const badgerPath = "github.com/dgraph-io/badger/v4"

// programs are those whose tests need nothing but Go.
var programs = []program{
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
}
