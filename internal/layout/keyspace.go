package layout

import (
	"time"

	"github.com/brockdb/brock/internal/entry"
)

// MaxKeyspaceName is the length of the longest name of a keyspace, in bytes.
const MaxKeyspaceName = 255

// firstKeyspace is the number of the first keyspace that has a name.
const firstKeyspace = uint64(entry.DefaultKeyspace) + 1

// Keyspace is a named part of the store. A keyspace that is dropped is no longer
// in the layout, and its number, which is below NextKeyspace, says for ever that
// whatever entries of it there still are belong to nobody.
type Keyspace struct {
	ID      entry.KeyspaceID
	Name    string
	Options KeyspaceOptions

	floor entry.Version
}

// KeyspaceOptions says how the entries of a keyspace are kept.
type KeyspaceOptions struct {
	ValueThreshold int64         // values of at least so many bytes stay out of the tree; <0 = none
	TTL            time.Duration // of entries that don't say; 0 = for ever
	Versions       int64         // newest versions of a key that are kept; 0 = the latest only
	Age            time.Duration // for which the whole state is kept; 0 = not at all
	Codec          int64         // of values; 0 = none
	CompressAbove  int64         // values of at least so many bytes are compressed
	Unknown        []TLV         // what this release doesn't know and must keep
}

// KeyspaceFloor is the version below which history of a keyspace may be gone.
type KeyspaceFloor struct {
	ID      entry.KeyspaceID
	Version entry.Version
}

// Floor is the version below which history of the keyspace may be gone.
func (k *Keyspace) Floor() entry.Version { return k.floor }
