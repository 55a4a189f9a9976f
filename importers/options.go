package importers

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/brockdb/brock"
)

// Options say what to import, and into which store.
type Options struct {
	Peer           Peer   // the engine of the source
	Source         string // directory of the source; of bbolt, the file
	SourceValueDir string // directory of Badger's value log, if it has one of its own
	SourceKey      []byte // key of an encrypted store of Badger: 16, 24 or 32 bytes

	// History keeps all versions and deletes of Badger, under their own versions. It sorts them in a
	// store beside the target, which takes as much disk space as they do, and writes them twice.
	// Without it, the newest pair of each key is written once.
	History bool

	// Keyspace gets the pairs, in place of the default keyspace. The store may have other keyspaces by
	// then, and pairs in them, but this one must be empty. It goes neither with bbolt, whose buckets
	// become keyspaces, nor with History: to make a keyspace takes a version, which the source may have.
	Keyspace string

	// Store has Dir, and may have ValueDir, Keys and MemoryLimit. Its other fields are set by the
	// import: it is durable, keeps all versions, and must be new, unless Keyspace is set.
	Store brock.Options

	// Progress is called now and then, by one goroutine; nil is nobody.
	Progress func(Progress)

	chunkBytes int64 // what is lost at most when the process is killed; 0 = defaultChunk
}

// Progress is how far an import has come.
type Progress struct {
	Step  string // "sort", "import" or "compare"
	Bytes int64  // of keys and values that are done in this step
	Total int64  // of all; an estimate, except while comparing after an import that was not interrupted
}

// defaultChunk is how many bytes of pairs are committed together.
const defaultChunk = 128 << 20

// errNoHistory is the answer of a source without versions.
var errNoHistory = fmt.Errorf("%w: only Badger keeps versions", ErrUsage)

// badgers are the versions of Badger.
var badgers = map[Peer]badgerOpen{Badger1: openBadger1, Badger2: openBadger2, Badger3: openBadger3, Badger4: openBadger4}

// validate returns ErrUsage for options that make no sense together.
func (o *Options) validate() error {
	badger := badgers[o.Peer] != nil
	switch {
	case !badger && o.Peer != Bbolt && o.Peer != LevelDB && o.Peer != Pebble:
		return fmt.Errorf("%w: no peer %q", ErrUsage, o.Peer)
	case o.Source == "" || o.Store.Dir == "":
		return fmt.Errorf("%w: source or store is not named", ErrUsage)
	case o.History && !badger:
		return errNoHistory
	case (o.SourceValueDir != "" || o.SourceKey != nil) && !badger:
		return fmt.Errorf("%w: a value directory or a key is for Badger only", ErrUsage)
	case o.Keyspace != "" && o.History:
		return fmt.Errorf("%w: history comes into the default keyspace only", ErrUsage)
	case o.Keyspace != "" && o.Peer == Bbolt:
		return fmt.Errorf("%w: buckets of bbolt become keyspaces of their own names", ErrUsage)
	}
	switch len(o.SourceKey) {
	case 0, 16, 24, 32:
		return nil
	}
	return fmt.Errorf("%w: a key of Badger has 16, 24 or 32 bytes, this one %d", ErrUsage, len(o.SourceKey))
}

// open opens the source; staged is the place for its stand-in.
func (o *Options) open(staged string) (source, error) {
	s, err := o.openPeer(staged)
	if err == nil && o.Keyspace != "" {
		s = namedSource{s, o.Keyspace}
	}
	return s, err
}

// namedSource is a source of one part, with another name.
type namedSource struct {
	source
	name string
}

func (s namedSource) spaces(context.Context) ([]space, error) {
	return []space{{name: s.name, path: s.name}}, nil
}

func (o *Options) openPeer(staged string) (source, error) {
	switch o.Peer {
	case Bbolt:
		return openBolt(o.Source)
	case LevelDB:
		return openLevel(o.Source, staged)
	case Pebble:
		return openPebble(o.Source, staged)
	}
	return openBadger(badgers[o.Peer], o, staged)
}

// sourceFiles lists the files of the source.
func (o *Options) sourceFiles() ([]string, error) {
	paths := []string{o.Source}
	if o.SourceValueDir != "" && filepath.Clean(o.SourceValueDir) != filepath.Clean(o.Source) {
		paths = append(paths, o.SourceValueDir)
	}
	return filesOf(paths...)
}

// storeOptions are those with which the target is opened to be written.
func (o *Options) storeOptions() brock.Options {
	s := o.Store
	s.Mode, s.Durability = brock.ReadWrite, brock.Synced
	// Nothing is to be given up while the import is at work. The default keyspace's options are not
	// stored.
	s.KeyspaceDefaults = brock.KeyspaceOptions{Versions: brock.Retention{Manual: o.History}}
	return s
}

// Summary says what was imported.
type Summary struct {
	Resumed   bool     // an earlier import was gone on with; then Pairs and Bytes count the rest
	Pairs     int64    // written: versions and deletes, if History was asked for
	Bytes     int64    // of their keys and values
	Keyspaces int      // the default one not counted
	Version   uint64   // of the store at the end
	Compared  Compared // the compare of source and store
	Lost      []string // what of the source is not kept, a sentence each
}

// cleanup joins the errors of an action and of what ends it.
func cleanup(err *error, end func() error) { *err = errors.Join(*err, end()) }
