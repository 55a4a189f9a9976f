package layout

import (
	"time"

	"github.com/brockdb/brock/internal/base/entry"
)

// MaxKeyspaceName is the length of the longest name of a keyspace, in bytes.
const MaxKeyspaceName = 255

// firstKeyspace is the number of the first keyspace that has a name.
const firstKeyspace = uint64(entry.DefaultKeyspace) + 1

// Keyspace is a named set of keys. A dropped keyspace is no longer in the layout.
// Its number stays below NextKeyspace and is never used again, so entries that are
// left of it can be told: they belong to nobody.
type Keyspace struct {
	ID      entry.KeyspaceID
	Name    string
	Options KeyspaceOptions

	floor entry.Version
}

// KeyspaceOptions says how the entries of a keyspace are kept.
type KeyspaceOptions struct {
	ValueThreshold int64         // values of at least this many bytes are separated; <0 = none
	TTL            time.Duration // of entries without an expiry of their own; 0 = for ever
	Versions       int64         // keep this many newest versions of a key; 0 = one
	Age            time.Duration // keep the state of each moment for this long; 0 = not at all
	Manual         bool          // keep the state of each moment from the floor on, which only rises if asked
	Codec          int64         // of values; 0 = none
	CompressAbove  int64         // values of at least this many bytes are compressed
	Unknown        []TLV         // fields of later releases, which must be kept
}

// KeyspaceFloor is the version below which history of a keyspace may be gone.
type KeyspaceFloor struct {
	ID      entry.KeyspaceID
	Version entry.Version
}

// Floor is the version below which history of the keyspace may be gone.
func (k *Keyspace) Floor() entry.Version { return k.floor }
